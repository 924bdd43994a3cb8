import type { Definition, Entity } from '../definition.ts';
import { loadDefinition, parseDefinition } from '../load-definitions.ts';
import { readYaml } from '../read-yaml.ts';
import type { Imported } from './import-service.ts';

/**
 * What an import changes against an earlier one: a definition file, or an OpenAPI file that is imported in the same
 * way. Throws `ProblemsError` for a file that is neither.
 */
export function importChanges(
  file: string,
  imports: readonly Imported[],
  importOld: (file: string) => readonly Imported[],
): readonly string[] {
  const { data } = readYaml(file);
  const isService = typeof data === 'object' && data !== null && Object.hasOwn(data, 'openapi');
  if (isService) {
    const earlier = importOld(file);
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

/** What a new file of a definition changes, as sentences; none, if nothing is read or stored in another way. */
function definitionChanges(before: Definition | null, after: Definition | null): readonly string[] {
  if (before === null || after === null) {
    if (before === after) return [];
    return [
      before === null
        ? 'the definition is new'
        : 'the definition is no longer written: no entity is converted',
    ];
  }
  const changes = [...after.entities.values()].flatMap((entity) => {
    const old = before.entities.get(entity.name);
    return old === undefined ? [`${entity.name}: comes`] : entityChanges(old, entity);
  });
  const gone = [...before.entities.keys()].filter((name) => !after.entities.has(name));
  const reread =
    before.contentHash === after.contentHash
      ? 'nothing is read again'
      : 'the next sync reads every entity again in full';
  return [...changes, ...gone.map((name) => `${name}: goes; its stored rows stay as they are`), reread];
}

function entityChanges(before: Entity, after: Entity): readonly string[] {
  const { name } = after;
  const changes: string[] = [];
  if (before.key.join(' ') !== after.key.join(' ')) {
    const from = before.key.join(', ');
    changes.push(
      `${name}: its key was ${from} and is ${after.key.join(', ')}: a sync refuses that until "reset --data" has removed its rows`,
    );
  }
  for (const [column, type] of after.fields) {
    const old = before.fields.get(column);
    if (old === undefined) changes.push(`${name}: column ${column} comes (${type})`);
    else if (old !== type) changes.push(`${name}: column ${column} was ${old} and is ${type}`);
  }
  const gone = [...before.fields.keys()].filter((column) => !after.fields.has(column));
  changes.push(...gone.map((column) => `${name}: column ${column} goes; new values stay in _extra`));
  if (JSON.stringify(before.pagination) !== JSON.stringify(after.pagination)) {
    changes.push(`${name}: it pages in another way`);
  }
  const parents = ({ parents: all }: Entity): string => all.map(({ entity }) => entity).join(' ');
  if (parents(before) !== parents(after)) changes.push(`${name}: it is found by other parents`);
  return changes;
}
