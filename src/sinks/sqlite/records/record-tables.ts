import { quoted } from '../../../sql/quoted.ts';
import { viewNames } from '../../decisions/current-view.ts';
import { tableName, columnsMissingIn } from '../../decisions/stored-table.ts';
import type { RecordTables, StoredRowFacts } from '../../ledger/driver.ts';
import { dropOwnView, renewCurrentViews } from './current-views.ts';
import { fillFromExtra, fittingColumns } from './fill-from-extra.ts';
import { openRecordTable } from './open-record-table.ts';
import { readWhole, writeWhole } from './whole-rows.ts';
import type { Tx } from '../../../sql/database.ts';
import type { TablePlace } from '../../ledger/record-table.ts';
import { addColumnSql, createTableSql, keyCondition, keyValues } from './table-sql.ts';
import type { ConnectorName } from '../../../core/names.ts';
import type { EntityTable } from '../../../core/records.ts';
import { sqliteTx } from '../../../sql/sqlite/sqlite-tx.ts';

/** Tables of records in the file that has the ledger. */
export function sqliteTables(): RecordTables {
  return {
    tableName,
    open: openRecordTable,
    ensure: ensureTable,
    fitting: async (tx, { connector, table }, columns) =>
      await fittingColumns(tx, tableName(connector, table.entity), columns),
    fill: async (tx, { connector, table }, columns, stamp) =>
      await fillFromExtra(tx, tableName(connector, table.entity), columns, stamp),
    renewViews: renewCurrentViews,
    drop: async (tx, connector, entities) => {
      for (const name of entities.map((entity) => tableName(connector, entity))) {
        for (const view of viewNames(name, new Set())) await dropOwnView(tx, view);
        await tx.run(`DROP TABLE IF EXISTS ${quoted(name)}`);
      }
    },
    row: readRow,
    readWhole: async (tx, connector, table, after, limit) =>
      await readWhole(tx, connector, table, { after, limit }),
    writeWhole: async (tx, connector, table, rows, shift) =>
      await writeWhole(tx, connector, table, { rows, shift }),
  };
}

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
