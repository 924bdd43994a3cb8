import type { EntityName } from '../../core/names.ts';
import type { Definition, Entity } from '../../definitions/definition.ts';
import type { ChosenEntities } from '../../engine/chosen-entities.ts';

/**
 * Root entities are read in full by every sync: they are small, and only so is it seen what was deleted. What lies
 * below is read when its parent changed, or by what changed in it, and in full once a day.
 */
const fullEveryMs = 24 * 60 * 60 * 1000;

/** What can be searched, in the definition's order. */
export function searchableEntities(definition: Definition): readonly Entity[] {
  return [...definition.entities.values()].filter(({ actions }) => actions.has('context_store_search'));
}

/** What a store's sync reads: what can be searched, and the entities through which that is found. */
export function storeEntities(definition: Definition): ChosenEntities {
  const wanted = new Set<EntityName>();
  const want = (entity: Entity): void => {
    wanted.add(entity.name);
    for (const name of parentsOf(entity)) {
      const parent = definition.entities.get(name);
      if (parent !== undefined && !wanted.has(name)) want(parent);
    }
  };
  for (const entity of searchableEntities(definition)) want(entity);
  return new Map(
    [...definition.entities.values()]
      .filter(({ name }) => wanted.has(name))
      .map((entity) => [
        entity.name,
        {
          variants: [{}],
          parents: parentsOf(entity),
          fullEveryMs: entity.parents.length === 0 ? 0 : fullEveryMs,
          onSchemaChange: 'keepExtra',
        },
      ]),
  );
}

/**
 * The definition as a store's sync reads it. What a search shows is no longer `volatile`: a change of it alone would
 * otherwise be stored a day late.
 */
export function storeDefinition(definition: Definition): Definition {
  const entities = [...definition.entities].map(([name, entity]): [EntityName, Entity] => {
    const shown = new Set(['*', ...[...entity.searchable.values()].flatMap(({ from }) => from)]);
    // A search of an entity without searchable fields shows every column.
    const isAllShown = entity.searchable.size === 0 && entity.actions.has('context_store_search');
    const volatile = isAllShown ? [] : entity.volatile.filter(([field = '*']) => !shown.has(field));
    return [name, { ...entity, volatile }];
  });
  return { ...definition, entities: new Map(entities) };
}

function parentsOf({ parents }: Entity): readonly EntityName[] {
  return parents.filter(({ byDefault }) => byDefault).map(({ entity }) => entity);
}
