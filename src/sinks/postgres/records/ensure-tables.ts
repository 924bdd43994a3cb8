import type { ConnectorName } from '../../../core/names.ts';
import type { Column, EntityTable } from '../../../core/records.ts';
import { columnsMissingIn } from '../../decisions/stored-table.ts';
import type { PostgresTx as Tx } from '../../../sql/postgres/session.ts';
import type { TablePlace } from '../../ledger/record-table.ts';
import { dropOwnViews } from './current-views.ts';
import { indexSuffixes, tableAt, tableName } from './names.ts';
import { quoted } from '../../../sql/quoted.ts';
import { checkRoom, usedColumns } from './row-limits.ts';
import { sqlType } from '../column-types.ts';

/**
 * Columns beside the declared ones. A declared name never starts with `_`. `_row` is the row number in the seen rows,
 * `_key` the hash of the key's text, by which rows are found; `_partition` is the row's home.
 */
const ownColumns = `
  _key bytea NOT NULL,
  _extra json,
  _first_seen_at timestamptz NOT NULL,
  _changed_at timestamptz NOT NULL,
  _run_id text COLLATE "C" NOT NULL,
  _seq bigint NOT NULL,
  _hash text COLLATE "C" NOT NULL,
  _volatile_hash text COLLATE "C",
  _deleted_at timestamptz,
  _partition bigint`;

/** `RecordTables.ensure`. */
export async function ensureTable(
  tx: Tx,
  at: string,
  { connector, table, stored }: TablePlace,
): Promise<void> {
  const name = tableAt(at, connector, table.entity);
  const missing = columnsMissingIn(table.columns, stored);
  if (missing.length > 0) {
    checkRoom(connector, table.entity, stored, missing, await usedColumns(tx, name));
  }
  if (stored.length > 0) {
    addColumns(tx, name, missing);
    return;
  }
  await dropOwnViews(tx, at, [tableName(connector, table.entity)]);
  createTable(tx, at, connector, table);
}

/** Only nullable ones: the table is not written anew. */
function addColumns(tx: Tx, name: string, columns: readonly Column[]): void {
  if (columns.length === 0) return;
  const added = columns.map((column) => `ADD COLUMN ${quoted(column.name)} ${sqlType[column.type]}`);
  // It waits for whoever reads the table, and everybody else behind it: so not for long, but several times.
  tx.put(`SET LOCAL lock_timeout = '5s'`);
  tx.put(`ALTER TABLE ${name} ${added.join(', ')}`);
  tx.put(`SET LOCAL lock_timeout = '10s'`);
}

function createTable(tx: Tx, at: string, connector: ConnectorName, table: EntityTable): void {
  const name = tableAt(at, connector, table.entity);
  const columns = table.columns.map(
    ({ name: column, type }) =>
      `${quoted(column)} ${sqlType[type]}${table.key.includes(column) ? ' NOT NULL' : ''}`,
  );
  const index = (suffix: string): string => quoted(`${tableName(connector, table.entity)}${suffix}`);
  tx.put(`CREATE TABLE ${name} (_row bigint PRIMARY KEY, ${[...columns, ownColumns].join(', ')})`);
  tx.put(`CREATE UNIQUE INDEX ${index(indexSuffixes.key)} ON ${name} (_key)`);
  tx.put(`CREATE INDEX ${index(indexSuffixes.seq)} ON ${name} (_seq)`);
  tx.put(`CREATE INDEX ${index(indexSuffixes.home)} ON ${name} (_partition, _row) WHERE _deleted_at IS NULL`);
}
