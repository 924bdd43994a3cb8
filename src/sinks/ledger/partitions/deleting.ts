import type { Instant } from '../../../core/clock.ts';
import { standing } from '../../decisions/standing.ts';
import { ask, write } from '../../../sql/database.ts';
import type { Ids } from './walking.ts';

/** Those of backfills are left alone: their chains end by themselves. */
const below = `connector = :connector AND parent_entity = :entity AND parent_hash = ANY(:keyHashes::bytea[]) AND backfill = ''`;

/** What the search for deleted records does to partitions. */
export const deleting = {
  sweepTo: write<
    Ids & { sweptTo: readonly number[] }
  >(`UPDATE _sync_partitions AS one SET swept_to = swept.swept_to
      FROM unnest(:ids::bigint[], :sweptTo::bigint[]) AS swept(id, swept_to) WHERE one.id = swept.id`),
  endSweep: write<Ids & { fullAt: Instant }>(
    `UPDATE _sync_partitions SET full_at = :fullAt, sweep_origin = NULL, swept_to = 0 WHERE id = ANY(:ids::bigint[])`,
  ),
  withdraw: write<Ids>(
    `UPDATE _sync_partitions SET full_at = NULL, marker = NULL, watermark = NULL WHERE id = ANY(:ids::bigint[])`,
  ),
  // Also what it has ended before: rows may have come back in another way than by a walk. Who set it aside is kept for the report.
  end: ask<
    Below,
    { readonly id: number }
  >(`UPDATE _sync_partitions SET gone = ${standing.ended}, due_since = NULL, ready = 0, listed = 0, position = NULL,
        watermark = NULL, marker = NULL, found_marker = NULL, full_at = NULL, full_origin = NULL, sweep_origin = NULL, swept_to = 0,
        failure = NULL, failure_code = NULL, failed_at = NULL
      WHERE ${below} AND gone <> ${standing.ended} RETURNING id`),
  empty: write<Ids>(
    `UPDATE _sync_partitions SET gone = ${standing.emptied}, swept_to = 0 WHERE id = ANY(:ids::bigint[])`,
  ),
  rest: ask<
    Below,
    { readonly id: number }
  >(`UPDATE _sync_partitions SET gone = ${standing.resting}, due_since = NULL, ready = 0, listed = 0, position = NULL,
        failure = NULL, failure_code = NULL, failed_at = NULL
      WHERE ${below} AND gone = ${standing.live} RETURNING id`),
  giveBack: write<
    Below & { origin: number; now: Instant }
  >(`UPDATE _sync_partitions SET gone = ${standing.live}, origin = :origin, found_at = :now
      WHERE ${below} AND gone > ${standing.live}`),
} as const;

/** The records whose partitions are meant, by the hashes of their keys' texts. */
export type Below = {
  readonly connector: string;
  readonly entity: string;
  readonly keyHashes: readonly Buffer[];
};
