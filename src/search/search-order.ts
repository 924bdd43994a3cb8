import { writeJson } from '../core/json-text.ts';
import type { JsonValue } from '../core/json.ts';
import type { Compiling } from './compile-filter.ts';
import { valueAt } from './field-value.ts';
import { comparable } from './instants.ts';
import { conditionMatcher, wordMatcher } from './match-condition.ts';
import { nativeColumn } from './native-condition.ts';
import type { Condition, FieldCondition, SearchRequest, SortKey } from './search-request.ts';
import { allOf, type Bound, oneOf, piece, type Piece } from './sql-piece.ts';

/** The order of a search's rows: by these, then by row number in the direction of the last. */
export interface SearchOrder {
  readonly keys: readonly OrderKey[];
  readonly rows: 'asc' | 'desc';
}

interface OrderKey {
  readonly sql: string;
  readonly direction: 'asc' | 'desc';
  /** SQLite reads it from a column: an index may begin anywhere. */
  readonly isColumn: boolean;
}

/** A row's place in the order. */
export interface Position {
  /** What the order's keys were. */
  readonly values: readonly Bound[];
  readonly row: number;
}

export function searchOrder({ filter, sort }: SearchRequest, compiling: Compiling): SearchOrder {
  const rank = sort.length > 0 || filter === null ? null : rankSql(filter, compiling);
  if (rank !== null) return { keys: [{ sql: rank, direction: 'desc', isColumn: false }], rows: 'asc' };
  const keys = sort.flatMap((key) => orderKey(key, compiling));
  return { keys, rows: keys.at(-1)?.direction ?? 'asc' };
}

function orderKey(
  { path, direction }: SortKey,
  { target, index, functions }: Compiling,
): readonly OrderKey[] {
  const [name = '', ...inside] = path;
  const field = target.fields.get(name);
  if (field === undefined) return [];
  // An empty text that stands for no value comes where no value does: before all others.
  const column = inside.length === 0 ? nativeColumn(field) : null;
  if (column?.kind === 'string' && !index.isInOrderAsStored(name)) {
    const instant = functions.call(field, (value) => (typeof value === 'string' ? comparable(value) : null));
    // Only what may be a time is handed over: other texts may be long, and are sorted where they are.
    const sql = `iif(${column.sql} GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T*', ${instant}, ${column.sql})`;
    return [{ sql, direction, isColumn: false }];
  }
  if (column !== null) return [{ sql: column.sql, direction, isColumn: true }];
  const find = valueAt(inside);
  return [{ sql: functions.call(field, (value) => sortKey(find(value))), direction, isColumn: false }];
}

/**
 * The rows behind a place in the order, as conditions whose rows follow one another: equal in the first key, then
 * behind it. Each is one stretch of an index; where there can be none they are one condition, so that every row is
 * read once.
 */
export function stretchesBehind(order: SearchOrder, { values, row }: Position): readonly Piece[] {
  const [first] = order.keys;
  const behindFrom = (at: number): readonly Piece[] => {
    const key = order.keys[at];
    if (key === undefined) return [piece(`r._row ${order.rows === 'asc' ? '>' : '<'} ?`, row)];
    const value = values[at] ?? null;
    const isSame = value === null ? piece(`${key.sql} IS NULL`) : piece(`${key.sql} = ?`, value);
    return [allOf([isSame, oneOf(behindFrom(at + 1))]), ...furtherThan(key, value)];
  };
  const stretches = behindFrom(0);
  return first === undefined || first.isColumn ? stretches : [oneOf(stretches)];
}

/** Null is the first of all ascending, and the last descending. */
function furtherThan({ sql, direction }: OrderKey, value: Bound): readonly Piece[] {
  if (direction === 'asc') {
    return value === null ? [piece(`${sql} IS NOT NULL`)] : [piece(`${sql} > ?`, value)];
  }
  return value === null ? [] : [piece(`${sql} < ?`, value), piece(`${sql} IS NULL`)];
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
 * SQL for how well a row meets the filter's words, a number that is higher for better ones and depends on the row
 * alone; null where every row that meets the filter would have the same. What stands under `not` counts nothing.
 */
function rankSql(filter: Condition, { target, functions }: Compiling): string | null {
  const ranked = rankedIn(filter);
  const [first] = ranked;
  if (first === undefined || (ranked.length === 1 && isSameForAll(first, filter))) return null;
  const scores = ranked.flatMap((condition) => {
    const [name = '', ...inside] = condition.path;
    const field = target.fields.get(name);
    const find = valueAt(inside);
    const score = fieldScore(condition);
    return field === undefined ? [] : [functions.call(field, (value) => score(find(value)))];
  });
  return `(${scores.join(' + ')})`;
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
