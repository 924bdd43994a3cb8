import type { Tx } from '../../../sql/database.ts';
import { columnsMissingIn, tableName } from '../../decisions/stored-table.ts';
import type { TablePlace } from '../../ledger/record-table.ts';
import { dropOwnView } from './current-views.ts';
import { addColumnSql, createTableSql } from './table-sql.ts';

/** `RecordTables.ensure`. */
export async function ensureTable(tx: Tx, { connector, table, stored }: TablePlace): Promise<void> {
  const name = tableName(connector, table.entity);
  if (stored.length === 0) await dropOwnView(tx, name);
  const statements =
    stored.length === 0
      ? createTableSql(name, table)
      : columnsMissingIn(table.columns, stored).map((column) => addColumnSql(name, column));
  for (const statement of statements) await tx.run(statement);
}
