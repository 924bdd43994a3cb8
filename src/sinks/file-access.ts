import { statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { openLedgerReader } from './file-ledger/history.ts';
import {
  isSinkThere,
  openReadonlyDatabase,
  storedId,
  type DatabaseOptions,
} from './file-ledger/open-database.ts';
import type { SinkAccess } from './sink-access.ts';

/* What opens is loaded when it is asked for: a command that looks at a ledger does not load what writes one. */

export function sqliteAccess(file: string): SinkAccess {
  return fileAccess({
    file,
    kind: 'sqlite',
    place: file,
    noCopies: null,
    open: async (how) => {
      const { openSqliteSink } = await import('./sqlite/sqlite-sink.ts');
      return await openSqliteSink({ ...how, file });
    },
    openRecords: async () => {
      const { openSqliteRecords } = await import('./sqlite/read-records.ts');
      return openSqliteRecords(file);
    },
    openKeys: async () => {
      const { openSqliteKeys } = await import('./sqlite/read-records.ts');
      return openSqliteKeys(file);
    },
    openClosedFiles: async () => null,
  });
}

export function jsonlAccess(directory: string): SinkAccess {
  const file = join(directory, '_ledger.db');
  return fileAccess({
    file,
    kind: 'jsonl',
    place: directory,
    noCopies:
      'A JSONL sink keeps each change as a line of its own, which is only ever added to; it has no rows that could be moved as they are. Sync the connector into the other sink from the start, or copy between sinks of the types sqlite and postgres.',
    open: async (how) => {
      const { openJsonlSink } = await import('./jsonl/jsonl-sink.ts');
      return await openJsonlSink({ ...how, directory, file });
    },
    openRecords: async () => {
      const { openJsonlRecords } = await import('./jsonl/read-records.ts');
      return openJsonlRecords(directory, file);
    },
    openKeys: async () => {
      const { openJsonlKeys } = await import('./jsonl/read-records.ts');
      return openJsonlKeys(file);
    },
    openClosedFiles: async () => {
      if (!isSinkThere(file)) return null;
      const { openJsonlClosedFiles } = await import('./jsonl/closed-files.ts');
      return openJsonlClosedFiles(directory, file);
    },
  });
}

/** A worker keeps a ledger open for each sink: with SQLite's own 16 MiB, a hundred of them would take a gigabyte. */
const cacheKiB = 2048;

type OwnAccess = Pick<
  SinkAccess,
  'place' | 'noCopies' | 'open' | 'openRecords' | 'openKeys' | 'openClosedFiles'
>;

/** What all file sinks have in common: the ledger, and where the files are. */
function fileAccess({ file, kind, ...own }: Pick<DatabaseOptions, 'file' | 'kind'> & OwnAccess): SinkAccess {
  const { place } = own;
  return {
    ...own,
    ledgerPlace: file,
    isThere: async () => isSinkThere(file),
    openHistory: async () => {
      const db = openReadonlyDatabase({ file, kind, cacheKiB });
      const sinkId = storedId(db);
      return { ...openLedgerReader(db, file), sinkId, [Symbol.asyncDispose]: async () => void db.close() };
    },
    openServed: async (how) => {
      const sink = await own.open(how);
      await sink[Symbol.asyncDispose]();
      const { openServedFile } = await import('./file-ledger/served-ledger.ts');
      return openServedFile({ file, kind, cacheKiB, place, sinkId: sink.id });
    },
    freeBytes: async () => {
      const { bavail, bsize } = await statfs(dirname(place));
      return bavail * bsize;
    },
    check: async () => [],
  };
}
