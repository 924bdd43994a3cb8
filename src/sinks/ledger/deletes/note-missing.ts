import type { Instant } from '../../../core/clock.ts';
import type { ConnectorName, RunId } from '../../../core/names.ts';
import type { Tx } from '../../../sql/database.ts';
import type { Missed } from './read-missing.ts';
import type { OfEntity, RowAt } from './places.ts';

/* `_sync_missing` as it is written. Each row is given once. */

/** `since`: when the walk that missed a row began, at the latest. */
type InChain = OfEntity & { readonly origin: number; readonly since: Instant };

function insert(isVouchedFor: 0 | 1): string {
  return `INSERT INTO _sync_missing AS m
       (connector, entity, row, partition, origin, missed, since, needs, is_allowed, is_vouched_for)
     SELECT CAST(:connector AS text), CAST(:entity AS text), noted.row, noted.partition, CAST(:origin AS bigint), 1,
       CAST(:since AS text), noted.needs, 0, ${isVouchedFor}
     FROM {noted: row bigint, partition bigint, needs text} ORDER BY noted.row
     ON CONFLICT (connector, entity, row) DO UPDATE SET`;
}

const atLeastOnce = 'CASE WHEN m.missed = 0 THEN 1 ELSE m.missed END';

function needGet(list: readonly RowAt[]): readonly Missed[] {
  return list.map((one) => ({ ...one, needs: 'get' }));
}

/** Full walks did not meet the rows. Once a chain, however often. */
export async function noteMissing(tx: Tx, chain: InChain, missed: readonly Missed[]): Promise<void> {
  if (missed.length === 0) return;
  await tx.run(
    `${insert(0)} partition = excluded.partition, origin = excluded.origin,
       since = CASE WHEN m.missed = 0 THEN excluded.since ELSE m.since END, missed = m.missed + 1,
       needs = CASE WHEN m.is_vouched_for = 1 THEN 'get' ELSE excluded.needs END
     WHERE m.origin <> excluded.origin`,
    { ...chain, noted: missed },
  );
}

/** Rows below a deleted record that may be elsewhere; nothing is withdrawn where they are. */
export async function noteOrphans(tx: Tx, chain: InChain, orphans: readonly RowAt[]): Promise<void> {
  if (orphans.length === 0) return;
  await tx.run(
    `${insert(1)} partition = excluded.partition, missed = ${atLeastOnce}, needs = 'get', is_vouched_for = 1`,
    { ...chain, noted: needGet(orphans) },
  );
}

/**
 * Records whose children do not exist. Vouched for from the start: where `get` still finds one, no walk was wrong about
 * it.
 */
export async function suspectRows(tx: Tx, chain: InChain, suspects: readonly RowAt[]): Promise<void> {
  if (suspects.length === 0) return;
  await tx.run(`${insert(1)} missed = ${atLeastOnce}, needs = 'get'`, { ...chain, noted: needGet(suspects) });
}

const ofRows = 'm.connector = :connector AND m.entity = :entity AND m.row IN {rows bigint}';

/** A person lets the deletes of what is missing now pass. */
export async function allowMissing(tx: Tx, of: OfEntity): Promise<void> {
  await tx.run(
    `UPDATE _sync_missing AS m SET is_allowed = 1 WHERE m.connector = :connector AND m.entity = :entity AND m.missed > 0`,
    of,
  );
}

/** `get` finds the rows no more: so they need nothing else in this run, and nothing vouches for them. */
export async function noteFoundGone(
  tx: Tx,
  of: OfEntity,
  rows: readonly number[],
  run: RunId,
): Promise<void> {
  if (rows.length === 0) return;
  await tx.run(`UPDATE _sync_missing AS m SET gone_run = :run, is_vouched_for = 0 WHERE ${ofRows}`, {
    ...of,
    rows,
    run,
  });
}

export async function vouchForRows(
  tx: Tx,
  of: OfEntity,
  rows: readonly number[],
  asked: { readonly run: RunId; readonly now: Instant },
): Promise<void> {
  if (rows.length === 0) return;
  await tx.run(
    `UPDATE _sync_missing AS m SET missed = 0, is_allowed = 0, is_vouched_for = 1, gone_run = NULL, asked_run = :run, asked_at = :now
     WHERE ${ofRows}`,
    { ...of, rows, run: asked.run, now: asked.now },
  );
}

/** The rows exist after all, or are tombstoned: whatever walks have missed them does not count any more. */
export function endMissing(tx: Tx, of: OfEntity, rows: readonly number[]): void {
  if (rows.length === 0) return;
  tx.put(`DELETE FROM _sync_missing AS m WHERE ${ofRows}`, { ...of, rows });
}

/** Rows whose partition is pruned: nothing misses them any more. */
export async function dropHomeless(tx: Tx, connector: ConnectorName): Promise<void> {
  await tx.run(
    `DELETE FROM _sync_missing AS m WHERE m.connector = :connector
       AND NOT EXISTS (SELECT 1 FROM _sync_partitions AS p WHERE p.id = m.partition)`,
    { connector },
  );
}
