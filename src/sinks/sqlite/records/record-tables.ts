import type { Column } from '../../../core/records.ts';
import type { Tx } from '../../../sql/database.ts';
import { quoted } from '../../../sql/quoted.ts';
import { sqliteTx } from '../../../sql/sqlite/sqlite-tx.ts';
import type { CopiedRecord } from '../../copies.ts';
import { columnsMissingIn, tableName } from '../../decisions/stored-table.ts';
import type { RecordTables } from '../../ledger/driver.ts';
import type { Stamp } from '../../ledger/record-table.ts';
import { dropOwnViews, dropViewsOf, renewCurrentViews } from '../../records/current-views.ts';
import { fillFromExtra, fittingColumns, type MovedRow } from '../../records/fill-from-extra.ts';
import { rowFactsSql } from '../../records/mark-rows.ts';
import { readWhole, wholeCells, wholeColumns } from '../../records/whole-rows.ts';
import { views } from './current-views.ts';
import { openRecordTable } from './open-record-table.ts';
import { addColumnSql, createTableSql, keyValues } from './table-sql.ts';

/** Tables of records in the file that has the ledger. */
export const sqliteTables: RecordTables = {
  tableName,
  open: openRecordTable,
  ensure: async (tx, { connector, table, stored }) => {
    const name = tableName(connector, table.entity);
    if (stored.length === 0) await dropOwnViews(tx, views, [name]);
    const statements =
      stored.length === 0
        ? createTableSql(name, table)
        : columnsMissingIn(table.columns, stored).map((column) => addColumnSql(name, column));
    for (const statement of statements) tx.put(statement);
  },
  fitting: async (tx, { connector, table }, columns) =>
    await fittingColumns(tx, quoted(tableName(connector, table.entity)), columns),
  fill: async (tx, { connector, table }, columns, stamp) => {
    const name = quoted(tableName(connector, table.entity));
    await fillFromExtra(tx, name, columns, stamp, (moved) => writeMoved(tx, name, columns, moved, stamp));
  },
  renewViews: async (tx, connector) => await renewCurrentViews(tx, views, connector),
  drop: async (tx, connector, entities) => {
    const names = entities.map((entity) => tableName(connector, entity));
    await dropViewsOf(tx, views, names);
    for (const name of names) await tx.run(`DROP TABLE IF EXISTS ${quoted(name)}`);
  },
  row: async (tx, connector, table, keyText) => {
    const parts = keyValues(table, keyText);
    if (parts === null) return undefined;
    const condition = table.key.map((column, index) => `${quoted(column)} = :k${index}`).join(' AND ');
    return await tx.first(
      rowFactsSql(quoted(tableName(connector, table.entity)), condition),
      Object.fromEntries(parts.map((part, index) => [`k${index}`, part])),
    );
  },
  readWhole: async (tx, connector, { entity, stored }, after, limit) =>
    await readWhole(tx, quoted(tableName(connector, entity)), stored, { after, limit }),
  writeWhole: async (tx, connector, { entity, stored }, rows, shift) =>
    await writeWhole(tx, quoted(tableName(connector, entity)), stored, { rows, shift }),
};

async function writeMoved(
  tx: Tx,
  name: string,
  columns: readonly Column[],
  moved: readonly MovedRow[],
  { now, run }: Stamp,
): Promise<void> {
  const sets = columns.map(({ name: column }) => `${quoted(column)} = iif(?, ?, ${quoted(column)})`);
  const fill = await sqliteTx(tx).prepared(
    `UPDATE ${name} SET ${sets.join(', ')}, _extra = ? WHERE _row = ?`,
  );
  const note = await sqliteTx(tx).prepared(
    `UPDATE ${name} SET _changed_at = ?, _run_id = ?, _seq = ? WHERE _row = ?`,
  );
  for (const { row, values, extra, seq } of moved) {
    const cells = values.flatMap((value) => [Number(value !== undefined), value ?? null]);
    fill.run(cells, extra, row);
    if (seq !== null) note.run(now, run, seq, row);
  }
}

async function writeWhole(
  tx: Tx,
  name: string,
  stored: readonly Column[],
  { rows, shift }: { readonly rows: readonly CopiedRecord[]; readonly shift: number },
): Promise<void> {
  if (rows.length === 0) return;
  const columns = [...wholeColumns, ...stored.map((column) => quoted(column.name))];
  const statement = await sqliteTx(tx).prepared(
    `INSERT INTO ${name} (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')})`,
  );
  for (const row of rows) statement.run(wholeCells(row, shift), row.values);
}
