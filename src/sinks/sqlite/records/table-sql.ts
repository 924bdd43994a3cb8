import { keyPartsOf } from '../../../core/json-text.ts';
import type { Column, ColumnValue, EntityTable, FieldType } from '../../../core/records.ts';
import { quoted } from '../../../sql/quoted.ts';

/**
 * Columns beside the declared ones, none of which starts with `_`. `_row`: number in the seen rows; `_partition`:
 * owner.
 */
const ownColumns = `
  _extra TEXT,
  _first_seen_at TEXT NOT NULL,
  _changed_at TEXT NOT NULL,
  _run_id TEXT NOT NULL,
  _seq INTEGER NOT NULL,
  _hash TEXT NOT NULL,
  _volatile_hash TEXT,
  _deleted_at TEXT,
  _partition INTEGER`;

export const sqlType: Readonly<Record<FieldType, string>> = {
  string: 'TEXT',
  integer: 'INTEGER',
  number: 'REAL',
  boolean: 'INTEGER',
  object: 'TEXT',
  array: 'TEXT',
  any: 'TEXT',
};

/** The statements that make an entity's table. */
export function createTableSql(name: string, table: Pick<EntityTable, 'columns' | 'key'>): readonly string[] {
  const key = new Set(table.key);
  const columns = table.columns.map(
    (column) => `${quoted(column.name)} ${sqlType[column.type]}${key.has(column.name) ? ' NOT NULL' : ''}`,
  );
  const keyColumns = table.key.map(quoted).join(', ');
  return [
    `CREATE TABLE ${quoted(name)} (_row INTEGER PRIMARY KEY, ${columns.join(', ')}, ${ownColumns}) STRICT`,
    `CREATE UNIQUE INDEX ${quoted(`${name}__key`)} ON ${quoted(name)} (${keyColumns})`,
    `CREATE INDEX ${quoted(`${name}__seq`)} ON ${quoted(name)} (_seq)`,
    `CREATE INDEX ${quoted(ownerIndexName(name))} ON ${quoted(name)} (_partition, _row)`,
  ];
}

export function addColumnSql(name: string, column: Column): string {
  return `ALTER TABLE ${quoted(name)} ADD COLUMN ${quoted(column.name)} ${sqlType[column.type]}`;
}

export function ownerIndexName(table: string): string {
  return `${table}__partition`;
}

/** A row by its key, with `?` for each part. */
export function keyCondition({ key }: Pick<EntityTable, 'key'>): string {
  return key.map((column) => `${quoted(column)} = ?`).join(' AND ');
}

/**
 * What `keyCondition` compares with; null for a text that is no key of the table, such as one with an integer beyond 64
 * bits.
 */
export function keyValues({ key }: Pick<EntityTable, 'key'>, keyText: string): readonly ColumnValue[] | null {
  const parts = keyPartsOf(keyText, key.length);
  const isStorable = (part: ColumnValue): boolean =>
    typeof part !== 'bigint' || BigInt.asIntN(64, part) === part;
  return parts?.every(isStorable) === true ? parts : null;
}
