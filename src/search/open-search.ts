import type { Clock } from '../core/clock.ts';
import type { ConnectorName, EntityName } from '../core/names.ts';
import type { EntityTable } from '../core/records.ts';
import type { Entity } from '../definitions/definition.ts';
import { openReadonlyDatabase } from '../sinks/file-ledger/open-database.ts';
import { toSinkError } from '../sinks/file-ledger/sink-error.ts';
import { prepareTables } from '../sinks/file-ledger/tables.ts';
import { openSearchIndex } from './index/open-search-index.ts';
import { readSearchRequest } from './read-request.ts';
import { searchRecords } from './search-records.ts';
import type { SearchAnswer } from './search-request.ts';
import { searchTarget } from './search-target.ts';
import type { Connection } from '../sql/sqlite/open-sqlite.ts';

/** One connection to a SQLite sink that searches and cannot write. */
export interface Search extends Disposable {
  /**
   * `params`: query, limit, cursor and fields as they came from outside. Throws `SyncError` SEARCH_INVALID, SEARCH_TOO_SLOW, SINK_FAILED.
   * Synchronous: nothing else happens in this process meanwhile, so one that answers others searches in processes of their own.
   */
  search(searched: Searched, params: unknown, options: SearchOptions): SearchAnswer;
  /** The columns an entity's table has by now; null where none of its records came yet. */
  stored(connector: ConnectorName, entity: EntityName): EntityTable | null;
}

interface Searched {
  readonly connector: ConnectorName;
  readonly entity: Entity;
}

interface SearchOptions {
  /** Authenticates cursors. */
  readonly cursorKey: Buffer;
  /** What a cursor belongs to: connector and entity. */
  readonly scope: string;
  readonly clock: Clock;
  readonly deadlineMs: number;
}

/** Throws `SyncError` SINK_FAILED when there is no sink, SINK_INCOMPATIBLE when the file is something else. */
export function openSearch(file: string): Search {
  const db = openReadonlyDatabase({ file, kind: 'sqlite' });
  try {
    // A statement that writes is refused even where one could be made; a file that shrinks kills no process.
    for (const pragma of ['query_only = ON', 'mmap_size = 0']) db.pragma(pragma);
    const tables = prepareTables(db);
    const stored: Search['stored'] = (connector, entity) => {
      const known = tables.known(connector, entity);
      return known === undefined ? null : { entity, columns: known.stored, key: known.key };
    };
    return {
      search: ({ connector, entity }, params, options) =>
        inOneState(db, file, () => {
          const target = searchTarget(entity, connector, (name) => stored(connector, name));
          const request = readSearchRequest(params, target);
          return searchRecords(db, target, request, { ...options, index: openSearchIndex(db, target) });
        }),
      stored: (connector, entity) => inOneState(db, file, () => stored(connector, entity)),
      [Symbol.dispose]: () => void db.close(),
    };
  } catch (error) {
    db.close();
    throw toSinkError(error, file);
  }
}

/**
 * The columns, the index and the records must be of one state: a column that is added takes its values out of `_extra`, and what the
 * index knows of a row is true of that state alone.
 */
function inOneState<Result>(db: Connection, file: string, read: () => Result): Result {
  try {
    return db.transaction(read).deferred();
  } catch (error) {
    throw toSinkError(error, file);
  }
}
