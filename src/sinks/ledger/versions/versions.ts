import type { Instant } from '../../../core/clock.ts';
import type { ConnectorName, EntityName, OfEntities, OfEntity } from '../../../core/names.ts';
import { cellOf, type Tx } from '../../../sql/database.ts';
import { quoted } from '../../../sql/quoted.ts';
import { versionsName } from '../../records/own-names.ts';
import type { RecordTables } from '../driver.ts';
import type { KeptVersions } from '../record-table.ts';

export interface VersionedEntity {
  readonly entity: EntityName;
  readonly since: Instant;
  /** Null: every version is kept. */
  readonly endedAt: Instant | null;
}

/** By entity; those that never had versions are left out. */
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
 * Switches versions on and off as the settings wish, and gives what is true of each of the entities then. `wished`:
 * those that are to have some; undefined leaves everything as it is. Where nothing changes nothing is written.
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
 * How many versions of an entity ended before `before`, up to the first one that did not: younger ones are not read.
 * The entity has versions.
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
