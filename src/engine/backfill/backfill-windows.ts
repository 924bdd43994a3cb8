import { instant } from '../../core/clock.ts';
import type { Window } from '../run-options.ts';

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
 * The span cut into windows without gap or overlap, newest first. Months are cut at the calendar's (UTC), quarters and years at
 * theirs; other lengths from the span's beginning on. So a span that ends later has the same windows, and some more.
 * Throws `RangeError` for a span without length, or of more than `mostWindows`.
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

/** As the ledger has it: `2026-01-01T00:00:00.000Z/2026-02-01T00:00:00.000Z`. */
export function windowText({ sinceMs, untilMs }: Window): string {
  return `${instant(sinceMs)}/${instant(untilMs)}`;
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
