import type { EntityName } from '../core/names.ts';
import type { Params } from '../core/records.ts';
import type { Definition } from '../definitions/definition.ts';

/** How one entity is read: a walk per variant of its parameters, and the parents that lead to it. */
export interface ChosenEntity {
  readonly variants: readonly Params[];
  readonly parents: readonly EntityName[];
}

/** The entities of a run, parents before children. */
export type ChosenEntities = ReadonlyMap<EntityName, ChosenEntity>;

/** Steps from a root entity: deeper partitions start first, so that parents do not pile up children. */
export function rankOf(definition: Definition, name: EntityName): number {
  const parents = definition.entities.get(name)?.parents ?? [];
  return parents.length === 0
    ? 0
    : 1 + Math.max(...parents.map((parent) => rankOf(definition, parent.entity)));
}
