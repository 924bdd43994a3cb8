import { isDeclaredName, maxNameLength, systemColumns } from '../core/names.ts';
import { isReservedName, type YamlPath } from './read-yaml.ts';
import type { EntityFile } from './definition-file.ts';
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

/** Notes every name that occurs a second time. */
export function checkTwice(names: readonly string[], at: YamlPath, note: Note): void {
  names.forEach((name, index) => {
    if (names.indexOf(name) !== index) note([...at, index], `${name} is named twice`);
  });
}

/** Checks a key: its parts are compared and indexed, so they are texts or whole numbers, each named once. */
export function checkKey(
  key: readonly string[],
  typeOf: (part: string) => string | undefined,
  at: YamlPath,
  note: Note,
): void {
  key.forEach((part, index) => {
    const type = typeOf(part);
    if (type === undefined || type === 'string' || type === 'integer') return;
    const message = `expected a string or integer field, ${part} is of type ${type}`;
    note([...at, index], message);
  });
  checkTwice(key, at, note);
}

/** The parts of one entity, for checks against each other. All places are within it: `['fields', 'id']`. */
export type EntityCheck = ReturnType<typeof openEntityCheck>;

export function openEntityCheck(entity: EntityFile, entityAt: YamlPath, noteInFile: Note) {
  const note: Note = (at, message) => noteInFile([...entityAt, ...at], message);
  /** Notes a field that the entity does not declare, or declares with another type than these. */
  const field = (at: YamlPath, name: string, types?: readonly string[]): void => {
    const type = fieldType(entity, name);
    if (type === undefined) note(at, noSuch('field', name, Object.keys(entity.fields)));
    else if (types?.includes(type) === false) {
      note(at, `expected a field of type ${types.join(' or ')}, ${name} is of type ${type}`);
    }
  };
  return {
    entity,
    note,
    field,
    /** Checks each field of a list in the same way. */
    fields: (at: YamlPath, names: readonly string[]): void => {
      names.forEach((name, index) => field([...at, index], name));
    },
    /** Checks a text parameter of `list` in the same way. */
    textParam: (at: YamlPath, name: string): void => {
      const declared = entity.actions.list?.params ?? {};
      const type = declared[name]?.type;
      const problem =
        type === undefined
          ? noSuch('list parameter', name, Object.keys(declared))
          : `expected a list parameter of type string, ${name} is of type ${type}`;
      if (type !== 'string') note(at, problem);
    },
  };
}

/** Undefined where the entity declares no such field. */
export function fieldType({ fields }: EntityFile, name: string): EntityFile['fields'][string] | undefined {
  return Object.hasOwn(fields, name) ? fields[name] : undefined;
}
