import { definitionChanges } from '../../../definitions/import/compare-definitions.ts';
import type { Definition } from '../../../definitions/definition.ts';
import type { Imported } from '../../../definitions/import/import-service.ts';
import { readServiceFile, type ServiceFile } from '../../../definitions/import/service-file.ts';
import { loadDefinition, parseDefinition } from '../../../definitions/load-definitions.ts';
import { readYaml } from '../../../definitions/read-yaml.ts';

/**
 * What an import changes against an earlier one: a definition file, or a connector.yaml that is imported in the same
 * way. Throws `ProblemsError` for a file that is neither.
 */
export function showChanges(
  file: string,
  imports: readonly Imported[],
  importOld: (old: ServiceFile) => readonly Imported[],
): readonly string[] {
  const { data } = readYaml(file);
  const isService = typeof data === 'object' && data !== null && Object.hasOwn(data, 'openapi');
  if (isService) {
    const earlier = importOld(readServiceFile(file));
    return imports.flatMap((one) => {
      const old = earlier.find(({ mode }) => mode === one.mode);
      return changesOf(one, old === undefined ? null : definitionIn(old));
    });
  }
  const before = loadDefinition(file);
  const mode = before.upstream === null ? 'hosted' : 'direct';
  return imports.filter((one) => one.mode === mode).flatMap((one) => changesOf(one, before));
}

function changesOf(one: Imported, before: Definition | null): readonly string[] {
  const after = definitionIn(one);
  const name = after?.name ?? before?.name ?? one.mode;
  return definitionChanges(before, after).map((change) => `${name}: ${change}`);
}

function definitionIn({ definition }: Imported): Definition | null {
  return definition === null ? null : parseDefinition(`${definition.name}.yaml`, definition.text).definition;
}
