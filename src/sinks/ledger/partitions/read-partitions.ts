import type { Instant } from '../../../core/clock.ts';
import { noPartitionError } from '../../acquire-errors.ts';
import type { ConnectorName, EntityName } from '../../../core/names.ts';
import { type KnownWalks, standing } from '../../decisions/becoming-due.ts';
import type { FoundPartition } from '../../partition.ts';
import type { LeftWork } from '../../run-report.ts';
import type { ChainPartitions } from '../../sink.ts';
import { parseParams } from '../../stored-json.ts';
import { textHash, ask, columnOf, cellOf, type Tx } from '../../../sql/database.ts';

/**
 * The partitions that a run works through: of these entities, living ones (window '') or those of a backfill's window.
 */
export type Scope = {
  readonly connector: string;
  readonly window: string;
  readonly entities: readonly string[];
};

export const inScope = 'connector = :connector AND backfill = :window AND entity IN {entities text}';

/** A partition as a commit needs it. */
export interface PartitionRow {
  readonly id: number;
  readonly entity: EntityName;
  readonly tree: number | null;
  readonly isDue: boolean;
  readonly isListed: boolean;
  /** Stored proof of its previous walk. */
  readonly proof: string | null;
  readonly fullAt: Instant | null;
  readonly sealedAt: Instant | null;
  /**
   * The partition that owns its records: of a listing inside a tree the tree's, of a backfill's the living
   * one.
   */
  readonly owner: number;
}

export interface KnownRow extends KnownWalks {
  readonly id: number;
  readonly entity: EntityName;
  readonly paramsHash: Buffer;
  readonly origin: number;
  readonly gone: number;
}

export interface Leftover extends KnownWalks {
  readonly id: number;
  readonly parentEntity: EntityName;
  readonly parentKey: string;
  readonly foundOrigin: number;
}

/**
 * Due, of a partition that is looked up by its id: in words that no index has. By the index of due partitions a planner
 * that counted them when few were due would go through all of them, for each page.
 */
export const dueById = `coalesce(due_since, '') > ''`;

type InChain = Scope & { readonly origin: number };

const walks = 'one.due_since, one.watermark, one.marker, one.full_at, one.sealed_scope';
const isLeftover = `due_since IS NOT NULL AND origin <> :origin AND parent_key IS NOT NULL AND tree IS NULL AND gone = ${standing.live}`;

/** Partitions by id. Throws `SyncError` FENCED when the connector does not, or no longer, have one of them. */
export async function partitionsById(
  tx: Tx,
  connector: ConnectorName,
  ids: readonly number[],
): Promise<ReadonlyMap<number, PartitionRow>> {
  // No condition on the connector: with one, a server without statistics may read all of its partitions.
  const found = await tx.rows<PartitionRow & { readonly connector: ConnectorName }>(
    `SELECT one.id, one.connector, one.entity, one.tree, one.due_since IS NOT NULL AS is_due, one.listed = 1 AS is_listed,
       one.proof, one.full_at, one.sealed_at,
       coalesce(one.base, (SELECT coalesce(root.base, root.id) FROM _sync_partitions AS root WHERE root.id = one.tree), one.id) AS owner
     FROM _sync_partitions AS one WHERE one.id IN {ids bigint}`,
    { ids: [...new Set(ids)].toSorted((left, right) => left - right) },
  );
  const byId = new Map(found.filter((row) => row.connector === connector).map((row) => [row.id, row]));
  const lost = ids.find((id) => !byId.has(id));
  if (lost === undefined) return byId;
  throw noPartitionError(connector, lost);
}

/**
 * Partitions stored under these parameters, by `knownName`. CROSS JOIN makes SQLite look each of them up; otherwise it
 * would scan all partitions.
 */
export async function knownPartitions(
  tx: Tx,
  of: { readonly connector: ConnectorName; readonly window: string },
  named: readonly { readonly entity: EntityName; readonly paramsHash: Buffer }[],
): Promise<ReadonlyMap<string, KnownRow>> {
  const found = await tx.rows<KnownRow>(
    `SELECT one.id, one.entity, one.params_hash, one.origin, one.gone, ${walks}
     FROM {named: entity text, params_hash bytea} CROSS JOIN _sync_partitions AS one
     WHERE one.connector = :connector AND one.entity = named.entity
       AND one.params_hash = named.params_hash AND one.backfill = :window`,
    { ...of, named },
  );
  return new Map(found.map((row) => [knownName(row.entity, row.paramsHash), row]));
}

export function knownName(entity: string, paramsHash: Buffer): string {
  return `${entity} ${paramsHash.toString('hex')}`;
}

/** Partitions that these records have led to, as if found again. Whether anything has changed there is not known. */
export async function partitionsBelow(
  tx: Tx,
  connector: ConnectorName,
  parents: readonly NonNullable<FoundPartition['parent']>[],
): Promise<readonly FoundPartition[]> {
  if (parents.length === 0) return [];
  const found = await tx.rows<BelowRow>(
    `SELECT one.entity, one.params, one.inject, one.rank, one.tree_depth, one.parent_entity, one.parent_key
     FROM {parent: entity text, hash bytea} CROSS JOIN _sync_partitions AS one
     WHERE one.connector = :connector AND one.parent_entity = parent.entity
       AND one.parent_hash = parent.hash AND one.backfill = '' AND one.tree IS NULL AND one.gone = ${standing.live}
     ORDER BY one.id`,
    { connector, parent: parents.map(({ entity, keyText }) => ({ entity, hash: textHash(keyText) })) },
  );
  return found.map(({ params, inject, parentEntity, parentKey, ...row }) => ({
    ...row,
    params: parseParams(params),
    inject: parseParams(inject),
    tree: null,
    parent: { entity: parentEntity, keyText: parentKey },
    marker: null,
    base: null,
  }));
}

interface BelowRow extends Pick<FoundPartition, 'entity' | 'rank' | 'treeDepth'> {
  readonly params: string;
  readonly inject: string;
  readonly parentEntity: EntityName;
  readonly parentKey: string;
}

/** Whether the chain left partitions due, or a sweep unfinished. */
export async function isLeft(tx: Tx, chain: InChain): Promise<boolean> {
  const partitions = `SELECT 1 FROM _sync_partitions WHERE ${inScope}`;
  const found = await cellOf(
    tx,
    `SELECT EXISTS (${partitions} AND due_since IS NOT NULL AND origin = :origin) OR EXISTS (${partitions} AND ${isLeftover})
       OR EXISTS (${partitions} AND sweep_origin = :origin) AS is_left`,
    chain,
  );
  return found === true;
}

/** Partitions that the run would now walk. */
export async function countReady(tx: Tx, of: Pick<Scope, 'connector' | 'window'>): Promise<number> {
  const sql = `SELECT count(*) FROM _sync_partitions WHERE connector = :connector AND backfill = :window AND ready = 1`;
  return (await cellOf<number>(tx, sql, of)) ?? 0;
}

/** Partitions that a chain has found, by entity. */
export const partitionsOfChain = ask<
  InChain,
  ChainPartitions
>(`SELECT entity, max(parent_entity) AS parent, count(tree_depth) > 0 AS is_tree, count(nullif(ready, 0)) AS ready,
       count(CASE WHEN due_since IS NULL AND sealed_run IN
         (SELECT run FROM _sync_runs WHERE connector = :connector AND number >= :origin AND origin = :origin) THEN 1 END) AS sealed
     FROM _sync_partitions WHERE ${inScope} AND origin = :origin GROUP BY entity ORDER BY entity`);

/** Due partitions, by entity; a listing inside a tree counts as part of its tree. */
export const leftWork = ask<Scope, LeftWork>(`SELECT entity, count(*) AS partitions FROM _sync_partitions
     WHERE ${inScope} AND due_since IS NOT NULL AND tree IS NULL GROUP BY entity ORDER BY entity`);

/**
 * Reads the next thousand due partitions below a parent that the chain has not found, in an order that only the index
 * of due partitions has: by id alone, the planner may scan all partitions.
 */
export const readLeftovers = ask<
  { connector: string; window: string; entity: string; origin: number; after: number },
  Leftover
>(`SELECT one.id, one.parent_entity, one.parent_key, one.origin AS found_origin, ${walks}
     FROM _sync_partitions AS one {index _sync_partitions_due}
     WHERE connector = :connector AND entity BETWEEN :entity AND :entity AND backfill = :window AND ${isLeftover} AND id > :after
     ORDER BY entity, id LIMIT 1000`);

/** The chains that last walked these partitions in full; null: none did. Those that do not exist are left out. */
export async function fullOrigins(
  tx: Tx,
  ids: readonly number[],
): Promise<ReadonlyMap<number, number | null>> {
  const found = await tx.rows<{ id: number; fullOrigin: number | null }>(
    `SELECT id, full_origin FROM _sync_partitions WHERE id IN {ids bigint}`,
    { ids: [...new Set(ids)] },
  );
  return new Map(found.map(({ id, fullOrigin }) => [id, fullOrigin]));
}

/** Partitions whose parent record exists, and partitions without a parent record. */
export async function livePartitions(tx: Tx, ids: readonly number[]): Promise<ReadonlySet<number>> {
  const sql = `SELECT id FROM _sync_partitions WHERE id IN {ids bigint} AND gone = ${standing.live}`;
  return new Set(await columnOf<number>(tx, sql, { ids: [...new Set(ids)] }));
}
