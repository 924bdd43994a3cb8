import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Connection } from '../../sql/sqlite/open-sqlite.ts';
import { readSqlite } from '../../sql/sqlite/read-sqlite.ts';
import { toSinkError } from '../file-ledger/sink-error.ts';
import { ledgerReader } from '../ledger/history/history.ts';
import type { OpenHistory, SinkAccess } from '../sink-access.ts';
import { isSinkThere, openReadonlyDatabase, storedId } from './open-database.ts';
import { sqliteTables } from './records/record-tables.ts';
import { sqliteFormat } from './schema.ts';

/** A worker keeps a ledger open for each sink: with SQLite's own 16 MiB, a hundred of them would take a gigabyte. */
const cacheKiB = 2048;

export function sqliteNextAccess(file: string): SinkAccess {
  return {
    place: file,
    ledgerPlace: file,
    noCopies: null,
    isThere: async () => isSinkThere(file),
    open: async (how) => {
      const { openSqliteNextSink } = await import('./sqlite-sink.ts');
      return await openSqliteNextSink({ ...how, file });
    },
    openHistory: async () => openSqliteHistory(file),
    openRecords: async () => await Promise.reject(new TypeError('not yet')),
    openKeys: async () => await Promise.reject(new TypeError('not yet')),
    openServed: async () => await Promise.reject(new TypeError('not yet')),
    openClosedFiles: async () => null,
    freeBytes: async () => {
      const { bavail, bsize } = await statfs(dirname(file));
      return bavail * bsize;
    },
    check: async () => [],
  };
}

/** Opens the ledger of a sink that is there, for reading alone. Throws `SyncError` SINK_FAILED where there is none. */
function openSqliteHistory(file: string): OpenHistory {
  const openReader = (): Connection => openReadonlyDatabase({ file, format: sqliteFormat });
  const first = openReader();
  const sinkId = storedId(first);
  first.close();
  const db = readSqlite({ file, openReader, cacheKiB, explain: (error) => toSinkError(error, file) });
  return {
    ...ledgerReader(sqliteTables(), (work) => db.read(work)),
    sinkId,
    [Symbol.asyncDispose]: async () => await db[Symbol.asyncDispose](),
  };
}
