import { randomUUID } from 'node:crypto';
import type { DescribedTable, Column, EntityTable, PreparedRecord } from '../../core/records.ts';
import type { ConnectorName, EntityName, OfEntity, OfEntities, RunId } from '../../core/names.ts';
import { hasHash } from '../decisions/meet-record.ts';
import { declareTable, withAdded, type TableColumns } from '../decisions/stored-table.ts';
import {
  parseColumns,
  parseNames,
  writeColumns,
  writeDescribed,
  parsePlace,
  type PlaceTexts,
} from '../stored-json.ts';
import type { RecordTables, KeptVersions } from './driver.ts';
import { ask, put, write, columnOf, type Tx, cellOf, quoted } from '../../sql/database.ts';
import type { Instant } from '../../core/clock.ts';
import { versionsName } from '../records/own-names.ts';
import { noteInDay } from './counts.ts';
import type { Lease } from '../lease.ts';
import {
  nothingStored,
  spreadOver,
  type LookedRecord,
  type StoredAccount,
  type StoredKey,
} from '../stored-keys.ts';
import type { HeldConnector } from './ledger.ts';
import type { StoredMask } from '../requests.ts';

/** An entity's table, as the ledger has it. */
export interface StoredTable extends TableColumns {
  readonly entity: EntityName;
  /** When the newest chain of runs began that read it whole; null: none ever did. */
  readonly asOf: string | null;
  readonly rows: number;
  readonly deleted: number;
  /** Mask of its rows' keys, as written by `noteKeys`. */
  readonly keyMask: string;
  /** As written by `writeDescribed`. */
  readonly described: string;
  readonly currentView: string | null;
  /** Absent: its rows have no versions, and never had any. */
  readonly versions: KeptVersions | undefined;
  readonly hasVersions: boolean;
}

type ColumnTexts = Readonly<Record<keyof TableColumns, string>>;

/** Every entity with a table or a partition, including tables made from others' records. */
export async function knownEntities(tx: Tx, connector: ConnectorName): Promise<readonly EntityName[]> {
  return await columnOf(
    tx,
    `SELECT entity FROM _sync_tables WHERE connector = :connector
     UNION SELECT entity FROM _sync_partitions WHERE connector = :connector ORDER BY 1`,
    { connector },
  );
}

export const noteView = write<OfEntity & { view: string | null }>(
  `UPDATE _sync_tables SET current_view = :view WHERE connector = :connector AND entity = :entity`,
);

/* `_sync_tables`: the columns each entity's table has had. */

/** The connector's tables, or those of `only` these entities, by entity; those never declared are left out. */
export async function storedTables(
  tx: Tx,
  connector: ConnectorName,
  only?: readonly EntityName[],
): Promise<readonly StoredTable[]> {
  const rows = await tx.rows<Omit<StoredTable, keyof ColumnTexts> & ColumnTexts & { readonly isOn: boolean }>(
    `SELECT t.entity, t.key, t.stored, t.declared, t.evolved, t.as_of, t.rows, t.deleted, t.key_mask, t.described,
       t.current_view, v.entity IS NOT NULL AS has_versions, v.ended_at IS NULL AS is_on
     FROM _sync_tables AS t LEFT JOIN _sync_versions AS v ON v.connector = t.connector AND v.entity = t.entity
     WHERE t.connector = :connector ${only === undefined ? '' : 'AND t.entity IN {only text}'} ORDER BY t.entity`,
    { connector, ...(only === undefined ? {} : { only }) },
  );
  return rows.map(({ isOn, ...table }) => ({
    ...table,
    key: parseNames(table.key),
    stored: parseColumns(table.stored),
    declared: parseColumns(table.declared),
    evolved: parseColumns(table.evolved).map((column) => ({ ...column, isEvolved: true })),
    versions: table.hasVersions ? { isNew: false, isOn } : undefined,
  }));
}

export async function knownTables(tx: Tx, { connector, entities }: OfEntities) {
  const tables = await storedTables(tx, connector, entities);
  return new Map(tables.map((table) => [table.entity, table]));
}

export async function knownTable(tx: Tx, { connector, entity }: OfEntity): Promise<StoredTable | undefined> {
  return (await storedTables(tx, connector, [entity]))[0];
}

/**
 * The table of an entity that a run's plan does not have; undefined where nothing of it was ever stored. Its rows can
 * be marked, not written.
 */
export async function openStoredTable(tx: Tx, records: RecordTables, { connector, entity }: OfEntity) {
  const known = await knownTable(tx, { connector, entity });
  if (known === undefined) return undefined;
  const { key, stored, versions } = known;
  return records.open({ connector, table: { entity, columns: stored, key }, stored, versions });
}

/** An entity's table with every column that it has had; undefined where nothing of the entity was ever stored. */
export async function storedTable(tx: Tx, of: OfEntity): Promise<EntityTable | undefined> {
  const known = await knownTable(tx, of);
  return known && { entity: of.entity, columns: known.stored, key: known.key };
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
) {
  const entities = tables.map(({ entity }) => entity);
  const known = await knownTables(tx, { connector, entities });
  const changes: ReturnType<typeof declareTable>[] = [];
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
export async function addEvolved(tx: Tx, of: OfEntity, before: TableColumns, columns: readonly Column[]) {
  const after = withAdded(before, columns);
  await save(tx, { ...of, name: '' }, before, after);
  return after;
}

/** Stores the definition's descriptions of existing tables. */
export async function describeTables(tx: Tx, connector: ConnectorName, tables: readonly DescribedTable[]) {
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

interface VersionedEntity {
  readonly entity: EntityName;
  readonly since: Instant;
  /** Null: every version is kept. */
  readonly endedAt: Instant | null;
}

/** Entities whose rows have or had versions, by entity. */
export async function versionedEntities(tx: Tx, connector: ConnectorName) {
  const rows = await tx.rows<VersionedEntity>(
    `SELECT entity, since, ended_at FROM _sync_versions WHERE connector = :connector ORDER BY entity`,
    { connector },
  );
  return new Map(rows.map((row) => [row.entity, row]));
}

/** Masks under which the connector's records are stored, and the time before which other data may be stored. */
export const readMasks = ask<{ connector: ConnectorName }, StoredMask>(
  `SELECT m.entity, m.mask, m.key_id, m.since, m.read_at, coalesce(t.deleted, 0) AS deleted,
     (SELECT count(*) FROM _sync_quarantine AS q
      WHERE q.connector = m.connector AND q.entity = m.entity AND q.last_seen_at < m.since) AS quarantined
   FROM _sync_masks AS m LEFT JOIN _sync_tables AS t ON t.connector = m.connector AND t.entity = m.entity
   WHERE m.connector = :connector ORDER BY m.entity`,
);

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
export async function countEndedVersions(tx: Tx, records: Names, of: OfEntity, before: Instant) {
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

function tableOf({ tableName }: Names, { connector, entity }: OfEntity): string {
  return quoted(versionsName(tableName(connector, entity)));
}

/* `_sync_tables`: the numbers of each entity's rows, how many there are, and how old they are at most. */

/** Rows of an entity that a transaction of the chain `origin` has stored. */
interface StoredOf {
  readonly entity: EntityName;
  readonly inserted: number;
  /** Tombstones that were taken back. */
  readonly revived: number;
}

/** The rows of a table, in numbers. */
export interface TableNumbers {
  /** Rows without a tombstone. */
  readonly live: number;
  /** Number of the newest row. Numbers are never reused. */
  readonly lastRow: number;
  /** The chain that stored the first rows; null: there are none. */
  readonly firstOrigin: number | null;
  /** Time at which the rows were adopted from another address, if no full run has agreed since; null otherwise. */
  readonly adoptedAt: Instant | null;
}

/** Numbers of the declared tables, by entity. */
export async function tableNumbers(tx: Tx, of: OfEntities): Promise<ReadonlyMap<EntityName, TableNumbers>> {
  const rows = await tx.rows<TableNumbers & { readonly entity: EntityName }>(
    `SELECT entity, rows - deleted AS live, last_row, first_origin, adopted_at FROM _sync_tables
     WHERE connector = :connector AND entity IN {entities text}`,
    of,
  );
  return new Map(rows.map((row) => [row.entity, row]));
}

/**
 * Counts stored rows, once for each entity: in the tables and, as added rows, in the account of the last 24 hours.
 */
export function noteStored(
  tx: Tx,
  connector: ConnectorName,
  stored: readonly StoredOf[],
  chain: {
    readonly origin: number;
    readonly now: Instant;
    /** Numbers before the change. */
    readonly numbers: ReadonlyMap<EntityName, TableNumbers>;
  },
): void {
  const changed = stored.filter(({ inserted, revived }) => inserted + revived > 0);
  if (changed.length === 0) return;
  tx.put(
    `UPDATE _sync_tables AS t SET rows = rows + v.inserted, last_row = last_row + v.inserted, deleted = deleted - v.revived,
       first_origin = coalesce(first_origin, CAST(:origin AS bigint))
     FROM {v: entity text, inserted bigint, revived bigint}
     WHERE t.connector = :connector AND t.entity = v.entity`,
    {
      connector,
      origin: chain.origin,
      v: changed.map(({ entity, inserted, revived }) => ({ entity, inserted, revived })),
    },
  );
  // The entity began with the rows of its first chain: on its first day they count as its rows of 24 hours ago.
  const added = changed.map(({ entity, inserted, revived }) => ({ entity, rows: inserted + revived }));
  const ofDay = added.filter(({ entity }) => {
    const { firstOrigin = null } = chain.numbers.get(entity) ?? {};
    return firstOrigin !== null && firstOrigin !== chain.origin;
  });
  noteInDay(tx, connector, 'added', ofDay, chain.now);
}

/** Counts tombstones. */
export const addDeleted = put<OfEntity & { rows: number }>(
  `UPDATE _sync_tables SET deleted = deleted + :rows WHERE connector = :connector AND entity = :entity`,
);

/** A full run has met every row of these, so adopted ones are those of the new address. */
export const noteAgreed = put<OfEntities>(
  `UPDATE _sync_tables SET adopted_at = NULL
   WHERE connector = :connector AND entity IN {entities text} AND adopted_at IS NOT NULL`,
);

/**
 * The chain of this run has read all of these entities, whose records come from walks of `walked`. They are then as old
 * as the chain, unless it began in the middle of a walk, whose first half is older. The chain's first run may be past
 * its retention: then its start is unknown.
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

/** Cheap queries on stored rows of the entities of the lease's run. Read only. */
export function ledgerStoredKeys(records: Names, heldOf: (lease: Lease) => HeldConnector) {
  return {
    /** Numbers of the entity's rows; nothing before a sync has ended well. Reads one row, however many are stored. */
    account: async (lease: Lease, entity: EntityName): Promise<StoredAccount> =>
      await heldOf(lease).read(async (tx) => {
        const numbers = await tableNumbers(tx, { connector: lease.connector, entities: [entity] });
        const found = numbers.get(entity);
        return found === undefined || (await lastEnd(tx, lease.connector)) === null
          ? nothingStored
          : { live: found.live, isAdopted: found.adoptedAt !== null };
      }),
    /** Number of these records whose row is stored and not deleted. */
    known: async (lease: Lease, entity: EntityName, records: readonly PreparedRecord[]) => {
      const held = heldOf(lease);
      return await held.read(async (tx) => {
        const byKey = new Map(records.map((record) => [record.keyText, record]));
        const found = await held.run?.tables.get(entity)?.find(tx, [...byKey.values()]);
        return records.filter(({ keyText }) => found?.get(keyText)?.deletedAt === null).length;
      });
    },
    /** Each record's row, in order; null where none is stored. A commit may change the answer. */
    find: async (lease: Lease, entity: EntityName, records: readonly LookedRecord[]) => {
      const { run, read } = heldOf(lease);
      const table = run?.tables.get(entity);
      const none = records.map(() => null);
      if (table === undefined || !records.some(table.mayBeStored)) return none;
      const found = table.beginLook();
      const byKey = new Map(records.map((record) => [record.keyText, record]));
      const rows = await read(async (tx) => await table.find(tx, [...byKey.values()]));
      return records.map((record) => {
        const stored = rows.get(record.keyText);
        if (stored === undefined) return null;
        return { isSame: stored.deletedAt === null && hasHash(stored, record), found: found(stored) };
      });
    },
    /**
     * Reads up to `count` rows that are not deleted, spread over all rows stored when a sync last ended well; none
     * before that.
     */
    spread: async (lease: Lease, entity: EntityName, count: number): Promise<readonly StoredKey[]> => {
      const held = heldOf(lease);
      return await held.read(async (tx) => {
        const table = held.run?.tables.get(entity);
        const before = await lastEnd(tx, lease.connector);
        if (table === undefined || before === null) return [];
        const numbers = await tableNumbers(tx, { connector: lease.connector, entities: [entity] });
        const { lastRow = 0 } = numbers.get(entity) ?? {};
        const name = quoted(records.tableName(lease.connector, entity));
        const rows = await columnOf<number | null>(
          tx,
          `SELECT (SELECT t._row FROM ${name} AS t WHERE t._first_seen_at < :before AND t._row > v.after
             AND t._deleted_at IS NULL ORDER BY t._row LIMIT 1)
           FROM {v: after bigint}`,
          { before, v: spreadOver(lastRow, count).map((after) => ({ after })) },
        );
        const spread = [...new Set(rows)].flatMap((row) => row ?? []);
        const stored = [...(await table.rows(tx, spread)).values()];
        const owners = stored.flatMap(({ owner }) => owner ?? []);
        const places = await tx.rows<PlaceTexts & { id: number }>(
          `SELECT id, params, inject FROM _sync_partitions WHERE id IN {ids bigint}`,
          { ids: [...new Set(owners)] },
        );
        return stored.map(({ keyText, owner }): StoredKey => {
          const place = places.find(({ id }) => id === owner);
          return { keyText, ...parsePlace(place ?? { params: '{}', inject: '{}' }) };
        });
      });
    },
  };
}

async function lastEnd(tx: Tx, connector: ConnectorName): Promise<Instant | null> {
  const found = await cellOf<Instant | null>(
    tx,
    `SELECT max(finished_at) FROM _sync_runs
     WHERE connector = :connector AND kind = 'sync' AND state IN ('ok', 'degraded')`,
    { connector },
  );
  return found ?? null;
}
