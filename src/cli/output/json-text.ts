import type { JsonValue } from '../../core/json.ts';
import { wholeJson } from '../../core/canonical-json.ts';

/** The version of the documents that commands print: it changes where one loses a member, or a member its meaning. */
export const outputVersion = 1;

/** A document that a command prints, with the version of all of them. */
export function versioned<Document extends object>(document: Document) {
  return { version: outputVersion, ...document };
}

/**
 * Writes one line of JSON for machines: integers keep all their digits, maps become objects, sets arrays, and undefined
 * members are left out. Other values (functions, class instances with a `toJSON`) are written as by `JSON.stringify`.
 */
export function jsonText(value: unknown): string {
  return wholeJson(plain(value));
}

function plain(value: unknown): JsonValue {
  if (value instanceof Map) return plain(Object.fromEntries(value));
  if (value instanceof Set) return plain([...value]);
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value === 'string' || typeof value === 'boolean' || typeof value === 'bigint') return value;
  if (typeof value === 'number') return Number.isFinite(value) ? value : null;
  return typeof value === 'object' && value !== null ? plainObject(value) : null;
}

function plainObject(value: object): JsonValue {
  if ('toJSON' in value) {
    const shown: unknown = JSON.parse(JSON.stringify(value));
    return plain(shown);
  }
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  // A null prototype keeps a member called `__proto__` as data.
  const copy = Object.create(null) as Record<string, JsonValue>;
  for (const [name, member] of members) copy[name] = plain(member);
  return copy;
}

/** Picks the members of these names, in this order. */
export function picked<Of extends object, Name extends keyof Of>(from: Of, ...names: readonly Name[]) {
  // `as`: the entries have these names.
  return Object.fromEntries(names.map((name) => [name, from[name]])) as Pick<Of, Name>;
}
