import type Database from 'better-sqlite3';
import type { Instant } from '../../../core/clock.ts';
import type { Conclusion } from '../../decisions/conclude-walk.ts';
import { standing } from '../../decisions/standing.ts';
import type { Absence } from '../../partition.ts';
import { keeping } from './keeping.ts';
import { anyKnown, anyLive, transition, type Transition } from './states.ts';
import { walking } from './walking.ts';

/** Those of backfills are left alone: their chains end by themselves. */
const below =
  "connector = :connector AND parent_entity = :entity AND parent_key = :keyText AND backfill = ''";

/** How walks end, and what deletes do. */
const sealingAndDeleting = {
  // What failed in an earlier run of the chain is forgotten here.
  endListing: transition<{ readonly id: number; readonly proof: string; readonly absence: Absence }>({
    what: 'its own listing has been read to its end',
    from: ['ready', 'set-aside'],
    to: ['listed'],
    by: ['commit'],
    sql: `UPDATE _sync_partitions SET listed = 1, ready = 0, position = NULL, set_aside_run = NULL, failure = NULL,
        failed_at = NULL, proof = :proof, absence = :absence
      WHERE id = :id`,
  }),
  sealInner: transition<{ readonly id: number; readonly now: Instant; readonly run: string }>({
    what: 'a listing inside a tree is read; its row goes with the seal of the tree',
    from: ['listed'],
    to: ['idle'],
    by: ['commit'],
    sql: 'UPDATE _sync_partitions SET due_since = NULL, sealed_at = :now, sealed_run = :run WHERE id = :id',
  }),
  seal: transition<Sealed>({
    what: 'it and every listing inside its tree are read; unswept where its walk says what is missing',
    from: ['listed'],
    to: ['idle', 'unswept'],
    by: ['commit'],
    sql: `UPDATE _sync_partitions SET due_since = NULL, listed = 0, sealed_at = :now, sealed_run = :run, sealed_scope = :scope,
        proof = :proof, absence = :absence, watermark = :watermark, marker = :marker, full_at = :fullAt, full_origin = :fullOrigin,
        sweep_origin = :sweepOrigin, swept_to = 0
      WHERE id = :id`,
  }),
  dropInner: transition<{ readonly tree: number }>({
    what: 'listings inside a tree that is sealed, or whose record is deleted or left out',
    from: anyLive,
    to: ['unknown'],
    by: ['commit', 'deletes/delete-rows', 'deletes/ledger-deletes'],
    sql: 'DELETE FROM _sync_partitions WHERE tree = :tree',
  }),
  unseal: transition<{ readonly id: number; readonly now: Instant; readonly origin: number }>({
    what: 'a short page ended its walk, and more comes after pages of that length: as if it had never been read',
    from: ['listed', 'idle', 'unswept'],
    to: ['ready'],
    by: ['commit'],
    sql: `UPDATE _sync_partitions SET due_since = :now, ready = 1, listed = 0, position = NULL, mode = 'full', midway = 0,
        watermark = NULL, proof = NULL, absence = NULL, full_at = NULL, full_origin = nullif(full_origin, :origin),
        sweep_origin = NULL, swept_to = 0
      WHERE id = :id`,
  }),
  // In a sweep two cursors in one number (`areOwnRowsSwept`); below a deleted record always the last of its own rows.
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

/** Every statement that writes `_sync_partitions`, by its name in docs/partitions.md. */
export const transitions = { ...walking, ...sealingAndDeleting, ...keeping };

type StatementOf<One> =
  One extends Transition<infer Values, infer Row> ? Database.Statement<[Values], Row> : never;

export type PartitionTransitions = {
  readonly [Name in keyof typeof transitions]: StatementOf<(typeof transitions)[Name]>;
};

export function prepareTransitions(db: Database.Database): PartitionTransitions {
  const statements = Object.entries(transitions).map(([name, { sql }]) => [name, db.prepare(sql)] as const);
  return Object.fromEntries(statements) as PartitionTransitions;
}

interface Below {
  readonly connector: string;
  readonly entity: string;
  readonly keyText: string;
}

interface Sealed extends Conclusion {
  readonly id: number;
  readonly run: string;
  readonly now: Instant;
  readonly scope: string | null;
  readonly proof: string;
  readonly absence: Absence;
}
