import type { Instant } from '../../../core/clock.ts';
import type { EntityName } from '../../../core/names.ts';
import type { Conclusion } from '../../decisions/missing-rows.ts';
import type { Absence, WalkMode } from '../../partition.ts';
import type { BoundScope } from './read-partitions.ts';
import { standing } from '../../decisions/standing.ts';
import { anyLive, transition } from './states.ts';

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
        absence = :absence, watermark = :watermark, marker = found_marker, full_at = :fullAt, full_origin = :fullOrigin,
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

interface Sealed extends Conclusion {
  readonly id: number;
  readonly run: string;
  readonly now: Instant;
  readonly scope: string | null;
  readonly absence: Absence;
}
