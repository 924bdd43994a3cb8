import type { Instant } from '../../../core/clock.ts';
import { standing } from '../../decisions/standing.ts';
import { inScope, type Scope } from './scope.ts';
import { ask, put, write } from '../../../sql/database.ts';

const foundColumns = `:entities::text[], :params::text[], :paramsHashes::bytea[], :bases::bigint[], :injects::text[], :ranks::integer[],
        :trees::bigint[], :treeDepths::integer[], :parentEntities::text[], :parentKeys::text[], :parentHashes::bytea[], :markers::text[]`;
const foundNames =
  'entity, params, params_hash, base, inject, rank, tree, tree_depth, parent_entity, parent_key, parent_hash, marker';

/** From being found to being read. */
export const walking = {
  /** In the order given, which is that of their ids. */
  find: put<
    FoundSet & Finding & { window: string; dueSince: Instant | null; ready: readonly number[] }
  >(`INSERT INTO _sync_partitions (connector, backfill, origin, due_since, ready, listed, mode, found_at, entity, params,
        params_hash, base, inject, rank, tree, tree_depth, parent_entity, parent_key, parent_hash, found_marker)
      SELECT :connector::text, :window::text, :origin::bigint, :dueSince::text, found.ready, 0, 'full', :now::text, found.entity,
        found.params, found.params_hash, found.base, found.inject, found.rank, found.tree, found.tree_depth, found.parent_entity,
        found.parent_key, found.parent_hash, found.marker
      FROM unnest(${foundColumns}, :ready::integer[]) WITH ORDINALITY AS found(${foundNames}, ready, n) ORDER BY found.n`),
  renew:
    put<Ids>(`UPDATE _sync_partitions SET gone = ${standing.live}, position = NULL, watermark = NULL, marker = NULL, full_at = NULL
      WHERE id = ANY(:ids::bigint[])`),
  meet: put<
    FoundSet & Finding & Ids
  >(`UPDATE _sync_partitions AS one SET origin = :origin, inject = found.inject, rank = found.rank, tree = found.tree,
        tree_depth = found.tree_depth, parent_entity = found.parent_entity, parent_key = found.parent_key,
        parent_hash = found.parent_hash, found_at = :now, found_marker = found.marker, base = found.base, failure = NULL,
        failure_code = NULL, failed_at = NULL
      FROM unnest(${foundColumns}, :ids::bigint[]) AS found(${foundNames}, id)
      WHERE one.id = found.id AND one.connector = :connector`),
  // A full walk that is due stays due, whatever breaks it off: the one before it counts no more.
  begin: ask<
    Finding & Ids & { modes: readonly string[]; ready: readonly number[] },
    { readonly entity: string; readonly midway: number }
  >(`UPDATE _sync_partitions AS one SET origin = :origin, due_since = coalesce(one.due_since, :now), ready = begun.ready,
        listed = 0, midway = CASE WHEN one.position IS NOT NULL AND one.mode IS NOT DISTINCT FROM begun.mode THEN 1 ELSE 0 END,
        position = CASE WHEN one.mode IS NOT DISTINCT FROM begun.mode THEN one.position END, mode = begun.mode,
        full_at = CASE WHEN begun.mode = 'full' THEN NULL ELSE one.full_at END, set_aside_run = NULL
      FROM unnest(:ids::bigint[], :modes::text[], :ready::integer[]) AS begun(id, mode, ready)
      WHERE one.id = begun.id AND one.connector = :connector RETURNING one.entity, one.midway`),
  advance: put<
    Ids & { positions: readonly string[] }
  >(`UPDATE _sync_partitions AS one SET position = walked.position
      FROM unnest(:ids::bigint[], :positions::text[]) AS walked(id, position) WHERE one.id = walked.id`),
  setAside: write<{
    id: number;
    run: string;
    failure: string;
    code: string;
    failedAt: Instant;
    dropPosition: boolean;
    dropWatermark: boolean;
  }>(`UPDATE _sync_partitions SET ready = 0, set_aside_run = :run, failure = :failure, failure_code = :code,
        failed_at = :failedAt,
        position = CASE WHEN :dropPosition::boolean OR :dropWatermark::boolean THEN NULL ELSE position END,
        watermark = CASE WHEN :dropWatermark THEN NULL ELSE watermark END,
        full_at = CASE WHEN :dropWatermark THEN NULL ELSE full_at END,
        midway = CASE WHEN :dropPosition OR :dropWatermark THEN 0 ELSE midway END,
        mode = CASE WHEN :dropWatermark THEN 'full' ELSE mode END
      WHERE id = :id AND due_since IS NOT NULL`),
  retry: write<Scope & { origin: number }>(`UPDATE _sync_partitions SET ready = 1, set_aside_run = NULL
      WHERE ${inScope} AND due_since IS NOT NULL AND origin = :origin AND listed = 0 AND set_aside_run IS NOT NULL`),
  // A service may keep waiting what is about one thing alone, and the rest must have its turn. Holds until they are found again.
  putFirstBack: write<{ connector: string; window: string }>(`WITH first AS (
        SELECT id, entity FROM _sync_partitions
        WHERE connector = :connector AND backfill = :window AND ready = 1 ORDER BY rank DESC, id LIMIT 1
      ), last AS MATERIALIZED (
        SELECT min(rank) AS rank FROM _sync_partitions WHERE connector = :connector AND backfill = :window AND ready = 1
      )
      UPDATE _sync_partitions AS one SET rank = last.rank - CASE WHEN one.id = first.id THEN 2 ELSE 1 END FROM first, last
      WHERE one.connector = :connector AND one.backfill = :window AND one.ready = 1 AND one.entity = first.entity`),
  // What failed in an earlier run of the chain is forgotten here.
  endListing: put<
    Ids & {
      proofs: readonly string[];
      absences: readonly (string | null)[];
      sizes: readonly (number | null)[];
      lengths: readonly (number | null)[];
    }
  >(
    `UPDATE _sync_partitions AS one SET listed = 1, ready = 0, position = NULL, set_aside_run = NULL, failure = NULL,
        failure_code = NULL, failed_at = NULL, proof = ended.proof, absence = ended.absence, last_page_size = ended.size,
        last_page_records = ended.records
      FROM unnest(:ids::bigint[], :proofs::text[], :absences::text[], :sizes::bigint[], :lengths::bigint[])
        AS ended(id, proof, absence, size, records)
      WHERE one.id = ended.id`,
  ),
  sealInner: put<Ids & { now: Instant; run: string }>(
    `UPDATE _sync_partitions SET due_since = NULL, sealed_at = :now, sealed_run = :run WHERE id = ANY(:ids::bigint[])`,
  ),
  seal: put<Sealed>(`UPDATE _sync_partitions AS one SET due_since = NULL, listed = 0, sealed_at = :now, sealed_run = :run,
        sealed_scope = sealed.scope, proof = sealed.proof, absence = sealed.absence, watermark = sealed.watermark,
        marker = sealed.marker, full_at = sealed.full_at, full_origin = sealed.full_origin, sweep_origin = sealed.sweep_origin, swept_to = 0
      FROM unnest(:ids::bigint[], :scopes::text[], :proofs::text[], :absences::text[], :watermarks::text[], :markers::text[],
        :fullAts::text[], :fullOrigins::bigint[], :sweepOrigins::bigint[])
        AS sealed(id, scope, proof, absence, watermark, marker, full_at, full_origin, sweep_origin)
      WHERE one.id = sealed.id`),
  dropInner: put<{ trees: readonly number[] }>(
    `DELETE FROM _sync_partitions WHERE tree = ANY(:trees::bigint[])`,
  ),
  unseal: write<
    Ids & { now: Instant; origin: number }
  >(`UPDATE _sync_partitions SET due_since = :now, ready = 1, listed = 0, position = NULL, mode = 'full', midway = 0,
        watermark = NULL, proof = NULL, last_page_size = NULL, last_page_records = NULL, absence = NULL, full_at = NULL,
        full_origin = nullif(full_origin, :origin), sweep_origin = NULL, swept_to = 0
      WHERE id = ANY(:ids::bigint[])`),
} as const;

// Types, not interfaces: only they are known to have no other members, as values of statements.
export type Ids = { readonly ids: readonly number[] };

type Finding = { readonly connector: string; readonly origin: number; readonly now: Instant };

/** Partitions as pages or plans lead to them, one beside the other in each array. */
export type FoundSet = {
  readonly entities: readonly string[];
  readonly params: readonly string[];
  readonly paramsHashes: readonly Buffer[];
  readonly bases: readonly (number | null)[];
  readonly injects: readonly string[];
  readonly ranks: readonly number[];
  readonly trees: readonly (number | null)[];
  readonly treeDepths: readonly (number | null)[];
  readonly parentEntities: readonly (string | null)[];
  readonly parentKeys: readonly (string | null)[];
  readonly parentHashes: readonly (Buffer | null)[];
  readonly markers: readonly (string | null)[];
};

type Sealed = Ids & {
  readonly run: string;
  readonly now: Instant;
  readonly scopes: readonly (string | null)[];
  readonly proofs: readonly string[];
  readonly absences: readonly (string | null)[];
  readonly watermarks: readonly (Instant | null)[];
  readonly markers: readonly (string | null)[];
  readonly fullAts: readonly (Instant | null)[];
  readonly fullOrigins: readonly (number | null)[];
  readonly sweepOrigins: readonly (number | null)[];
};
