import { fromVersion7 } from '../sqlite/from-version-7.ts';
import type { LedgerFormat } from '../sqlite/open-database.ts';
import { commonFormat, tablesSql } from '../sqlite/schema.ts';
import { filesSql } from './file-list.ts';
import { importRecords, lastRowOf, readAgainWhatIsLost } from './from-key-tables.ts';

/** The ledger of a JSONL sink. */
export const jsonlFormat: LedgerFormat = {
  ...commonFormat,
  kind: 'jsonl',
  sql: `${tablesSql}${filesSql}`,
  migrate: (db) => {
    fromVersion7(db, (connector, entity) => lastRowOf(db, connector, entity));
    db.exec('ALTER TABLE _sync_files ADD COLUMN is_partial INTEGER NOT NULL DEFAULT 0');
    readAgainWhatIsLost(db, importRecords(db));
  },
};
