import type { CellColumn, CellTable, RecordTables } from '../ledger/driver.ts';
import type { ConnectorName } from '../../core/names.ts';
import type { Column, EntityTable } from '../../core/records.ts';
import { quoted } from '../../sql/database.ts';

/* Beside the table of an entity. No entity has two underscores in its name; no index of a table has a longer suffix. */

/** The table of closed versions. */
export function versionsName(table: string): string {
  return `${table}__versions`;
}

/** The view of all versions. */
export function historyName(table: string): string {
  return `${table}__history`;
}

/** The suffixes of an entity's index names, after the table's name. */
export const indexSuffixes = { key: '__key', seq: '__seq', owner: '__partition' } as const;

/** A column of the sink's own, beside those of records, whose names never start with `_`. */
export interface OwnColumn extends CellColumn {
  readonly isKey?: true;
  readonly isRequired?: boolean;
}

/** `_row` is the row's number in the seen rows, `_partition` its owner. */
export const rowOwn: readonly OwnColumn[] = [
  { name: '_row', type: 'integer', isKey: true },
  { name: '_extra', type: 'any' },
  { name: '_first_seen_at', type: 'time', isRequired: true },
  { name: '_changed_at', type: 'time', isRequired: true },
  { name: '_run_id', type: 'string', isRequired: true },
  { name: '_seq', type: 'integer', isRequired: true },
  { name: '_hash', type: 'string', isRequired: true },
  { name: '_deleted_at', type: 'time' },
  { name: '_partition', type: 'integer' },
];

/** Added to a table when its rows get versions. */
export const versionedOwn: readonly OwnColumn[] = [
  { name: '_valid_from', type: 'time' },
  { name: '_valid_seq', type: 'integer' },
];

/** Columns of closed versions. */
export const versionOwn: readonly OwnColumn[] = [
  { name: '_seq_to', type: 'integer', isKey: true },
  { name: '_row', type: 'integer', isRequired: true },
  { name: '_seq', type: 'integer', isRequired: true },
  { name: '_valid_from', type: 'time', isRequired: true },
  { name: '_valid_to', type: 'time', isRequired: true },
  { name: '_run_id', type: 'string', isRequired: true },
  { name: '_deleted_at', type: 'time' },
  { name: '_hash', type: 'string', isRequired: true },
  { name: '_extra', type: 'any' },
];

/** A table of an entity's rows, or of their closed versions: the sink's own columns, then those of records. */
export interface RowsTable extends CellTable {
  readonly stored: readonly Column[];
  /** The column that numbers its rows. */
  readonly number: '_row' | '_seq_to';
}

type Names = Pick<RecordTables, 'tableName'>;
interface OfTable extends Pick<EntityTable, 'entity' | 'key'> {
  readonly stored: readonly Column[];
  readonly hasVersions: boolean;
}

export function rowsTable(records: Names, connector: ConnectorName, table: OfTable): RowsTable {
  const { entity, key, stored, hasVersions } = table;
  const columns = [...rowOwn, ...(hasVersions ? versionedOwn : []), ...stored];
  return { name: records.tableName(connector, entity), key, columns, stored, number: '_row' };
}

export function versionsTable(records: Names, connector: ConnectorName, table: OfTable): RowsTable {
  const { entity, stored } = table;
  const name = versionsName(records.tableName(connector, entity));
  return { name, key: null, columns: [...versionOwn, ...stored], stored, number: '_seq_to' };
}

/** The rows by their numbers, cells in the order of the columns. */
export function selectCells({ name, columns, number }: RowsTable, where = 'true'): string {
  const cells = columns.map((column, index) => `${quoted(column.name)} AS c${index}`);
  return `SELECT ${cells.join(', ')} FROM ${quoted(name)} WHERE ${where} ORDER BY ${number}`;
}
