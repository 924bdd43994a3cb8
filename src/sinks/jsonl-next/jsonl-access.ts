import { join } from 'node:path';
import type { Connection } from '../../sql/sqlite/open-sqlite.ts';
import { readSqlite } from '../../sql/sqlite/read-sqlite.ts';
import { toSinkError } from '../file-ledger/sink-error.ts';
import { ledgerReader } from '../ledger/history/history.ts';
import type { OpenHistory, SinkAccess } from '../sink-access.ts';
import { isSinkThere, openReadonlyDatabase, storedId } from '../sqlite-next/open-database.ts';
import { sqliteTables } from '../sqlite-next/records/record-tables.ts';
import { sqliteNextAccess } from '../sqlite-next/sqlite-access.ts';
import { jsonlFormat } from './schema.ts';

export function jsonlNextAccess(directory: string): SinkAccess {
  const file = join(directory, '_ledger.db');
  return {
    ...sqliteNextAccess(file),
    place: directory,
    open: async (how) => {
      const { openJsonlSink } = await import('./jsonl-sink.ts');
      return await openJsonlSink({ ...how, directory, file });
    },
    openHistory: async () => openJsonlHistory(file),
    openClosedFiles: async () => {
      if (!isSinkThere(file)) return null;
      const { openJsonlClosedFiles } = await import('./closed-files.ts');
      return openJsonlClosedFiles(directory, file);
    },
  };
}

function openJsonlHistory(file: string): OpenHistory {
  const openReader = (): Connection => openReadonlyDatabase({ file, format: jsonlFormat });
  const first = openReader();
  const sinkId = storedId(first);
  first.close();
  const db = readSqlite({ file, openReader, cacheKiB: 2048, explain: (error) => toSinkError(error, file) });
  return {
    ...ledgerReader(sqliteTables(), (work) => db.read(work)),
    sinkId,
    [Symbol.asyncDispose]: async () => await db[Symbol.asyncDispose](),
  };
}
