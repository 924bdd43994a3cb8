import type { Clock } from '../core/clock.ts';
import type { ColumnValue } from '../core/records.ts';
import { compileFilter, type Compiling } from './compile-filter.ts';
import { fromSql, openPage, projection, rowByNumber } from './field-value.ts';
import { isTableThere } from './index/index-state.ts';
import type { SearchIndex } from './index/open-search-index.ts';
import type { SearchFunctions } from './row-functions.ts';
import { cursorSeal, readCursor, writeCursor } from './search-cursor.ts';
import type { Position } from './order-rule.ts';
import { searchOrder, type SearchOrder, stretchesBehind } from './search-order.ts';
import { searchProblem, tooSlow } from './search-problem.ts';
import type { SearchAnswer, SearchRequest } from './search-request.ts';
import type { SearchTarget } from './search-target.ts';
import { allOf, always, type Bound, piece, type Piece } from './sql-piece.ts';
import type { Connection } from '../sql/sqlite/open-sqlite.ts';

export interface SearchOptions {
  /** Authenticates cursors. */
  readonly cursorKey: Buffer;
  /** What a cursor belongs to: connector and entity. */
  readonly scope: string;
  readonly clock: Clock;
  /** What a search may take once it runs. */
  readonly deadlineMs: number;
}

interface SearchRecordsOptions extends SearchOptions {
  /** As it is in the state of the database that is searched. */
  readonly index: SearchIndex;
  /** Of the connection. */
  readonly functions: SearchFunctions;
}

/** SQLite's own limit is 32,766. */
const maxBound = 32_000;

/**
 * Searches the target's table in one read transaction; an entity without a table has no records yet. Integers that a
 * double cannot hold come as bigint. Throws `SyncError` SEARCH_INVALID (a cursor of another query, say) and
 * SEARCH_TOO_SLOW.
 */
export function searchRecords(
  db: Connection,
  target: SearchTarget,
  request: SearchRequest,
  options: SearchRecordsOptions,
): SearchAnswer {
  const { clock, deadlineMs, cursorKey, scope } = options;
  const startMs = clock.now();
  const checkTime = (): void => {
    if (clock.now() - startMs > deadlineMs) throw tooSlow(deadlineMs);
  };
  const seal = cursorSeal(cursorKey, scope, request, target, options.index);
  const after = request.cursor === null ? null : readCursor(request.cursor, seal);
  const functions = options.functions.begin(checkTime);
  const search: Search = { db, target, request, checkTime, functions, index: options.index };
  const { data, next } = db
    .transaction(() => (isTableThere(db, target.table) ? readPage(search, after) : { data: [], next: null }))
    .deferred();
  return {
    data,
    meta: {
      has_more: next !== null,
      cursor: next === null ? null : writeCursor(next, seal),
      took_ms: clock.now() - startMs,
    },
  };
}

interface Search extends Compiling {
  readonly db: Connection;
  readonly request: SearchRequest;
  readonly checkTime: () => void;
}

/** `next`: the last record's place where more follow. */
function readPage(search: Search, after: Position | null) {
  const { request } = search;
  const filter = request.filter === null ? always : compileFilter(request.filter, search);
  const order = searchOrder(request, search);
  const rows: number[] = [];
  for (const stretch of after === null ? [always] : stretchesBehind(order, after)) {
    const wanted = request.limit + 1 - rows.length;
    if (wanted === 0) break;
    rows.push(...readRows(search, order, allOf([filter, stretch]), wanted));
  }
  const { data, last } = readRecords(search, rows);
  return { data, next: last === null ? null : positionOf(search, order, last) };
}

/** Row numbers first: whole rows would be sorted, and only a page of them is wanted. */
function readRows(
  { db, target, checkTime, functions: { heartbeat } }: Search,
  { keys, rows }: SearchOrder,
  condition: Piece,
  limit: number,
): readonly number[] {
  const order = [...keys.map(({ sql, direction }) => `${sql} ${direction}`), `r._row ${rows}`];
  const where = allOf([piece('r._deleted_at IS NULL'), piece(heartbeat), condition]);
  if (where.values.length > maxBound) {
    throw searchProblem(
      'query.filter',
      `expected at most ${maxBound} values in all, got ${where.values.length}`,
    );
  }
  const found = db
    .prepare<Bound[], number>(
      `SELECT r._row FROM ${fromSql(target)} WHERE ${where.sql} ORDER BY ${order.join(', ')} LIMIT ?`,
    )
    .pluck()
    .all(...where.values, limit);
  checkTime();
  return found;
}

/** Of one row alone: the texts that a whole page is sorted by may be more than there is memory for. */
function positionOf({ db, target }: Search, { keys }: SearchOrder, row: number): Position {
  const columns = keys.map(({ sql }) => sql);
  const values = rowByNumber<Bound>(db, fromSql(target), columns).get(row)?.slice(1) ?? [];
  return { row, values };
}

/** `last`: the last record's row where more follow. */
function readRecords({ db, target, request, checkTime }: Search, rows: readonly number[]) {
  const shown = projection(target, request.fields);
  const read = rowByNumber<ColumnValue>(db, fromSql(target), shown.columns);
  const page = openPage(shown, request.limit);
  for (const row of rows) {
    if (page.isFull()) break;
    page.add(read.get(row)?.slice(1) ?? []);
    checkTime();
  }
  const { data } = page;
  return { data, last: data.length < rows.length ? (rows[data.length - 1] ?? null) : null };
}
