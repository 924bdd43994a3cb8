import { createHash } from 'node:crypto';
import { instant } from '../core/clock.ts';
import type { EntityName } from '../core/names.ts';
import type { Definition } from '../definitions/definition.ts';
import type { ChosenEntities } from './chosen-entities.ts';
import type { Window } from './run-options.ts';
import { withWindow } from './plan-run.ts';

export type BackfillPlan = ReturnType<typeof planBackfill>;

/** Throws `RangeError` as `backfillWindows` does. `entities`: closed over what leads to them. */
export function planBackfill(entities: ChosenEntities, span: BackfillSpan) {
  const choices = [...entities]
    .map(([name, { variants, parents }]) => [name, variants, parents] as const)
    .toSorted(([left], [right]) => (left < right ? -1 : 1));
  const identity = JSON.stringify([choices, instant(span.sinceMs), span.length]);
  return {
    /**
     * Follows from the entities, how they are read, the beginning and the windows' length; not the end, so that done
     * windows stay done when the span grows.
     */
    id: createHash('sha256').update(identity).digest('hex').slice(0, 16),
    /** Newest first. */
    windows: backfillWindows(span),
  };
}

/** Whether the entity takes bounds, or something that leads to it does: alone, it can be read in windows. */
export function canBeBounded(definition: Definition, entities: ChosenEntities, name: EntityName): boolean {
  if ((definition.entities.get(name)?.window ?? null) !== null) return true;
  return (entities.get(name)?.parents ?? []).some((parent) => canBeBounded(definition, entities, parent));
}

/**
 * Of these entities together, those of which a window reads only a part; what leads to a bounded one is read in full by
 * each.
 */
export function boundedTogether(definition: Definition, entities: ChosenEntities): ReadonlySet<EntityName> {
  const windowed = withWindow(definition, entities, { sinceMs: 0, untilMs: 0 });
  const isBounded = (name: EntityName): boolean =>
    windowed.get(name)?.bounds !== undefined || (windowed.get(name)?.parents ?? []).some(isBounded);
  return new Set([...windowed.keys()].filter(isBounded));
}

/** How long the windows of a backfill are: calendar months in UTC, or so many milliseconds. */
export type WindowLength =
  { readonly kind: 'months'; readonly months: number } | { readonly kind: 'duration'; readonly ms: number };

export interface BackfillSpan {
  readonly sinceMs: number;
  /** Not included. */
  readonly untilMs: number;
  readonly length: WindowLength;
}

/** More would be a slip of the finger: a window costs calls even where nothing is in it. */
export const mostWindows = 10_000;

/**
 * The span cut into windows without gap or overlap, newest first: months, quarters and years at the calendar's (UTC),
 * other lengths from the beginning on, so that a span that ends later has the same ones. Throws `RangeError` for a span
 * without length, or of more than `mostWindows`.
 */
export function backfillWindows({ sinceMs, untilMs, length }: BackfillSpan): readonly Window[] {
  if (!(sinceMs < untilMs)) throw new RangeError('the beginning must be before the end');
  const windows: Window[] = [];
  for (let start = sinceMs; start < untilMs;) {
    if (windows.length === mostWindows) {
      throw new RangeError(`that would be more than ${mostWindows} windows`);
    }
    const end = Math.min(untilMs, nextBound(start, length));
    windows.push({ sinceMs: start, untilMs: end });
    start = end;
  }
  return windows.toReversed();
}

function nextBound(start: number, length: WindowLength): number {
  switch (length.kind) {
    case 'duration':
      return start + length.ms;
    case 'months': {
      const date = new Date(start);
      const month = date.getUTCFullYear() * 12 + date.getUTCMonth();
      const next = (Math.floor(month / length.months) + 1) * length.months;
      return startOfMonth(Math.floor(next / 12), next % 12);
    }
  }
}

/** `Date.UTC` takes the years 0 to 99 for 1900 to 1999. */
function startOfMonth(year: number, month: number): number {
  const date = new Date(0);
  date.setUTCFullYear(year, month, 1);
  return date.getTime();
}
