import { createHash } from 'node:crypto';
import { instant } from '../../core/clock.ts';
import type { EntityName } from '../../core/names.ts';
import type { Definition } from '../../definitions/definition.ts';
import type { ChosenEntities } from '../chosen-entities.ts';
import type { Window } from '../run-options.ts';
import { withWindow } from '../window-params.ts';
import { backfillWindows, type BackfillSpan } from './backfill-windows.ts';

export interface BackfillPlan {
  /**
   * The same for the same entities, read in the same way, since the same time, in windows of the same length. The end is not in it:
   * windows that are done stay done when the span grows.
   */
  readonly id: string;
  /** Newest first. */
  readonly windows: readonly Window[];
}

/** Throws `RangeError` as `backfillWindows` does. `entities`: closed over what leads to them. */
export function planBackfill(entities: ChosenEntities, span: BackfillSpan): BackfillPlan {
  const choices = [...entities]
    .map(([name, { variants, parents }]) => [name, variants, parents] as const)
    .toSorted(([left], [right]) => (left < right ? -1 : 1));
  const identity = JSON.stringify([choices, instant(span.sinceMs), span.length]);
  return {
    id: createHash('sha256').update(identity).digest('hex').slice(0, 16),
    windows: backfillWindows(span),
  };
}

/** Whether the entity takes bounds, or something that leads to it does: alone, it can be read in windows. */
export function canBeBounded(definition: Definition, entities: ChosenEntities, name: EntityName): boolean {
  if ((definition.entities.get(name)?.window ?? null) !== null) return true;
  return (entities.get(name)?.parents ?? []).some((parent) => canBeBounded(definition, entities, parent));
}

/** Of these entities together, those of which a window reads only a part; what leads to a bounded one is read in full by each. */
export function boundedTogether(definition: Definition, entities: ChosenEntities): ReadonlySet<EntityName> {
  const windowed = withWindow(definition, entities, { sinceMs: 0, untilMs: 0 });
  const isBounded = (name: EntityName): boolean =>
    windowed.get(name)?.bounds !== undefined || (windowed.get(name)?.parents ?? []).some(isBounded);
  return new Set([...windowed.keys()].filter(isBounded));
}
