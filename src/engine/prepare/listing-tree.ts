import { isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import type { Params } from '../../core/records.ts';
import type { Recursive } from '../../definitions/definition.ts';
import type { FoundPartition, Partition } from '../../sinks/partition.ts';

/**
 * Whether a record belongs to this listing of a tree, what is filled in, and the listing it opens. A backfill's rows
 * belong to the tree as syncs know it.
 */
export function placeInTree(
  rules: Recursive,
  partition: Partition,
  raw: JsonObject,
  { positionInListing, isBackfill }: { readonly positionInListing: number; readonly isBackfill: boolean },
) {
  const owner = ownerOf(rules, raw);
  const listingId = partition.params[rules.param];
  if (owner !== null && typeof listingId === 'string' && normalId(owner) !== normalId(listingId)) {
    // A synced copy shows it here too.
    return { kind: 'foreign' } as const;
  }
  const depth = partition.treeDepth ?? 0;
  const inject = { ...partition.inject, [rules.depthField]: depth, [rules.positionField]: positionInListing };
  const id = listingOf(rules, raw);
  const isBelowLimit = id !== null && depth + 1 > rules.maxDepth;
  if (id === null || isBelowLimit) return { kind: 'own', inject, listing: null, isBelowLimit } as const;
  const listing: FoundPartition = {
    entity: partition.entity,
    params: { ...partition.params, [rules.param]: id },
    inject: partition.inject,
    rank: partition.rank + 1,
    treeDepth: depth + 1,
    tree: partition.tree ?? partition.id,
    parent: null,
    marker: null,
    base: isBackfill ? baseOf(rules, partition) : null,
  };
  return { kind: 'own', inject, listing, isBelowLimit } as const;
}

/** The tree's root carries its own id in every record, and is found by it. */
function baseOf(rules: Recursive, { params, inject }: Partition): Params {
  return { ...params, [rules.param]: inject[rules.rootField] ?? params[rules.param] ?? null };
}

/**
 * Where a record says it lies: in the tree's own listing, elsewhere in trees, or (by its parent's type) in none any
 * more.
 */
export function whereInTree(
  rules: Recursive,
  raw: JsonObject,
  rootListing: JsonValue,
): 'in-root' | 'elsewhere' | 'in-none' {
  const parent = raw[rules.parentField];
  const type = isJsonObject(parent) ? parent['type'] : null;
  const isInTrees = rules.ownerTypes.size === 0 || (typeof type === 'string' && rules.ownerTypes.has(type));
  if (!isInTrees) return 'in-none';
  const owner = ownerOf(rules, raw);
  const isRoot =
    owner !== null && typeof rootListing === 'string' && normalId(owner) === normalId(rootListing);
  return isRoot ? 'in-root' : 'elsewhere';
}

/** The listing that the record opens, or null where it opens none. */
function listingOf(rules: Recursive, raw: JsonObject): string | null {
  const { id } = raw;
  const type = raw[rules.typeField];
  const isSkipped = typeof type === 'string' && rules.skipTypes.has(type);
  return raw[rules.flag] === true && typeof id === 'string' && !isSkipped ? id : null;
}

/** The id of the listing that the record names as its own, or null where it names none. */
function ownerOf(rules: Recursive, raw: JsonObject): string | null {
  const parent = raw[rules.parentField];
  if (!isJsonObject(parent) || typeof parent['type'] !== 'string') return null;
  const id = Object.hasOwn(parent, parent['type']) ? parent[parent['type']] : null;
  return typeof id === 'string' ? id : null;
}

/** The same id comes with and without dashes, in either case. */
function normalId(id: string): string {
  return id.replaceAll('-', '').toLowerCase();
}
