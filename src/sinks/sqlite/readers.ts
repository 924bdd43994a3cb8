import type { ColumnValue } from '../../core/records.ts';
import type { Connection } from '../../sql/sqlite/open-sqlite.ts';
import {
  readSqlite,
  type ReadableSqlite,
  type ReadSqliteOptions,
} from '../../sql/sqlite/open-sqlite-database.ts';
import { servedLedger } from '../ledger/history/overview.ts';
import type { OpenedToRead, ServedLedger } from '../sink-access.ts';
import * as database from './open-database.ts';
import { sqliteFormat } from './sqlite-schema.ts';
import { sqliteTables } from './sqlite-tables.ts';

/* Readers of a sink. Each throws `SyncError` SINK_FAILED where there is no sink. */

interface ReadFile {
  readonly file: string;
  readonly format: database.LedgerFormat;
  /** Cache memory. */
  readonly cacheKiB?: number;
}

/** The connection that reads the id is that of the first read: opening one parses the schema of all tables. */
export function openToRead(of: ReadFile): OpenedToRead {
  let first: Connection | null = database.openReadonlyDatabase(of);
  const close = (): void => {
    first?.close();
    first = null;
  };
  const openReader = (): Connection => {
    const db = first ?? database.openReadonlyDatabase(of);
    first = null;
    return db;
  };
  try {
    const sinkId = database.storedId(first);
    const reader = readFile(of, { openReader });
    const dispose = async (): Promise<void> => {
      close();
      await reader[Symbol.asyncDispose]();
    };
    const db = { ...reader, [Symbol.asyncDispose]: dispose };
    return { db, sinkId, records: sqliteTables, newestSeq: database.newestSeq };
  } catch (error) {
    close();
    throw error;
  }
}

function sinkIdIn(of: ReadFile): string {
  const db = database.openReadonlyDatabase(of);
  try {
    return database.storedId(db);
  } finally {
    db.close();
  }
}

function readFile(
  { file, format, cacheKiB }: ReadFile,
  how: Partial<Pick<ReadSqliteOptions, 'openReader' | 'isWatched'>> = {},
): ReadableSqlite {
  return readSqlite({
    file,
    openReader: () => database.openReadonlyDatabase({ file, format }),
    cacheKiB,
    explain: (error) => database.toSinkError(error, file),
    ...how,
  });
}

/** A SQLite sink that exists, or the ledger of another format. */
export function readSqliteSink(file: string, format = sqliteFormat): ReadableSqlite {
  return readFile({ file, format });
}

/**
 * The rows of one reading statement over a SQLite sink's tables. Throws SINK_FAILED when there is no sink, SQLite's own
 * error for a refused statement.
 */
export function querySqliteSink(file: string, sql: string): readonly Readonly<Record<string, ColumnValue>>[] {
  const db = database.openReadonlyDatabase({ file, format: sqliteFormat });
  try {
    return db.prepare<[], Record<string, ColumnValue>>(sql).all();
  } finally {
    db.close();
  }
}

/** Opens a SQLite sink to which an index is added. A power loss may undo the last writes. */
export function openIndexedSink(file: string): Connection {
  // Throws where there is no sink: opening to write would make an empty one.
  if (!database.isSinkThere(file)) database.openReadonlyDatabase({ file, format: sqliteFormat }).close();
  return database.openDatabase({ file, format: sqliteFormat, durability: 'normal' });
}

/**
 * Opens a file sink's ledger for reading while its file exists. The ledger is back when that file, or another one with
 * the same sink (a backup), is there again. `sinkId`: the expected sink; by default the present one.
 */
export async function openServedFile(
  { place, ...of }: ReadFile & { readonly place: string },
  sinkId = sinkIdIn(of),
): Promise<ServedLedger> {
  const { file } = of;
  /** Null while the sink is lost. */
  let db: ReadableSqlite | null = null;
  let opened: string | null = null;
  let log: string | null = null;

  /** Opens the file `found`, or gives the reason why it is not read. */
  const openThis = (found: string): string | null => {
    // SQLite would read the log of the sink into the other file.
    if (opened !== null && found !== opened && log !== null && idOf(`${file}-wal`) === log) {
      return `another file is at ${place}, and ${file}-wal is still that of the sink`;
    }
    if (sinkIdIn(of) !== sinkId) return `another sink is at ${place}`;
    db = readFile(of, {
      openReader: () => {
        if (idOf(file) !== found) throw database.movedError(file, idOf(file) === null);
        return database.openReadonlyDatabase({ file, format: of.format });
      },
      isWatched: true,
    });
    opened = found;
    log = idOf(`${file}-wal`);
    return null;
  };
  const first = idOf(file);
  if (first === null) throw database.movedError(file, true);
  openThis(first);
  return await servedLedger({
    sinkId,
    look: async (losing) => {
      const found = idOf(file);
      if (db !== null && found === opened) return null;
      // The old file is closed before another one is opened: SQLite would take the files beside them for one and the
      // same.
      if (db !== null) {
        await losing();
        await db[Symbol.asyncDispose]();
        db = null;
      }
      if (found === null) return `nothing is at ${place}`;
      try {
        return openThis(found);
      } catch (error) {
        return `what is at ${place} cannot be read: ${error instanceof Error ? error.message : String(error)}`;
      }
    },
    read: async (work) => {
      if (db === null) throw database.movedError(file, true);
      return await db.read(work);
    },
    mark: async () => (db === null ? null : await db.mark()),
    lastCommits: database.lastCommits,
    [Symbol.asyncDispose]: async () => await db?.[Symbol.asyncDispose](),
  });
}

/** The file is also lost where its folder may no longer be entered. */
function idOf(file: string): string | null {
  try {
    return database.fileAt(file);
  } catch {
    return null;
  }
}
