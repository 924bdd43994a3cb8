import type { Instant } from '../../../core/clock.ts';
import { standing } from '../../decisions/standing.ts';
import type { FoundPartition, WalkMode } from '../../partition.ts';
import { ask, put, write } from '../../../sql/database.ts';
import { dueById, inScope, type Scope } from './read-partitions.ts';
import { anyLive, transition } from './states.ts';

const foundColumns = `entity text, params text, params_hash bytea, base bigint, inject text, rank integer, tree bigint, tree_depth integer,
        parent_entity text, parent_key text, parent_hash bytea, marker text`;

/** From being found to being read. */
export const walking = {
  // In the order given, which is that of their ids.
  find: transition({
    what: 'found for the first time; idle where only a backfill needs it as the owner of its rows',
    from: ['unknown'],
    to: ['ready', 'waiting', 'idle'],
    run: put<
      Finding & {
        connector: string;
        window: string;
        dueSince: Instant | null;
        found: readonly NewPartition[];
      }
    >(
      `INSERT INTO _sync_partitions (connector, backfill, origin, due_since, ready, listed, mode, found_at, entity, params,
        params_hash, base, inject, rank, tree, tree_depth, parent_entity, parent_key, parent_hash, found_marker)
      SELECT CAST(:connector AS text), CAST(:window AS text), CAST(:origin AS bigint), CAST(:dueSince AS text), found.ready, 0, 'full',
        CAST(:now AS text), found.entity, found.params, found.params_hash, found.base, found.inject, found.rank, found.tree,
        found.tree_depth, found.parent_entity, found.parent_key, found.parent_hash, found.marker
      FROM {found: ${foundColumns}, ready integer, n} ORDER BY found.n`,
    ),
  }),
  renew: transition({
    what: 'found again below a record that was deleted or left out: nothing that was known of it counts',
    from: ['ended', 'emptied', 'resting'],
    to: ['idle', 'unswept'],
    run: put<Ids>(
      `UPDATE _sync_partitions SET gone = ${standing.live}, position = NULL, watermark = NULL, marker = NULL, full_at = NULL
      WHERE id IN {ids bigint}`,
    ),
  }),
  meet: transition({
    what: 'found again by another chain of runs',
    from: anyLive,
    run: put<Finding & { found: readonly (FoundAgain & { readonly id: number })[] }>(
      `UPDATE _sync_partitions AS one SET origin = :origin, inject = found.inject, rank = found.rank, tree = found.tree,
        tree_depth = found.tree_depth, parent_entity = found.parent_entity, parent_key = found.parent_key,
        parent_hash = found.parent_hash, found_at = :now, found_marker = found.marker, base = found.base, failure = NULL,
        failure_code = NULL, failed_at = NULL
      FROM {found: ${foundColumns}, id bigint} WHERE one.id = found.id`,
    ),
  }),
  // A full walk that is due stays due, whatever interrupts it: the one before it no longer counts.
  begin: transition({
    what: 'to be walked by this chain, where its run reads the entity; a position counts only for a walk of the same mode',
    from: anyLive,
    to: ['ready', 'waiting'],
    run: ask<
      Finding & { begun: readonly { readonly id: number; readonly mode: WalkMode; readonly ready: 0 | 1 }[] },
      { readonly entity: string; readonly midway: number }
    >(
      `UPDATE _sync_partitions AS one SET origin = :origin, due_since = coalesce(one.due_since, :now), ready = begun.ready,
        listed = 0, midway = CASE WHEN one.position IS NOT NULL AND one.mode IS NOT DISTINCT FROM begun.mode THEN 1 ELSE 0 END,
        position = CASE WHEN one.mode IS NOT DISTINCT FROM begun.mode THEN one.position END, mode = begun.mode,
        full_at = CASE WHEN begun.mode = 'full' THEN NULL ELSE one.full_at END, set_aside_run = NULL
      FROM {begun: id bigint, mode text, ready integer}
      WHERE one.id = begun.id RETURNING entity, midway`,
    ),
  }),
  advance: transition({
    what: 'a page of its walk is stored',
    from: ['ready', 'set-aside'],
    run: put<{ walked: readonly { readonly id: number; readonly position: string }[] }>(
      `UPDATE _sync_partitions AS one SET position = walked.position
      FROM {walked: id bigint, position text} WHERE one.id = walked.id`,
    ),
  }),
  setAside: transition({
    what: 'its walk failed and is left to a later run',
    from: ['ready', 'set-aside'],
    to: ['set-aside'],
    run: write<{
      id: number;
      run: string;
      failure: string;
      code: string;
      failedAt: Instant;
      dropPosition: 0 | 1;
      dropWatermark: 0 | 1;
    }>(
      `UPDATE _sync_partitions SET ready = 0, set_aside_run = :run, failure = :failure, failure_code = :code,
        failed_at = :failedAt,
        position = CASE WHEN :dropPosition = 1 OR :dropWatermark = 1 THEN NULL ELSE position END,
        watermark = CASE WHEN :dropWatermark = 1 THEN NULL ELSE watermark END,
        full_at = CASE WHEN :dropWatermark = 1 THEN NULL ELSE full_at END,
        midway = CASE WHEN :dropPosition = 1 OR :dropWatermark = 1 THEN 0 ELSE midway END,
        mode = CASE WHEN :dropWatermark = 1 THEN 'full' ELSE mode END
      WHERE id = :id AND ${dueById}`,
    ),
  }),
  retry: transition({
    what: 'set aside by a run that this one resumes',
    from: ['set-aside'],
    to: ['ready'],
    run: write<Scope & { origin: number }>(
      `UPDATE _sync_partitions {index _sync_partitions_set_aside} SET ready = 1, set_aside_run = NULL
      WHERE ${inScope} AND due_since IS NOT NULL AND origin = :origin AND listed = 0 AND set_aside_run IS NOT NULL`,
    ),
  }),
  // A service may delay calls about one thing alone, and the rest must have its turn. Holds until they are found again.
  putFirstBack: transition({
    what: 'the walk that would be first becomes the last, and those of its entity go behind all others',
    from: ['ready'],
    run: write<{ connector: string; window: string }>(
      `WITH first AS (
        SELECT id, entity FROM _sync_partitions {index _sync_partitions_ready}
        WHERE connector = :connector AND backfill = :window AND ready = 1 ORDER BY rank DESC, id LIMIT 1
      ), last AS MATERIALIZED (
        SELECT min(rank) AS rank FROM _sync_partitions {index _sync_partitions_ready}
        WHERE connector = :connector AND backfill = :window AND ready = 1
      )
      UPDATE _sync_partitions AS one SET rank = last.rank - CASE WHEN one.id = first.id THEN 2 ELSE 1 END FROM first, last
      WHERE one.connector = :connector AND one.backfill = :window AND one.ready = 1 AND one.entity = first.entity`,
    ),
  }),
} as const;

// Types, not interfaces: only they are known to have no other members, as values of statements.
export type Ids = { readonly ids: readonly number[] };

type Finding = { readonly origin: number; readonly now: Instant };

/** A partition as a page or a plan leads to it. */
export interface FoundAgain extends Pick<FoundPartition, 'entity' | 'rank' | 'tree' | 'treeDepth'> {
  readonly params: string;
  readonly paramsHash: Buffer;
  readonly base: number | null;
  readonly inject: string;
  readonly parentEntity: string | null;
  readonly parentKey: string | null;
  readonly parentHash: Buffer | null;
  readonly marker: string | null;
}

export interface NewPartition extends FoundAgain {
  readonly ready: 0 | 1;
}
