import { type Conclusion, standing } from '../../decisions/becoming-due.ts';
import type { Instant } from '../../../core/clock.ts';
import type { OfEntities, OfEntity } from '../../../core/names.ts';
import { ask, put, write } from '../../../sql/database.ts';
import type { Absence, FoundPartition, WalkMode } from '../../partition.ts';

/**
 * The partitions that a run works through: of these entities, living ones (window '') or those of a backfill's window.
 */
type Window = { readonly connector: string; readonly window: string };
export type Scope = Window & { readonly entities: readonly string[] };

export const inScope = 'connector = :connector AND backfill = :window AND entity IN {entities text}';

/**
 * Due, of a partition that is looked up by its id: in words that no index has. By the index of due partitions a planner
 * that counted them when few were due would go through all of them, for each page.
 */
export const dueById = `coalesce(due_since, '') > ''`;

const foundColumns = `entity text, params text, params_hash bytea, base bigint, inject text, rank integer, tree bigint, tree_depth integer,
        parent_entity text, parent_key text, parent_hash bytea, marker text`;

// Types, not interfaces: only they are known to have no other members, as values of statements.
export type Ids = { readonly ids: readonly number[] };

type Finding = { readonly origin: number; readonly now: Instant };

/** A partition as found by a page or a plan. */
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

interface NewPartition extends FoundAgain {
  readonly ready: 0 | 1;
}

/** Partitions below records. Those of backfills are left alone: their chains end by themselves. */
const below = `connector = :connector AND parent_entity = :entity AND parent_hash IN {keyHashes bytea} AND backfill = ''`;

/** The records whose partitions are meant, by the hashes of their keys' texts. */
export type Below = {
  readonly connector: string;
  readonly entity: string;
  readonly keyHashes: readonly Buffer[];
};

const ofEntities = 'connector = :connector AND entity IN {entities text}';
const aged = `SELECT id FROM _sync_partitions {index _sync_partitions_aged} WHERE connector = :connector AND entity = :entity
          AND due_since IS NULL AND backfill = '' AND parent_key IS NOT NULL AND tree IS NULL AND gone = ${standing.live}`;

/** A position that was stored without a mask: `sealPosition` writes the other form. */
export const isClearPosition = `position NOT LIKE '{"kind":"sealed"%'`;

interface ReadWalk {
  readonly id: number;
  readonly proof: string;
  readonly absence: Absence;
}

interface ListedWalk extends ReadWalk {
  /** Requested size of its last page. */
  readonly size: number | null;
  readonly records: number | null;
}

interface SealedWalk extends Conclusion, ReadWalk {
  readonly scope: string | null;
}

/**
 * Every statement that writes `_sync_partitions`. docs/internals/partitions.md names the states that each leads from
 * and to, and the only files that run it.
 */
export const transitions = {
  // --- From the finding of a partition to its reading

  /**
   * Found for the first time; idle where only a backfill needs it as the owner of its rows. In the order given, which
   * is that of their ids.
   */
  find: put<Finding & Window & { dueSince: Instant | null; found: readonly NewPartition[] }>(
    `INSERT INTO _sync_partitions (connector, backfill, origin, due_since, ready, listed, mode, found_at, entity, params,
      params_hash, base, inject, rank, tree, tree_depth, parent_entity, parent_key, parent_hash, found_marker)
    SELECT CAST(:connector AS text), CAST(:window AS text), CAST(:origin AS bigint), CAST(:dueSince AS text), found.ready, 0, 'full',
      CAST(:now AS text), found.entity, found.params, found.params_hash, found.base, found.inject, found.rank, found.tree,
      found.tree_depth, found.parent_entity, found.parent_key, found.parent_hash, found.marker
    FROM {found: ${foundColumns}, ready integer, n} ORDER BY found.n`,
  ),
  /** Found again below a record that was deleted or left out: nothing that was known of it counts. */
  renew: put<Ids>(
    `UPDATE _sync_partitions SET gone = ${standing.live}, position = NULL, watermark = NULL, marker = NULL, full_at = NULL
    WHERE id IN {ids bigint}`,
  ),
  /** Found again by another chain of runs. */
  meet: put<Finding & { found: readonly (FoundAgain & { readonly id: number })[] }>(
    `UPDATE _sync_partitions AS one SET origin = :origin, inject = found.inject, rank = found.rank, tree = found.tree,
      tree_depth = found.tree_depth, parent_entity = found.parent_entity, parent_key = found.parent_key,
      parent_hash = found.parent_hash, found_at = :now, found_marker = found.marker, base = found.base, failure = NULL,
      failure_code = NULL, failed_at = NULL
    FROM {found: ${foundColumns}, id bigint} WHERE one.id = found.id`,
  ),
  /**
   * To be walked by this chain, where its run reads the entity; a position counts only for a walk of the same mode. A
   * full walk that is due stays due, whatever interrupts it: the one before it no longer counts.
   */
  begin: ask<
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
  /** A page of its walk is stored. */
  advance: put<{ walked: readonly { readonly id: number; readonly position: string }[] }>(
    `UPDATE _sync_partitions AS one SET position = walked.position
    FROM {walked: id bigint, position text} WHERE one.id = walked.id`,
  ),
  /** Its walk failed and is left to a later run. */
  setAside: write<
    Record<'dropPosition' | 'dropWatermark', 0 | 1> &
      Record<'run' | 'failure' | 'code' | 'failedAt', string> & { id: number }
  >(
    `UPDATE _sync_partitions SET ready = 0, set_aside_run = :run, failure = :failure, failure_code = :code,
      failed_at = :failedAt,
      position = CASE WHEN :dropPosition = 1 OR :dropWatermark = 1 THEN NULL ELSE position END,
      watermark = CASE WHEN :dropWatermark = 1 THEN NULL ELSE watermark END,
      full_at = CASE WHEN :dropWatermark = 1 THEN NULL ELSE full_at END,
      midway = CASE WHEN :dropPosition = 1 OR :dropWatermark = 1 THEN 0 ELSE midway END,
      mode = CASE WHEN :dropWatermark = 1 THEN 'full' ELSE mode END
    WHERE id = :id AND ${dueById}`,
  ),
  /** Set aside by a run that this one resumes. */
  retry: write<Scope & { origin: number }>(
    `UPDATE _sync_partitions {index _sync_partitions_set_aside} SET ready = 1, set_aside_run = NULL
    WHERE ${inScope} AND due_since IS NOT NULL AND origin = :origin AND listed = 0 AND set_aside_run IS NOT NULL`,
  ),
  /**
   * The walk that would be first becomes the last, and those of its entity go behind all others. A service may delay
   * calls about one thing alone, and the rest must have its turn. Holds until they are found again.
   */
  putFirstBack: write<Window>(
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

  // --- At the end of walks

  /** Its own listing has been read to its end. Clears a failure from an earlier run of the chain. */
  endListing: put<{ ended: readonly ListedWalk[] }>(
    `UPDATE _sync_partitions AS one SET listed = 1, ready = 0, position = NULL, set_aside_run = NULL, failure = NULL,
      failure_code = NULL, failed_at = NULL, proof = ended.proof, absence = ended.absence, last_page_size = ended.size,
      last_page_records = ended.records
    FROM {ended: id bigint, proof text, absence text, size bigint, records bigint} WHERE one.id = ended.id`,
  ),
  /** A listing inside a tree is read; its row goes with the seal of the tree. */
  sealInner: put<Ids & { now: Instant; run: string }>(
    `UPDATE _sync_partitions SET due_since = NULL, sealed_at = :now, sealed_run = :run WHERE id IN {ids bigint}`,
  ),
  /** It and every listing inside its tree are read; unswept where its walk says what is missing. */
  seal: put<{ run: string; now: Instant; sealed: readonly SealedWalk[] }>(
    `UPDATE _sync_partitions AS one SET due_since = NULL, listed = 0, sealed_at = :now, sealed_run = :run,
      sealed_scope = sealed.scope, proof = sealed.proof, absence = sealed.absence, watermark = sealed.watermark,
      marker = sealed.marker, full_at = sealed.full_at, full_origin = sealed.full_origin, sweep_origin = sealed.sweep_origin, swept_to = 0
    FROM {sealed: id bigint, scope text, proof text, absence text, watermark text, marker text, full_at text, full_origin bigint,
      sweep_origin bigint}
    WHERE one.id = sealed.id`,
  ),
  /** Listings inside a tree that is sealed, or whose record is deleted or left out. */
  dropInner: put<{ trees: readonly number[] }>(
    `DELETE FROM _sync_partitions {index _sync_partitions_tree} WHERE tree IN {trees bigint}`,
  ),
  /** A short page ended its walk, and more comes after pages of that length: as if it had never been read. */
  unseal: write<Ids & { now: Instant; origin: number }>(
    `UPDATE _sync_partitions SET due_since = :now, ready = 1, listed = 0, position = NULL, mode = 'full', midway = 0,
      watermark = NULL, proof = NULL, last_page_size = NULL, last_page_records = NULL, absence = NULL, full_at = NULL,
      full_origin = nullif(full_origin, :origin), sweep_origin = NULL, swept_to = 0
    WHERE id IN {ids bigint}`,
  ),
  /**
   * Another listing shows records of its keys with other content: what it proved no longer counts, and the next walk
   * is full.
   */
  doubt: write<{ origin: number; doubted: readonly { readonly id: number; readonly proof: string }[] }>(
    `UPDATE _sync_partitions AS one SET proof = doubted.proof, watermark = NULL, marker = NULL, full_at = NULL,
      full_origin = nullif(one.full_origin, :origin), sweep_origin = NULL, swept_to = 0
    FROM {doubted: id bigint, proof text} WHERE one.id = doubted.id`,
  ),

  // --- In the search for deleted records

  /**
   * Its rows have been checked up to this one. In a sweep, one number holds two cursors (`areOwnRowsSwept`); below a
   * deleted record, always the last own row.
   */
  sweepTo: write<{ id: number; sweptTo: number }>(
    `UPDATE _sync_partitions SET swept_to = :sweptTo WHERE id = :id`,
  ),
  /** Its full walk counts: the rows that it did not meet are noted as missing. */
  endSweep: write<Ids & { fullAt: Instant }>(
    `UPDATE _sync_partitions SET full_at = :fullAt, sweep_origin = NULL, swept_to = 0 WHERE id IN {ids bigint}`,
  ),
  /** Its walk missed a record that is there: it proved nothing, and the next one is full. */
  withdraw: write<Ids>(
    `UPDATE _sync_partitions SET full_at = NULL, marker = NULL, watermark = NULL WHERE id IN {ids bigint}`,
  ),
  /**
   * The record above is deleted: no longer walked, and nothing that was known of it counts. Also what it has ended
   * before: rows may have come back in another way than by a walk. The run that set it aside is kept for the report.
   */
  end: ask<Below, { readonly id: number }>(
    `UPDATE _sync_partitions SET gone = ${standing.ended}, due_since = NULL, ready = 0, listed = 0, position = NULL,
      watermark = NULL, marker = NULL, found_marker = NULL, full_at = NULL, full_origin = NULL, sweep_origin = NULL, swept_to = 0,
      failure = NULL, failure_code = NULL, failed_at = NULL
    WHERE ${below} AND gone <> ${standing.ended} RETURNING id`,
  ),
  /** Its rows are deleted, have another owner, or wait for a `get`. */
  empty: write<Ids>(
    `UPDATE _sync_partitions SET gone = ${standing.emptied}, swept_to = 0 WHERE id IN {ids bigint}`,
  ),
  /** Listings leave the record above out although it exists: rests until one shows it again. */
  rest: ask<Below, { readonly id: number }>(
    `UPDATE _sync_partitions SET gone = ${standing.resting}, due_since = NULL, ready = 0, listed = 0, position = NULL,
      failure = NULL, failure_code = NULL, failed_at = NULL
    WHERE ${below} AND gone = ${standing.live} RETURNING id`,
  ),
  /** The record above is back although no walk has found it: the next chain walks it from the start. */
  giveBack: write<Below & { origin: number; now: Instant }>(
    `UPDATE _sync_partitions SET gone = ${standing.live}, origin = :origin, found_at = :now
    WHERE ${below} AND gone > ${standing.live}`,
  ),

  // --- By a new chain of runs, by the age of partitions and by a person

  /**
   * A new chain begins: listings inside trees are found again. The index holds the few listings inside trees; any
   * other would lead through all partitions.
   */
  dropHalfRead: write<Scope>(
    `DELETE FROM _sync_partitions {index _sync_partitions_tree} WHERE tree IS NOT NULL AND ${inScope}`,
  ),
  /** A new chain begins: what was to be swept for an earlier one is no longer swept. */
  stopSweep: write<Scope>(
    `UPDATE _sync_partitions {index _sync_partitions_sweep} SET sweep_origin = NULL, swept_to = 0
    WHERE sweep_origin IS NOT NULL AND ${inScope}`,
  ),
  /** A new chain begins: roots are found again, what lies below a record waits. */
  startOver: write<Scope & { leaves: readonly string[]; keepAfter: Instant }>(
    `UPDATE _sync_partitions {index _sync_partitions_due} SET ready = 0, listed = 0, set_aside_run = NULL,
      position = CASE WHEN set_aside_run IS NOT NULL AND failed_at > :keepAfter
                        AND (sealed_at IS NULL OR mode = 'incremental') AND entity IN {leaves text} THEN position END,
      due_since = CASE WHEN parent_key IS NOT NULL THEN due_since END,
      failure = CASE WHEN parent_key IS NOT NULL THEN failure END,
      failure_code = CASE WHEN parent_key IS NOT NULL THEN failure_code END,
      failed_at = CASE WHEN parent_key IS NOT NULL THEN failed_at END
    WHERE ${inScope} AND due_since IS NOT NULL`,
  ),
  /** A new chain begins that does not read the entity. */
  park: write<{ connector: string }>(
    `UPDATE _sync_partitions SET ready = 0 WHERE connector = :connector AND backfill = '' AND ready = 1`,
  ),
  /**
   * A new chain begins: what lies below a record was not read in full for too long. Without a time, too, or with an
   * impossible one: a full walk that was never swept, or whose proof was withdrawn. Each is a range of the index.
   */
  age: write<OfEntity & Record<'fullBefore' | 'believedUntil' | 'now', Instant>>(
    `UPDATE _sync_partitions SET due_since = :now, ready = 0 WHERE id IN (
      ${aged} AND full_at <= :fullBefore UNION ALL ${aged} AND full_at > :believedUntil UNION ALL ${aged} AND full_at IS NULL)`,
  ),
  /** Nothing leads to it now. */
  release: write<Ids>(
    `UPDATE _sync_partitions SET due_since = NULL, ready = 0, position = NULL, failure = NULL, failure_code = NULL,
      failed_at = NULL
    WHERE id IN {ids bigint}`,
  ),
  /** Nothing has led to it, or was read in it, for too long. */
  forget: write<Ids>(`DELETE FROM _sync_partitions WHERE id IN {ids bigint}`),
  /** Records of the entity were purged, and its position may name one: its walk begins again. */
  walkFromStart: write<OfEntity>(
    `UPDATE _sync_partitions SET position = NULL
    WHERE connector = :connector AND entity = :entity AND position IS NOT NULL`,
  ),
  /** Its entity has a mask, and its position is from before it: its walk begins again. */
  forgetClear: write<OfEntities>(
    `UPDATE _sync_partitions SET position = NULL
    WHERE connector = :connector AND entity IN {entities text} AND ${isClearPosition}`,
  ),
  /** Its entity has a mask, and its failure is from before it. */
  hideFailure: write<{ readonly id: number; readonly failure: string }>(
    `UPDATE _sync_partitions SET failure = :failure WHERE id = :id`,
  ),
  /** The record above was purged. */
  purge: write<Ids>(`DELETE FROM _sync_partitions WHERE id IN {ids bigint}`),
  /** A backfill was not resumed for too long. */
  abandon: write<{ connector: string; since: Instant }>(
    `DELETE FROM _sync_partitions WHERE connector = :connector AND backfill <> '' AND found_at < :since`,
  ),
  /** A window of a backfill is done, or starts from the beginning. */
  dropWindow: write<Window>(
    `DELETE FROM _sync_partitions WHERE connector = :connector AND backfill = :window AND backfill <> ''`,
  ),
  /** A reset: listings inside trees, and those of backfills. */
  dropUnfinished: write<OfEntities>(
    `DELETE FROM _sync_partitions WHERE ${ofEntities} AND (tree IS NOT NULL OR backfill <> '')`,
  ),
  /**
   * A reset: due from the start, and ready where the unfinished run reads the entity. `reading`: entities of the
   * newest sync, which may be resumed.
   */
  readAgain: write<OfEntities & { now: Instant; reading: readonly string[] }>(
    `UPDATE _sync_partitions SET position = NULL, mode = 'full', midway = 0, watermark = NULL, marker = NULL,
      found_marker = NULL, sealed_at = NULL, sealed_run = NULL, sealed_scope = NULL, proof = NULL, last_page_size = NULL,
      last_page_records = NULL, absence = NULL, full_at = NULL, full_origin = NULL, sweep_origin = NULL, swept_to = 0, listed = 0,
      set_aside_run = NULL, failure = NULL, failure_code = NULL, failed_at = NULL, due_since = :now,
      ready = CASE WHEN entity IN {reading text} THEN 1 ELSE 0 END
    WHERE ${ofEntities} AND gone = ${standing.live}`,
  ),
  /** A reset of a whole connector with its data, or a copy that begins again. */
  dropConnector: write<{ connector: string }>(`DELETE FROM _sync_partitions WHERE connector = :connector`),
} as const;
