import type { Instant } from '../../core/clock.ts';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import type { Tx } from '../../sql/database.ts';
import type { StoredMask } from '../masks.ts';
import type { RunPlan } from '../sink.ts';

/**
 * Before the run's tables are made: an entity without one has nothing stored yet. Gives the entities that have other
 * masks than before.
 */
export async function noteMasks(
  tx: Tx,
  connector: ConnectorName,
  { masks = [], entities }: Pick<RunPlan, 'masks' | 'entities'>,
  now: Instant,
): Promise<ReadonlySet<EntityName>> {
  const before = new Map((await readMasks(tx, connector)).map(({ entity, mask }) => [entity, mask]));
  const after = new Map(masks.map(({ entity, mask }) => [entity, mask]));
  const changed = new Set(entities.filter((entity) => before.get(entity) !== after.get(entity)));
  const unmasked = entities.filter((entity) => masks.every((one) => one.entity !== entity));
  tx.put(`DELETE FROM _sync_masks WHERE connector = :connector AND entity IN {unmasked text}`, {
    connector,
    unmasked,
  });
  if (masks.length === 0) return changed;
  await tx.run(
    `INSERT INTO _sync_masks AS m (connector, entity, mask, key_id, since)
     SELECT CAST(:connector AS text), v.entity, v.mask, v.key_id,
       CASE WHEN EXISTS (SELECT 1 FROM _sync_tables AS t WHERE t.connector = :connector AND t.entity = v.entity)
         THEN CAST(:now AS text) END
     FROM {v: entity text, mask text, key_id text} WHERE true
     ON CONFLICT (connector, entity) DO UPDATE SET mask = excluded.mask, key_id = excluded.key_id,
       since = excluded.since, read_at = NULL
     WHERE m.mask <> excluded.mask`,
    { connector, now, v: masks.map(({ entity, mask, keyId }) => ({ entity, mask, keyId })) },
  );
  return changed;
}

/** The masks that the connector's records are stored by, and what may be stored from before them. */
export async function readMasks(tx: Tx, connector: ConnectorName): Promise<readonly StoredMask[]> {
  return await tx.rows<StoredMask>(
    `SELECT m.entity, m.mask, m.key_id, m.since, m.read_at, coalesce(t.deleted, 0) AS deleted,
       (SELECT count(*) FROM _sync_quarantine AS q
        WHERE q.connector = m.connector AND q.entity = m.entity AND q.last_seen_at < m.since) AS quarantined
     FROM _sync_masks AS m LEFT JOIN _sync_tables AS t ON t.connector = m.connector AND t.entity = m.entity
     WHERE m.connector = :connector ORDER BY m.entity`,
    { connector },
  );
}
