import type { Instant } from '../../../core/clock.ts';
import type { OfEntity } from '../../../core/names.ts';
import type { OtherPlace } from '../../decisions/missing-rows.ts';
import { standing } from '../../decisions/becoming-due.ts';
import { grouped } from '../../../core/grouped.ts';
import type { Tx } from '../../../sql/database.ts';

/* `_sync_also`: rows met outside their owner. */

/** A row, and a partition that has shown it although it is not its owner. */
export interface RowAt {
  readonly row: number;
  readonly partition: number;
}

interface PlaceRow extends Omit<OtherPlace, 'origin' | 'foundAt'> {
  readonly origin: number | null;
  readonly foundAt: Instant | null;
}

const place = `place.gone IS NOT DISTINCT FROM ${standing.live} AS is_live, place.due_since IS NOT NULL AS is_due, place.origin, place.found_at,
    place.parent_key IS NOT NULL AS is_below_record, place.full_origin, place.absence`;

/** The chain `origin` has met the rows there. */
export function meetElsewhere(
  tx: Tx,
  of: OfEntity & { readonly origin: number },
  met: readonly RowAt[],
): void {
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

export async function leaveAllPlaces(tx: Tx, of: OfEntity, rows: readonly number[]): Promise<void> {
  await tx.run(
    `DELETE FROM _sync_also AS also
     WHERE also.connector = :connector AND also.entity = :entity AND also.row IN {rows bigint}`,
    { ...of, rows },
  );
}

export async function dropShared(tx: Tx, partitions: readonly number[]): Promise<void> {
  await tx.run(`DELETE FROM _sync_also AS also WHERE also.partition IN {partitions bigint}`, {
    partitions,
  });
}

export interface SharedRow extends RowAt {
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
export async function otherPlaces(
  tx: Tx,
  of: OfEntity,
  rows: readonly number[],
): Promise<ReadonlyMap<number, readonly OtherPlace[]>> {
  if (rows.length === 0) return new Map();
  const found = await tx.rows<PlaceRow & { readonly row: number }>(
    `SELECT also.row, also.partition, also.origin AS met_by, ${place}
     FROM _sync_also AS also LEFT JOIN _sync_partitions AS place ON place.id = also.partition
     WHERE also.connector = :connector AND also.entity = :entity AND also.row IN {rows bigint}
     ORDER BY also.row, also.partition`,
    { ...of, rows },
  );
  const byRow = grouped(found, ({ row }) => row);
  return new Map([...byRow].map(([row, places]) => [row, places.map(readPlace)]));
}

/** Places by id; ids that are no longer partitions are left out. */
export async function placesById(tx: Tx, ids: readonly number[]): Promise<ReadonlyMap<number, OtherPlace>> {
  if (ids.length === 0) return new Map();
  const found = await tx.rows<PlaceRow>(
    `SELECT place.id AS partition, 0 AS met_by, ${place} FROM _sync_partitions AS place WHERE place.id IN {ids bigint}`,
    { ids },
  );
  return new Map(found.map((one) => [one.partition, readPlace(one)]));
}

function readPlace({ origin, foundAt, ...one }: PlaceRow): OtherPlace {
  return { ...one, origin: origin ?? 0, foundAt: foundAt ?? '' };
}
