import { readdirSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { ProblemsError, type Problem } from '../core/problems.ts';
import { buildDefinition } from './build-definition.ts';
import { checkDefinition } from './check-definition.ts';
import { deepFreeze } from './deep-freeze.ts';
import type { Definition } from './definition.ts';
import { definitionFile } from './definition-file.ts';
import { readYaml, type YamlFile } from './read-yaml.ts';
import { parseShape } from './schema-problems.ts';

/** Where the definitions that come with the program lie; the same from `src/` and from `dist/`. */
export const builtInDefinitionsFolder: string = fileURLToPath(
  new URL('../../config/definitions', import.meta.url),
);

/**
 * Every definition in the `*.yaml` and `*.yml` files of the folders, by name, frozen. Subfolders are not read.
 * Throws `ProblemsError` DEFINITION_INVALID with everything that is wrong in any of the files.
 */
export function loadDefinitions(folders: readonly string[]): ReadonlyMap<string, Definition> {
  const problems: Problem[] = [];
  const definitions = new Map<string, Definition>();
  const fileByName = new Map<string, string>();
  for (const file of new Set(folders.flatMap((folder) => definitionFiles(folder, problems)))) {
    const yaml = readYaml(file);
    const { name, definition, found } = readDefinition(yaml);
    problems.push(...found);
    if (name === null) {
      continue;
    }
    const other = fileByName.get(name);
    if (other !== undefined) {
      problems.push(
        yaml.problem(['name'], `the definition ${name} is already in ${other}; rename one of them`),
      );
      continue;
    }
    fileByName.set(name, file);
    if (definition !== null) {
      definitions.set(name, definition);
    }
  }
  if (problems.length > 0) {
    throw new ProblemsError('DEFINITION_INVALID', problems);
  }
  return deepFreeze(definitions);
}

function definitionFiles(folder: string, problems: Problem[]): readonly string[] {
  try {
    return readdirSync(folder)
      .filter((name) => /\.ya?ml$/.test(name))
      .sort()
      .map((name) => path.resolve(folder, name));
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    problems.push({
      file: folder,
      line: null,
      path: '',
      message: `expected a folder of definitions: ${why}`,
    });
    return [];
  }
}

/** The name is known as soon as the shapes are right, so that two files of one name are told in the same round. */
function readDefinition(yaml: YamlFile): {
  readonly name: string | null;
  readonly definition: Definition | null;
  readonly found: readonly Problem[];
} {
  if (yaml.problems.length > 0) {
    return { name: null, definition: null, found: yaml.problems };
  }
  const { value, problems } = parseShape(definitionFile, yaml.data, yaml);
  if (value === null) {
    return { name: null, definition: null, found: problems };
  }
  const found = [...problems];
  checkDefinition(value, (at, message) => found.push(yaml.problem(at, message)));
  const definition = found.length === 0 ? buildDefinition(value) : null;
  return { name: value.name, definition, found };
}
