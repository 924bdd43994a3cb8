import type { Instant } from '../../../core/clock.ts';
import { standing } from '../../decisions/standing.ts';
import { ask, write } from '../../../sql/database.ts';
import { anyKnown, anyLive, transition } from './states.ts';
import type { Ids } from './walking.ts';

/** Those of backfills are left alone: their chains end by themselves. */
const below = `connector = :connector AND parent_entity = :entity AND parent_hash IN {keyHashes bytea} AND backfill = ''`;

/** What the search for deleted records does to partitions. */
export const deleting = {
  // In a sweep two cursors in one number (`areOwnRowsSwept`); below a deleted record always the last of its own rows.
  sweepTo: transition({
    what: 'its rows have been checked up to this one',
    from: ['unswept', 'ended'],
    run: write<{ id: number; sweptTo: number }>(
      `UPDATE _sync_partitions SET swept_to = :sweptTo WHERE id = :id`,
    ),
  }),
  endSweep: transition({
    what: 'its full walk counts: the rows that it did not meet are noted as missing',
    from: ['unswept'],
    to: ['idle'],
    run: write<Ids & { fullAt: Instant }>(
      `UPDATE _sync_partitions SET full_at = :fullAt, sweep_origin = NULL, swept_to = 0 WHERE id IN {ids bigint}`,
    ),
  }),
  withdraw: transition({
    what: 'its walk missed a record that is there: it proved nothing, and the next one is full',
    from: anyKnown,
    run: write<Ids>(
      `UPDATE _sync_partitions SET full_at = NULL, marker = NULL, watermark = NULL WHERE id IN {ids bigint}`,
    ),
  }),
  // Also what it has ended before: rows may have come back in another way than by a walk. The run that set it aside is
  // kept for the report.
  end: transition({
    what: 'the record above is deleted: no longer walked, and nothing that was known of it counts',
    from: [...anyLive, 'emptied', 'resting'],
    to: ['ended'],
    run: ask<Below, { readonly id: number }>(
      `UPDATE _sync_partitions SET gone = ${standing.ended}, due_since = NULL, ready = 0, listed = 0, position = NULL,
        watermark = NULL, marker = NULL, found_marker = NULL, full_at = NULL, full_origin = NULL, sweep_origin = NULL, swept_to = 0,
        failure = NULL, failure_code = NULL, failed_at = NULL
      WHERE ${below} AND gone <> ${standing.ended} RETURNING id`,
    ),
  }),
  empty: transition({
    what: 'its rows are deleted, have another owner, or wait for a `get`',
    from: ['ended'],
    to: ['emptied'],
    run: write<Ids>(
      `UPDATE _sync_partitions SET gone = ${standing.emptied}, swept_to = 0 WHERE id IN {ids bigint}`,
    ),
  }),
  rest: transition({
    what: 'listings leave the record above out although it exists: rests until one shows it again',
    from: anyLive,
    to: ['resting'],
    run: ask<Below, { readonly id: number }>(
      `UPDATE _sync_partitions SET gone = ${standing.resting}, due_since = NULL, ready = 0, listed = 0, position = NULL,
        failure = NULL, failure_code = NULL, failed_at = NULL
      WHERE ${below} AND gone = ${standing.live} RETURNING id`,
    ),
  }),
  giveBack: transition({
    what: 'the record above is back although no walk has found it: the next chain walks it from the start',
    from: ['ended', 'emptied', 'resting'],
    to: ['idle', 'unswept'],
    run: write<Below & { origin: number; now: Instant }>(
      `UPDATE _sync_partitions SET gone = ${standing.live}, origin = :origin, found_at = :now
      WHERE ${below} AND gone > ${standing.live}`,
    ),
  }),
} as const;

/** The records whose partitions are meant, by the hashes of their keys' texts. */
export type Below = {
  readonly connector: string;
  readonly entity: string;
  readonly keyHashes: readonly Buffer[];
};
