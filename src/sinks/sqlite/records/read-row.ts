import type { ConnectorName } from '../../../core/names.ts';
import type { EntityTable } from '../../../core/records.ts';
import type { Tx } from '../../../sql/database.ts';
import { quoted } from '../../../sql/quoted.ts';
import { sqliteTx } from '../../../sql/sqlite/sqlite-tx.ts';
import { tableName } from '../../decisions/stored-table.ts';
import type { StoredRowFacts } from '../../ledger/driver.ts';
import { keyCondition, keyValues } from './table-sql.ts';

/** `RecordTables.row`. */
export async function readRow(
  tx: Tx,
  connector: ConnectorName,
  table: EntityTable,
  keyText: string,
): Promise<StoredRowFacts | undefined> {
  const parts = keyValues(table, keyText);
  if (parts === null) return undefined;
  const statement = await sqliteTx(tx).prepared(
    `SELECT _row AS row, _first_seen_at AS firstSeenAt, _changed_at AS changedAt, _run_id AS run,
       _deleted_at AS deletedAt, _seq AS seq, _partition AS home
     FROM ${quoted(tableName(connector, table.entity))} WHERE ${keyCondition(table)}`,
  );
  return statement.get(...parts) as StoredRowFacts | undefined;
}
