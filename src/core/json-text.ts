import type { JsonValue } from './json.ts';
import type { ColumnValue } from './records.ts';

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

const longDigits = /\d{16}/;
// Digits behind a point or an exponent are no integer.
const textOrLongInteger = /"(?:[^"\\]+|\\.)*"|(?<![\d.eE+-])-?\d{16,}(?![\d.eE])/g;

/** Reads the output of `writeJson`; an integer that a double cannot hold exactly becomes a bigint again. */
export function readJson(text: string): JsonValue {
  return read(text, (token) => Number.isFinite(Number(token)) && BigInt(Number(token)) === BigInt(token));
}

/**
 * Reads fields of a stored record as their API has sent them: every integer beyond 2^53 is a bigint. Columns take these
 * digits, and `canonicalJson` writes them again; of a number it would round them (2^60 to 1152921504606847000).
 */
export function readFields(text: string): JsonValue {
  return read(text, (token) => Number.isSafeInteger(Number(token)));
}

function read(text: string, isNumber: (token: string) => boolean): JsonValue {
  if (!longDigits.test(text)) return parse(text);
  const mark = markAbsentFrom(text);
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

function markAbsentFrom(text: string): string {
  let mark = '#';
  while (text.includes(mark)) {
    mark += mark;
  }
  return mark;
}

/** The parts of a key's text (`keyTextOf`) as columns hold them; null for a text that is no key of `length` parts. */
export function keyPartsOf(keyText: string, length: number): readonly ColumnValue[] | null {
  // Keys come from the command line too: a text that is no JSON is no key.
  const parts: unknown = readJsonIfWhole(keyText);
  return Array.isArray(parts) && parts.length === length && parts.every(isColumnValue) ? parts : null;
}

function isColumnValue(value: unknown): value is ColumnValue {
  return (
    value === null || typeof value === 'string' || typeof value === 'number' || typeof value === 'bigint'
  );
}
