import type { EntityName } from '../core/names.ts';
import type { Params } from '../core/records.ts';
import type { Definition, Entity } from '../definitions/definition.ts';

/** How one entity is read: a walk per variant of its parameters, and the parents that lead to it. */
export interface ChosenEntity {
  readonly variants: readonly Params[];
  readonly parents: readonly EntityName[];
  /** Sent beside each variant in a backfill: the window's bounds. Absent where the entity is read without. */
  readonly bounds?: Params;
  /** A partition is read in full when its newest full walk is older than this; only counts where less than that can be read. */
  readonly fullEveryMs: number;
  readonly onSchemaChange: OnSchemaChange;
}

/** What is done with a field that the definition does not declare. */
export type OnSchemaChange = 'keepExtra' | 'evolve' | 'quarantine' | 'fail';

/** The entities of a run, parents before children. */
export type ChosenEntities = ReadonlyMap<EntityName, ChosenEntity>;

/**
 * Whether the settings say which of an entity's records are read. A record that a walk does not meet may then be one that the
 * parameters hide, or one that has gone from one variant to another between their walks.
 */
export function isFiltered(chosen: Pick<ChosenEntity, 'variants'> | undefined): boolean {
  const variants = chosen?.variants ?? [];
  return variants.length > 1 || variants.some((variant) => Object.keys(variant).length > 0);
}

/** Steps from a root entity: deeper partitions start first, so that parents do not pile up children. */
export function rankOf(definition: Definition, name: EntityName): number {
  const parents = definition.entities.get(name)?.parents ?? [];
  return parents.length === 0
    ? 0
    : 1 + Math.max(...parents.map((parent) => rankOf(definition, parent.entity)));
}

/**
 * Whether only what changed is asked for where that is known: not where the settings themselves send a parameter that such a walk
 * needs, because it would have two values.
 */
export function isReadIncrementally(entity: Entity, chosen: ChosenEntity | undefined): boolean {
  const { incremental } = entity;
  if (incremental === null || chosen === undefined) return false;
  const sent =
    incremental.kind === 'newestFirst' ? Object.keys(incremental.params) : [incremental.sinceParam];
  return chosen.variants.every((variant) => !sent.some((name) => Object.hasOwn(variant, name)));
}
