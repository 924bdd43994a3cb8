import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { SinkAccess } from '../sink-access.ts';
import { isSinkThere } from './open-database.ts';

/** A worker keeps a ledger open for each sink: with SQLite's own 16 MiB, a hundred of them would take a gigabyte. */
const cacheKiB = 2048;

/* What opens is loaded when it is asked for: a command that looks at a ledger does not load what writes one. */

export function sqliteNextAccess(file: string): SinkAccess {
  const open: SinkAccess['open'] = async (how) => {
    const { openSqliteNextSink } = await import('./sqlite-sink.ts');
    return await openSqliteNextSink({ ...how, file });
  };
  const reading = async () => {
    const [readers, { sqliteFormat: format }] = await Promise.all([
      import('./readers.ts'),
      import('./schema.ts'),
    ]);
    return { readers, of: { file, format, cacheKiB } };
  };
  return {
    place: file,
    ledgerPlace: file,
    noCopies: null,
    isThere: async () => isSinkThere(file),
    open,
    openHistory: async () => {
      const { readers, of } = await reading();
      return readers.openFileHistory(of);
    },
    openRecords: async () => {
      const { readers, of } = await reading();
      return await readers.openFileRecords(of);
    },
    openKeys: async () => {
      const { readers, of } = await reading();
      return await readers.openFileKeys(of);
    },
    openServed: async (how) => {
      const sink = await open(how);
      await sink[Symbol.asyncDispose]();
      const { openServedFile } = await import('./served.ts');
      const { of } = await reading();
      return await openServedFile({ ...of, place: file, sinkId: sink.id });
    },
    openClosedFiles: async () => null,
    freeBytes: async () => {
      const { bavail, bsize } = await statfs(dirname(file));
      return bavail * bsize;
    },
    check: async () => [],
  };
}
