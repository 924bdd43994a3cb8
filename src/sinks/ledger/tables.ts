import type { DescribedTable } from '../../core/described-table.ts';
import type { ConnectorName, EntityName, RunId } from '../../core/names.ts';
import type { Column, EntityTable } from '../../core/records.ts';
import {
  declareTable,
  withAdded,
  type DeclaredTable,
  type KnownTable,
  type TableColumns,
} from '../decisions/stored-table.ts';
import { parseColumns, parseNames, writeColumns, writeDescribed } from '../stored-json.ts';
import type { RowsOf } from './day-account.ts';
import type { RecordTables } from './driver.ts';
import type { Tx } from '../../sql/database.ts';

/** The columns of a table that was declared, as the ledger has them. */
export interface TableAccount {
  /** Rows without a tombstone. */
  readonly stored: number;
  /** Since when the rows are those of another address, which no full run has agreed with; null where none are. */
  readonly adoptedAt: string | null;
}

interface TableRow {
  readonly key: string;
  readonly stored: string;
  readonly declared: string;
  readonly evolved: string;
  readonly asOf: string | null;
}

/* `_sync_tables`: the columns each entity's table has had, how many rows are in it, and how old they are at most. */

/** Without those that were never declared. */
export async function knownTables(
  tx: Tx,
  connector: ConnectorName,
  entities: readonly EntityName[],
): Promise<ReadonlyMap<EntityName, KnownTable>> {
  const rows = await tx.rows<TableRow & { readonly entity: EntityName }>(
    `SELECT entity, key, stored, declared, evolved, as_of FROM _sync_tables
     WHERE connector = :connector AND entity IN {entities text}`,
    { connector, entities },
  );
  return new Map(rows.map((row) => [row.entity, readTable(row)]));
}

/**
 * Notes the declared columns; gives those that each table already has and those to be filled from `_extra`, in the order given.
 * Throws `SyncError` SINK_INCOMPATIBLE for another key or a column of another type.
 */
export async function declareTables(
  tx: Tx,
  records: Pick<RecordTables, 'tableName'>,
  connector: ConnectorName,
  tables: readonly EntityTable[],
): Promise<readonly DeclaredTable[]> {
  const entities = tables.map(({ entity }) => entity);
  const known = await knownTables(tx, connector, entities);
  const changes: DeclaredTable[] = [];
  for (const table of tables) {
    const before = known.get(table.entity);
    const declared = declareTable(connector, table, before);
    await save(tx, connector, table.entity, {
      name: records.tableName(connector, table.entity),
      before,
      after: declared.columns,
    });
    changes.push(declared);
  }
  return changes;
}

/** Notes columns that were added for undeclared fields; they are declared from now on. */
export async function addEvolved(
  tx: Tx,
  connector: ConnectorName,
  entity: EntityName,
  columns: readonly Column[],
): Promise<void> {
  const before = (await knownTables(tx, connector, [entity])).get(entity);
  if (before === undefined || columns.length === 0) return;
  await save(tx, connector, entity, { name: '', before, after: withAdded(before, columns) });
}

/** What the definition says of tables that are there. */
export async function describeTables(
  tx: Tx,
  connector: ConnectorName,
  tables: readonly DescribedTable[],
): Promise<void> {
  if (tables.length === 0) return;
  await tx.run(
    `UPDATE _sync_tables AS t SET described = v.described
     FROM {v: entity text, described text}
     WHERE t.connector = :connector AND t.entity = v.entity AND t.described <> v.described`,
    { connector, v: tables.map((table) => ({ entity: table.entity, described: writeDescribed(table) })) },
  );
}

async function save(
  tx: Tx,
  connector: ConnectorName,
  entity: EntityName,
  {
    name,
    before,
    after,
  }: {
    /** Of a table that is not noted yet. */
    readonly name: string;
    readonly before: TableColumns | undefined;
    readonly after: TableColumns;
  },
): Promise<void> {
  const texts = textsOf(after);
  if (before !== undefined && JSON.stringify(textsOf(before)) === JSON.stringify(texts)) return;
  await tx.run(
    `INSERT INTO _sync_tables (connector, entity, name, key, stored, declared, evolved, rows)
     VALUES (:connector, :entity, :name, :key, :stored, :declared, :evolved, 0)
     ON CONFLICT (connector, entity) DO UPDATE SET stored = excluded.stored, declared = excluded.declared,
       evolved = excluded.evolved`,
    { connector, entity, name, key: JSON.stringify(after.key), ...texts },
  );
}

function textsOf({
  stored,
  declared,
  evolved,
}: TableColumns): Record<'stored' | 'declared' | 'evolved', string> {
  return {
    stored: writeColumns(stored),
    declared: writeColumns(declared),
    evolved: writeColumns(evolved),
  };
}

function readTable({ key, stored, declared, evolved, asOf }: TableRow): KnownTable {
  return {
    key: parseNames(key),
    stored: parseColumns(stored),
    declared: parseColumns(declared),
    evolved: parseColumns(evolved).map((column) => ({ ...column, isEvolved: true })),
    asOf,
  };
}

/** Tombstones. Each entity once. */
export function addDeleted(tx: Tx, connector: ConnectorName, deleted: readonly RowsOf[]): void {
  if (deleted.length === 0) return;
  tx.put(
    `UPDATE _sync_tables AS t SET deleted = deleted + v.rows
     FROM {v: entity text, rows bigint}
     WHERE t.connector = :connector AND t.entity = v.entity`,
    { connector, v: deleted },
  );
}

/** Rows without a tombstone, and since when they are those of another address. */
export async function tableAccounts(
  tx: Tx,
  connector: ConnectorName,
): Promise<ReadonlyMap<EntityName, TableAccount>> {
  const rows = await tx.rows<TableAccount & { readonly entity: EntityName }>(
    `SELECT entity, rows - deleted AS stored, adopted_at FROM _sync_tables WHERE connector = :connector`,
    { connector },
  );
  return new Map(rows.map(({ entity, ...account }) => [entity, account]));
}

/** A full run has met every row of these, so adopted ones are those of the new address. */
export function agreed(tx: Tx, connector: ConnectorName, entities: readonly EntityName[]): void {
  tx.put(
    `UPDATE _sync_tables SET adopted_at = NULL
     WHERE connector = :connector AND entity IN {entities text} AND adopted_at IS NOT NULL`,
    { connector, entities },
  );
}

/**
 * The chain of this run has read all of these entities, whose records come from walks of `walked`. As old as the chain, then;
 * unless it began in the middle of one, because that one's first half is older. The chain's first run may be past its retention: then nothing is
 * known of its start.
 */
export function wasRead(
  tx: Tx,
  connector: ConnectorName,
  run: RunId,
  read: readonly { readonly entity: EntityName; readonly walked: EntityName }[],
): void {
  if (read.length === 0) return;
  tx.put(
    `UPDATE _sync_tables AS t SET as_of = coalesce(
       (SELECT first.started_at FROM _sync_runs AS run JOIN _sync_runs AS first ON first.number = run.origin
        WHERE run.run = :run AND run.origin IS DISTINCT FROM
          (SELECT walk.taken_over FROM _sync_tables AS walk
           WHERE walk.connector = :connector AND walk.entity = v.walked)), as_of)
     FROM {v: entity text, walked text}
     WHERE t.connector = :connector AND t.entity = v.entity`,
    { connector, run, v: read },
  );
}
