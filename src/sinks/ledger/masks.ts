import type { Instant } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import { cellOf, type Tx } from '../../sql/database.ts';
import type { EntityMasking, StoredMask } from '../masks.ts';
import type { RunPlan } from '../sink.ts';
import { wholeTables, type WholeTable } from './tables.ts';

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

/** Masks under which the connector's records are stored, and the time before which other data may be stored. */
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

/**
 * Throws `SyncError` SINK_INCOMPATIBLE where rows have keys that a read under these masks would not meet: each record
 * would have two rows, and the first of them look deleted.
 */
export async function checkKeys(
  tx: Tx,
  connector: ConnectorName,
  { tables, maskings = [] }: Pick<RunPlan, 'tables' | 'maskings'>,
): Promise<void> {
  const planned = new Set(tables.map(({ entity }) => entity));
  const stored = (await wholeTables(tx, connector)).filter(({ entity }) => planned.has(entity));
  const [found] = withOtherKeys(stored, maskings);
  if (found === undefined) return;
  const { entity, name, masking } = found;
  if (masking !== undefined) await refusePurged(tx, connector, entity);
  throw keysDiffer(
    connector,
    entity,
    masking === undefined
      ? `${name} is stored as hashes that this config does not make: their mask is gone. Put the mask back, or drop what is stored and sync again: connector-sync reset ${connector}/${entity} --data --yes`
      : `${name} is stored in clear, or as hashes of another mask.key or another rule, and a key cannot be changed in place. To see what would be removed, and what of it no read brings back: connector-sync purge ${connector} --unmasked. Add --yes to remove it, then sync: what the API still has is read again`,
  );
}

/** Notes by which masks the plan's tables have their keys, for the next `checkKeys`. */
export function noteKeys(
  tx: Tx,
  connector: ConnectorName,
  { tables, maskings = [] }: Pick<RunPlan, 'tables' | 'maskings'>,
): void {
  const v = tables.map(({ entity, key }) => ({
    entity,
    keyMask: maskOfKey(key, maskingOf(maskings, entity)),
  }));
  tx.put(
    `UPDATE _sync_tables AS t SET key_mask = v.key_mask FROM {v: entity text, key_mask text}
     WHERE t.connector = :connector AND t.entity = v.entity AND t.key_mask <> v.key_mask`,
    { connector, v },
  );
}

/** Tables with rows whose keys are not those that the masks make. `name`: a part of the key. */
export function withOtherKeys(tables: readonly WholeTable[], maskings: readonly EntityMasking[]) {
  return tables.flatMap(({ entity, key, keyMask, rows }) => {
    const masking = maskingOf(maskings, entity);
    const now = maskOfKey(key, masking);
    if (rows === 0 || now === keyMask) return [];
    const [name = ''] = Object.keys(JSON.parse(now === noMask ? keyMask : now) as object);
    return [{ entity, name, masking }];
  });
}

function maskingOf(maskings: readonly EntityMasking[], entity: EntityName): EntityMasking | undefined {
  return maskings.find((one) => one.entity === entity);
}

/** Text that each way to hash changes in another way: as a value, a text, an address or a number. */
const probe = ' Key Probe 1 <Probe-2@Example.com>';
/** Result of `maskOfKey` where no part of the key is masked. */
const noMask = '{}';

/** Masked forms of a probe in each masked part of a key, as JSON. They differ where keys are masked in another way. */
function maskOfKey(key: readonly string[], masking: EntityMasking | undefined): string {
  if (masking === undefined) return noMask;
  const masked = masking.row(Object.fromEntries(key.map((name) => [name, probe])));
  const changed = key.filter((name) => masked[name] !== probe);
  return JSON.stringify(Object.fromEntries(changed.map((name) => [name, masked[name]])));
}

/** Throws where records of the entity were purged: their notes are by the keys that are stored. */
export async function refusePurged(tx: Tx, connector: ConnectorName, entity: EntityName): Promise<void> {
  const sql = `SELECT count(*) FROM _sync_purged
    WHERE connector = :connector AND entity = :entity AND can_return = 0`;
  const count = (await cellOf<number>(tx, sql, { connector, entity })) ?? 0;
  if (count === 0) return;
  throw keysDiffer(
    connector,
    entity,
    `${count} of its records were purged, and notes of their keys keep them away. Under a mask of the key they would be stored again. Leave the key as it was stored`,
  );
}

function keysDiffer(connector: ConnectorName, entity: EntityName, found: string): SyncError {
  return new SyncError(`The mask of ${connector}/${entity} does not fit what is stored: ${found}`, {
    code: 'SINK_INCOMPATIBLE',
    recovery: 'stop',
    context: { connector, entity },
  });
}
