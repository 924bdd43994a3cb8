import type { EntityTable } from '../../core/records.ts';
import { tableName, type TablePlace } from '../ledger/record-store.ts';
import { columnsMissingIn } from '../ledger/tables.ts';
import { homeIndexName } from './ensure-table.ts';
import { quoted } from './quoted.ts';

/** The statements of a record's way into its table; its key is bound in the order of the columns. */
export function recordSql(
  place: Pick<TablePlace, 'connector' | 'table' | 'stored'>,
): Record<'find' | 'insert' | 'update', string> {
  const { table, stored } = place;
  const name = quoted(tableName(place.connector, table.entity));
  const columns = table.columns.map((column) => quoted(column.name));
  const isKey = table.columns.filter((column) => table.key.includes(column.name));
  const rest = columnsMissingIn(table.columns, isKey);
  const gone = columnsMissingIn(stored, table.columns);
  // Key columns are not set by an update: naming them would touch their index. Undeclared columns lose their old value.
  const sets = [
    ...rest.map((column) => `${quoted(column.name)} = ?`),
    ...gone.map((column) => `${quoted(column.name)} = NULL`),
  ];
  const marks = columns.map(() => '?').join(', ');
  return {
    find: `SELECT _row AS row, _hash AS hash, _volatile_hash AS volatileHash, _changed_at AS changedAt,
             _deleted_at AS deletedAt, _partition AS home
           FROM ${name} WHERE ${isKey.map((column) => `${quoted(column.name)} = ?`).join(' AND ')}`,
    insert: `INSERT INTO ${name} (${columns.join(', ')}, _extra, _first_seen_at, _changed_at, _run_id, _seq, _hash,
               _volatile_hash, _partition)
             VALUES (${marks}, ?, ?, ?, ?, ?, ?, ?, ?)`,
    update: `UPDATE ${name} SET ${[...sets, '_extra = ?'].join(', ')}, _changed_at = ?, _run_id = ?, _seq = ?, _hash = ?,
               _volatile_hash = ?, _deleted_at = NULL
             WHERE _row = ?`,
  };
}

/** The statements about rows that are stored, by row number, key or home; keys are in the order of `table.key`. */
export function rowSql({
  connector,
  table,
}: Pick<TablePlace, 'connector' | 'table'>): Record<RowStatement, string> {
  const plain = tableName(connector, table.entity);
  const name = quoted(plain);
  const stamped = '_changed_at = ?, _run_id = ?, _seq = ? WHERE _row = ?';
  const keyed = `SELECT _row, _changed_at, _deleted_at, _partition, ${table.key.map(quoted).join(', ')} FROM ${name}`;
  return {
    setHome: `UPDATE ${name} SET _partition = ? WHERE _row = ?`,
    liveRows: liveRowsSql(plain),
    liveBefore: `SELECT _row FROM ${name} WHERE _first_seen_at < ? AND _row > ? AND _deleted_at IS NULL ORDER BY _row LIMIT ?`,
    row: `${keyed} WHERE _row = ?`,
    rowOf: `${keyed} WHERE ${keyCondition(table)}`,
    tombstone: `UPDATE ${name} SET _deleted_at = ?, ${stamped}`,
    revive: `UPDATE ${name} SET _deleted_at = NULL, ${stamped}`,
    tombstonedBy: `SELECT _row FROM ${name} WHERE _deleted_at IS NOT NULL AND _run_id = ? ORDER BY _row LIMIT ?`,
  };
}

/** Rows without a tombstone of one home, by row number. */
export function liveRowsSql(table: string): string {
  return `SELECT _row AS row, _changed_at AS changedAt FROM ${quoted(table)} INDEXED BY ${quoted(homeIndexName(table))}
          WHERE _partition = ? AND _row > ? AND _deleted_at IS NULL ORDER BY _row LIMIT ?`;
}

export function keyCondition({ key }: Pick<EntityTable, 'key'>): string {
  return key.map((column) => `${quoted(column)} = ?`).join(' AND ');
}

type RowStatement =
  'setHome' | 'liveRows' | 'liveBefore' | 'row' | 'rowOf' | 'tombstone' | 'revive' | 'tombstonedBy';
