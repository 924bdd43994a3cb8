import { memberOf, valueAtKey, type JsonObject, type JsonValue, isJsonObject } from '../../core/json.ts';
import type { EntityName } from '../../core/names.ts';
import type { Params } from '../../core/records.ts';
import type { Definition, Entity, Parent, ParentCondition, Recursive } from '../../definitions/definition.ts';
import { convertValue } from '../../definitions/params.ts';
import type { FoundPartition, Marker, Partition } from '../../sinks/partition.ts';
import { injectedFrom, rankOf, type ChosenEntities } from '../chosen-entities.ts';
import { listingsOf } from '../windows.ts';
import { timeMs } from '../../core/clock.ts';

export interface FindingRun {
  readonly definition: Definition;
  readonly entities: ChosenEntities;
  /** Its start by the service's clock, in milliseconds. */
  readonly capMs: number;
  readonly isBackfill: boolean;
}

interface FoundRecord {
  readonly inject: Readonly<Record<string, JsonValue>>;
  readonly keyText: string;
  /**
   * The run's start by the clock that dates the records, in milliseconds: records changed shortly before may change
   * again unnoticed.
   */
  readonly settledMs: number;
}

/**
 * Names the child partitions a record leads to: one per child entity, way of descent and variant. Unlisted records (in
 * the trash) lead to none.
 */
export function compileFindChildren(run: FindingRun, parentEntity: Entity) {
  const descents = descentsFrom(run, parentEntity.name).map(({ variants, ...descent }) => ({
    ...descent,
    listings: listingsOf(descent.child, variants, run.capMs),
  }));

  return (raw: JsonObject, { inject, keyText, settledMs }: FoundRecord): readonly FoundPartition[] => {
    if (descents.length === 0 || isUnlisted(parentEntity, raw)) return [];
    return descents.flatMap(({ child, parent, listings, bounds, rank }) => {
      if (parent.when.length > 0 && !parent.when.some((condition) => meets(condition, raw))) return [];
      const params = paramsFrom(child, parent, raw, inject);
      if (params === null) return [];
      const injected = injectedFrom(child, parent.inject, params);
      const ofParent = markerOf(parent, raw, settledMs);
      return listings.map((listing) => ({
        entity: child.name,
        params: { ...listing.params, ...bounds, ...params },
        inject: { ...listing.inject, ...injected },
        rank,
        treeDepth: child.recursive === null ? null : 0,
        tree: null,
        parent: { entity: parentEntity.name, keyText },
        // The definition was checked: there is one of them.
        marker: listing.marker ?? ofParent,
        base: run.isBackfill ? { ...listing.params, ...params } : null,
      }));
    });
  };
}

/** Fields of a record, as names or paths, that decide which listings it leads to. */
export function fieldsOfDescents(run: FindingRun, parentEntity: Entity): readonly string[] {
  return [
    ...parentEntity.unlisted.map(({ field }) => field),
    ...descentsFrom(run, parentEntity.name).flatMap(({ parent: { when, params, marker } }) => [
      ...when.map(({ field }) => field),
      ...params.values(),
      ...(marker === null ? [] : [marker.field]),
    ]),
  ];
}

/** The record exists although listings may leave it out. */
export function isUnlisted(entity: Pick<Entity, 'unlisted'>, raw: JsonObject): boolean {
  return entity.unlisted.some(({ field, values }) => {
    const value = memberOf(raw, field);
    return values.some((wanted) => wanted === value);
  });
}

/** The field of a record that tells whether the rows below it have changed. Null: there is none. */
export function markerField(run: FindingRun, parentEntity: EntityName): string | null {
  const [marker] = descentsFrom(run, parentEntity).flatMap(({ parent }) => parent.marker ?? []);
  return marker?.field ?? null;
}

/** The ways in which the entities of the run descend from this one. */
function descentsFrom({ definition, entities }: FindingRun, parentEntity: EntityName) {
  return [...entities].flatMap(([name, { variants, parents, bounds }]) => {
    const child = definition.entities.get(name);
    if (child === undefined || !parents.includes(parentEntity)) return [];
    return child.parents
      .filter(({ entity }) => entity === parentEntity)
      .map((parent) => ({ child, parent, variants, bounds, rank: rankOf(definition, name) }));
  });
}

/** Null where the parent says nothing that can be compared: then its children are read whenever it is met. */
function markerOf(parent: Parent, raw: JsonObject, atMs: number): Marker | null {
  if (parent.marker === null) return null;
  const { field, settlesMs } = parent.marker;
  const value = valueAtKey(raw, field);
  const changedMs = timeMs(value ?? null);
  if (typeof value !== 'string' || changedMs === null) return null;
  return { value, isSettled: changedMs + settlesMs <= atMs };
}

function meets(condition: ParentCondition, raw: JsonObject): boolean {
  const value = valueAtKey(raw, condition.field);
  switch (condition.kind) {
    case 'in':
      return typeof value === 'string' && condition.values.includes(value);
    case 'notIn':
      return !(typeof value === 'string' && condition.values.includes(value));
    case 'present':
      return value !== undefined && value !== null && value !== '';
  }
}

/** Null where the parent record lacks a value: then it has no listing that could be asked for. */
function paramsFrom(
  child: Entity,
  parent: Parent,
  raw: JsonObject,
  inject: Readonly<Record<string, JsonValue>>,
): Params | null {
  const params: Record<string, JsonValue> = {};
  for (const [param, field] of parent.params) {
    const whole = inject[field] ?? valueAtKey(raw, field) ?? null;
    const part = parent.parts.get(param);
    const value = part === undefined ? whole : partOf(whole, part);
    const type = child.actions.get('list')?.params.get(param)?.type;
    const converted = type === undefined ? null : convertValue(type, value);
    // An empty text names no listing either.
    if (converted === null || converted === '') return null;
    params[param] = converted;
  }
  return params;
}

/** Null where the value is no text, or a text of fewer parts. */
function partOf(
  value: JsonValue,
  { split, part }: { readonly split: string; readonly part: number },
): JsonValue {
  return typeof value === 'string' ? (value.split(split).at(part) ?? null) : null;
}

/**
 * Whether a record belongs to this listing of a tree, the values to fill in, and the listing it opens. A backfill's
 * rows belong to the tree as syncs know it.
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
