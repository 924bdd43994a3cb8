/**
 * JSON as the API sent it. An integer literal that a double cannot hold exactly arrives as `bigint`
 * (the response reader sees to that); every other number is a `number`.
 */
export type JsonValue = null | boolean | number | bigint | string | readonly JsonValue[] | JsonObject;

/** Names come from outside: read with `Object.hasOwn`, copy into null-prototype objects, never `Object.assign`. */
export interface JsonObject {
  readonly [name: string]: JsonValue;
}

export function isJsonObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function isJsonArray(value: JsonValue | undefined): value is readonly JsonValue[] {
  return Array.isArray(value);
}

/** Renames members by `rename`. A member whose new name another one has keeps its own: nothing is lost. */
export function renamedMembers(object: JsonObject, rename: ReadonlyMap<string, string>): JsonObject {
  if (rename.size === 0) return object;
  const keepsName = (name: string): boolean => Object.hasOwn(object, name) && !rename.has(name);
  const members = Object.entries(object).map(([name, value]) => {
    const to = rename.get(name) ?? name;
    return [to !== name && keepsName(to) ? name : to, value] as const;
  });
  return Object.fromEntries(members);
}

/** An own member; undefined where there is none, even if its prototype has one. */
export function memberOf<Value>(object: Readonly<Record<string, Value>>, name: string): Value | undefined {
  return Object.hasOwn(object, name) ? object[name] : undefined;
}

/**
 * The value of a key: of the member that has its whole name, or else at its names, joined by dots. Null also where one
 * of the objects on the way is null; undefined where there is nothing.
 */
export function valueAtKey(
  object: JsonObject,
  key: string,
  read: (object: JsonObject, name: string) => JsonValue | undefined = memberOf,
): JsonValue | undefined {
  const whole = read(object, key);
  if (whole !== undefined || !key.includes('.')) return whole;
  let value: JsonValue | undefined = object;
  for (const name of key.split('.')) {
    if (value === null) return null;
    value = isJsonObject(value) ? read(value, name) : undefined;
  }
  return value;
}

/** A member in either spelling: `has_more`, `hasMore`. */
export function memberInAnySpelling(object: JsonObject, name: string): JsonValue | undefined {
  for (const spelling of [name, toCamelCase(name), toSnakeCase(name)]) {
    const value = memberOf(object, spelling);
    if (value !== undefined) return value;
  }
  return undefined;
}

function toCamelCase(key: string): string {
  return key.replace(/_([a-z0-9])/g, (_found, letter: string) => letter.toUpperCase());
}

function toSnakeCase(key: string): string {
  return key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** Sets the value at this path in a copy of the object; a value on the way that is no object is replaced by one. */
export function withValueAt(object: JsonObject, at: readonly string[], value: JsonValue): JsonObject {
  const [name, ...rest] = at;
  if (name === undefined) return object;
  const inner = memberOf(object, name);
  const member = rest.length === 0 ? value : withValueAt(isJsonObject(inner) ? inner : {}, rest, value);
  // `__proto__` would set no own member by assignment.
  return Object.fromEntries([...Object.entries(object).filter(([one]) => one !== name), [name, member]]);
}
