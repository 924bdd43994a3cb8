import type { Column } from '../../../core/records.ts';
import { cellOf, type Tx } from '../../../sql/database.ts';
import { quoted } from '../../../sql/quoted.ts';
import { sqliteTx } from '../../../sql/sqlite/sqlite-tx.ts';
import type { Stamp } from '../../ledger/record-table.ts';
import type { MovedRow } from '../../records/fill-from-extra.ts';
import { asOfName, historyName, versionsName } from '../../records/own-names.ts';
import { recordTables, type TableDialect } from '../../records/record-tables.ts';
import { sqliteViews } from './current-views.ts';
import { keyValues, openRecordTable } from './open-record-table.ts';

const { tableName } = sqliteViews;

export const sqliteTableDialect: TableDialect = {
  ...sqliteViews,
  types: {
    string: 'TEXT',
    integer: 'INTEGER',
    number: 'REAL',
    boolean: 'INTEGER',
    object: 'TEXT',
    array: 'TEXT',
    any: 'TEXT',
    time: 'TEXT',
    flag: 'INTEGER',
    bytes: 'BLOB',
  },
  tableEnding: ' STRICT',
  moreOwn: [],
  keyColumns: ({ key }) => key,
  ownerIndexEnding: '',
  replacesViews: false,
  open: openRecordTable,
  // `WHERE _as_of = unixepoch('2026-03-01')`: a view has no parameters, but a function in it takes what a query
  // compares its hidden column with.
  asOfSql: (name) => {
    const moment = `strftime('%Y-%m-%dT%H:%M:%fZ', at.value, 'unixepoch')`;
    return `CREATE VIEW ${quoted(asOfName(name))} AS
    SELECT h.*, at.json AS _as_of FROM json_each AS at CROSS JOIN ${quoted(historyName(name))} AS h
    WHERE h._valid_from <= ${moment} AND (h._valid_to > ${moment} OR h._valid_to IS NULL) AND h._deleted_at IS NULL`;
  },
  dropAsOfSql: (name) => `DROP VIEW IF EXISTS ${quoted(asOfName(name))}`,
  addColumns: (tx, name, definitions) => {
    for (const definition of definitions) tx.put(`ALTER TABLE ${name} ADD COLUMN ${definition}`);
  },
  atKey: (table, keyText) => {
    const parts = keyValues(table, keyText);
    return (
      parts && {
        condition: table.key.map((column, index) => `${quoted(column)} = :k${index}`).join(' AND '),
        values: Object.fromEntries(parts.map((part, index) => [`k${index}`, part])),
      }
    );
  },
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
  insertRows: async (tx, { name, columns }, rows) => {
    if (rows.length === 0) return;
    const statement = await sqliteTx(tx).prepared(
      `INSERT INTO ${quoted(name)} (${columns.map((column) => quoted(column.name)).join(', ')})
       VALUES (${columns.map(() => '?').join(', ')})`,
    );
    for (const cells of rows) statement.run(cells);
  },
  writeMoved,
};

/** Tables of records in the file that has the ledger. */
export const sqliteTables = recordTables(sqliteTableDialect);

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
