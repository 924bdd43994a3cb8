import { SyncError } from '../core/errors.ts';
import type { EntityName } from '../core/names.ts';
import type { Definition, Entity } from '../definitions/definition.ts';
import type { StoredConnector } from './state/connectors.ts';

/** The definition that a connector is served by. `definitions`: those of the service, which do not go while it runs. */
export function hostedDefinition(
  definitions: ReadonlyMap<string, Definition>,
  stored: Pick<StoredConnector, 'id' | 'definition' | 'account'>,
): Definition {
  const definition = definitions.get(stored.definition);
  if (definition !== undefined) return stored.account === null ? definition : callable(definition);
  throw new SyncError(
    `Expected the definition ${stored.definition} of connector ${stored.id} among ${[...definitions.keys()].join(', ')}.`,
    { code: 'USAGE', recovery: 'stop' },
  );
}

/** Thousands of connectors may have one definition. */
const made = new WeakMap<Definition, Definition>();

/** Without entities that a real account cannot be asked for: only an API has them, or all of their parents. */
function callable(definition: Definition): Definition {
  const requests = definition.upstream?.entities;
  if (requests === undefined || requests.size === definition.entities.size) return definition;
  const known = made.get(definition);
  if (known !== undefined) return known;
  const entities = new Map<EntityName, Entity>();
  for (const [name, entity] of definition.entities) {
    const parents = entity.parents.filter((parent) => parent.entity === name || entities.has(parent.entity));
    const isFound = parents.length > 0 || entity.parents.length === 0;
    if (requests.has(name) && isFound) entities.set(name, { ...entity, parents });
  }
  const found = { ...definition, entities };
  made.set(definition, found);
  return found;
}
