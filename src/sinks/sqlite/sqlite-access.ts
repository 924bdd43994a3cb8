import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { createNamedDirectory } from '../../files/private-file.ts';
import { ledgerReaders } from '../ledger-readers.ts';
import type { SinkAccess } from '../sink-access.ts';
import { isSinkThere, type LedgerFormat } from './open-database.ts';

/** A worker keeps a ledger open for each sink: with SQLite's own 16 MiB, a hundred of them would take a gigabyte. */
const cacheKiB = 2048;

/* What opens is loaded when it is needed: a command that reads a ledger does not load what writes one. */

/** A SQLite sink. */
export function sqliteAccess(file: string): SinkAccess {
  return ledgerFileAccess({
    file,
    place: file,
    loadFormat: async () => (await import('./schema.ts')).sqliteFormat,
    open: async (how) => {
      const { openSqliteSink } = await import('./open-ledger.ts');
      // A sink that must exist already is looked for where it was.
      if (how.sinkId === undefined) createNamedDirectory(dirname(file));
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
  const of = async () => ({ file, format: await loadFormat(), cacheKiB });
  return {
    ...own,
    ...ledgerReaders(async () => {
      const { openToRead } = await import('./readers.ts');
      return openToRead(await of());
    }),
    ledgerPlace: file,
    isThere: async () => isSinkThere(file),
    openServed: async (how) => {
      const sink = await own.open(how);
      await sink[Symbol.asyncDispose]();
      const { openServedFile } = await import('./readers.ts');
      return await openServedFile({ ...(await of()), place: own.place, sinkId: sink.id });
    },
    openWatched: async () => {
      const { openToRead, openServedFile } = await import('./readers.ts');
      const { db, sinkId } = openToRead(await of());
      await db[Symbol.asyncDispose]();
      return await openServedFile({ ...(await of()), place: own.place, sinkId });
    },
    freeBytes: async () => {
      const { bavail, bsize } = await statfs(dirname(own.place));
      return bavail * bsize;
    },
    check: async () => [],
  };
}
