import type { EntityName } from '../../core/names.ts';
import type { Params } from '../../core/records.ts';
import { usage } from '../../core/usage-error.ts';
import { missingParams } from '../../definitions/check-params.ts';
import type { Definition, Entity } from '../../definitions/definition.ts';

/**
 * The entity, when the definition offers the action and declares every parameter. Throws USAGE: the service would drop
 * an unknown parameter silently and answer with the first page again.
 */
export function checkDeclared(
  definition: Definition,
  entity: EntityName,
  action: 'list' | 'get' | 'download',
  params: Params,
): Entity {
  const declared = definition.entities.get(entity);
  const offered = declared?.actions.get(action);
  if (declared === undefined || offered === undefined) {
    throw usage(`${definition.name} offers no ${action} of ${entity}`);
  }
  const unknown = Object.keys(params).filter((name) => !offered.params.has(name));
  if (unknown.length > 0) {
    throw usage(
      `${action} ${entity} takes no ${unknown.join(', ')}; declared: ${[...offered.params.keys()].join(', ')}`,
    );
  }
  const missing = missingParams(offered, params);
  if (missing.length > 0) throw usage(`${action} ${entity} needs ${missing.join(', ')}`);
  return declared;
}
