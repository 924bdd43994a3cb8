import { startDeadline } from '../http/start-deadline.ts';
import { tableName } from '../sinks/decisions/stored-table.ts';
import { ledgerReader } from '../sinks/ledger/history/history.ts';
import { readSqliteSink } from '../sinks/sqlite/readers.ts';
import { sqliteTables } from '../sinks/sqlite/records/record-tables.ts';
import type { Clock } from '../core/clock.ts';
import type { ReadableDatabase, Tx } from '../sql/database.ts';
import type { SearchSql } from './narrowing.ts';
import { readSearchRequest } from './read-request.ts';
import { cursorSeal, readCursor, writeCursor } from './search-cursor.ts';
import { type Searching, searchPage } from './search-page.ts';
import { tooSlow } from './search-problem.ts';
import type { SearchAnswer } from './search-request.ts';
import type { SearchTarget, TableName } from './search-target.ts';
import { allOf, always, never, piece } from './sql-piece.ts';
import { isIndexed, rowsWithPart } from './sqlite-index.ts';
import { readTarget, type Searched, searchedState, type StatedAnswer } from './stored-target.ts';

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

/** Searches of a SQLite sink, which write nothing. A search may throw what opening a sink throws. */
export function openSearch(file: string) {
  const db = readSqliteSink(file);
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
    const deadline = startDeadline(deadlineMs, signal, () => tooSlow(deadlineMs));
    try {
      await using snapshot = await db.openSnapshot(deadline.signal);
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
      return { ...(await searchState({ ...found, snapshot }, params, options)), ...stated };
    } finally {
      deadline.end();
    }
  };
}

interface State extends Pick<Searching, 'snapshot' | 'target' | 'sql'> {
  /** False: nothing is stored yet. */
  readonly isThere: boolean;
}

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
