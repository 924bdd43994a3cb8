import type { Instant } from '../../../core/clock.ts';
import type { ConnectorName, EntityName, RunId } from '../../../core/names.ts';
import type { Needs } from '../../decisions/missing-rows.ts';
import type { AlikeRows } from '../../decisions/missing-rows.ts';
import type { TombstoneChoice } from '../../deletes.ts';
import { standing } from '../../decisions/standing.ts';
import { columnOf, type Tx } from '../../../sql/database.ts';
import type { OfEntity } from './places.ts';

/*
 * `_sync_missing` as it is read; `decisions/missing-rows.ts` explains its rows. Conditions that are written here as SQL
 * mean the same.
 */

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
const missedTwice = 'CASE WHEN m.missed > 2 THEN 2 ELSE m.missed END';

/** By row; those that are not noted are left out. */
export async function notedRows(
  tx: Tx,
  of: OfEntity,
  rows: readonly number[],
): Promise<ReadonlyMap<number, NotedRow>> {
  const found = await tx.rows<NotedRow>(
    `SELECT ${columns} FROM _sync_missing AS m
     WHERE m.connector = :connector AND m.entity = :entity AND m.row IN {rows bigint}`,
    { ...of, rows },
  );
  return new Map(found.map((noted) => [noted.row, noted]));
}

/** Missing rows and orphans, those that are noted alike together, by entity. */
export async function alikeRows(tx: Tx, connector: ConnectorName): Promise<readonly AlikeRows[]> {
  return await tx.rows<AlikeRows>(
    `SELECT m.entity, count(*) AS rows, min(m.since) AS since, ${missedTwice} AS missed, m.needs, m.is_allowed = 1 AS is_allowed,
       m.is_vouched_for = 1 AS is_vouched_for, m.asked_run IS NOT NULL AS was_asked, 0 AS is_gone,
       CASE WHEN p.gone = ${live} THEN 'live' ELSE 'emptied' END AS home
     FROM ${withPartition} WHERE m.connector = :connector AND (${isMissing} OR ${isOrphan})
     GROUP BY m.entity, p.gone, ${missedTwice}, m.needs, m.is_allowed, m.is_vouched_for, m.asked_run IS NOT NULL
     ORDER BY m.entity`,
    { connector },
  );
}

/** Rows whose deletes a guard must judge, by row number. */
export async function openMissing(
  tx: Tx,
  of: OfEntity,
  after: number,
  limit: number,
): Promise<readonly number[]> {
  return await columnOf<number>(
    tx,
    `SELECT m.row FROM ${withPartition} WHERE m.connector = :connector AND m.entity = :entity AND ${isMissing} AND m.row > :after
       AND m.is_allowed = 0 AND NOT (${isVouchedFor}) ORDER BY m.row LIMIT :limit`,
    { ...of, after, limit },
  );
}

/** Those of the rows that are missing, and that `get` has not vouched for. */
export async function countedRows(
  tx: Tx,
  of: OfEntity,
  rows: readonly number[],
): Promise<ReadonlySet<number>> {
  const found = await columnOf<number>(
    tx,
    `SELECT m.row FROM ${withPartition} WHERE m.connector = :connector AND m.entity = :entity AND m.row IN {rows bigint}
       AND ${isMissing} AND NOT (${isVouchedFor})`,
    { ...of, rows },
  );
  return new Set(found);
}

/** How many rows below deleted records wait for a `get`, by entity; those without are left out. */
export async function countBelowDeleted(
  tx: Tx,
  connector: ConnectorName,
): Promise<ReadonlyMap<EntityName, number>> {
  const found = await tx.rows<{ entity: EntityName; rows: number }>(
    `SELECT m.entity, count(*) AS rows FROM ${withPartition}
     WHERE m.connector = :connector AND m.missed > 0 AND p.gone IN (${ended}, ${emptied}) GROUP BY m.entity`,
    { connector },
  );
  return new Map(found.map(({ entity, rows }) => [entity, rows]));
}

export interface ToConfirm extends Pick<NotedRow, 'row' | 'isVouchedFor'> {
  readonly since: Instant;
  readonly params: string;
  readonly inject: string;
}

/** Rows that a `get` must judge; notes them as asked in this run. */
export async function askForRows(
  tx: Tx,
  of: OfEntity,
  asking: { readonly run: RunId; readonly now: Instant; readonly limit: number },
): Promise<readonly ToConfirm[]> {
  const { run, now, limit } = asking;
  const picked = await tx.rows<ToConfirm>(
    `SELECT m.row, m.since, m.is_vouched_for = 1 AS is_vouched_for, p.params, p.inject FROM ${withPartition}
     WHERE m.connector = :connector AND m.entity = :entity AND (${isMissing} OR ${isOrphan}) AND m.needs = 'get'
       AND m.asked_run IS DISTINCT FROM :run
     ORDER BY m.asked_at NULLS FIRST, m.row LIMIT :limit`,
    { ...of, run, limit },
  );
  if (picked.length === 0) return [];
  tx.put(
    `UPDATE _sync_missing AS m SET asked_run = :run, asked_at = :now
     WHERE m.connector = :connector AND m.entity = :entity AND m.row IN {rows bigint}`,
    { ...of, run, now, rows: picked.map(({ row }) => row) },
  );
  return picked;
}

/** Rows that need nothing more in this run. */
export async function readyRows(
  tx: Tx,
  of: OfEntity,
  { which, run, limit }: { readonly which: TombstoneChoice; readonly run: RunId; readonly limit: number },
): Promise<readonly NotedRow[]> {
  return await tx.rows<NotedRow>(
    `SELECT ${columns} FROM ${withPartition}
     WHERE m.connector = :connector AND m.entity = :entity AND ${isMissing}
       AND (m.needs = 'nothing' OR m.needs = 'walk' AND m.missed >= 2 OR m.needs = 'get' AND m.gone_run = :run)
       AND m.is_allowed >= :allowed AND m.missed >= :missed
     ORDER BY m.row LIMIT :limit`,
    { ...of, run, limit, allowed: which === 'allowed' ? 1 : 0, missed: which === 'missed-twice' ? 2 : 1 },
  );
}

/** Orphans of which `get` has found nothing in this run. */
export async function orphansGone(
  tx: Tx,
  connector: ConnectorName,
  run: RunId,
  limit: number,
): Promise<readonly { readonly entity: EntityName; readonly row: number }[]> {
  return await tx.rows(
    `SELECT m.entity, m.row FROM _sync_missing AS m {index _sync_missing_gone} JOIN _sync_partitions AS p ON p.id = m.partition
     WHERE m.connector = :connector AND m.gone_run = :run AND ${isOrphan} ORDER BY m.entity, m.row LIMIT :limit`,
    { connector, run, limit },
  );
}

export interface Missed {
  readonly row: number;
  readonly partition: number;
  readonly needs: Needs;
}
