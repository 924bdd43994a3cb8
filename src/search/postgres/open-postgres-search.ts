import { usage } from '../../core/usage-error.ts';
import { startDeadline } from '../../http/start-deadline.ts';
import { ledgerReader } from '../../sinks/ledger/history/history.ts';
import { openToRead, type PostgresPlace } from '../../sinks/postgres/open-ledger.ts';
import { tableName } from '../../sinks/postgres/records/names.ts';
import type { Snapshot } from '../../sql/database.ts';
import { readSearchRequest } from '../read-request.ts';
import { cursorSeal, readCursor, writeCursor } from '../search-cursor.ts';
import { tooSlow } from '../search-problem.ts';
import type { SearchOptions } from '../search-records.ts';
import { readTarget, searchedState, type Searched, type StatedAnswer } from '../stored-target.ts';
import { searchPage } from './search-rows.ts';
import { wordIndexSql } from './word-conditions.ts';

/**
 * Searches of a sink in a schema of PostgreSQL, which write nothing. Throws `NoSinkYetError` where there is none, and
 * what opening a sink throws.
 */
export async function openPostgresSearch(place: PostgresPlace) {
  const { db, records } = await openToRead(place);
  /** In one state of the database: a column that is added takes its values out of `_extra`. */
  const inSnapshot = async <Result>(
    signal: AbortSignal,
    work: (snapshot: Snapshot) => Promise<Result>,
  ): Promise<Result> => {
    await using snapshot = await db.openSnapshot(signal);
    return await work(snapshot);
  };
  return {
    /**
     * `params`: query, limit, cursor and fields as they came from outside. Rejects with `SyncError` SEARCH_INVALID,
     * SEARCH_TOO_SLOW, SINK_FAILED, or with the signal's reason; the server has ended the search then too.
     */
    search: async (
      searched: Searched,
      params: unknown,
      options: SearchOptions & { readonly signal: AbortSignal },
    ): Promise<StatedAnswer> => {
      const { clock, cursorKey, scope, deadlineMs } = options;
      const startMs = clock.now();
      const deadline = startDeadline(deadlineMs, options.signal, () => tooSlow(deadlineMs));
      try {
        return await inSnapshot(deadline.signal, async (snapshot) => {
          await snapshot.read(async (tx) => await tx.run(settings, { deadline: String(deadlineMs) }));
          const { target, isThere } = await snapshot.read(
            async (tx) => await readTarget(tx, searched, tableName),
          );
          const request = readSearchRequest(params, target);
          const seal = cursorSeal(cursorKey, scope, request, target, asStored);
          const after = request.cursor === null ? null : readCursor(request.cursor, seal);
          const stated = await searchedState(
            ledgerReader(records, (work) => snapshot.read(work)),
            searched,
          );
          const search = { snapshot, target, request };
          const { data, next } = isThere ? await searchPage(search, after) : { data: [], next: null };
          const cursor = next === null ? null : writeCursor(next, seal);
          return {
            ...stated,
            data,
            meta: { has_more: next !== null, cursor, took_ms: clock.now() - startMs },
          };
        });
      } finally {
        deadline.end();
      }
    },
    /**
     * Statements that make indexes for `keyword` and `fuzzy`, for a person to run. Throws USAGE where the server has
     * no `pg_trgm`.
     */
    indexSql: async (searched: Searched, signal: AbortSignal): Promise<readonly string[]> =>
      await inSnapshot(signal, async (snapshot) =>
        snapshot.read(async (tx) => {
          const found = await tx.first<{ readonly schema: string | null }>(extensionSql);
          if (found === undefined) {
            throw usage(
              `${db.place} has no pg_trgm: install the server's package of additional modules (postgresql-contrib), then print the SQL again.`,
            );
          }
          const { target } = await readTarget(tx, searched, tableName);
          return wordIndexSql(target, place.schema, found.schema);
        }),
      ),
    [Symbol.asyncDispose]: async (): Promise<void> => await db[Symbol.asyncDispose](),
  };
}

/**
 * Every row of a stretch is read, whatever comes first. The server ends a statement at the deadline by itself where
 * this process was killed.
 */
const settings = `SELECT set_config('cursor_tuple_fraction', '1', true), set_config('statement_timeout', :deadline, true)`;

const extensionSql = `SELECT (SELECT n.nspname::text FROM pg_catalog.pg_extension AS e
    JOIN pg_catalog.pg_namespace AS n ON n.oid = e.extnamespace WHERE e.extname = 'pg_trgm') AS schema
  FROM pg_catalog.pg_available_extensions WHERE name = 'pg_trgm'`;

/** How times of a column are spelled is not known. */
const asStored = { isInOrderAsStored: () => false };
