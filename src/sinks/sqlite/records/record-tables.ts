import type { Column } from '../../../core/records.ts';
import { cellOf, type Tx } from '../../../sql/database.ts';
import { quoted } from '../../../sql/quoted.ts';
import { sqliteTx } from '../../../sql/sqlite/sqlite-tx.ts';
import { columnsMissingIn, tableName } from '../../decisions/stored-table.ts';
import type { RecordTables } from '../../ledger/driver.ts';
import type { Stamp } from '../../ledger/record-table.ts';
import { dropOwnViews, dropViewsOf, renewCurrentViews } from '../../records/current-views.ts';
import { fillFromExtra, fittingColumns, type MovedRow } from '../../records/fill-from-extra.ts';
import { rowFactsSql } from '../../records/mark-rows.ts';
import { retypeColumns } from '../../records/retype-columns.ts';
import { views } from './current-views.ts';
import { openRecordTable } from './open-record-table.ts';
import { versionsName } from '../../records/version-names.ts';
import { addColumnSql, createTableSql, keyValues, sqlType } from './table-sql.ts';
import { createViews, dropViews, ensureVersions } from './version-tables.ts';

/** Tables of records in the file that has the ledger. */
export const sqliteTables: RecordTables = {
  tableName,
  open: openRecordTable,
  keepsVersions: true,
  ensure: async (tx, place) => {
    const { connector, table, stored } = place;
    const name = tableName(connector, table.entity);
    if (stored.length === 0) await dropOwnViews(tx, views, [name]);
    const statements =
      stored.length === 0
        ? createTableSql(name, table)
        : columnsMissingIn(table.columns, stored).map((column) => addColumnSql(name, column));
    for (const statement of statements) tx.put(statement);
    ensureVersions(tx, name, place);
  },
  retype: async (tx, { connector, table, stored, versions }, columns, to) => {
    const name = tableName(connector, table.entity);
    await dropViewsOf(tx, views, [name]);
    dropViews(tx, name);
    await retypeColumns(tx, { name, isVersioned: versions !== undefined }, columns, sqlType[to]);
    if (versions === undefined) return;
    createViews(tx, name, [...stored, ...columnsMissingIn(table.columns, stored)]);
  },
  fitting: async (tx, { connector, table }, columns) =>
    await fittingColumns(tx, quoted(tableName(connector, table.entity)), columns),
  fill: async (tx, place, columns, stamp) =>
    await fillFromExtra(
      tx,
      tableName(place.connector, place.table.entity),
      place,
      columns,
      stamp,
      writeMoved,
    ),
  renewViews: async (tx, connector) => await renewCurrentViews(tx, views, connector),
  clear: async (tx, connector, entity, limit) => {
    const name = tableName(connector, entity);
    for (const [table, key] of [
      [versionsName(name), '_seq_to'],
      [name, '_row'],
    ] as const) {
      if (!(await isTable(tx, table))) continue;
      const some = `SELECT ${key} FROM ${quoted(table)} LIMIT :limit`;
      const dropped = await tx.run(`DELETE FROM ${quoted(table)} WHERE ${key} IN (${some})`, { limit });
      if (dropped > 0) return dropped;
    }
    return 0;
  },
  drop: async (tx, connector, entities) => {
    const names = entities.map((entity) => tableName(connector, entity));
    await dropViewsOf(tx, views, names);
    for (const name of names) {
      dropViews(tx, name);
      tx.put(`DROP TABLE IF EXISTS ${quoted(versionsName(name))}`);
      await tx.run(`DROP TABLE IF EXISTS ${quoted(name)}`);
    }
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
  insertRows: async (tx, { name, columns }, rows) => {
    if (rows.length === 0) return;
    const statement = await sqliteTx(tx).prepared(
      `INSERT INTO ${quoted(name)} (${columns.map((column) => quoted(column.name)).join(', ')})
       VALUES (${columns.map(() => '?').join(', ')})`,
    );
    for (const cells of rows) statement.run(cells);
  },
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

/** Tables of versions are made where versions are kept. */
async function isTable(tx: Tx, name: string): Promise<boolean> {
  return (await cellOf(tx, 'SELECT 1 FROM sqlite_schema WHERE name = :name', { name })) !== undefined;
}
