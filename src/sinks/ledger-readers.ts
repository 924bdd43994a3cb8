import type { ReadableDatabase } from '../sql/database.ts';
import type { LedgerDriver } from './ledger/driver.ts';
import type { SinkAccess } from './sink-access.ts';

/** A sink that was opened to be read. What reads it disposes its database. */
export interface OpenedToRead extends Pick<LedgerDriver, 'sinkId' | 'records' | 'newestSeq'> {
  readonly db: ReadableDatabase;
}

/**
 * What only reads a sink. Each throws as `open` does: `NoSinkYetError` where there is no sink. Code is loaded when it
 * is needed: a command that reads a ledger does not load what writes one.
 */
export function ledgerReaders(
  open: () => Promise<OpenedToRead>,
): Pick<SinkAccess, 'openHistory' | 'openRecords' | 'openKeys'> {
  const openSnapshot = async () => {
    const { db, ...opened } = await open();
    await using _opening = db;
    return { ...opened, snapshot: await db.openSnapshot() };
  };
  return {
    openHistory: async () => {
      const { ledgerReader } = await import('./ledger/history/history.ts');
      const { db, records, sinkId } = await open();
      return {
        ...ledgerReader(records, (work) => db.read(work)),
        sinkId,
        [Symbol.asyncDispose]: async () => await db[Symbol.asyncDispose](),
      };
    },
    openRecords: async () => {
      const { openRecordReader } = await import('./ledger/read-records.ts');
      return await openRecordReader(await openSnapshot());
    },
    openKeys: async () => {
      const { keyReader } = await import('./ledger/read-records.ts');
      return keyReader(await openSnapshot());
    },
  };
}
