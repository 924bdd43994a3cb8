import type { EntityName } from '../core/names.ts';
import type { Definition, Entity } from '../definitions/definition.ts';

/** A field, by its path in the records of an entity. */
export interface EntityField {
  readonly entity: Entity;
  readonly path: string;
}

/**
 * The other fields that hold the same values as this one, in the entities that are read: what it refers to, and what
 * refers to the same. Without what parents fill in: no mask may name that.
 */
export function linkedFields(
  { entities }: Definition,
  read: ReadonlyMap<EntityName, unknown>,
  { entity, path }: EntityField,
): readonly EntityField[] {
  const end = entity.references.get(path) ?? { entity: entity.name, field: path };
  const isEnd = (to: typeof end): boolean => to.entity === end.entity && to.field === end.field;
  return [...entities.values()]
    .filter(({ name }) => read.has(name))
    .flatMap((other) => [
      ...(other.name === end.entity ? [{ entity: other, path: end.field }] : []),
      ...[...other.references].flatMap(([from, to]) => (isEnd(to) ? [{ entity: other, path: from }] : [])),
    ])
    .filter((other) => other.entity.name !== entity.name || other.path !== path);
}

/** The fields of an entity whose values others may hold as well: those of its key, and those that others refer to. */
export function linkedPaths({ entities }: Definition, { name, key }: Entity): readonly string[] {
  const referred = [...entities.values()].flatMap(({ references }) =>
    [...references.values()].flatMap((to) => (to.entity === name ? [to.field] : [])),
  );
  return [...new Set([...key, ...referred])];
}
