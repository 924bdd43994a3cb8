import type { Instant } from '../../../core/clock.ts';
import { anyKnown, anyLive, standing, transition } from './states.ts';

/** Those of backfills are left alone: their chains end by themselves. */
const below =
  "connector = :connector AND parent_entity = :entity AND parent_key = :keyText AND backfill = ''";

export const deleting = {
  sweepTo: transition<{ readonly id: number; readonly sweptTo: number }>({
    what: 'its rows have been looked at up to this one',
    from: ['unswept', 'ended'],
    by: ['deletes/sweep-rows', 'deletes/delete-rows'],
    sql: 'UPDATE _sync_partitions SET swept_to = :sweptTo WHERE id = :id',
  }),
  endSweep: transition<{ readonly id: number; readonly fullAt: Instant }>({
    what: 'its full walk counts: the rows that it did not meet are noted as missing',
    from: ['unswept'],
    to: ['idle'],
    by: ['deletes/sweep-rows'],
    sql: 'UPDATE _sync_partitions SET full_at = :fullAt, sweep_origin = NULL, swept_to = 0 WHERE id = :id',
  }),
  withdraw: transition<{ readonly id: number }>({
    what: 'its walk missed a record that is there: it proved nothing, and the next one is full',
    from: anyKnown,
    by: ['deletes/ledger-deletes'],
    sql: 'UPDATE _sync_partitions SET full_at = NULL, marker = NULL, watermark = NULL WHERE id = :id',
  }),
  // Also what it has ended before: rows may have come back in another way than by a walk. Who set it aside is kept for the report.
  end: transition<Below, { readonly id: number }>({
    what: 'the record above is deleted: not walked any more, and nothing that was known of it counts',
    from: [...anyLive, 'emptied', 'resting'],
    to: ['ended'],
    by: ['deletes/delete-rows'],
    sql: `UPDATE _sync_partitions SET gone = ${standing.ended}, due_since = NULL, ready = 0, listed = 0, position = NULL, watermark = NULL,
        marker = NULL, found_marker = NULL, full_at = NULL, full_origin = NULL, sweep_origin = NULL, swept_to = 0,
        failure = NULL, failed_at = NULL
      WHERE ${below} AND gone <> ${standing.ended} RETURNING id`,
  }),
  empty: transition<{ readonly id: number }>({
    what: 'its rows are deleted, have another home, or wait for a `get`',
    from: ['ended'],
    to: ['emptied'],
    by: ['deletes/delete-rows'],
    sql: `UPDATE _sync_partitions SET gone = ${standing.emptied}, swept_to = 0 WHERE id = :id`,
  }),
  rest: transition<Below, { readonly id: number }>({
    what: 'listings leave the record above out although it exists: rests until one shows it again',
    from: anyLive,
    to: ['resting'],
    by: ['deletes/ledger-deletes'],
    sql: `UPDATE _sync_partitions SET gone = ${standing.resting}, due_since = NULL, ready = 0, listed = 0, position = NULL,
        failure = NULL, failed_at = NULL
      WHERE ${below} AND gone = ${standing.live} RETURNING id`,
  }),
  giveBack: transition<Below & { readonly origin: number; readonly now: Instant }>({
    what: 'the record above is back although no walk has found it: the next chain walks it from the start',
    from: ['ended', 'emptied', 'resting'],
    to: ['idle', 'unswept'],
    by: ['repair/ledger-repair'],
    sql: `UPDATE _sync_partitions SET gone = ${standing.live}, origin = :origin, found_at = :now
      WHERE ${below} AND gone > ${standing.live}`,
  }),
} as const;

export interface Below {
  readonly connector: string;
  readonly entity: string;
  readonly keyText: string;
}
