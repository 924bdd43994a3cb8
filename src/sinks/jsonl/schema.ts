import { fromVersion7 } from '../sqlite/from-version-7.ts';
import type { LedgerFormat } from '../sqlite/open-database.ts';
import { commonFormat, sqliteLedgerSql, tablesSql } from '../sqlite/schema.ts';
import { addPartialFiles, filesSql } from './file-list.ts';
import { importRecords, lastRowOf, readAgainWhatIsLost } from './from-key-tables.ts';

/** The ledger of a JSONL sink. */
export const jsonlFormat: LedgerFormat = {
  ...commonFormat,
  kind: 'jsonl',
  sql: `${tablesSql}${filesSql}`,
  migrate: (db) => {
    fromVersion7(db, sqliteLedgerSql, (connector, entity) => lastRowOf(db, connector, entity));
    addPartialFiles(db);
    readAgainWhatIsLost(db, importRecords(db));
  },
};
