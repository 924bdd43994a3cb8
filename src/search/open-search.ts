import type { ConnectorName, EntityName } from '../core/names.ts';
import { tableName } from '../sinks/decisions/stored-table.ts';
import { ledgerReader } from '../sinks/ledger/history/history.ts';
import { sqliteTables } from '../sinks/sqlite/records/record-tables.ts';
import { openSearchedSink } from '../sinks/sqlite/readers.ts';
import { toSinkError } from '../sinks/sqlite/sink-error.ts';
import type { Tx } from '../sql/database.ts';
import { explained } from '../sql/explained.ts';
import { inOneState } from '../sql/sqlite/read-sqlite.ts';
import { statementsOn } from '../sql/sqlite/sqlite-tx.ts';
import { openSearchIndex } from './index/open-search-index.ts';
import { readSearchRequest } from './read-request.ts';
import { searchFunctions } from './row-functions.ts';
import { type SearchOptions, searchRecords } from './search-records.ts';
import {
  readTarget,
  type Searched,
  searchedState,
  type StatedAnswer,
  storedTables,
} from './stored-target.ts';

/** One connection to a SQLite sink that searches and cannot write. One question after the other. */
export type Search = ReturnType<typeof openSearch>;

/** Throws `SyncError` SINK_FAILED when there is no sink, SINK_INCOMPATIBLE when the file is something else. */
export function openSearch(file: string) {
  const functions = searchFunctions();
  const db = openSearchedSink(file, functions.sql);
  const reader = { db, statements: statementsOn(db) };
  /**
   * The columns, the index and the records must be of one state: a column that is added takes its values out of
   * `_extra`, and what the index knows of a row is true of that state alone.
   */
  const read = async <Result>(work: (tx: Tx) => Promise<Result>): Promise<Result> =>
    await explained(
      (error) => toSinkError(error, file),
      async () => await inOneState(reader, work),
    );
  return {
    /**
     * `params`: query, limit, cursor and fields as they came from outside. Rejects with `SyncError` SEARCH_INVALID,
     * SEARCH_TOO_SLOW, SINK_FAILED. Nothing else happens in this process until it is through, so a process that also
     * answers other callers searches in separate processes.
     */
    search: async (searched: Searched, params: unknown, options: SearchOptions): Promise<StatedAnswer> =>
      await read(async (tx) => {
        const { target } = await readTarget(tx, searched, tableName);
        const request = readSearchRequest(params, target);
        const stated = await searchedState(
          ledgerReader(sqliteTables, (work) => work(tx)),
          searched,
        );
        const index = openSearchIndex(db, target);
        return { ...searchRecords(db, target, request, { ...options, functions, index }), ...stated };
      }),
    /** The entities of a connector that have a table, with the columns that it has by now. */
    stored: async (connector: ConnectorName, entities: readonly EntityName[]) =>
      await read(async (tx) => await storedTables(tx, connector, entities)),
    [Symbol.dispose]: (): void => void db.close(),
  };
}
