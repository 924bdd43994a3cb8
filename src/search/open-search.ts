import { createHmac, hash, timingSafeEqual } from 'node:crypto';
import * as z from 'zod';
import type { Clock } from '../core/clock.ts';
import { type JsonObject, type JsonValue, readJson, writeJson } from '../core/json.ts';
import { within } from '../http/or-aborted.ts';
import { tableName } from '../sinks/decisions/stored-table.ts';
import { ledgerReader } from '../sinks/ledger/history/history.ts';
import { columnValue } from '../sinks/records/mark-rows.ts';
import type { LedgerFormat } from '../sinks/sqlite/open-database.ts';
import { readSqliteSink } from '../sinks/sqlite/readers.ts';
import { sqliteTables } from '../sinks/sqlite/sqlite-tables.ts';
import type { ReadableDatabase, Snapshot, Tx } from '../sql/database.ts';
import { forPeople, fromSql, openPage, projection, rowReader, valueAt } from './field-value.ts';
import { comparable, conditionMatcher, wordMatcher } from './match-condition.ts';
import {
  allOf,
  always,
  compared,
  narrow,
  type NativeColumn,
  nativeColumn,
  never,
  piece,
  type Piece,
  type RowRange,
  type SearchSql,
} from './narrowing.ts';
import { readSearchRequest } from './read-request.ts';
import {
  type Condition,
  type FieldCondition,
  type Scalar,
  type SearchAnswer,
  searchProblem,
  type SearchRequest,
  tooSlow,
} from './search-request.ts';
import {
  changeNumber,
  readTarget,
  type Searched,
  searchedState,
  type SearchTarget,
  type ShownRows,
  type StatedAnswer,
  type TableName,
} from './search-target.ts';
import { isIndexed, rowsWithPart } from './sqlite-index.ts';

export interface Searching {
  readonly snapshot: Snapshot;
  readonly sql: SearchSql;
  readonly target: SearchTarget;
  readonly request: SearchRequest;
  /** Throws when the time is up. */
  readonly checkTime: () => void;
  readonly rows?: ShownRows | undefined;
}

/**
 * One page. SQL says which rows may meet the filter; each of them is read, checked and put in its place here. `next`:
 * the last record's place where more follow.
 */
export async function searchPage(search: Searching, after: Position | null) {
  const rule = orderRule(search.request, search.target);
  const best =
    rule.keys.length === 0 ? await firstArrived(search, after) : await firstSorted(search, rule, after);
  return await readRecords(search, best);
}

const allRows: RowRange = { after: -1, to: null };

/** Rows of the first stretch. Each further one is so many times as long, and the fifth one has no end. */
const firstStretch = 2_000;
const growth = 8;
const stretches = 5;

/** Reads rows in the order of arrival: a page is often full after the first range of row numbers. */
async function firstArrived(search: Searching, after: Position | null): Promise<readonly Position[]> {
  const most = search.request.limit + 1;
  const best = bestRows({ keys: [], rows: 'asc' }, most);
  const candidates = openCandidates(search, []);
  let from = after?.row ?? -1;
  let length = Math.max(firstStretch, 2 * most);
  for (let stretch = 1; best.rows.length < most; stretch += 1) {
    const first = await firstRow(search, from);
    if (first === null) break;
    const to = stretch === stretches ? null : first + length;
    for await (const position of candidates({ after: from, to }, null)) best.add(position);
    if (to === null) break;
    from = to;
    length *= growth;
  }
  return best.rows;
}

async function firstRow({ snapshot, target, checkTime }: Searching, after: number): Promise<number | null> {
  checkTime();
  const sql = `SELECT min(r._row) AS row FROM ${fromSql({ ...target, parent: null })} WHERE r._row > :after`;
  const found = await snapshot.read(async (tx) => await tx.first<{ row: number | null }>(sql, { after }));
  return found?.row ?? null;
}

/**
 * Reads rows in another order, where every row may be among the first. A database that compares the values estimates
 * how far a page reaches, and only the rows up to there are read; if they are too few, the others are read too.
 */
async function firstSorted(search: Searching, rule: OrderRule, after: Position | null) {
  const candidates = openCandidates(search, rule.keys);
  const read = async (last: OrderKey): Promise<readonly Position[]> => {
    const best = bestRows(rule, search.request.limit + 1);
    for await (const position of candidates(allRows, boundsOf(rule, after, last))) {
      if (after === null || best.compare(position, after) > 0) best.add(position);
    }
    return best.rows;
  };
  const last = await probablyLast(search, rule, after);
  if (last === null) return await read(null);
  const near = await read(last);
  const [worst = null] = near[search.request.limit]?.keys ?? [];
  const sign = rule.keys[0]?.direction === 'desc' ? -1 : 1;
  // All rows up to `last` were read, so none of the others comes before these.
  if (near.length > search.request.limit && compareKeys(worst, last) * sign <= 0) return near;
  return await read(worst);
}

/** The first key of a row behind the page, as the database sorts. Null: unknown, or there is none. */
async function probablyLast(
  { snapshot, sql, target, request, checkTime }: Searching,
  { keys: [first] }: OrderRule,
  after: Position | null,
): Promise<OrderKey> {
  if (first === undefined || first.by === null) return null;
  checkTime();
  const { keyOf, direction } = first;
  const { field, column } = first.by;
  const begin = valueOf(after);
  const where = allOf([
    target.chosen,
    piece(`${column.sql} IS NOT NULL`),
    request.filter === null ? always : narrow(request.filter, { target, sql, rows: allRows }),
    begin === null ? always : compared(column, direction === 'asc' ? '>=' : '<=', begin),
  ]);
  // Some more: of those that the database finds not every one meets the filter, or is behind the place.
  const offset = 2 * request.limit;
  const named = withNames({
    ...where,
    sql: `SELECT ${column.sql} AS value FROM ${fromSql(target)} WHERE ${where.sql}
      ORDER BY ${column.sql} ${direction} LIMIT 1 OFFSET ${offset}`,
  });
  const found = await snapshot.read(
    async (tx) => await tx.first<{ readonly value: JsonValue }>(named.sql, named.values),
  );
  return found === undefined ? null : keyOf({ [field]: found.value });
}

function valueOf(position: Position | null): NonNullable<Scalar> | null {
  const key = position?.keys[0] ?? null;
  return key === null ? null : valueOfKey(key);
}

/** Reads the rows of a range that meet the filter, in any order. */
function openCandidates({ snapshot, sql, target, request, checkTime }: Searching, keys: OrderRule['keys']) {
  const { filter, sort } = request;
  const asked = new Set([...sort.map(({ path: [name = ''] }) => name), ...fieldsOf(filter)]);
  const fields = [...asked].flatMap((name) => target.fields.get(name) ?? []);
  const { columns, read } = rowReader(fields);
  const meets = filter === null ? () => true : conditionMatcher(filter);
  return async function* (rows: RowRange, bounds: Condition | null): AsyncGenerator<Position> {
    const narrowed = [filter, bounds].map((one) =>
      one === null ? always : narrow(one, { target, sql, rows }),
    );
    const where = allOf([target.chosen, sql.isInRange(rows), ...narrowed]);
    const text = `SELECT ${['r._row', ...columns].join(', ')} FROM ${fromSql(target)} WHERE ${where.sql}`;
    const named = withNames({ ...where, sql: text });
    for await (const batch of snapshot.batches(named.sql, named.values)) {
      for (const [row, ...stored] of batch) {
        checkTime();
        const values = read(stored.map(columnValue));
        const record = Object.create(null) as Record<string, JsonValue>;
        for (const [index, { name }] of fields.entries()) record[name] = values[index] ?? null;
        if (meets(record)) yield { row: Number(row), keys: keys.map(({ keyOf }) => keyOf(record)) };
      }
    }
  };
}

function fieldsOf(condition: Condition | null): readonly string[] {
  if (condition === null) return [];
  if (condition.kind === 'and' || condition.kind === 'or') return condition.conditions.flatMap(fieldsOf);
  return condition.kind === 'not' ? fieldsOf(condition.condition) : condition.path.slice(0, 1);
}

/** Keeps the first rows of an order among those that are given, at most so many. */
function bestRows(rule: OrderRule, most: number) {
  const compare = positionOrder(rule);
  const rows: Position[] = [];
  return {
    compare,
    /** The best rows, in their order. */
    rows: rows as readonly Position[],
    add: (position: Position): void => {
      let [from, to] = [0, rows.length];
      while (from < to) {
        const middle = (from + to) >> 1;
        const other = rows[middle];
        if (other !== undefined && compare(other, position) < 0) from = middle + 1;
        else to = middle;
      }
      if (from === most) return;
      rows.splice(from, 0, position);
      if (rows.length > most) rows.pop();
    },
  };
}

/**
 * Condition on the first sort key for the rows from `after` up to the first key `last`, in the language of searches.
 */
function boundsOf({ keys }: OrderRule, after: Position | null, last: OrderKey): Condition | null {
  const [first] = keys;
  if (first === undefined || first.by === null) return null;
  const path = [first.by.field];
  const isUpwards = first.direction === 'asc';
  const conditions = [
    bound(path, isUpwards ? 'gte' : 'lte', valueOf(after)),
    bound(path, isUpwards ? 'lte' : 'gte', last === null ? null : valueOfKey(last)),
  ].filter((one) => one !== null);
  return conditions.length === 0 ? null : { kind: 'and', conditions };
}

/** No value comes before all others ascending, and behind them descending: on the side of `lte` in both. */
function bound(
  path: readonly string[],
  kind: 'gte' | 'lte',
  value: NonNullable<Scalar> | null,
): Condition | null {
  if (value === null) return null;
  const compares: Condition = { kind, path, value };
  if (kind === 'gte') return compares;
  return { kind: 'or', conditions: [compares, { kind: 'in', path, values: [null] }] };
}

async function readRecords(
  { snapshot, target, request, checkTime, rows }: Searching,
  positions: readonly Position[],
) {
  const all = projection(target, request.fields);
  const shown = rows === undefined ? all : forPeople(all, rows);
  const page = openPage(shown, request.limit);
  if (positions.length > 0) {
    const columns = ['r._row', ...shown.columns].join(', ');
    const sql = `SELECT ${columns} FROM {wanted: row bigint, n} CROSS JOIN ${fromSql(target)}
      WHERE r._row = wanted.row ORDER BY wanted.n`;
    const wanted = positions.map(({ row }) => ({ row }));
    reading: for await (const batch of snapshot.batches(sql, { wanted })) {
      for (const [, ...stored] of batch) {
        checkTime();
        if (page.isFull()) break reading;
        page.add(stored.map(columnValue));
      }
    }
  }
  const { data } = page;
  return { data, next: data.length < positions.length ? (positions[data.length - 1] ?? null) : null };
}

/** A statement's `?` as the names that the port gives values. */
function withNames({ sql, values }: Piece) {
  let at = 0;
  const named = sql.replaceAll(/'(?:[^']|'')*'|"(?:[^"]|"")*"|\?/g, (found) =>
    found === '?' ? `:v${(at += 1)}` : found,
  );
  return {
    sql: named,
    values: Object.fromEntries(values.map((value, index) => [`v${index + 1}`, value])),
  };
}

export interface SearchOptions {
  /** Authenticates cursors. */
  readonly cursorKey: Buffer;
  /** Connector and entity: a cursor of others is refused. */
  readonly scope: string;
  readonly clock: Clock;
  /** Milliseconds that a search may run, without its wait. */
  readonly deadlineMs: number;
  readonly signal: AbortSignal;
}

/** A sink that is searched. */
interface SearchedSink {
  readonly db: ReadableDatabase;
  readonly records: Parameters<typeof ledgerReader>[0];
  readonly tableName: TableName;
  /** Called first in the state that is searched. */
  readonly sqlFor: (tx: Tx, target: SearchTarget) => Promise<SearchSql>;
}

/**
 * Searches of a SQLite sink, or of the rows in the ledger of another format, which write nothing. A search may throw
 * the errors of opening a sink.
 */
export function openSearch(file: string, format?: LedgerFormat) {
  const db = readSqliteSink(file, format);
  const sqlFor = async (tx: Tx, target: SearchTarget): Promise<SearchSql> =>
    sqliteSql(target, await isIndexed(tx, target));
  return {
    search: searchOf({ db, records: sqliteTables, tableName, sqlFor }),
    [Symbol.asyncDispose]: async (): Promise<void> => await db[Symbol.asyncDispose](),
  };
}

export function sqliteSql(target: SearchTarget, hasIndex: boolean): SearchSql {
  return {
    position: 'instr',
    isRespelled: () => never,
    // SQLite takes a range of row numbers for the narrowest of all conditions if nothing says how many rows it has.
    isInRange: ({ after, to }) =>
      allOf([
        piece('likelihood(r._row > CAST(? AS bigint), 0.95)', after),
        to === null ? always : piece('likelihood(r._row <= CAST(? AS bigint), 0.95)', to),
      ]),
    hasPart: (field, parts, rows) => (hasIndex ? rowsWithPart(target, field, parts, rows) : always),
  };
}

/**
 * Makes the function that searches a sink in one state of its database, for a column that is added takes its values out
 * of `_extra`. It rejects as `searchState` does, and with SINK_FAILED. A statement of SQLite cannot be interrupted, so
 * a process that also answers other callers searches in separate processes.
 */
export function searchOf({ db, records, tableName: nameOf, sqlFor }: SearchedSink) {
  return async (searched: Searched, params: unknown, options: SearchOptions): Promise<StatedAnswer> => {
    const { deadlineMs, signal } = options;
    const late = () => tooSlow(deadlineMs);
    return await within(deadlineMs, signal, late, async (own) => {
      await using snapshot = await db.openSnapshot(own);
      const { stated, ...found } = await snapshot.read(async (tx) => {
        const { target, isThere } = await readTarget(tx, searched, nameOf);
        const history = ledgerReader(records, (work) => work(tx));
        return {
          target,
          isThere,
          sql: await sqlFor(tx, target),
          stated: await searchedState(history, searched),
        };
      });
      const { rows } = searched;
      const { table: name, fields } = found.target;
      const table = rows && {
        name,
        columns: [...fields.values()].filter((field) => field !== changeNumber),
      };
      return {
        ...(await searchState({ ...found, snapshot, rows }, params, options)),
        ...stated,
        ...(table && { table }),
      };
    });
  };
}

/** Without `isThere`, nothing is stored yet. */
type State = Pick<Searching, 'snapshot' | 'target' | 'sql' | 'rows'> & { readonly isThere: boolean };

/**
 * `params`: query, limit, cursor and fields as they came from outside. Integers that a double cannot hold come as
 * bigint. Rejects with `SyncError` SEARCH_INVALID and SEARCH_TOO_SLOW, or with the reason of the snapshot's signal.
 */
export async function searchState(
  { isThere, ...state }: State,
  params: unknown,
  { clock, cursorKey, scope, deadlineMs }: Omit<SearchOptions, 'signal'>,
): Promise<SearchAnswer> {
  const startMs = clock.now();
  const checkTime = (): void => {
    if (clock.now() - startMs > deadlineMs) throw tooSlow(deadlineMs);
  };
  const request = readSearchRequest(params, state.target);
  const seal = cursorSeal(cursorKey, scope, request);
  const after = request.cursor === null ? null : readCursor(request.cursor, seal);
  const search = { ...state, request, checkTime };
  const { data, next } = isThere ? await searchPage(search, after) : { data: [], next: null };
  const cursor = next === null ? null : writeCursor(next, seal);
  return { data, meta: { has_more: next !== null, cursor, took_ms: clock.now() - startMs } };
}

// --- Order: where a row stands among others

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
) {
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
