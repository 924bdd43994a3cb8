import type { JsonObject, JsonValue } from '../../../src/core/json.ts';
import type { FieldType } from '../../../src/core/records.ts';
import { slipsAllowed, slipsBetween, wordsOf } from '../../../src/search/match-condition.ts';
import { thingFields, thingSearchable } from './search-world.ts';

/**
 * What a filter says, evaluated as plainly as possible over records in memory: the measure that the real one is held
 * to.
 */
export interface PlainRecord {
  readonly row: number;
  /** By searchable field. */
  readonly values: Readonly<Record<string, JsonValue>>;
}

/** True when `other` is `word` but for the slips that `word` may have. Both are folded words. */
export function isNear(word: string, other: string): boolean {
  return slipsBetween(word, other, slipsAllowed(word)) !== null;
}

type Filter = Readonly<Record<string, unknown>>;
type Path = readonly string[];

export function plainRecord(row: number, raw: JsonObject): PlainRecord {
  const values: Record<string, JsonValue> = {};
  for (const [name, { type, from, shape }] of Object.entries(thingSearchable)) {
    const value =
      from.map((source) => kept(source, raw[source] ?? null)).find((each) => each !== null) ?? null;
    const shown = fits(type, value) || isOpen(type) ? value : null;
    const isPairs = shape === 'pairs' && kindOf(shown) === 'object';
    values[name] = isPairs
      ? Object.entries(sorted(shown) as JsonObject).map(([key, member]) => ({ name: key, value: member }))
      : sorted(shown);
  }
  return { row, values };
}

/** Rows that meet the filter, in the order of the sort, or by rank, or by row. */
export function plainSearch(
  records: readonly PlainRecord[],
  filter: Filter | null,
  sort: readonly Readonly<Record<string, string>>[],
): readonly PlainRecord[] {
  const found = records.filter(({ values }) => filter === null || meets(filter, values));
  const all = sort.map((key): readonly [string, string] => Object.entries(key)[0] ?? ['', '']);
  const keys = all.filter(([name], index) => all.findIndex(([other]) => other === name) === index);
  const rowsBackwards = keys.at(-1)?.[1] === 'desc';
  return found.toSorted((left, right) => {
    for (const [name, direction] of keys) {
      const difference = compareAny(at(left.values, pathOf(name)), at(right.values, pathOf(name)));
      if (difference !== 0) return direction === 'asc' ? difference : -difference;
    }
    const byRank =
      keys.length > 0 || filter === null ? 0 : points(filter, right.values) - points(filter, left.values);
    return byRank !== 0 ? byRank : (left.row - right.row) * (rowsBackwards ? -1 : 1);
  });
}

/** The record as `fields` shows it. */
export function plainResult({ values }: PlainRecord, fields: readonly (string | Path)[] | null): JsonValue {
  if (fields === null) return values;
  const shown = membersOf(undefined);
  const paths = fields.map((field) => (typeof field === 'string' ? pathOf(field) : field));
  const isInside = (path: Path): boolean =>
    paths.some((other) => other.length < path.length && other.every((name, part) => name === path[part]));
  for (const path of paths.filter((each) => !isInside(each))) merge(shown, values, path);
  return shown;
}

function merge(into: Record<string, JsonValue>, from: JsonValue, [name = '', ...rest]: Path): void {
  const value = (from as JsonObject)[name] ?? null;
  if (rest.length === 0 || kindOf(value) !== 'object') {
    into[name] = rest.length === 0 ? value : null;
    return;
  }
  const inner = membersOf(into[name]);
  merge(inner, value, rest);
  into[name] = inner;
}

function membersOf(value: JsonValue | undefined): Record<string, JsonValue> {
  const members = Object.create(null) as Record<string, JsonValue>;
  for (const [name, member] of Object.entries((value as JsonObject | undefined) ?? {})) {
    members[name] = member;
  }
  return members;
}

function meets(filter: Filter, value: JsonValue): boolean {
  return Object.entries(filter).every(([operator, operand]) => {
    if (operator === 'and') return (operand as Filter[]).every((each) => meets(each, value));
    if (operator === 'or') return (operand as Filter[]).some((each) => meets(each, value));
    if (operator === 'not') return !meets(operand as Filter, value);
    return Object.entries(operand as Filter).every(([name, given]) =>
      leaf(operator, at(value, pathOf(name)), given),
    );
  });
}

function leaf(operator: string, value: JsonValue, given: unknown): boolean {
  const isSameKind = kindOf(value) === kindOf(given as JsonValue);
  const order = isSameKind && value !== null ? compareAny(value, given as JsonValue) : NaN;
  switch (operator) {
    case 'eq':
      return isSame(value, given as JsonValue);
    case 'neq':
      return !isSame(value, given as JsonValue);
    case 'gt':
      return order > 0;
    case 'gte':
      return order >= 0;
    case 'lt':
      return order < 0;
    case 'lte':
      return order <= 0;
    case 'in':
      return (given as JsonValue[]).some((each) => isSame(value, each));
    case 'like':
      return typeof value === 'string' && likes(Array.from(given as string), Array.from(value));
    case 'contains':
      if (Array.isArray(value)) return value.some((each: JsonValue) => isSame(each, given as JsonValue));
      return typeof value === 'string' && typeof given === 'string' && value.includes(given);
    case 'any':
      return Array.isArray(value) && value.some((each: JsonValue) => meets(given as Filter, each));
    default:
      return wordPoints(operator, value, given as string) > 0;
  }
}

/** By recursion on the first sign, which is right on sight and slow on purpose. */
function likes([sign, ...signs]: readonly string[], text: readonly string[]): boolean {
  if (sign === undefined) return text.length === 0;
  if (sign === '%') return likes(signs, text) || (text.length > 0 && likes(['%', ...signs], text.slice(1)));
  if (text.length === 0) return false;
  if (sign === '_') return likes(signs, text.slice(1));
  if (sign === '\\' && signs.length > 0) return signs[0] === text[0] && likes(signs.slice(1), text.slice(1));
  return sign === text[0] && likes(signs, text.slice(1));
}

function points(filter: Filter, value: JsonValue): number {
  let sum = 0;
  for (const [operator, operand] of Object.entries(filter)) {
    if (operator === 'and' || operator === 'or') {
      for (const each of operand as Filter[]) sum += points(each, value);
    } else if (operator === 'keyword' || operator === 'fuzzy') {
      for (const [name, given] of Object.entries(operand as Filter)) {
        sum += wordPoints(operator, at(value, pathOf(name)), given as string);
      }
    } else if (operator === 'any') {
      for (const [name, given] of Object.entries(operand as Filter)) {
        const elements = at(value, pathOf(name));
        if (!Array.isArray(elements)) continue;
        const met = elements.filter((each: JsonValue) => meets(given as Filter, each));
        sum += Math.max(0, ...met.map((each: JsonValue) => points(given as Filter, each)));
      }
    }
  }
  return sum;
}

/** A word is worth more than any number of slips. */
function wordPoints(operator: string, value: JsonValue, given: string): number {
  const texts = textsOf(value).map(wordsOf);
  const wanted = wordsOf(given);
  if (operator === 'keyword') {
    const there = new Set(texts.flat());
    return new Set(wanted.filter((word) => there.has(word))).size * 1e6;
  }
  const slips = Math.min(...texts.map((words) => slipsInOrder(wanted, words)));
  return Number.isFinite(slips) ? wanted.length * 1e6 - slips : 0;
}

function slipsInOrder([word, ...rest]: readonly string[], words: readonly string[]): number {
  if (word === undefined) return 0;
  let fewest = Infinity;
  for (const [index, against] of words.entries()) {
    if (isNear(word, against)) {
      fewest = Math.min(
        fewest,
        plainSlips(Array.from(word), Array.from(against)) + slipsInOrder(rest, words.slice(index + 1)),
      );
    }
  }
  return fewest;
}

/** The fewest slips that lead from one word to the other. */
export function plainSlips(left: readonly string[], right: readonly string[]): number {
  if (left.length === 0 || right.length === 0) return left.length + right.length;
  const [a, b, ...left2] = left;
  const [c, d, ...right2] = right;
  if (a === c) return plainSlips(left.slice(1), right.slice(1));
  const swapped = b !== undefined && a === d && b === c ? plainSlips(left2, right2) : Infinity;
  const one = Math.min(plainSlips(left.slice(1), right), plainSlips(left, right.slice(1)));
  return 1 + Math.min(swapped, one, plainSlips(left.slice(1), right.slice(1)));
}

function textsOf(value: JsonValue): readonly string[] {
  if (typeof value === 'string') return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsOf) : [];
}

function pathOf(name: string): Path {
  return name in thingSearchable ? [name] : name.split('.');
}

function at(value: JsonValue, path: Path): JsonValue {
  if (path.length === 0) return value;
  if (kindOf(value) !== 'object') return null;
  const members = new Map(Object.entries(value as JsonObject));
  const rest = path.join('.');
  return members.has(rest)
    ? (members.get(rest) ?? null)
    : at(members.get(path[0] ?? '') ?? null, path.slice(1));
}

/** Null, booleans, numbers, texts, then whatever has a JSON text. */
function compareAny(left: JsonValue, right: JsonValue): number {
  const kinds = ['null', 'boolean', 'number', 'string'];
  const rank = (value: JsonValue): number => (kinds.indexOf(kindOf(value)) + 5) % 5;
  if (rank(left) !== rank(right)) return rank(left) - rank(right);
  if (typeof left === 'string' || typeof left === 'object') {
    return Buffer.compare(Buffer.from(inUtc(textOf(left))), Buffer.from(inUtc(textOf(right))));
  }
  const [low, high] = [worth(left), worth(right)];
  return low < high ? -1 : Number(low > high);
}

/**
 * A time as the instant that it names: its date and time in UTC, then the digits of its fraction that say something.
 */
function inUtc(text: string): string {
  const parts =
    /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(:\d\d)?([.,]\d+)?(?: ?(Z|UTC|[+-](?:0\d|1[0-4])(?::?\d\d)?))?$/.exec(
      text,
    );
  if (parts === null || (parts[3] === undefined && parts[4] !== undefined)) return text;
  const [, date, minute, second = ':00', fraction = '', zone = 'Z'] = parts;
  const offset = /Z|UTC/.test(zone) ? 'Z' : `${zone.slice(0, 3)}:${zone.slice(3).replace(':', '') || '00'}`;
  const [asWritten, instant] = ['Z', offset].map((end) => new Date(`${date}T${minute}${second}${end}`));
  if (asWritten?.getTime() !== asWritten?.getTime() || instant?.getTime() !== instant?.getTime()) return text;
  const isReal = asWritten?.toISOString().startsWith(`${date}T${minute}${second}`) === true;
  // A year of five digits would not sort.
  if (!isReal || !/^\d{4}-/.test(instant?.toISOString() ?? '')) return text;
  return `${instant?.toISOString().slice(0, 19)}${fraction.replace(',', '.').replace(/\.?0*$/, '')}`;
}

function worth(value: JsonValue): number | bigint {
  return typeof value === 'bigint' ? value : Number(value);
}

function textOf(value: JsonValue): string {
  return typeof value === 'string' ? value : jsonText(value);
}

function jsonText(value: JsonValue): string {
  if (typeof value === 'bigint') return String(value);
  if (Array.isArray(value)) return `[${value.map(jsonText).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const names = Object.keys(value).sort();
  return `{${names.map((name) => `${JSON.stringify(name)}:${jsonText((value as JsonObject)[name] ?? null)}`).join(',')}}`;
}

function isSame(left: JsonValue, right: JsonValue): boolean {
  const kind = kindOf(left);
  return kind === kindOf(right) && kind !== 'object' && kind !== 'array' && compareAny(left, right) === 0;
}

function kindOf(value: JsonValue): string {
  if (value === null) return 'null';
  if (typeof value === 'bigint') return 'number';
  return Array.isArray(value) ? 'array' : typeof value;
}

/** A declared field that does not fit its column counts as absent; what has no column is kept as it is. */
function kept(name: string, value: JsonValue): JsonValue {
  const type = thingFields[name];
  return type === undefined || fitsColumn(type, value) ? value : null;
}

function fitsColumn(type: FieldType, value: JsonValue): boolean {
  if (typeof value === 'bigint' && type === 'integer') return BigInt.asIntN(64, value) === value;
  if (typeof value === 'number' && type === 'integer') return Number.isSafeInteger(value);
  // SQLite's UTF-8 has no lone surrogates.
  if (typeof value === 'string' && type === 'string') return value.isWellFormed();
  return fits(type, value) && !(typeof value === 'bigint' && type === 'number');
}

function fits(type: FieldType, value: JsonValue): boolean {
  if (type === 'integer') return typeof value === 'bigint' || Number.isInteger(value);
  return type === 'any' || kindOf(value) === type;
}

function isOpen(type: FieldType): boolean {
  return type === 'object' || type === 'array' || type === 'any';
}

/** Stored objects have their members by name. */
function sorted(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(sorted);
  if (kindOf(value) !== 'object') return value;
  const copy = Object.create(null) as Record<string, JsonValue>;
  for (const name of Object.keys(value as JsonObject).sort()) {
    copy[name] = sorted((value as JsonObject)[name] ?? null);
  }
  return copy;
}
