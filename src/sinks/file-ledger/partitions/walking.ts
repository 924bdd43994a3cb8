import type { Instant } from '../../../core/clock.ts';
import type { EntityName } from '../../../core/names.ts';
import type { WalkMode } from '../../partition.ts';
import type { BoundScope } from './read-partitions.ts';
import { standing } from '../../decisions/standing.ts';
import { anyLive, transition } from './states.ts';

/** How a partition is found, and how its walk goes until it ends. */
export const walking = {
  find: transition<FoundValues>({
    what: 'found for the first time; idle where only a backfill needs it as the home of its rows',
    from: ['unknown'],
    to: ['ready', 'waiting', 'idle'],
    by: ['partitions/find-partition'],
    sql: `INSERT INTO _sync_partitions (connector, entity, params, backfill, origin, due_since, ready, listed, mode, base,
        inject, rank, tree, tree_depth, parent_entity, parent_key, found_at, found_marker)
      VALUES (:connector, :entity, :params, :window, :origin, :dueSince, :ready, 0, 'full', :base,
        :inject, :rank, :tree, :treeDepth, :parentEntity, :parentKey, :now, :marker)`,
  }),
  renew: transition<{ readonly id: number }>({
    what: 'found again below a record that was deleted or left out: nothing that was known of it counts',
    from: ['ended', 'emptied', 'resting'],
    to: ['idle', 'unswept'],
    by: ['partitions/find-partition'],
    sql: `UPDATE _sync_partitions SET gone = ${standing.live}, position = NULL, watermark = NULL, marker = NULL, full_at = NULL
      WHERE id = :id`,
  }),
  meet: transition<FoundValues & { readonly id: number }>({
    what: 'found again by another chain of runs',
    from: anyLive,
    by: ['partitions/find-partition'],
    sql: `UPDATE _sync_partitions SET origin = :origin, inject = :inject, rank = :rank, tree = :tree, tree_depth = :treeDepth,
        parent_entity = :parentEntity, parent_key = :parentKey, found_at = :now, found_marker = :marker, base = :base,
        failure = NULL, failed_at = NULL
      WHERE id = :id`,
  }),
  // A full walk that is due stays due, whatever breaks it off: the one before it counts no more.
  begin: transition<Begun, { readonly midway: number }>({
    what: 'to be walked by this chain, where its run reads the entity; a position counts only for a walk of the same mode',
    from: anyLive,
    to: ['ready', 'waiting'],
    by: ['partitions/find-partition'],
    sql: `UPDATE _sync_partitions SET origin = :origin, due_since = coalesce(due_since, :now), ready = :ready, listed = 0,
        midway = position IS NOT NULL AND mode IS :mode, position = CASE WHEN mode IS :mode THEN position END,
        mode = :mode, full_at = CASE WHEN :mode = 'full' THEN NULL ELSE full_at END, set_aside_run = NULL
      WHERE id = :id RETURNING midway`,
  }),
  advance: transition<{ readonly id: number; readonly position: string }>({
    what: 'a page of its walk is stored',
    from: ['ready', 'set-aside'],
    by: ['commit'],
    sql: 'UPDATE _sync_partitions SET position = :position WHERE id = :id',
  }),
  setAside: transition<SetAside>({
    what: 'its walk failed and is left to a later run',
    from: ['ready', 'set-aside'],
    to: ['set-aside'],
    by: ['commit'],
    sql: `UPDATE _sync_partitions SET ready = 0, set_aside_run = :run, failure = :failure, failed_at = :at,
        position = CASE WHEN :dropPosition OR :dropWatermark THEN NULL ELSE position END,
        watermark = CASE WHEN :dropWatermark THEN NULL ELSE watermark END,
        full_at = CASE WHEN :dropWatermark THEN NULL ELSE full_at END,
        midway = CASE WHEN :dropPosition OR :dropWatermark THEN 0 ELSE midway END,
        mode = CASE WHEN :dropWatermark THEN 'full' ELSE mode END
      WHERE id = :id AND due_since IS NOT NULL`,
  }),
  retry: transition<BoundScope & { readonly origin: number }>({
    what: 'set aside by a run that this one resumes',
    from: ['set-aside'],
    to: ['ready'],
    by: ['start-run'],
    sql: `UPDATE _sync_partitions INDEXED BY _sync_partitions_set_aside SET ready = 1, set_aside_run = NULL
      WHERE connector = :connector AND backfill = :window AND entity IN (SELECT value FROM json_each(:entities))
        AND due_since IS NOT NULL AND origin = :origin AND listed = 0 AND set_aside_run IS NOT NULL`,
  }),
  // A service may keep waiting what is about one thing alone, and the rest must have its turn. Holds until they are found again.
  putFirstBack: transition<BoundScope>({
    what: 'the walk that would be first becomes the last, and those of its entity go behind all others',
    from: ['ready'],
    by: ['start-run'],
    sql: `WITH first AS (
        SELECT id, entity FROM _sync_partitions INDEXED BY _sync_partitions_ready
        WHERE connector = :connector AND backfill = :window AND ready = 1 ORDER BY rank DESC, id LIMIT 1
      ), last AS MATERIALIZED (
        SELECT min(rank) AS rank FROM _sync_partitions INDEXED BY _sync_partitions_ready
        WHERE connector = :connector AND backfill = :window AND ready = 1
      )
      UPDATE _sync_partitions SET rank = last.rank - iif(_sync_partitions.id = first.id, 2, 1) FROM first, last
      WHERE connector = :connector AND backfill = :window AND ready = 1 AND _sync_partitions.entity = first.entity`,
  }),
} as const;

/** A partition as it is found for the first time: its first walk is a full one. */
export interface FoundValues {
  readonly connector: string;
  readonly entity: EntityName;
  readonly params: string;
  readonly window: string;
  readonly origin: number;
  readonly dueSince: Instant | null;
  readonly ready: 0 | 1;
  readonly base: number | null;
  readonly inject: string;
  readonly rank: number;
  readonly tree: number | null;
  readonly treeDepth: number | null;
  readonly parentEntity: EntityName | null;
  readonly parentKey: string | null;
  readonly now: Instant;
  readonly marker: string | null;
}

interface Begun {
  readonly id: number;
  readonly origin: number;
  readonly now: Instant;
  readonly mode: WalkMode;
  readonly ready: 0 | 1;
}

interface SetAside {
  readonly id: number;
  readonly run: string;
  readonly failure: string;
  readonly at: Instant;
  readonly dropPosition: number;
  readonly dropWatermark: number;
}
