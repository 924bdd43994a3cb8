import type { OpenHow, Sink } from '../sink-access.ts';
import type { RecordTables } from '../ledger/driver.ts';
import { ledgerSink } from '../ledger/ledger-sink.ts';
import { openLedgerFile } from '../sqlite/open-ledger.ts';
import { sqliteTables } from '../sqlite/records/record-tables.ts';
import { lineFiles } from './line-files.ts';
import { dropFiles, jsonlFormat } from './manifest.ts';

/** The ledger in `file` has the records; files below `directory` have their changes as lines. */
export async function openJsonlSink(
  options: OpenHow & { readonly directory: string; readonly file: string },
): Promise<Sink> {
  const ledger = await openLedgerFile({ ...options, format: jsonlFormat, records: jsonlTables });
  return ledgerSink({ ...ledger, ...lineFiles(ledger, options) });
}

const jsonlTables: RecordTables = {
  ...sqliteTables,
  keepsVersions: false,
  // Readers of the files have no use for views.
  renewViews: async () => undefined,
  drop: async (tx, connector, entities) => {
    await sqliteTables.drop(tx, connector, entities);
    await dropFiles(tx, connector, entities);
  },
};
