import { isDeclaredName, maxNameLength, systemColumns } from '../core/names.ts';
import { isReservedName, type YamlPath } from './read-yaml.ts';
import type { EntityFile } from './definition-file.ts';
import { mapOf } from './frozen.ts';
import { noSuch } from './suggest-name.ts';

/** Notes a problem at a place of the file. */
export type Note = (path: YamlPath, message: string) => void;

/** A place of the file; problems are noted here, or some steps below. */
export interface Place {
  readonly note: (message: string, ...steps: YamlPath) => void;
  readonly at: (...steps: YamlPath) => Place;
}

export function placeAt(noteInFile: Note, at: YamlPath): Place {
  return {
    note: (message, ...steps) => noteInFile([...at, ...steps], message),
    at: (...steps) => placeAt(noteInFile, [...at, ...steps]),
  };
}

/** A name becomes a column, a table or a key: one pattern for all of them. */
export function checkName(name: string, at: YamlPath, note: Note): void {
  if (systemColumns.has(name)) {
    const rename = `"rename: { ${name}: ${name}_2 }"`;
    note(
      at,
      `every table of PostgreSQL has a column ${name}: declare ${name}_2, with ${rename} in the entity`,
    );
  }
  if (isReservedName(name)) note(at, `${name} is reserved; choose another name`);
  if (!isDeclaredName(name)) note(at, `expected ${namePattern('_')}, got ${JSON.stringify(name)}`);
}

const remoteName = /^[A-Za-z][A-Za-z0-9_.-]{0,63}$/;

/** A name that the service chose and that only travels in requests and answers. */
export function checkRemoteName(name: string, at: YamlPath, note: Note): void {
  if (!remoteName.test(name)) {
    note(at, 'expected a letter, then letters, digits, "_", "-" or ".", at most 64 characters');
  }
}

const paramName = /^[A-Za-z$][A-Za-z0-9_.$[\]-]{0,63}$/;

/** The name of a parameter, as the service chose it: also `page[cursor]`. */
export function checkParamName(name: string, at: YamlPath, note: Note): void {
  if (!paramName.test(name)) {
    note(
      at,
      'expected a letter or "$", then letters, digits, "_", "-", ".", "$" or brackets, at most 64 characters',
    );
  }
}

/** Describes the form of a valid name, for use in an error text. */
export function namePattern(joint: string): string {
  return `lower-case words of letters and digits joined by ${joint}, at most ${maxNameLength} characters`;
}

/** Checks a key: its parts are compared and indexed, so they are texts or whole numbers, each named once. */
export function checkKey(
  key: readonly string[],
  typeOf: (part: string) => string | undefined,
  at: YamlPath,
  note: Note,
): void {
  key.forEach((part, index) => {
    if (key.indexOf(part) !== index) note([...at, index], `${part} is named twice`);
    const type = typeOf(part);
    if (type === undefined || type === 'string' || type === 'integer') return;
    const message = `expected a string or integer field, ${part} is of type ${type}`;
    note([...at, index], message);
  });
}

/** The parts of one entity, for checks against each other. All places are within it: `['fields', 'id']`. */
export type EntityCheck = ReturnType<typeof openEntityCheck>;

export function openEntityCheck(entity: EntityFile, entityAt: YamlPath, noteInFile: Note) {
  const note: Note = (at, message) => noteInFile([...entityAt, ...at], message);
  const { params } = entity.actions.list ?? {};
  const typeByParam = Object.fromEntries(mapOf(params ?? {}, ({ type }) => type));
  /** Checks a field of the entity with `checkDeclared`. */
  const field = (at: YamlPath, name: string, types?: readonly string[]): void =>
    checkDeclared('field', entity.fields, name, (message) => note(at, message), types);
  return {
    entity,
    note,
    field,
    /** Checks each field of a list in the same way. */
    fields: (at: YamlPath, names: readonly string[]): void => {
      names.forEach((name, index) => field([...at, index], name));
    },
    /** Checks a parameter of `list` in the same way. */
    param: (at: YamlPath, name: string, types?: readonly string[]): void =>
      checkDeclared('list parameter', typeByParam, name, (message) => note(at, message), types),
  };
}

/** Notes a name that is not declared, or is declared with another type than these. */
export function checkDeclared(
  what: string,
  declared: Readonly<Record<string, string>>,
  name: string,
  note: (message: string) => void,
  types?: readonly string[],
): void {
  const type = Object.hasOwn(declared, name) ? declared[name] : undefined;
  if (type === undefined) note(noSuch(what, name, Object.keys(declared)));
  else if (types?.includes(type) === false) {
    note(`expected a ${what} of type ${types.join(' or ')}, ${name} is of type ${type}`);
  }
}

/** Undefined where the entity declares no such field. */
export function fieldType({ fields }: EntityFile, name: string): EntityFile['fields'][string] | undefined {
  return Object.hasOwn(fields, name) ? fields[name] : undefined;
}
