import { writeJson } from '../core/json-text.ts';
import type { JsonValue } from '../core/json.ts';
import { valueAt } from './field-value.ts';
import { comparable } from './instants.ts';
import { conditionMatcher, wordMatcher } from './match-condition.ts';
import { nativeColumn, type NativeColumn } from './native-condition.ts';
import type { Condition, FieldCondition, SearchRequest } from './search-request.ts';
import type { SearchField, SearchTarget } from './search-target.ts';
import type { Bound } from './sql-piece.ts';

/** The order of a search's rows: by the keys in turn, then by row number. */
export interface OrderRule {
  readonly keys: readonly KeyRule[];
  readonly rows: Direction;
}

type Direction = 'asc' | 'desc';

export interface KeyRule {
  /** More than one: numbers, and the key is their sum. */
  readonly parts: readonly KeyPart[];
  readonly direction: Direction;
  /** The column that holds what is sorted by; times in it need not stand in their order. */
  readonly column: NativeColumn | null;
}

/** What a row's value of a field brings to a key: null comes first ascending and last descending. */
export interface KeyPart {
  readonly field: SearchField;
  readonly keyOf: (value: JsonValue) => Bound;
}

/** A row's place in the order. */
export interface Position {
  /** What the order's keys were. */
  readonly values: readonly Bound[];
  readonly row: number;
}

export function orderRule(
  { filter, sort }: Pick<SearchRequest, 'filter' | 'sort'>,
  target: SearchTarget,
): OrderRule {
  const rank = sort.length > 0 || filter === null ? [] : rankParts(filter, target);
  if (rank.length > 0) return { keys: [{ parts: rank, direction: 'desc', column: null }], rows: 'asc' };
  const keys = sort.flatMap(({ path: [name = '', ...inside], direction }): readonly KeyRule[] => {
    const field = target.fields.get(name);
    if (field === undefined) return [];
    const column = inside.length === 0 ? nativeColumn(field) : null;
    const find = valueAt(inside);
    const keyOf = column === null ? (value: JsonValue) => sortKey(find(value)) : columnKey(column);
    return [{ parts: [{ field, keyOf }], direction, column }];
  });
  return { keys, rows: keys.at(-1)?.direction ?? 'asc' };
}

/** Texts by what they are compared by; integers and flags as SQLite gives them. */
function columnKey({ isInteger }: NativeColumn): KeyPart['keyOf'] {
  return (value) => {
    if (typeof value === 'string') return comparable(value);
    if (typeof value === 'boolean') return BigInt(value);
    if (typeof value === 'number') return isInteger ? BigInt(value) : value;
    return typeof value === 'bigint' ? value : null;
  };
}

/**
 * Of a text, and of objects and arrays as JSON text, so many bytes decide; equal ones are in the order of their rows.
 */
const maxBytes = 512;

/**
 * Bytes that sort as values of any type do: booleans, numbers, texts by code point (times as instants), then objects
 * and arrays by their JSON text. Null, which is before all of them, stays null.
 */
function sortKey(value: JsonValue): Buffer | null {
  if (value === null) return null;
  if (typeof value === 'boolean') return Buffer.from([1, Number(value)]);
  if (typeof value === 'number') {
    return Buffer.concat([Buffer.from([2]), doubleBytes(value), Buffer.from([0x80])]);
  }
  if (typeof value === 'bigint') {
    return Buffer.concat([Buffer.from([2]), integerBytes(value)]).subarray(0, maxBytes);
  }
  return typeof value === 'string' ? textKey(3, comparable(value)) : textKey(4, writeJson(value));
}

function textKey(rank: number, text: string): Buffer {
  // A character takes a byte at least, so nothing further can count.
  return Buffer.from(String.fromCharCode(rank) + text.slice(0, maxBytes)).subarray(0, maxBytes);
}

/** IEEE 754 as bytes that sort: the sign turned, and of negative numbers everything. */
function doubleBytes(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeDoubleBE(value === 0 ? 0 : value);
  const isNegative = value < 0;
  if (isNegative) return Buffer.from(bytes.map((byte) => byte ^ 0xff));
  bytes.writeUInt8(bytes.readUInt8() ^ 0x80);
  return bytes;
}

/**
 * The nearest double, then by how much the integer is above or below it: as many digits as that has, and the digits.
 */
function integerBytes(value: bigint): Buffer {
  const nearest = Number(value);
  const distance = Number.isFinite(nearest) ? value - BigInt(nearest) : value;
  const digits = (distance < 0n ? -distance : distance).toString(16);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(digits.length);
  const size = Buffer.concat([length, Buffer.from(digits)]);
  if (distance === 0n) return Buffer.concat([doubleBytes(nearest), Buffer.from([0x80])]);
  return distance > 0n
    ? Buffer.concat([doubleBytes(nearest), Buffer.from([0x81]), size])
    : Buffer.concat([doubleBytes(nearest), Buffer.from([0x7f]), size.map((byte) => byte ^ 0xff)]);
}

/** More than all slips that one search can have: a word more always outweighs them. */
const pointsPerWord = 10_000;

/**
 * How well a row meets the filter's words: the sum is higher for better ones and depends on the row alone. Empty where
 * every row that meets the filter would have the same. What stands under `not` counts nothing.
 */
function rankParts(filter: Condition, target: SearchTarget): readonly KeyPart[] {
  const ranked = rankedIn(filter);
  const [first] = ranked;
  if (first === undefined || (ranked.length === 1 && isSameForAll(first, filter))) return [];
  return ranked.flatMap((condition) => {
    const [name = '', ...inside] = condition.path;
    const field = target.fields.get(name);
    const find = valueAt(inside);
    const score = fieldScore(condition);
    return field === undefined ? [] : [{ field, keyOf: (value: JsonValue) => score(find(value)) }];
  });
}

/** Conditions on fields that look for words, `any` with such inside among them. */
function rankedIn(condition: Condition): readonly FieldCondition[] {
  const { kind } = condition;
  if (kind === 'and' || kind === 'or') return condition.conditions.flatMap(rankedIn);
  if (kind === 'keyword' || kind === 'fuzzy') return [condition];
  return kind === 'any' && rankedIn(condition.condition).length > 0 ? [condition] : [];
}

/** A single word, which every row that meets the filter must have. */
function isSameForAll(condition: FieldCondition, filter: Condition): boolean {
  return condition.kind === 'keyword' && condition.words.length === 1 && isNeeded(condition, filter);
}

function isNeeded(wanted: Condition, condition: Condition): boolean {
  if (condition.kind === 'and') return condition.conditions.some((inner) => isNeeded(wanted, inner));
  return condition === wanted;
}

/** Of an array the best element that meets the condition counts. */
function fieldScore(condition: FieldCondition): (value: JsonValue) => number {
  if (condition.kind === 'keyword' || condition.kind === 'fuzzy') {
    const match = wordMatcher(condition);
    return (value) => {
      const { found, slips } = match(value) ?? { found: 0, slips: 0 };
      return found * pointsPerWord - slips;
    };
  }
  if (condition.kind !== 'any') return () => 0;
  const meets = conditionMatcher(condition.condition);
  const parts = rankedIn(condition.condition).map((part) => ({
    find: valueAt(part.path),
    score: fieldScore(part),
  }));
  const score = (value: JsonValue): number =>
    parts.reduce((sum, part) => sum + part.score(part.find(value)), 0);
  return (value) => {
    let best = 0;
    if (!Array.isArray(value)) return best;
    for (const element of value as readonly JsonValue[]) {
      if (meets(element)) best = Math.max(best, score(element));
    }
    return best;
  };
}
