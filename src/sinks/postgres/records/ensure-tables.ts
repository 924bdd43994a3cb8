import type { ConnectorName, EntityName } from '../../../core/names.ts';
import type { Column, EntityTable } from '../../../core/records.ts';
import { columnsMissingIn, type DeclaredTable } from '../../decisions/stored-table.ts';
import type { PlannedTable } from '../../ledger/ledger.ts';
import type { Tx } from '../../../sql/postgres/session.ts';
import type { Stamp } from '../../ledger/stamp.ts';
import { declareTables } from '../../ledger/tables.ts';
import { dropOwnViews } from './current-views.ts';
import { fillFromExtra } from './fill-from-extra.ts';
import { indexSuffixes, tableAt, tableName } from './names.ts';
import { quoted } from '../../../sql/quoted.ts';
import { openRecordTable } from './open-record-table.ts';
import { checkRoom, usedColumns } from './row-limits.ts';
import { sqlType } from '../../../sql/postgres/types.ts';

/**
 * Columns beside the declared ones. A declared name never starts with `_`. `_row` is the row number in the seen rows, `_key` the hash of the
 * key's text, by which rows are found; `_partition` is the row's home.
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

/**
 * Makes the tables of a plan's entities, or adds the columns that they lack and moves into those what `_extra` holds for them. Throws
 * `SyncError` SINK_INCOMPATIBLE for another key, a column of another type, or more columns than a table has room for.
 */
export async function ensureTables(
  tx: Tx,
  at: string,
  connector: ConnectorName,
  tables: readonly EntityTable[],
  stamp: Stamp,
): Promise<ReadonlyMap<EntityName, PlannedTable>> {
  const changes = await declareTables(tx, at, connector, tables);
  const planned = new Map<EntityName, PlannedTable>();
  for (const [index, table] of tables.entries()) {
    const { stored, filled }: Pick<DeclaredTable, 'stored' | 'filled'> = changes[index] ?? {
      stored: [],
      filled: [],
    };
    const name = tableAt(at, connector, table.entity);
    const missing = columnsMissingIn(table.columns, stored);
    if (missing.length > 0) {
      checkRoom(connector, table.entity, stored, missing, await usedColumns(tx, name));
    }
    if (stored.length === 0) await dropOwnViews(tx, at, [tableName(connector, table.entity)]);
    if (stored.length === 0) createTable(tx, at, connector, table);
    else addColumns(tx, name, missing);
    await fillFromExtra(tx, name, filled, stamp);
    const place = { at, connector, table, stored };
    planned.set(table.entity, { table: openRecordTable(place), width: table.columns.length });
  }
  return planned;
}

/** Only nullable ones: the table is not written anew. */
export function addColumns(tx: Tx, name: string, columns: readonly Column[]): void {
  if (columns.length === 0) return;
  const added = columns.map((column) => `ADD COLUMN ${quoted(column.name)} ${sqlType[column.type]}`);
  // It waits for whoever reads the table, and everybody else behind it: so not for long, but several times.
  tx.put(`SET LOCAL lock_timeout = '5s'`);
  tx.put(`ALTER TABLE ${name} ${added.join(', ')}`);
  tx.put(`SET LOCAL lock_timeout = '10s'`);
}

export function createTable(tx: Tx, at: string, connector: ConnectorName, table: EntityTable): void {
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
