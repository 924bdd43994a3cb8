import type { EntityName } from '../core/names.ts';
import type { Definition, Entity } from '../definitions/definition.ts';

/** The entities that are read, with the parents that they are found by. */
export type ReadEntities = ReadonlyMap<EntityName, { readonly parents: readonly EntityName[] }>;

/** A field that a sync works with. */
export interface NeededField {
  /** The names on the way to it. */
  readonly path: readonly string[];
  /** What for, for a sentence: "email is ...". */
  readonly why: string;
  /** Whether a hash does as well as the value. */
  readonly mayHash: boolean;
}

/**
 * The fields of an entity whose clear values a sync needs: to ask the service, to know which records are of this kind
 * and which changed, or to tell one record from another. `chosen`: the entities that are read;
 * `isServed`: clients read them.
 */
export function neededFields(
  definition: Definition,
  entity: Entity,
  chosen: ReadEntities,
  { isServed }: { readonly isServed: boolean },
): readonly NeededField[] {
  const { actions, incremental, order, only, recursive, explode, whole, key, isKeyless, pagination } = entity;
  const needed = (field: string, why: string, mayHash = false): NeededField => ({
    path: field.split('.'),
    why,
    mayHash,
  });
  const children = [...chosen].flatMap(([name, { parents }]) =>
    parents.includes(entity.name)
      ? (definition.entities.get(name)?.parents ?? [])
          .filter((parent) => parent.entity === entity.name)
          .map((parent) => ({ name, ...parent }))
      : [],
  );
  const download = actions.get('download');
  return [
    ...[...(actions.get('get')?.key.values() ?? [])].map((field) =>
      needed(field, `needed to ask for a single record`),
    ),
    ...[...(download?.key.values() ?? [])].map((field) => needed(field, 'needed to ask for the file')),
    ...(download?.file?.version ?? []).map((field) =>
      needed(field, 'what tells that a file has changed', true),
    ),
    ...children.flatMap(({ name, params, when, marker }) => [
      ...[...params.values()].map((field) => needed(field, `needed to ask for ${name}`)),
      ...when.map(({ field }) => needed(field, `what decides whether there are ${name}`)),
      ...(marker === null ? [] : [needed(marker.field, `what tells that ${name} have changed`)]),
    ]),
    ...(incremental === null
      ? []
      : [needed(incremental.field, 'the change value that changes are asked for by')]),
    ...(isServed && pagination.kind === 'lastRecord'
      ? [needed(pagination.field, 'what the next page is asked for by')]
      : []),
    ...(order === null ? [] : [needed(order.field, 'what listings are sorted by')]),
    ...(only === null ? [] : [needed(only.field, 'what decides which records are read')]),
    ...entity.unlisted.map(({ field }) => needed(field, 'what tells why a record is not listed')),
    ...(recursive === null
      ? []
      : ['id', recursive.flag, recursive.parentField, recursive.typeField].map((field) =>
          needed(field, 'needed to follow the tree of records'),
        )),
    ...(isKeyless === true
      ? []
      : key.map((field) =>
          download === undefined
            ? needed(field, 'part of the key', true)
            : needed(field, 'part of the key, by which files are stored'),
        )),
    ...whole.map((field) => needed(field, 'what tells that a record came whole', true)),
    ...(explode === null
      ? []
      : explode.key
          .filter((name) => !explode.carry.includes(name))
          .map((name) => needed(`${explode.field}.${name}`, 'part of the key', true))),
  ];
}
