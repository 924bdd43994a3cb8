import { randomUUID } from 'node:crypto';
import type { DescribedTable, Column, EntityTable } from '../../core/records.ts';
import type { ConnectorName, EntityName, OfEntity, OfEntities } from '../../core/names.ts';
import {
  declareTable,
  withAdded,
  type DeclaredTable,
  type KnownTable,
  type TableColumns,
} from '../decisions/stored-table.ts';
import { parseColumns, parseNames, writeColumns, writeDescribed } from '../stored-json.ts';
import type { RecordTables, KeptVersions } from './driver.ts';
import { columnOf, type Tx, cellOf, quoted } from '../../sql/database.ts';
import type { Instant } from '../../core/clock.ts';
import { versionsName } from '../records/own-names.ts';

/** The columns of a table as `_sync_tables` has them. */
type ColumnTexts = Readonly<Record<keyof TableColumns, string>>;
type TableRow = ColumnTexts & Pick<KnownTable, 'asOf'>;

type WholeColumns = Pick<TableColumns, 'key' | 'stored'>;

/** A table with all its rows. */
export interface WholeTable extends WholeColumns {
  readonly entity: EntityName;
  readonly rows: number;
  readonly deleted: number;
  /** Mask of its rows' keys, as written by `noteKeys`. */
  readonly keyMask: string;
  /** Whether its rows have versions, or had some. */
  readonly hasVersions: boolean;
}

/** A table as its view shows it. */
export interface ViewedTable {
  readonly entity: EntityName;
  readonly stored: string;
  readonly described: string;
  readonly currentView: string | null;
}

/** Every entity with a table or a partition, including tables made from others' records. */
export async function knownEntities(tx: Tx, connector: ConnectorName): Promise<readonly EntityName[]> {
  return await columnOf(
    tx,
    `SELECT entity FROM _sync_tables WHERE connector = :connector
     UNION SELECT entity FROM _sync_partitions WHERE connector = :connector ORDER BY 1`,
    { connector },
  );
}

export async function viewedTables(tx: Tx, connector: ConnectorName): Promise<readonly ViewedTable[]> {
  return await tx.rows<ViewedTable>(
    `SELECT entity, stored, described, current_view FROM _sync_tables WHERE connector = :connector ORDER BY entity`,
    { connector },
  );
}

export async function noteView(tx: Tx, of: OfEntity & { readonly view: string | null }): Promise<void> {
  await tx.run(
    `UPDATE _sync_tables SET current_view = :view WHERE connector = :connector AND entity = :entity`,
    of,
  );
}

/* `_sync_tables`: the columns each entity's table has had. `stored-rows.ts` has its rows. */

/** Known tables; tables that were never declared are left out. */
export async function knownTables(tx: Tx, of: OfEntities): Promise<ReadonlyMap<EntityName, KnownTable>> {
  const rows = await tx.rows<TableRow & { readonly entity: EntityName }>(
    `SELECT entity, key, stored, declared, evolved, as_of FROM _sync_tables
     WHERE connector = :connector AND entity IN {entities text}`,
    of,
  );
  return new Map(rows.map((row) => [row.entity, readTable(row)]));
}

/** The connector's tables, by entity. */
export async function wholeTables(tx: Tx, connector: ConnectorName): Promise<readonly WholeTable[]> {
  const rows = await tx.rows<Omit<WholeTable, keyof WholeColumns> & Record<keyof WholeColumns, string>>(
    `SELECT entity, key, stored, rows, deleted, key_mask FROM _sync_tables WHERE connector = :connector ORDER BY entity`,
    { connector },
  );
  const versioned = await versionedEntities(tx, connector);
  return rows.map(({ key, stored, ...table }) => ({
    ...table,
    key: parseNames(key),
    stored: parseColumns(stored),
    hasVersions: versioned.has(table.entity),
  }));
}

/**
 * The table of an entity that a run's plan does not have; undefined where nothing of it was ever stored. Its rows can
 * be marked, not written.
 */
export async function openStoredTable(tx: Tx, records: RecordTables, of: OfEntity) {
  const table = await storedTable(tx, of);
  if (table === undefined) return undefined;
  const kept = await keptVersions(tx, of);
  return records.open({ connector: of.connector, table, stored: table.columns, ...kept });
}

/** An entity's table with every column that it has had; undefined where nothing of the entity was ever stored. */
export async function storedTable(tx: Tx, of: OfEntity): Promise<EntityTable | undefined> {
  const known = await knownTable(tx, of);
  return known && { entity: of.entity, columns: known.stored, key: known.key };
}

export async function knownTable(tx: Tx, { connector, entity }: OfEntity): Promise<KnownTable | undefined> {
  return (await knownTables(tx, { connector, entities: [entity] })).get(entity);
}

/**
 * Notes the declared columns; gives those that each table already has and those to be filled from `_extra`, in the
 * order given. Throws `SyncError` SINK_INCOMPATIBLE as `declareTable`.
 */
export async function declareTables(
  tx: Tx,
  records: Pick<RecordTables, 'tableName'>,
  connector: ConnectorName,
  tables: readonly EntityTable[],
): Promise<readonly DeclaredTable[]> {
  const entities = tables.map(({ entity }) => entity);
  const known = await knownTables(tx, { connector, entities });
  const changes: DeclaredTable[] = [];
  for (const table of tables) {
    const before = known.get(table.entity);
    const declared = declareTable(connector, table, before);
    const name = records.tableName(connector, table.entity);
    const of = { connector, entity: table.entity };
    await save(tx, { ...of, name }, before, declared.columns);
    if (declared.retyped.length > 0) await renewTable(tx, of);
    changes.push(declared);
  }
  return changes;
}

/**
 * Gives the table a new id. Readers that follow it by change numbers would miss rewritten rows, so they begin again.
 */
export async function renewTable(tx: Tx, of: OfEntity): Promise<void> {
  await tx.run(
    `UPDATE _sync_tables SET table_id = :tableId WHERE connector = :connector AND entity = :entity`,
    { ...of, tableId: randomUUID() },
  );
}

/** Notes columns that were added for undeclared fields, or got another type; they are declared from now on. */
export async function addEvolved(
  tx: Tx,
  of: OfEntity,
  before: TableColumns,
  columns: readonly Column[],
): Promise<TableColumns> {
  const after = withAdded(before, columns);
  await save(tx, { ...of, name: '' }, before, after);
  return after;
}

/** Stores the definition's descriptions of existing tables. */
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

/** `name`: of a table that is not noted yet. */
async function save(
  tx: Tx,
  of: OfEntity & { readonly name: string },
  before: TableColumns | undefined,
  after: TableColumns,
): Promise<void> {
  const texts = textsOf(after);
  if (before !== undefined && JSON.stringify(textsOf(before)) === JSON.stringify(texts)) return;
  await tx.run(
    `INSERT INTO _sync_tables (connector, entity, name, key, stored, declared, evolved, rows)
     VALUES (:connector, :entity, :name, :key, :stored, :declared, :evolved, 0)
     ON CONFLICT (connector, entity) DO UPDATE SET stored = excluded.stored, declared = excluded.declared,
       evolved = excluded.evolved`,
    { ...of, ...texts },
  );
}

function textsOf({ key, stored, declared, evolved }: TableColumns): ColumnTexts {
  return {
    key: JSON.stringify(key),
    stored: writeColumns(stored),
    declared: writeColumns(declared),
    evolved: writeColumns(evolved),
  };
}

function readColumns({ key, stored, declared, evolved }: ColumnTexts): TableColumns {
  return {
    key: parseNames(key),
    stored: parseColumns(stored),
    declared: parseColumns(declared),
    evolved: parseColumns(evolved),
  };
}

function readTable({ asOf, ...texts }: TableRow): KnownTable {
  const columns = readColumns(texts);
  return { ...columns, evolved: columns.evolved.map((column) => ({ ...column, isEvolved: true })), asOf };
}

export interface VersionedEntity {
  readonly entity: EntityName;
  readonly since: Instant;
  /** Null: every version is kept. */
  readonly endedAt: Instant | null;
}

/** Entities whose rows have or had versions, by entity. */
export async function versionedEntities(
  tx: Tx,
  connector: ConnectorName,
): Promise<ReadonlyMap<EntityName, VersionedEntity>> {
  const rows = await tx.rows<VersionedEntity>(
    `SELECT entity, since, ended_at FROM _sync_versions WHERE connector = :connector ORDER BY entity`,
    { connector },
  );
  return new Map(rows.map((row) => [row.entity, row]));
}

/** `TablePlace.versions` of one entity's table. */
export async function keptVersions(
  tx: Tx,
  { connector, entity }: OfEntity,
): Promise<{ readonly versions?: KeptVersions }> {
  const known = (await versionedEntities(tx, connector)).get(entity);
  return known === undefined ? {} : { versions: { isNew: false, isOn: known.endedAt === null } };
}

/**
 * Switches versions on and off as the settings wish, and returns the resulting state of each entity. `wished`: entities
 * whose rows get versions; undefined leaves everything as it is. Writes only changes.
 */
export async function switchVersions(
  tx: Tx,
  { connector, entities }: OfEntities,
  wished: ReadonlySet<EntityName> | undefined,
  now: Instant,
): Promise<ReadonlyMap<EntityName, KeptVersions>> {
  const known = await versionedEntities(tx, connector);
  const kept = new Map<EntityName, KeptVersions>();
  for (const entity of entities) {
    const before = known.get(entity);
    const isOn = wished === undefined ? before?.endedAt === null : wished.has(entity);
    if (before === undefined && !isOn) continue;
    kept.set(entity, { isNew: before === undefined, isOn });
    if (wished === undefined) continue;
    if (before !== undefined && (before.endedAt === null) === isOn) continue;
    const since = isOn ? now : (before?.since ?? now);
    await tx.run(
      `INSERT INTO _sync_versions (connector, entity, since, ended_at) VALUES (:connector, :entity, :since, :endedAt)
       ON CONFLICT (connector, entity) DO UPDATE SET since = excluded.since, ended_at = excluded.ended_at`,
      { connector, entity, since, endedAt: isOn ? null : now },
    );
  }
  return kept;
}

type Names = Pick<RecordTables, 'tableName'>;

/**
 * Counts versions of an entity that ended before `before`, up to the first one that did not: younger ones are not read.
 * The entity must have versions.
 */
export async function countEndedVersions(
  tx: Tx,
  records: Names,
  of: OfEntity,
  before: Instant,
): Promise<number> {
  const versions = tableOf(records, of);
  const younger = `SELECT _seq_to FROM ${versions} WHERE _valid_to >= :before ORDER BY _seq_to LIMIT 1`;
  const sql = `SELECT count(*) FROM ${versions} WHERE _seq_to < coalesce((${younger}), ${Number.MAX_SAFE_INTEGER})`;
  return (await cellOf<number>(tx, sql, { before })) ?? 0;
}

export async function countVersions(tx: Tx, records: Names, of: OfEntity): Promise<number> {
  return (await cellOf<number>(tx, `SELECT count(*) FROM ${tableOf(records, of)}`)) ?? 0;
}

/**
 * Deletes versions of an entity that ended before `before`, the oldest ones first and at most `limit` of them; gives
 * how many, 0 where there are no more. The entity has versions (`versionedEntities`).
 */
export async function deleteEndedVersions(
  tx: Tx,
  records: Names,
  of: OfEntity,
  { before, limit }: { readonly before: Instant; readonly limit: number },
): Promise<number> {
  const versions = tableOf(records, of);
  // In the order of their ends, so that it stops at the first one that is younger.
  return await tx.run(
    `DELETE FROM ${versions} WHERE _seq_to IN (SELECT few._seq_to FROM (
       SELECT _seq_to, _valid_to FROM ${versions} ORDER BY _seq_to LIMIT :limit) AS few WHERE few._valid_to < :before)`,
    { before, limit },
  );
}

/** Deletes all closed versions of these rows; gives how many. The entity has versions. */
export async function deleteVersionsOf(
  tx: Tx,
  records: Names,
  of: OfEntity,
  rows: readonly number[],
): Promise<number> {
  if (rows.length === 0) return 0;
  return await tx.run(`DELETE FROM ${tableOf(records, of)} WHERE _row IN {rows bigint}`, { rows });
}

/** The change with which the newest closed version ended; 0: there is none. The entity has versions. */
export async function newestVersion(tx: Tx, records: Names, of: OfEntity): Promise<number> {
  return (await cellOf<number | null>(tx, `SELECT max(_seq_to) FROM ${tableOf(records, of)}`)) ?? 0;
}

function tableOf({ tableName }: Names, { connector, entity }: OfEntity): string {
  return quoted(versionsName(tableName(connector, entity)));
}
