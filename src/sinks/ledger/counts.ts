import { createHash } from 'node:crypto';
import type { ConnectorName, RunId } from '../../core/names.ts';
import { countNames as names, type EntityCounts, type Quarantined } from '../../core/records.ts';
import type { CountsOfEntity } from '../decisions/add-up.ts';
import type { EarlierCounts } from '../sink.ts';
import { ask, type Tx } from '../../sql/database.ts';
import type { Stamp } from './record-table.ts';

/** `_sync_counts`: what became of every record of a run, per entity. Adds these; each entity once. */
export function addCounts(tx: Tx, run: RunId, counted: readonly EntityCounts[]): void {
  if (counted.length === 0) return;
  tx.put(
    `INSERT INTO _sync_counts AS c (run, entity, ${names.join(', ')})
     SELECT CAST(:run AS text), v.* FROM {v: entity text, ${names.map((name) => `${name} bigint`).join(', ')}}
     ORDER BY v.entity
     ON CONFLICT (run, entity) DO UPDATE SET ${names.map((name) => `${name} = c.${name} + excluded.${name}`).join(', ')}`,
    { run, v: counted.map(({ entity, counts }) => ({ entity, ...counts })) },
  );
}

/**
 * Of all runs so far of the chain whose first run has the number `origin`. `depth_limited` is noted when a run ends.
 */
export async function countsOfChain(
  tx: Tx,
  connector: ConnectorName,
  origin: number,
): Promise<readonly EarlierCounts[]> {
  return await tx.rows<EarlierCounts>(
    `SELECT entity, CAST(sum(fetched) AS bigint) AS fetched, CAST(sum(quarantined) AS bigint) AS quarantined,
       CAST(sum(duplicate) AS bigint) AS duplicate, CAST(sum(depth_limited) AS bigint) AS depth_limited
     FROM _sync_counts WHERE run IN
       (SELECT run FROM _sync_runs WHERE connector = :connector AND number >= :origin AND origin = :origin)
     GROUP BY entity ORDER BY entity`,
    { connector, origin },
  );
}

/** Condition for `_sync_runs AS run`. */
export const hasWritten = `EXISTS (SELECT 1 FROM _sync_counts AS counted
  WHERE counted.run = run.run AND counted.inserted + counted.updated > 0)`;

/** Runs of a chain so far that have stored or changed records, oldest first. */
export const runsThatWrote = ask<{ connector: ConnectorName; origin: number }, { readonly run: RunId }>(
  `SELECT run FROM _sync_runs AS run WHERE connector = :connector AND origin = :origin AND ${hasWritten} ORDER BY number`,
);

/** What became of the records of a run so far, also while it is in progress. */
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
  tx.put(
    `INSERT INTO _sync_quarantine
       (connector, entity, content_hash, reason, detail, record, first_seen_at, last_seen_at, last_run)
     SELECT CAST(:connector AS text), v.entity, v.hash, v.reason, v.detail, v.record, CAST(:now AS text), CAST(:now AS text),
       CAST(:run AS text)
     FROM {v: entity text, hash text, reason text, detail text, record text, n} ORDER BY v.n
     ON CONFLICT (connector, entity, content_hash) DO UPDATE SET reason = excluded.reason, detail = excluded.detail,
       last_seen_at = excluded.last_seen_at, last_run = excluded.last_run`,
    { connector, now, run, v: [...byContent.values()] },
  );
}
