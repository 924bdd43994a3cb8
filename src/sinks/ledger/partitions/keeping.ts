import type { Instant } from '../../../core/clock.ts';
import type { OfEntities, OfEntity } from '../../../core/names.ts';
import { standing } from '../../decisions/standing.ts';
import { write } from '../../../sql/database.ts';
import { inScope, type Scope } from './read-partitions.ts';
import { anyDue, anyKnown, anyLive, transition } from './states.ts';
import type { Ids } from './walking.ts';

const ofEntities = 'connector = :connector AND entity IN {entities text}';
const aged = `SELECT id FROM _sync_partitions {index _sync_partitions_aged} WHERE connector = :connector AND entity = :entity
          AND due_since IS NULL AND backfill = '' AND parent_key IS NOT NULL AND tree IS NULL AND gone = ${standing.live}`;

/** A position that was stored without a mask: `sealed-position.ts` has the other form. */
export const isClearPosition = `position NOT LIKE '{"kind":"sealed"%'`;

/** What a new chain of runs, the age of partitions and a person do to them. */
export const keeping = {
  // The index holds the few listings inside trees; any other would lead through all partitions.
  dropHalfRead: transition({
    what: 'a new chain begins: listings inside trees are found again',
    from: anyLive,
    to: ['unknown'],
    run: write<Scope>(
      `DELETE FROM _sync_partitions {index _sync_partitions_tree} WHERE tree IS NOT NULL AND ${inScope}`,
    ),
  }),
  stopSweep: transition({
    what: 'a new chain begins: what was to be swept for an earlier one is no longer swept',
    from: ['unswept', ...anyDue, 'resting'],
    to: ['idle', ...anyDue, 'resting'],
    run: write<Scope>(
      `UPDATE _sync_partitions {index _sync_partitions_sweep} SET sweep_origin = NULL, swept_to = 0
      WHERE sweep_origin IS NOT NULL AND ${inScope}`,
    ),
  }),
  startOver: transition({
    what: 'a new chain begins: roots are found again, what lies below a record waits',
    from: anyDue,
    to: ['idle', 'unswept', 'waiting'],
    run: write<Scope & { leaves: readonly string[]; keepAfter: Instant }>(
      `UPDATE _sync_partitions {index _sync_partitions_due} SET ready = 0, listed = 0, set_aside_run = NULL,
        position = CASE WHEN set_aside_run IS NOT NULL AND failed_at > :keepAfter
                          AND (sealed_at IS NULL OR mode = 'incremental') AND entity IN {leaves text} THEN position END,
        due_since = CASE WHEN parent_key IS NOT NULL THEN due_since END,
        failure = CASE WHEN parent_key IS NOT NULL THEN failure END,
        failure_code = CASE WHEN parent_key IS NOT NULL THEN failure_code END,
        failed_at = CASE WHEN parent_key IS NOT NULL THEN failed_at END
      WHERE ${inScope} AND due_since IS NOT NULL`,
    ),
  }),
  park: transition({
    what: 'a new chain begins that does not read the entity',
    from: ['ready'],
    to: ['waiting'],
    run: write<{ connector: string }>(
      `UPDATE _sync_partitions SET ready = 0 WHERE connector = :connector AND backfill = '' AND ready = 1`,
    ),
  }),
  // Without a time, too, or with an impossible one: a full walk that was never swept, or whose proof was withdrawn.
  // Each is a range of the index.
  age: transition({
    what: 'a new chain begins: what lies below a record was not read in full for too long',
    from: ['idle'],
    to: ['waiting'],
    run: write<{
      connector: string;
      entity: string;
      fullBefore: Instant;
      believedUntil: Instant;
      now: Instant;
    }>(
      `UPDATE _sync_partitions SET due_since = :now, ready = 0 WHERE id IN (
        ${aged} AND full_at <= :fullBefore UNION ALL ${aged} AND full_at > :believedUntil UNION ALL ${aged} AND full_at IS NULL)`,
    ),
  }),
  release: transition({
    what: 'nothing leads to it now',
    from: ['waiting', 'set-aside'],
    to: ['idle', 'unswept'],
    run: write<Ids>(
      `UPDATE _sync_partitions SET due_since = NULL, ready = 0, position = NULL, failure = NULL, failure_code = NULL,
        failed_at = NULL
      WHERE id IN {ids bigint}`,
    ),
  }),
  forget: transition({
    what: 'nothing has led to it, or was read in it, for too long',
    from: ['idle', 'unswept', 'emptied', 'resting'],
    to: ['unknown'],
    run: write<Ids>(`DELETE FROM _sync_partitions WHERE id IN {ids bigint}`),
  }),
  walkFromStart: transition({
    what: 'records of the entity were purged, and its position may name one: its walk begins again',
    from: anyKnown,
    run: write<OfEntity>(
      `UPDATE _sync_partitions SET position = NULL
      WHERE connector = :connector AND entity = :entity AND position IS NOT NULL`,
    ),
  }),
  forgetClear: transition({
    what: 'its entity has a mask, and its position is from before it: its walk begins again',
    from: anyKnown,
    run: write<OfEntities>(
      `UPDATE _sync_partitions SET position = NULL
      WHERE connector = :connector AND entity IN {entities text} AND ${isClearPosition}`,
    ),
  }),
  hideFailure: transition({
    what: 'its entity has a mask, and its failure is from before it',
    from: anyKnown,
    run: write<{ readonly id: number; readonly failure: string }>(
      `UPDATE _sync_partitions SET failure = :failure WHERE id = :id`,
    ),
  }),
  purge: transition({
    what: 'the record above was purged',
    from: anyKnown,
    to: ['unknown'],
    run: write<Ids>(`DELETE FROM _sync_partitions WHERE id IN {ids bigint}`),
  }),
  abandon: transition({
    what: 'of a backfill that was not resumed for too long',
    from: anyKnown,
    to: ['unknown'],
    run: write<{ connector: string; since: Instant }>(
      `DELETE FROM _sync_partitions WHERE connector = :connector AND backfill <> '' AND found_at < :since`,
    ),
  }),
  dropWindow: transition({
    what: 'of a window of a backfill that is done, or starts from the beginning',
    from: anyKnown,
    to: ['unknown'],
    run: write<{ connector: string; window: string }>(
      `DELETE FROM _sync_partitions WHERE connector = :connector AND backfill = :window AND backfill <> ''`,
    ),
  }),
  dropUnfinished: transition({
    what: 'a reset: listings inside trees, and those of backfills',
    from: anyKnown,
    to: ['unknown'],
    run: write<OfEntities>(
      `DELETE FROM _sync_partitions WHERE ${ofEntities} AND (tree IS NOT NULL OR backfill <> '')`,
    ),
  }),
  /** `reading`: what the newest sync reads, which may be resumed. */
  readAgain: transition({
    what: 'a reset: due from the start, and ready where the unfinished run reads the entity',
    from: anyLive,
    to: ['ready', 'waiting'],
    run: write<OfEntities & { now: Instant; reading: readonly string[] }>(
      `UPDATE _sync_partitions SET position = NULL, mode = 'full', midway = 0, watermark = NULL, marker = NULL,
        found_marker = NULL, sealed_at = NULL, sealed_run = NULL, sealed_scope = NULL, proof = NULL, last_page_size = NULL,
        last_page_records = NULL, absence = NULL, full_at = NULL, full_origin = NULL, sweep_origin = NULL, swept_to = 0, listed = 0,
        set_aside_run = NULL, failure = NULL, failure_code = NULL, failed_at = NULL, due_since = :now,
        ready = CASE WHEN entity IN {reading text} THEN 1 ELSE 0 END
      WHERE ${ofEntities} AND gone = ${standing.live}`,
    ),
  }),
  dropConnector: transition({
    what: 'a reset of a whole connector with its data, or a copy that begins again',
    from: anyKnown,
    to: ['unknown'],
    run: write<{ connector: string }>(`DELETE FROM _sync_partitions WHERE connector = :connector`),
  }),
  dropSome: transition({
    what: 'a connector is removed with its data, some of its listings at a time',
    from: anyKnown,
    to: ['unknown'],
    run: write<{ connector: string; atOnce: number }>(
      `DELETE FROM _sync_partitions WHERE id IN (SELECT id FROM _sync_partitions WHERE connector = :connector LIMIT :atOnce)`,
    ),
  }),
} as const;
