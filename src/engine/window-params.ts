import type { EntityName } from '../core/names.ts';
import type { Params } from '../core/records.ts';
import type { Definition } from '../definitions/definition.ts';
import type { ChosenEntities, ChosenEntity } from './chosen-entities.ts';
import { timeParam } from './pagination/time-param.ts';
import type { Window } from './run-options.ts';

/**
 * The entities of a backfill, those that take bounds with those of the window: the deepest ones on each way down. What leads to
 * them is read in full, and so is what they lead to.
 */
export function withWindow(definition: Definition, chosen: ChosenEntities, window: Window): ChosenEntities {
  return new Map(
    [...chosen].map(([name, entity]): [EntityName, ChosenEntity] => {
      const params = windowOf(definition, chosen, name);
      return params === null || isBoundedBelow(definition, chosen, name)
        ? [name, entity]
        : [name, { ...entity, bounds: boundsOf(params, window) }];
    }),
  );
}

/** Null where the entity takes no bounds, or where the settings have set one of them themselves. */
function windowOf(
  definition: Definition,
  chosen: ChosenEntities,
  name: EntityName,
): { readonly since: string; readonly before: string } | null {
  const window = definition.entities.get(name)?.window ?? null;
  const isSet = chosen
    .get(name)
    ?.variants.some(
      (variant) =>
        window !== null && (Object.hasOwn(variant, window.since) || Object.hasOwn(variant, window.before)),
    );
  return isSet === true ? null : window;
}

function isBoundedBelow(definition: Definition, chosen: ChosenEntities, name: EntityName): boolean {
  return [...chosen].some(
    ([child, { parents }]) =>
      parents.includes(name) &&
      (windowOf(definition, chosen, child) !== null || isBoundedBelow(definition, chosen, child)),
  );
}

/**
 * Nobody says whether a service takes its bounds in or leaves them out, and its clock may be finer than a second: both are a little
 * wider than the window. What lies between is read by two windows and stored once.
 */
function boundsOf(
  { since, before }: { readonly since: string; readonly before: string },
  { sinceMs, untilMs }: Window,
): Params {
  return { [since]: timeParam(sinceMs - 1000), [before]: timeParam(untilMs + 999) };
}
