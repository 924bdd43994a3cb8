import { sqliteDdl } from '../../sql/sqlite/sqlite-ddl.ts';
import { ledgerSql } from '../ledger/schema.ts';

/**
 * The ledger's tables in SQLite. The index of listings inside trees also says which are due, as it did in earlier versions of the file: each of them that is
 * sealed asks for one that is not yet, and a tree may have many thousands.
 */
export const sqliteLedgerSql = sqliteDdl(ledgerSql).replace(
  'ON _sync_partitions (tree) WHERE',
  'ON _sync_partitions (tree, due_since) WHERE',
);
