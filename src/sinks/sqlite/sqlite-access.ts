import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { SinkAccess } from '../sink-access.ts';
import { isSinkThere, type LedgerFormat } from './open-database.ts';

/** A worker keeps a ledger open for each sink: with SQLite's own 16 MiB, a hundred of them would take a gigabyte. */
const cacheKiB = 2048;

/* What opens is loaded when it is asked for: a command that looks at a ledger does not load what writes one. */

/** A SQLite sink. */
export function sqliteAccess(file: string): SinkAccess {
  return ledgerFileAccess({
    file,
    place: file,
    loadFormat: async () => (await import('./schema.ts')).sqliteFormat,
    open: async (how) => {
      const { openSqliteSink } = await import('./open-ledger.ts');
      return await openSqliteSink({ ...how, file });
    },
    openClosedFiles: async () => null,
  });
}

interface OwnAccess extends Pick<SinkAccess, 'place' | 'open' | 'openClosedFiles'> {
  readonly file: string;
  readonly loadFormat: () => Promise<LedgerFormat>;
}

/** Of a sink whose ledger and records lie in one SQLite file. */
export function ledgerFileAccess({ file, loadFormat, ...own }: OwnAccess): SinkAccess {
  const reading = async () => {
    const [readers, format] = await Promise.all([import('./readers.ts'), loadFormat()]);
    return { readers, of: { file, format, cacheKiB } };
  };
  return {
    ...own,
    ledgerPlace: file,
    isThere: async () => isSinkThere(file),
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
      const sink = await own.open(how);
      await sink[Symbol.asyncDispose]();
      const { openServedFile } = await import('./served.ts');
      const { of } = await reading();
      return await openServedFile({ ...of, place: own.place, sinkId: sink.id });
    },
    freeBytes: async () => {
      const { bavail, bsize } = await statfs(dirname(own.place));
      return bavail * bsize;
    },
    check: async () => [],
  };
}
