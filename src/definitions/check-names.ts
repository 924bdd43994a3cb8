import { isDeclaredName, maxNameLength } from '../core/names.ts';
import { isReservedName } from './yaml-data.ts';
import type { YamlPath } from './read-yaml.ts';

/**
 * Notes a problem at a place of the file. `restsOn` are the other places that were checked to find it: where one of
 * them is broken itself, this may not be a problem and is not reported.
 */
export type Note = (path: YamlPath, message: string, ...restsOn: readonly YamlPath[]) => void;

/** A name becomes a column, a table or a key: one pattern for all of them. */
export function checkName(name: string, at: YamlPath, note: Note): void {
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

/** What a name must look like, for a sentence. */
export function namePattern(joint: string): string {
  return `lower-case words of letters and digits joined by ${joint}, at most ${maxNameLength} characters`;
}

/** Notes every name that is there a second time. */
export function checkTwice(names: readonly string[], at: YamlPath, note: Note): void {
  names.forEach((name, index) => {
    if (names.indexOf(name) !== index) note([...at, index], `${name} is named twice`);
  });
}

/** Key parts are compared and indexed, so they are texts or whole numbers, each named once. */
export function checkKey(
  key: readonly string[],
  typeOf: (part: string) => string | undefined,
  at: YamlPath,
  note: Note,
  placesOf: (part: string) => readonly YamlPath[],
): void {
  key.forEach((part, index) => {
    const type = typeOf(part);
    if (type === undefined || type === 'string' || type === 'integer') return;
    const message = `expected a string or integer field, ${part} is of type ${type}`;
    note([...at, index], message, ...placesOf(part));
  });
  checkTwice(key, at, note);
}
