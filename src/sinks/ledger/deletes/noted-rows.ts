import type { Instant } from '../../../core/clock.ts';
import type { ConnectorName, EntityName, OfEntity, RunId } from '../../../core/names.ts';
import { ask, columnOf, put, write, type Tx } from '../../../sql/database.ts';
import type { AlikeRows, Needs } from '../../decisions/missing-rows.ts';
import { standing } from '../../decisions/becoming-due.ts';
import type { TombstoneChoice } from '../../deletes.ts';
import type { RowsOf } from '../../run-report.ts';
import type { RowAt } from './places.ts';

/*
 * `_sync_missing`, as it is written and read. Each row is given once. `decisions/missing-rows.ts` explains its rows;
 * conditions that are written here as SQL mean the same.
 */

export interface Missed extends RowAt {
  readonly needs: Needs;
}

/** `since`: when the walk that missed a row began, at the latest. */
type InChain = OfEntity & { readonly origin: number; readonly since: Instant };
type OfRows = OfEntity & { readonly rows: readonly number[] };

function noting(isVouchedFor: 0 | 1, known: string) {
  const sql = `INSERT INTO _sync_missing AS m
       (connector, entity, row, partition, origin, missed, since, needs, is_allowed, is_vouched_for)
     SELECT CAST(:connector AS text), CAST(:entity AS text), noted.row, noted.partition, CAST(:origin AS bigint), 1,
       CAST(:since AS text), noted.needs, 0, ${isVouchedFor}
     FROM {noted: row bigint, partition bigint, needs text} ORDER BY noted.row
     ON CONFLICT (connector, entity, row) DO UPDATE SET ${known}`;
  return async (tx: Tx, chain: InChain, noted: readonly Missed[]): Promise<void> => {
    if (noted.length > 0) await tx.run(sql, { ...chain, noted });
  };
}

/** Full walks did not meet the rows. Counted once per chain, however often it happens. */
export const noteMissing = noting(
  0,
  `partition = excluded.partition, origin = excluded.origin,
       since = CASE WHEN m.missed = 0 THEN excluded.since ELSE m.since END, missed = m.missed + 1,
       needs = CASE WHEN m.is_vouched_for = 1 THEN 'get' ELSE excluded.needs END
     WHERE m.origin <> excluded.origin`,
);

const onceAtLeast = `missed = CASE WHEN m.missed = 0 THEN 1 ELSE m.missed END, needs = excluded.needs`;

/** Rows below a deleted record that may be elsewhere; nothing is withdrawn where they are. */
export const noteOrphans = noting(1, `partition = excluded.partition, ${onceAtLeast}, is_vouched_for = 1`);

/**
 * Records whose children do not exist. Vouched for from the start: where `get` still finds one, no walk was wrong about
 * it.
 */
export const suspectRows = noting(1, onceAtLeast);

const ofRows = 'm.connector = :connector AND m.entity = :entity AND m.row IN {rows bigint}';

/** Allows, for a person, the deletes of the rows missing now. */
export const allowMissing = write<OfEntity>(
  `UPDATE _sync_missing AS m SET is_allowed = 1 WHERE m.connector = :connector AND m.entity = :entity AND m.missed > 0`,
);

/** `get` no longer finds the rows: so they need nothing else in this run, and nothing vouches for them. */
export const noteFoundGone = write<OfRows & { run: RunId }>(
  `UPDATE _sync_missing AS m SET gone_run = :run, is_vouched_for = 0 WHERE ${ofRows}`,
);

export const vouchForRows = write<OfRows & { run: RunId; now: Instant }>(
  `UPDATE _sync_missing AS m SET missed = 0, is_allowed = 0, is_vouched_for = 1, gone_run = NULL, asked_run = :run, asked_at = :now
     WHERE ${ofRows}`,
);

const drop = put<OfRows>(`DELETE FROM _sync_missing AS m WHERE ${ofRows}`);

/** The rows exist after all, or are tombstoned: walks that missed them no longer count. */
export function endMissing(tx: Tx, of: OfEntity, rows: readonly number[]): void {
  if (rows.length > 0) drop(tx, { ...of, rows });
}

/** Rows whose partition is pruned: nothing misses them now. */
export const dropOwnerless = write<{ connector: ConnectorName }>(
  `DELETE FROM _sync_missing AS m WHERE m.connector = :connector
     AND NOT EXISTS (SELECT 1 FROM _sync_partitions AS p WHERE p.id = m.partition)`,
);

export interface NotedRow {
  readonly row: number;
  readonly partition: number;
  readonly isVouchedFor: boolean;
  readonly isAllowed: boolean;
}

const { live, ended, emptied } = standing;
const columns = 'm.row, m.partition, m.is_vouched_for = 1 AS is_vouched_for, m.is_allowed = 1 AS is_allowed';
const isMissing = `m.missed > 0 AND p.gone = ${live}`;
const isOrphan = `m.missed > 0 AND p.gone = ${emptied}`;
const isVouchedFor = `m.is_vouched_for = 1 AND m.asked_run IS NOT NULL AND m.needs = 'get' AND m.is_allowed = 0`;

const withPartition = '_sync_missing AS m JOIN _sync_partitions AS p ON p.id = m.partition';
const ofEntity = `${withPartition} WHERE m.connector = :connector AND m.entity = :entity`;
const missedTwice = 'CASE WHEN m.missed > 2 THEN 2 ELSE m.missed END';

/** Notes of the given rows; rows without a note are left out. */
export const notedRows = ask<OfRows, NotedRow>(`SELECT ${columns} FROM _sync_missing AS m WHERE ${ofRows}`);

/** Missing rows and orphans, those that are noted alike together, by entity. */
export const alikeRows = ask<{ connector: ConnectorName }, AlikeRows>(
  `SELECT m.entity, count(*) AS rows, min(m.since) AS since, ${missedTwice} AS missed, m.needs, m.is_allowed = 1 AS is_allowed,
     m.is_vouched_for = 1 AS is_vouched_for, m.asked_run IS NOT NULL AS was_asked, 0 AS is_gone,
     CASE WHEN p.gone = ${live} THEN 'live' ELSE 'emptied' END AS owner
   FROM ${withPartition} WHERE m.connector = :connector AND (${isMissing} OR ${isOrphan})
   GROUP BY m.entity, p.gone, ${missedTwice}, m.needs, m.is_allowed, m.is_vouched_for, m.asked_run IS NOT NULL
   ORDER BY m.entity`,
);

/** Rows whose deletes a guard must judge, by row number. */
export async function openMissing(
  tx: Tx,
  which: OfEntity & { readonly after: number; readonly limit: number },
): Promise<readonly number[]> {
  const sql = `SELECT m.row FROM ${ofEntity} AND ${isMissing} AND m.row > :after
     AND m.is_allowed = 0 AND NOT (${isVouchedFor}) ORDER BY m.row LIMIT :limit`;
  return await columnOf(tx, sql, which);
}

/** Missing rows among the given ones, without those that `get` has vouched for. */
export async function countedRows(tx: Tx, which: OfRows): Promise<readonly number[]> {
  const sql = `SELECT m.row FROM ${ofEntity} AND m.row IN {rows bigint} AND ${isMissing} AND NOT (${isVouchedFor})`;
  return await columnOf(tx, sql, which);
}

/** Number of rows below deleted records that wait for a `get`, by entity; entities without such rows are left out. */
export const countBelowDeleted = ask<{ connector: ConnectorName }, RowsOf>(
  `SELECT m.entity, count(*) AS rows FROM ${withPartition}
   WHERE m.connector = :connector AND m.missed > 0 AND p.gone IN (${ended}, ${emptied}) GROUP BY m.entity`,
);

interface ToConfirm extends Pick<NotedRow, 'row' | 'isVouchedFor'> {
  readonly since: Instant;
  readonly params: string;
  readonly inject: string;
}

/** Rows that a `get` must judge; notes them as asked in this run. */
export async function askForRows(
  tx: Tx,
  asking: OfEntity & { readonly run: RunId; readonly now: Instant; readonly limit: number },
): Promise<readonly ToConfirm[]> {
  const picked = await tx.rows<ToConfirm>(
    `SELECT m.row, m.since, m.is_vouched_for = 1 AS is_vouched_for, p.params, p.inject FROM ${ofEntity}
       AND (${isMissing} OR ${isOrphan}) AND m.needs = 'get' AND m.asked_run IS DISTINCT FROM :run
     ORDER BY m.asked_at NULLS FIRST, m.row LIMIT :limit`,
    asking,
  );
  const rows = picked.map(({ row }) => row);
  if (rows.length > 0) {
    tx.put(`UPDATE _sync_missing AS m SET asked_run = :run, asked_at = :now WHERE ${ofRows}`, {
      ...asking,
      rows,
    });
  }
  return picked;
}

/**
 * Reads of a listing in unknown order agree that a row is gone. A record that leaves while such a listing is read moves
 * the next one out of sight; so two reads agree only where the second one has met all that the first one met. So many
 * in a row need not.
 */
const enoughReads = 4;
export const readsAgree = `m.needs = 'walk' AND (m.missed >= ${enoughReads} OR m.missed >= 2 AND NOT EXISTS (
  SELECT 1 FROM _sync_missing AS o WHERE o.partition = m.partition AND o.needs = 'walk' AND o.missed = 1))`;

/** Rows that need nothing more in this run. */
export async function readyRows(
  tx: Tx,
  which: OfEntity & { readonly run: RunId; readonly limit: number },
  choice: TombstoneChoice,
): Promise<readonly NotedRow[]> {
  return await tx.rows<NotedRow>(
    `SELECT ${columns} FROM ${ofEntity} AND ${isMissing}
       AND (m.needs = 'nothing' OR ${readsAgree} OR m.needs = 'get' AND m.gone_run = :run)
       AND m.is_allowed >= :allowed AND m.missed >= :missed
     ORDER BY m.row LIMIT :limit`,
    { ...which, allowed: choice === 'allowed' ? 1 : 0, missed: choice === 'missed-twice' ? 2 : 1 },
  );
}

/** Orphans that `get` did not find in this run. */
export const orphansGone = ask<
  { connector: ConnectorName; run: RunId; limit: number },
  { readonly entity: EntityName; readonly row: number }
>(
  `SELECT m.entity, m.row FROM _sync_missing AS m {index _sync_missing_gone} JOIN _sync_partitions AS p ON p.id = m.partition
   WHERE m.connector = :connector AND m.gone_run = :run AND ${isOrphan} ORDER BY m.entity, m.row LIMIT :limit`,
);
