import type { Instant } from '../../../core/clock.ts';
import type { ConnectorName, EntityName, OfEntity, RunId } from '../../../core/names.ts';
import { ask, columnOf, put, write, type Tx } from '../../../sql/database.ts';
import type { Needs, OtherPlace } from '../../decisions/missing-rows.ts';
import { standing } from '../../decisions/becoming-due.ts';
import type { TombstoneChoice } from '../../deletes.ts';
import type { RowsOf } from '../../run-report.ts';
import type { PlaceTexts } from '../../stored-json.ts';
import { grouped } from '../../../core/grouped.ts';

/* `_sync_missing`, as it is written and read. Each row is given once. */

/** Numbers of the rows of an entity that look deleted; takes the names of connector and entity. */
export const missingRowsSql =
  'SELECT m.row FROM _sync_missing AS m WHERE m.missed > 0 AND m.connector = CAST(? AS text) AND m.entity = CAST(? AS text)';

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
/** Missing, so that a guard judges its delete. */
const isMissing = `m.missed > 0 AND p.gone = ${live}`;
/** Lies below a deleted record and may have moved: only a `get` shows it. */
const isOrphan = `m.missed > 0 AND p.gone = ${emptied}`;
/**
 * `get` returned it when it was asked last: it is asked again before the row is deleted, and no guard counts the row
 * until `get` no longer finds it.
 */
const isVouchedFor = `m.is_vouched_for = 1 AND m.asked_run IS NOT NULL AND m.needs = 'get' AND m.is_allowed = 0`;

export const withPartition = '_sync_missing AS m JOIN _sync_partitions AS p ON p.id = m.partition';
const ofEntity = `${withPartition} WHERE m.connector = :connector AND m.entity = :entity`;

/** Notes of the given rows; rows without a note are left out. */
export const notedRows = ask<OfRows, NotedRow>(`SELECT ${columns} FROM _sync_missing AS m WHERE ${ofRows}`);

/** Missing, and not vouched for: guards count the row, and a survivor is another one. */
export const isCounted = `${isMissing} AND NOT (${isVouchedFor})`;

export const noneNoted = {
  missing: 0,
  /** Missing rows whose deletion a person has allowed. */
  allowed: 0,
  /** Missing rows that full walks of at least two chains did not meet. */
  missedTwice: 0,
  /** Missing rows that the last `get` returned. Another `get` is sent before they are deleted. */
  vouchedFor: 0,
  /** Waiting for a `get`, orphans included. */
  toConfirm: 0,
  /** Rows below deleted records that may have moved, which only a `get` can show; not counted in `missing`. */
  orphans: 0,
  /** Time at which the oldest miss that is not vouched for began; null where there is none. */
  firstMissed: null as Instant | null,
};
type NotedCounts = Readonly<typeof noneNoted>;

/** Counts the missing rows and orphans of each entity, for the run's report and for the guards. */
export const countNoted = ask<{ connector: ConnectorName }, NotedCounts & { readonly entity: EntityName }>(
  `SELECT m.entity, count(*) FILTER (WHERE ${isMissing}) AS missing,
     count(*) FILTER (WHERE ${isMissing} AND m.is_allowed = 1) AS allowed,
     count(*) FILTER (WHERE ${isMissing} AND m.missed >= 2) AS missed_twice,
     count(*) FILTER (WHERE ${isMissing} AND ${isVouchedFor}) AS vouched_for,
     count(*) FILTER (WHERE m.needs = 'get') AS to_confirm, count(*) FILTER (WHERE ${isOrphan}) AS orphans,
     min(m.since) FILTER (WHERE ${isCounted}) AS first_missed
   FROM ${withPartition} WHERE m.connector = :connector AND (${isMissing} OR ${isOrphan})
   GROUP BY m.entity ORDER BY m.entity`,
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

/** Number of rows below deleted records that wait for a `get`, by entity; entities without such rows are left out. */
export const countBelowDeleted = ask<{ connector: ConnectorName }, RowsOf>(
  `SELECT m.entity, count(*) AS rows FROM ${withPartition}
   WHERE m.connector = :connector AND m.missed > 0 AND p.gone IN (${ended}, ${emptied}) GROUP BY m.entity`,
);

interface ToConfirm extends Pick<NotedRow, 'row' | 'isVouchedFor'>, PlaceTexts {
  readonly since: Instant;
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

/* `_sync_also`: rows met outside their owner. */

/** A row, and a partition that has shown it although it is not its owner. */
export interface RowAt {
  readonly row: number;
  readonly partition: number;
}

const place = `place.gone IS NOT DISTINCT FROM ${standing.live} AS is_live, place.due_since IS NOT NULL AS is_due,
    coalesce(place.origin, 0) AS origin, coalesce(place.found_at, '') AS found_at, place.parent_key IS NOT NULL AS is_below_record, place.full_origin, place.absence`;

/** The chain `origin` has met the rows there. */
export function meetElsewhere(tx: Tx, of: OfEntity & { readonly origin: number }, met: readonly RowAt[]) {
  if (met.length === 0) return;
  tx.put(
    `INSERT INTO _sync_also AS also (connector, entity, row, partition, origin)
     SELECT DISTINCT CAST(:connector AS text), CAST(:entity AS text), met.row, met.partition, CAST(:origin AS bigint)
     FROM {met: row bigint, partition bigint} ORDER BY met.row, met.partition
     ON CONFLICT (connector, entity, row, partition) DO UPDATE SET origin = excluded.origin WHERE also.origin <> excluded.origin`,
    { ...of, met },
  );
}

export async function leavePlaces(tx: Tx, of: OfEntity, left: readonly RowAt[]): Promise<void> {
  if (left.length === 0) return;
  await tx.run(
    `DELETE FROM _sync_also AS also WHERE also.connector = :connector AND also.entity = :entity
       AND (also.row, also.partition) IN (SELECT gone.row, gone.partition FROM {gone: row bigint, partition bigint})`,
    { ...of, gone: left },
  );
}

const leaveAllPlaces = write<OfRows>(
  `DELETE FROM _sync_also AS also
   WHERE also.connector = :connector AND also.entity = :entity AND also.row IN {rows bigint}`,
);

/** The rows are deleted: nothing is noted of them. */
export async function forgetRows(tx: Tx, of: OfEntity, rows: readonly number[]): Promise<void> {
  await leaveAllPlaces(tx, { ...of, rows });
  endMissing(tx, of, rows);
}

export const dropShared = write<{ ids: readonly number[] }>(
  `DELETE FROM _sync_also AS also WHERE also.partition IN {ids bigint}`,
);

interface SharedRow extends RowAt {
  /** The chain that met it there last. */
  readonly origin: number;
}

/**
 * Reads up to `limit` rows that these partitions have shown, each after row `after`; in the order of the partitions,
 * then by row number.
 */
export async function readShared(
  tx: Tx,
  of: OfEntity,
  shown: readonly { readonly partition: number; readonly after: number }[],
  limit: number,
): Promise<readonly SharedRow[]> {
  return await tx.rows<SharedRow>(
    `SELECT few.row, few.partition, few.origin FROM (
       SELECT shown.n, shared.row, shared.partition, shared.origin
       FROM {shown: partition bigint, after bigint, n} CROSS JOIN ${sharedOf[tx.dialect.name]}
       LIMIT :limit) AS few
     ORDER BY few.n, few.row`,
    { ...of, limit, shown },
  );
}

const itsShared =
  'also.partition = shown.partition AND also.connector = :connector AND also.entity = :entity AND also.row > shown.after';
/**
 * Queries that scan the partitions one by one, and end with the last row that is wanted. PostgreSQL does so only with
 * LATERAL, which SQLite does not have.
 */
const sharedOf = {
  sqlite: `_sync_also AS shared {index _sync_also_partition} ON ${itsShared.replaceAll('also.', 'shared.')}`,
  postgres: `LATERAL (SELECT also.row, also.partition, also.origin FROM _sync_also AS also WHERE ${itsShared}
         ORDER BY also.row LIMIT :limit) AS shared`,
};

/** Partitions other than the owner in which rows have been met, by row and partition. Rows without any are left out. */
export async function otherPlaces(tx: Tx, of: OfEntity, rows: readonly number[]) {
  if (rows.length === 0) return new Map<number, readonly OtherPlace[]>();
  const found = await tx.rows<OtherPlace & { readonly row: number }>(
    `SELECT also.row, also.partition, also.origin AS met_by, ${place}
     FROM _sync_also AS also LEFT JOIN _sync_partitions AS place ON place.id = also.partition
     WHERE also.connector = :connector AND also.entity = :entity AND also.row IN {rows bigint}
     ORDER BY also.row, also.partition`,
    { ...of, rows },
  );
  return grouped(found, ({ row }) => row);
}

/** Places by id; ids that are no longer partitions are left out. */
export async function placesById(tx: Tx, ids: readonly number[]): Promise<ReadonlyMap<number, OtherPlace>> {
  if (ids.length === 0) return new Map();
  const found = await tx.rows<OtherPlace>(
    `SELECT place.id AS partition, 0 AS met_by, ${place} FROM _sync_partitions AS place WHERE place.id IN {ids bigint}`,
    { ids },
  );
  return new Map(found.map((one) => [one.partition, one]));
}
