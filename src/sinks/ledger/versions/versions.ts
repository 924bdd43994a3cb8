import type { Instant } from '../../../core/clock.ts';
import type { ConnectorName, EntityName, OfEntities, OfEntity } from '../../../core/names.ts';
import type { Tx } from '../../../sql/database.ts';
import type { KeptVersions } from '../record-table.ts';

/**
 * `_sync_versions`: entities whose rows have versions. `since`: from then on every one is kept, until `ended_at` where
 * that was switched off; those that were kept stay.
 */
export const versionsSql = `
CREATE TABLE _sync_versions (
  connector TEXT NOT NULL,
  entity TEXT NOT NULL,
  since TEXT NOT NULL,
  ended_at TEXT,
  PRIMARY KEY (connector, entity)
);
`;

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
