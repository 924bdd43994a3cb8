import { firstCharacters, hasAtMostCharacters } from '../../core/characters.ts';
import type { Action, ActionName, Definition, Entity } from '../../definitions/definition.ts';
import { ApiError } from '../api-error.ts';

interface FoundAction {
  readonly entity: Entity;
  readonly action: Action;
  readonly actionName: ActionName;
}

/** Looks up what an execute call names; 400 in the hosted executor's words when the definition does not have it. */
export function findAction(definition: Definition, entityName: string, wantedAction: string): FoundAction {
  const entity = [...definition.entities.values()].find(({ name }) => name === entityName);
  if (entity === undefined) {
    throw new ApiError(
      400,
      `Entity '${shortened(entityName)}' not found in connector. Available entities: ${pythonList([...definition.entities.keys()])}`,
      { field: 'body.entity', errorCode: 'unknown_entity' },
    );
  }
  // The documentation's prose still says `search`.
  const name = wantedAction === 'search' ? 'context_store_search' : wantedAction;
  for (const [actionName, action] of entity.actions) {
    if (actionName === name) return { entity, action, actionName };
  }
  throw new ApiError(
    400,
    `Action '${shortened(wantedAction)}' not supported for entity '${entity.name}'. ` +
      `Supported actions: ${pythonList([...entity.actions.keys()])}`,
    { field: 'body.action', errorCode: 'unsupported_action' },
  );
}

/** Enough to recognise it: a name may be as long as a body. */
function shortened(name: string): string {
  return hasAtMostCharacters(name, 60) ? name : `${firstCharacters(name, 60)}…`;
}

/** The hosted executor prints its lists so: `['a', 'b']`. */
export function pythonList(texts: readonly string[]): string {
  return `[${texts.map((text) => `'${text}'`).join(', ')}]`;
}
