import { deepFreeze } from './deep-freeze.ts';
import type { Definition } from './definition.ts';

const served = new WeakMap<Definition, Definition>();

/** The definition as a Connector Execution API offers it: without the actions that only the service itself has. */
export function servedDefinition(definition: Definition): Definition {
  const known = served.get(definition);
  if (known !== undefined) return known;
  const entities = new Map(
    [...definition.entities].map(([name, entity]) => {
      const actions = new Map([...entity.actions].filter(([, { isDirectOnly }]) => !isDirectOnly));
      return [name, actions.size === entity.actions.size ? entity : { ...entity, actions }] as const;
    }),
  );
  const found = deepFreeze({ ...definition, entities });
  served.set(definition, found);
  return found;
}
