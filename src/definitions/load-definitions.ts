import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { hash } from 'node:crypto';
import { ProblemsError, type Problem } from '../core/problems.ts';
import { knownOrMade } from '../core/grouped.ts';
import { programFile } from '../core/program-files.ts';
import { checkDefinition } from './definition-check.ts';
import { frozen } from './frozen.ts';
import { definitionFile, type DefinitionFile } from './definition-file.ts';
import { buildDefinition, contentHashOf, type Definition, type Todo } from './definition.ts';
import { parseYaml, readText, readYaml, type YamlFile } from './read-yaml.ts';
import { parseShape } from './schema-problems.ts';

/** The folder of the definitions that come with the program. */
export const builtInDefinitionsFolder: string = fileURLToPath(programFile('config/definitions'));

/**
 * Loads every definition in the `*.yaml` and `*.yml` files of the folders, by name. Subfolders are not read. Throws
 * `ProblemsError` DEFINITION_INVALID with all problems of all files.
 */
export function loadDefinitions(folders: readonly string[]): ReadonlyMap<string, Definition> {
  const { definitions, problems } = findDefinitions(folders);
  if (problems.length > 0) throw new ProblemsError('DEFINITION_INVALID', problems);
  return definitions;
}

/** Loads the valid definitions, and returns all problems of the others. Never throws. */
export function findDefinitions(folders: readonly string[]) {
  const problems: Problem[] = [];
  const files = new Set(folders.flatMap((folder) => definitionFiles(folder, problems)));
  const checked = checkDefinitionFiles([...files]);
  problems.push(...checked.flatMap((one) => one.problems));
  const definitions = new Map(
    checked.flatMap(({ definition }) => (definition === null ? [] : [[definition.name, definition]])),
  );
  return { definitions: frozen(definitions), problems };
}

/** Checks these files together with the definitions that come with the program. Never throws. */
export function checkOwnDefinitions(files: readonly string[]) {
  const all = new Set([...definitionFiles(builtInDefinitionsFolder, []), ...files]);
  return checkDefinitionFiles([...all]).filter(({ file }) => files.includes(file));
}

/**
 * Checks each file by itself, in this order: returns its definition, or all its problems, including a name that an
 * earlier file has. `name`: null where it is not known; `definition`: null where the file has a problem.
 */
function checkDefinitionFiles(files: readonly string[]) {
  const fileByName = new Map<string, string>();
  return files.map((file) => {
    const { name, definition, found } = readDefinition(file);
    const other = name === null ? undefined : fileByName.get(name);
    if (name === null || other === undefined) {
      if (name !== null) fileByName.set(name, file);
      return { file, name, definition, problems: found };
    }
    const message = `the definition ${name} is already in ${other}; rename one of them`;
    return {
      file,
      name,
      definition: null,
      problems: [...found, readYaml(file).problem(['name'], message)],
    };
  });
}

/** Loads the definition in one file. Throws `ProblemsError` DEFINITION_INVALID with all its problems. */
export function loadDefinition(file: string): Definition {
  const { definition, found } = readDefinition(file);
  if (definition === null) throw new ProblemsError('DEFINITION_INVALID', found);
  return definition;
}

/** Parses a text that is to be written as this file: returns the definition, or all its problems. Never throws. */
export function parseDefinition(file: string, text: string) {
  const { value, found, todos } = checkedFile(parseYaml(file, text));
  return { definition: value === null ? null : buildDefinition(value, undefined, todos), problems: found };
}

/**
 * Prepares the files of a folder for the build, so that they need not be checked again. Throws `ProblemsError`
 * DEFINITION_INVALID as `loadDefinitions` does.
 */
export function prepareDefinitions(folder: string): PreparedDefinitions {
  known = new Map();
  loadDefinitions([folder]);
  return Object.fromEntries(known);
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

/**
 * The name is known if it is a text, so that two files with the same name are reported together with other problems.
 */
function readDefinition(file: string) {
  const text = readText(file);
  const ofText = hash('sha256', typeof text === 'string' ? text : '', 'hex');
  known ??= new Map(Object.entries(readPrepared()));
  let passed = known.get(ofText);
  if (passed === undefined) {
    const { name, value, found, todos } = checkedFile(readYaml(file, text));
    if (value === null) return { name, definition: null, found };
    passed = { file: value, contentHash: contentHashOf(value), todos };
    known.set(ofText, passed);
  }
  const definition = knownOrMade(built, ofText, () =>
    buildDefinition(passed.file, passed.contentHash, passed.todos),
  );
  return { name: definition.name, definition, found: [] };
}

/** `value` is null where the file has a problem. */
function checkedFile(yaml: YamlFile) {
  if (yaml.problems.length > 0) return { name: null, value: null, found: yaml.problems, todos: [] };
  const { value, problems } = parseShape(definitionFile(), yaml.data, yaml);
  if (value === null) {
    const stated: unknown = Object(yaml.data).name;
    return { name: typeof stated === 'string' ? stated : null, value, found: problems, todos: [] };
  }
  const found: Problem[] = [];
  checkDefinition(value, (at, message) => found.push(yaml.problem(at, message)));
  return { name: value.name, value: found.length === 0 ? value : null, found, todos: todosIn(yaml, value) };
}

/** The open questions of the file, each with the entity that the first line below it belongs to, also in `upstream`. */
function todosIn(yaml: YamlFile, { entities, upstream }: DefinitionFile): readonly Todo[] {
  if (yaml.todos.length === 0) return [];
  const part = (entity: string | null, ...at: readonly string[]) => ({ entity, line: yaml.line(at) ?? 0 });
  const parts = [
    // `as`: what has passed the check is an object.
    ...Object.keys(yaml.data as object).map((key) => part(null, key)),
    ...Object.keys(entities).map((entity) => part(entity, 'entities', entity)),
    ...Object.keys(upstream ?? {}).map((key) => part(null, 'upstream', key)),
    ...Object.keys(upstream?.entities ?? {}).map((entity) => part(entity, 'upstream', 'entities', entity)),
  ].toSorted((one, other) => one.line - other.line);
  return yaml.todos.map(({ line, text, before }) => {
    return { entity: parts.findLast((one) => one.line <= before)?.entity ?? null, line, text };
  });
}

/** A file that was read and has no problem. */
interface PreparedDefinition {
  readonly file: DefinitionFile;
  readonly contentHash: string;
  readonly todos: readonly Todo[];
}

/** Definitions by the SHA-256 of their text. */
export type PreparedDefinitions = Readonly<Record<string, PreparedDefinition>>;

/**
 * Definitions by the SHA-256 of their text: files that passed all checks when the program was built, or earlier in this
 * process. Reading and checking a YAML file takes longer than all other parts of a start.
 */
let known: Map<string, PreparedDefinition> | null = null;

/** Definitions built in this process, by the same hash. */
const built = new Map<string, Definition>();

/** The sources are always checked: files that an earlier build has checked may not pass the current checks. */
function readPrepared(): PreparedDefinitions {
  if (import.meta.url.endsWith('.ts')) return {};
  try {
    // `as`: the build wrote it from files that passed all checks.
    return JSON.parse(readFileSync(programFile('dist/definitions.json'), 'utf8')) as PreparedDefinitions;
  } catch {
    // Without this file every definition is read as YAML, with the same result.
    return {};
  }
}
