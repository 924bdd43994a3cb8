import { createHash } from 'node:crypto';
import type { ConnectorName, EntityName, RunId } from '../../core/names.ts';
import type { PageCounts, Quarantined } from '../../core/records.ts';
import { numbersOf, type CountsOfEntity } from '../decisions/add-up.ts';
import type { EarlierCounts } from '../sink.ts';
import type { Tx } from '../../sql/database.ts';
import type { Stamp } from './stamp.ts';

const names = ['fetched', 'filtered', 'quarantined', 'inserted', 'updated', 'duplicate', 'unchanged'];

/** `_sync_counts`: what became of every record of a run, per entity. Adds these; each entity once. */
export function addCounts(
  tx: Tx,
  run: RunId,
  counted: readonly { readonly entity: EntityName; readonly counts: PageCounts }[],
): void {
  if (counted.length === 0) return;
  const numbers = counted.map(({ counts }) => numbersOf(counts));
  const columns = names.map((name, index) => [name, numbers.map((row) => row[index] ?? 0)] as const);
  tx.put(
    `INSERT INTO _sync_counts AS c (run, entity, ${names.join(', ')})
     SELECT :run::text, v.* FROM unnest(:entities::text[], ${names.map((name) => `:${name}::bigint[]`).join(', ')})
       AS v(entity, ${names.join(', ')}) ORDER BY v.entity
     ON CONFLICT (run, entity) DO UPDATE SET ${names.map((name) => `${name} = c.${name} + excluded.${name}`).join(', ')}`,
    { run, entities: counted.map(({ entity }) => entity), ...Object.fromEntries(columns) },
  );
}

/** Of all runs so far of the chain whose first run has the number `origin`. `depth_limited` is noted when a run ends. */
export async function countsOfChain(
  tx: Tx,
  connector: ConnectorName,
  origin: number,
): Promise<readonly EarlierCounts[]> {
  return await tx.rows<EarlierCounts>(
    `SELECT entity, sum(fetched)::bigint AS fetched, sum(quarantined)::bigint AS quarantined,
       sum(depth_limited)::bigint AS depth_limited
     FROM _sync_counts WHERE run IN
       (SELECT run FROM _sync_runs WHERE connector = :connector AND number >= :origin AND origin = :origin)
     GROUP BY entity ORDER BY entity`,
    { connector, origin },
  );
}

export async function countsOfRun(tx: Tx, run: RunId): Promise<readonly CountsOfEntity[]> {
  return await tx.rows<CountsOfEntity>(
    `SELECT entity, ${names.join(', ')} FROM _sync_counts WHERE run = :run ORDER BY entity`,
    { run },
  );
}

/** `_sync_quarantine`: records that cannot be stored as they are, kept whole, once per content. */
export function keepQuarantined(
  tx: Tx,
  connector: ConnectorName,
  refused: readonly Quarantined[],
  { now, run }: Stamp,
): void {
  if (refused.length === 0) return;
  const byContent = new Map<string, Quarantined & { readonly hash: string }>();
  for (const one of refused) {
    const hash = createHash('sha256').update(one.record).digest('hex');
    byContent.set(`${one.entity} ${hash}`, { ...one, hash });
  }
  const kept = [...byContent.values()];
  tx.put(
    `INSERT INTO _sync_quarantine
       (connector, entity, content_hash, reason, detail, record, first_seen_at, last_seen_at, last_run)
     SELECT :connector::text, v.entity, v.hash, v.reason, v.detail, v.record, :now::text, :now::text, :run::text
     FROM unnest(:entities::text[], :hashes::text[], :reasons::text[], :details::text[], :records::text[])
       WITH ORDINALITY AS v(entity, hash, reason, detail, record, n) ORDER BY v.n
     ON CONFLICT (connector, entity, content_hash) DO UPDATE SET reason = excluded.reason, detail = excluded.detail,
       last_seen_at = excluded.last_seen_at, last_run = excluded.last_run`,
    {
      connector,
      now,
      run,
      entities: kept.map(({ entity }) => entity),
      hashes: kept.map(({ hash }) => hash),
      reasons: kept.map(({ reason }) => reason),
      details: kept.map(({ detail }) => detail),
      records: kept.map(({ record }) => record),
    },
  );
}
