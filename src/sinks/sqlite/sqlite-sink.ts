import { ledgerSink } from '../ledger/ledger-sink.ts';
import type { OpenHow } from '../sink-access.ts';
import type { Sink } from '../sink.ts';
import { openLedgerFile } from './open-ledger.ts';
import { sqliteTables } from './records/record-tables.ts';
import { sqliteFormat } from './schema.ts';

/** Records as tables of one SQLite file, which holds the ledger too. */
export async function openSqliteSink(options: OpenHow & { readonly file: string }): Promise<Sink> {
  return ledgerSink(await openLedgerFile({ ...options, format: sqliteFormat, records: sqliteTables() }));
}
