import type { Connection } from '../../sql/sqlite/open-sqlite.ts';
import { readSqlite, type ReadableSqlite } from '../../sql/sqlite/read-sqlite.ts';
import { toSinkError } from './sink-error.ts';
import { ledgerReader } from '../ledger/history/history.ts';
import { keyReader, openRecordReader, type SinkSnapshot } from '../ledger/read-records.ts';
import type { KeyReader, RecordReader } from '../record-reader.ts';
import type { OpenHistory } from '../sink-access.ts';
import { newestSeq } from './change-counter.ts';
import { openReadonlyDatabase, storedId, type LedgerFormat } from './open-database.ts';
import { sqliteTables } from './records/record-tables.ts';
import type { ColumnValue } from '../../core/records.ts';
import { sqliteFormat } from './schema.ts';

/* What reads a sink alone. Each throws `SyncError` SINK_FAILED where there is none. */

export interface ReadFile {
  readonly file: string;
  readonly format: LedgerFormat;
  /** Of memory for what was read. */
  readonly cacheKiB?: number;
}

export function openFileHistory({ file, format, cacheKiB }: ReadFile): OpenHistory {
  const openReader = (): Connection => openReadonlyDatabase({ file, format });
  const first = openReader();
  const sinkId = storedId(first);
  first.close();
  const db = readFile({ file, openReader, cacheKiB });
  return {
    ...ledgerReader(sqliteTables, (work) => db.read(work)),
    sinkId,
    [Symbol.asyncDispose]: async () => await db[Symbol.asyncDispose](),
  };
}

export async function openFileRecords(of: ReadFile): Promise<RecordReader> {
  return await openRecordReader({
    ...(await openSnapshot(of)),
    newestSeq,
  });
}

export async function openFileKeys(of: ReadFile): Promise<KeyReader> {
  return keyReader(await openSnapshot(of));
}

/** A file that is there, and is only read. */
export function readFile({
  file,
  openReader,
  cacheKiB,
}: {
  readonly file: string;
  readonly openReader: () => Connection;
  readonly cacheKiB?: number | undefined;
}): ReadableSqlite {
  return readSqlite({ file, openReader, cacheKiB, explain: (error) => toSinkError(error, file) });
}

async function openSnapshot({ file, format }: ReadFile): Promise<Pick<SinkSnapshot, 'snapshot' | 'records'>> {
  await using db = readFile({ file, openReader: () => openReadonlyDatabase({ file, format }) });
  return { snapshot: await db.openSnapshot(), records: sqliteTables };
}

/**
 * The rows of one reading statement over a SQLite sink's tables. Throws SINK_FAILED when there is no sink, SQLite's own
 * error for a refused statement.
 */
export function querySqliteSink(file: string, sql: string): readonly Readonly<Record<string, ColumnValue>>[] {
  const db = openReadonlyDatabase({ file, format: sqliteFormat });
  try {
    return db.prepare<[], Record<string, ColumnValue>>(sql).all();
  } finally {
    db.close();
  }
}
