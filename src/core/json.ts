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

/**
 * A record as its definition names its members: renamed, and filled from paths in it (`at`: member -> path). A member
 * of the record's own with another value stays, as `<member>_in_record`; where there is nothing at the path, nothing is
 * filled.
 */
export function readMembers(
  object: JsonObject,
  { rename, at }: Readonly<Record<'rename' | 'at', ReadonlyMap<string, string>>>,
): JsonObject {
  const renamed = renamedMembers(object, rename);
  let filled = renamed;
  for (const [name, path] of at) filled = withMember(filled, name, valueAtKey(renamed, path));
  return filled;
}

/** Renames members by `rename`. A member whose new name another one has keeps its own: nothing is lost. */
function renamedMembers(object: JsonObject, rename: ReadonlyMap<string, string>): JsonObject {
  if (rename.size === 0) return object;
  const keepsName = (name: string): boolean => Object.hasOwn(object, name) && !rename.has(name);
  const members = Object.entries(object).map(([name, value]) => {
    const to = rename.get(name) ?? name;
    return [to !== name && keepsName(to) ? name : to, value] as const;
  });
  return Object.fromEntries(members);
}

/** Sets a member in a copy of the object, and keeps another value that it had. */
export function withMember(object: JsonObject, name: string, value: JsonValue | undefined): JsonObject {
  const own = memberOf(object, name);
  if (value === undefined || (own !== undefined && writeJson(own) === writeJson(value))) return object;
  const others = Object.entries(object).filter(([other]) => other !== name);
  let ownName = `${name}_in_record`;
  while (Object.hasOwn(object, ownName)) ownName += '_';
  const kept = own === undefined || own === null ? [] : [[ownName, own] as const];
  return Object.fromEntries([...kept, ...others, [name, value]]);
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
  const camelCase = name.replace(/_([a-z0-9])/g, (_found, letter: string) => letter.toUpperCase());
  const snakeCase = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  for (const spelling of [name, camelCase, snakeCase]) {
    const value = memberOf(object, spelling);
    if (value !== undefined) return value;
  }
  return undefined;
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

/**
 * Canonical JSON text: object keys sorted, no spaces, bigints as digits. Two values are equal when their texts are.
 * Members that are `undefined` are left out.
 */
export function writeJson(value: unknown): string {
  if (typeof value === 'bigint') return value.toString();
  if (Array.isArray(value)) return `[${value.map(writeJson).join(',')}]`;
  if (typeof value === 'object' && value !== null) {
    const members = Object.entries(value)
      .filter(([, member]) => member !== undefined)
      .sort(([left], [right]) => (left < right ? -1 : 1))
      .map(([name, member]) => `${JSON.stringify(name)}:${writeJson(member)}`);
    return `{${members.join(',')}}`;
  }
  // -0 and 0 are one value, as in the records of an API.
  return typeof value === 'number' ? writeNumber(value === 0 ? 0 : value) : (JSON.stringify(value) ?? 'null');
}

/**
 * A JSON number that reads back as the same double. Whole numbers below 10^21 are written to the last digit, where
 * `String` would round them (2^60 to 1152921504606847000).
 */
export function writeNumber(value: number): string {
  if (Object.is(value, -0)) return '-0.0';
  const isLongInteger = Number.isInteger(value) && !Number.isSafeInteger(value) && Math.abs(value) < 1e21;
  return isLongInteger ? BigInt(value).toString() : JSON.stringify(value);
}

/**
 * A number as JSON writes it, times 10^`scale` and rounded down; null for another text, or one of more than 400
 * characters. `isExact`: nothing was rounded.
 */
export function readScaled(text: string, scale: number) {
  const [found, sign = '', whole = '', fraction = '', exponent = '0'] =
    /^(?=.{1,400}$)(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d{1,3}))?$/.exec(text) ?? [];
  if (found === undefined) return null;
  const digits = BigInt(sign + whole + fraction);
  const shift = scale - fraction.length + Number(exponent);
  if (shift >= 0) return { value: digits * 10n ** BigInt(shift), isExact: true };
  const unit = 10n ** BigInt(-shift);
  const rest = digits % unit;
  return { value: digits / unit - (rest < 0n ? 1n : 0n), isExact: rest === 0n };
}

const longDigits = /\d{16}/;
// Digits behind a point or an exponent are no integer.
const textOrLongInteger = /"(?:[^"\\]+|\\.)*"|(?<![\d.eE+-])-?\d{16,}(?![\d.eE])/g;

/** Reads the output of `writeJson`; an integer that a double cannot hold exactly becomes a bigint again. */
export function readJson(text: string): JsonValue {
  return read(text, (token) => Number.isFinite(Number(token)) && BigInt(Number(token)) === BigInt(token));
}

/**
 * Reads stored fields, parameters and positions as their API has sent them: every integer beyond 2^53 is a bigint.
 * Columns and addresses take these digits, and `canonicalJson` writes them again; of a number it would round them (2^60
 * to 1152921504606847000).
 */
export function readFields(text: string): JsonValue {
  return read(text, (token) => Number.isSafeInteger(Number(token)));
}

function read(text: string, isNumber: (token: string) => boolean): JsonValue {
  if (!longDigits.test(text)) return parse(text);
  let mark = '#';
  while (text.includes(mark)) mark += mark;
  const marked = text.replace(textOrLongInteger, (token) =>
    token.startsWith('"') || isNumber(token) ? token : `"${mark}${token}"`,
  );
  return parse(marked, (_name, value) =>
    typeof value === 'string' && value.startsWith(mark) ? BigInt(value.slice(mark.length)) : value,
  );
}

/** Like `readJson`; undefined for invalid JSON, such as a text that was cut. */
export function readJsonIfWhole(text: string): JsonValue | undefined {
  try {
    return readJson(text);
  } catch {
    return undefined;
  }
}

function parse(text: string, revive?: (name: string, value: unknown) => unknown): JsonValue {
  return JSON.parse(text, revive) as JsonValue;
}
