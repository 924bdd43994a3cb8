import { hash, createHmac, timingSafeEqual } from 'node:crypto';
import * as z from 'zod';
import { readJson, writeJson, type JsonObject, type JsonValue } from '../core/json.ts';
import { valueAt } from './field-value.ts';
import { comparable, conditionMatcher, wordMatcher } from './match-condition.ts';
import { type NativeColumn, nativeColumn } from './narrowing.ts';
import {
  searchProblem,
  type Condition,
  type FieldCondition,
  type Scalar,
  type SearchRequest,
} from './search-request.ts';
import type { SearchTarget } from './search-target.ts';

/** The order of a search's rows: by the keys in turn, then by row number. */
export interface OrderRule {
  readonly keys: readonly KeyRule[];
  readonly rows: Direction;
}

type Direction = 'asc' | 'desc';

export interface KeyRule {
  readonly direction: Direction;
  readonly keyOf: (record: JsonObject) => OrderKey;
  /** The column by which a database sorts, times among them as texts; null: it does not. */
  readonly by: { readonly field: string; readonly column: NativeColumn } | null;
}

/**
 * The sort key of a record: its kind and its value. Booleans, numbers, texts (times as instants), then objects and
 * arrays by their JSON text; null is before all of them. Texts stand as their UTF-8, a byte in each character, which
 * sorts by code point.
 */
export type OrderKey = readonly [kind: number, value: number | bigint | string] | null;

/** A row's place in the order. */
export interface Position {
  /** One key for each key of the rule. */
  readonly keys: readonly OrderKey[];
  readonly row: number;
}

/** Order by `sort`; without it the best match of the filter's words first, else the order of arrival. */
export function orderRule(
  { filter, sort }: Pick<SearchRequest, 'filter' | 'sort'>,
  { fields }: Pick<SearchTarget, 'fields'>,
): OrderRule {
  const score = sort.length > 0 || filter === null ? null : filterScore(filter);
  if (score !== null) {
    const keyOf = (record: JsonObject): OrderKey => orderKey(score(record));
    return { keys: [{ direction: 'desc', keyOf, by: null }], rows: 'asc' };
  }
  const keys = sort.map(({ path, direction }): KeyRule => {
    const find = valueAt(path);
    const [name = ''] = path;
    const field = fields.get(name);
    const column = path.length === 1 && field !== undefined ? nativeColumn(field) : null;
    // A boolean has two values: a range of them would narrow nothing.
    const by = column === null || column.kind === 'boolean' ? null : { field: name, column };
    return { direction, keyOf: (record) => orderKey(find(record)), by };
  });
  return { keys, rows: keys.at(-1)?.direction ?? 'asc' };
}

/** Compares two rows by the rule. */
export function positionOrder({ keys, rows }: OrderRule): (left: Position, right: Position) => number {
  const signs = keys.map(({ direction }) => (direction === 'asc' ? 1 : -1));
  const rowSign = rows === 'asc' ? 1 : -1;
  return (left, right) => {
    for (const [index, sign] of signs.entries()) {
      const difference = compareKeys(left.keys[index] ?? null, right.keys[index] ?? null);
      if (difference !== 0) return difference * sign;
    }
    return (left.row - right.row) * rowSign;
  };
}

/** Ascending. */
export function compareKeys(left: OrderKey, right: OrderKey): number {
  if (left === null || right === null) return Number(right === null) - Number(left === null);
  if (left[0] !== right[0]) return left[0] - right[0];
  return left[1] < right[1] ? -1 : Number(left[1] > right[1]);
}

// --- Keys

/** Bytes of a text that count, about its first 500. Memory and cursors stay small. */
const maxBytes = 512;

function orderKey(value: JsonValue): OrderKey {
  if (value === null) return null;
  if (typeof value === 'boolean') return [1, Number(value)];
  if (typeof value === 'number' || typeof value === 'bigint') return [2, value];
  return typeof value === 'string' ? [3, bytesOf(comparable(value))] : [4, bytesOf(writeJson(value))];
}

function bytesOf(text: string): string {
  // A character takes a byte at least, so nothing further can count.
  return Buffer.from(text.slice(0, maxBytes)).subarray(0, maxBytes).toString('latin1');
}

/** The number or text that a key was made of, a time in UTC; null where it does not have all of that. */
export function valueOfKey(key: NonNullable<OrderKey>): NonNullable<Scalar> | null {
  const [kind, value] = key;
  if (typeof value === 'string') {
    return kind === 3 && value.length < maxBytes ? Buffer.from(value, 'latin1').toString() : null;
  }
  return kind === 2 && typeof value === 'number' ? value : null;
}

// --- Rank: how well a record meets the words of a filter

/** More than all slips that one search can have: a word more always outweighs them. */
const pointsPerWord = 10_000;

type Score = (value: JsonValue) => number;

/**
 * Score that is higher for a better match, made of the record alone. Null where every record that meets the filter
 * would have the same. Conditions under `not` do not count.
 */
function filterScore(filter: Condition): Score | null {
  const ranked = rankedIn(filter);
  const [first, ...others] = ranked;
  // A single word, which every row that meets the filter must have, ranks none above another.
  const isOneWord = first?.kind === 'keyword' && first.words.length === 1 && others.length === 0;
  return first === undefined || (isOneWord && isNeeded(first, filter)) ? null : sumOf(ranked);
}

function sumOf(ranked: readonly FieldCondition[]): Score {
  const parts = ranked.map((condition) => ({ find: valueAt(condition.path), score: fieldScore(condition) }));
  return (value) => parts.reduce((sum, { find, score }) => sum + score(find(value)), 0);
}

/** Conditions on fields that look for words, `any` with such inside among them. */
function rankedIn(condition: Condition): readonly FieldCondition[] {
  const { kind } = condition;
  if (kind === 'and' || kind === 'or') return condition.conditions.flatMap(rankedIn);
  if (kind === 'keyword' || kind === 'fuzzy') return [condition];
  return kind === 'any' && rankedIn(condition.condition).length > 0 ? [condition] : [];
}

function isNeeded(wanted: Condition, condition: Condition): boolean {
  if (condition.kind === 'and') return condition.conditions.some((inner) => isNeeded(wanted, inner));
  return condition === wanted;
}

/** Scores a value; in an array, the best element that meets the condition counts. */
function fieldScore(condition: FieldCondition): Score {
  if (condition.kind === 'keyword' || condition.kind === 'fuzzy') {
    const match = wordMatcher(condition);
    return (value) => {
      const { found, slips } = match(value) ?? { found: 0, slips: 0 };
      return found * pointsPerWord - slips;
    };
  }
  if (condition.kind !== 'any') return () => 0;
  const meets = conditionMatcher(condition.condition);
  const score = sumOf(rankedIn(condition.condition));
  return (value) => {
    let best = 0;
    if (!Array.isArray(value)) return best;
    for (const element of value as readonly JsonValue[]) {
      if (meets(element)) best = Math.max(best, score(element));
    }
    return best;
  };
}

/** Key that signs cursors, and hash of the query that they belong to. */
type CursorSeal = ReturnType<typeof cursorSeal>;

/** `query` is of scope, filter and sort: the rest may change from page to page. */
export function cursorSeal(
  key: Buffer,
  scope: string,
  { filter, sort }: Pick<SearchRequest, 'filter' | 'sort'>,
): { readonly key: Buffer; readonly query: string } {
  const query = hash('sha256', writeJson([scope, filter, sort]), 'base64url').slice(0, 22);
  return { key, query };
}

/** A cursor fits into a request: there are few keys, and a key is short. */
export function writeCursor({ keys, row }: Position, seal: CursorSeal): string {
  const written = keys.map((key) =>
    typeof key?.[1] === 'string' ? [key[0], Buffer.from(key[1], 'latin1').toString('base64url')] : key,
  );
  const payload = Buffer.from(writeJson([seal.query, row, ...written])).toString('base64url');
  return `${payload}.${signature(payload, seal)}`;
}

/** Throws SEARCH_INVALID for a cursor that `writeCursor` did not write with this seal. */
export function readCursor(cursor: string, seal: CursorSeal): Position {
  const [payload = '', given = '', ...more] = cursor.split('.');
  const expected = Buffer.from(signature(payload, seal));
  const isOurs = more.length === 0 && expected.length === Buffer.byteLength(given);
  if (!isOurs || !timingSafeEqual(expected, Buffer.from(given))) {
    throw searchProblem(
      'cursor',
      'expected meta.cursor of an earlier page, got something else; begin without it',
    );
  }
  const [query, row, ...keys] = payloadText.parse(Buffer.from(payload, 'base64url').toString());
  if (query !== seal.query) {
    throw searchProblem(
      'cursor',
      'expected a cursor of this query, got one of another entity, filter or sort; begin without it',
    );
  }
  return { row, keys };
}

function signature(payload: string, { key }: CursorSeal): string {
  return createHmac('sha256', key).update('search cursor 3\n').update(payload).digest('base64url');
}

const writtenValue = z.union([
  z.number(),
  z.bigint(),
  z.string().transform((bytes) => Buffer.from(bytes, 'base64url').toString('latin1')),
]);
const writtenKey = z.tuple([z.number(), writtenValue]).nullable();

const payloadText = z
  .string()
  .transform((text): unknown => readJson(text))
  .pipe(z.tuple([z.string(), z.number()]).rest(writtenKey));
