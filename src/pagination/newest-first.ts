import * as z from 'zod';
import type { Position } from '../sinks/partition.ts';
import {
  ignored,
  shortMark,
  type Advance,
  type PageSeen,
  type Pagination,
  timeParam,
  walkWith,
} from './pagination.ts';

/** Records of earlier pages that may show up again, pushed down by others that came to the front. */
const rememberedKeys = 100;

const positionSchema = z.object({
  kind: z.literal('newestFirst'),
  /** The page tokens' own position. */
  inner: z.custom<Position>((inner) => z.looseObject({ kind: z.string() }).safeParse(inner).success),
  /** The change value of the last record, in milliseconds since the epoch. */
  lastMs: z.number().nullable().default(null),
  /** A later record with an earlier value has been met: the listing is sorted. */
  hasFallen: z.boolean().default(false),
  recent: z.array(z.string()).default([]),
});
type NewestFirstPosition = z.infer<typeof positionSchema>;

/**
 * Walks from the newest change down to `untilMs`: all below is known. A record that changes meanwhile comes to the
 * front, and is the next walk's.
 */
export function newestFirstPagination(full: Pagination, options: { readonly untilMs: number }): Pagination {
  const { untilMs } = options;

  function advance(position: NewestFirstPosition, page: PageSeen): Advance {
    const order = followOrder(position, page);
    if (order.fault !== null) return ignored(order.fault);
    const step = full.advance(position.inner, page);
    if (step.kind === 'restart' || step.kind === 'broken') return step;
    const tail = page.marks.slice(-rememberedKeys).map(shortMark);
    const next: NewestFirstPosition = {
      kind: 'newestFirst' as const,
      inner: step.position,
      lastMs: order.lastMs,
      hasFallen: order.hasFallen,
      recent: [...position.recent, ...tail].slice(-rememberedKeys),
    };
    if (step.kind === 'end') return { ...step, position: next };
    // One value alone, or the same one throughout, could be the oldest of a listing that is sorted the other way round.
    return order.isBelow && order.hasFallen
      ? { kind: 'end', position: next, proof: { kind: 'keyset', isOrdered: true } }
      : { ...step, position: next };
  }

  function followOrder(position: NewestFirstPosition, page: PageSeen) {
    const known = new Set(position.recent);
    let { lastMs, hasFallen } = position;
    let isBelow = false;
    for (const [index, change] of page.changes.entries()) {
      // A value later than the walk's beginning may be a record that changed while the page was made, at its old place.
      if (change === null || change.highestMs > page.capMs) continue;
      const changeMs = change.highestMs;
      const isKnown = known.has(shortMark(page.marks[index] ?? ''));
      if (lastMs !== null && changeMs > lastMs && !isKnown) {
        const fault = `expected the newest first, got ${timeParam(changeMs)} after ${timeParam(lastMs)}: the service seems to ignore the sort`;
        return { fault, lastMs, hasFallen, isBelow };
      }
      hasFallen ||= lastMs !== null && changeMs < lastMs;
      isBelow ||= changeMs < untilMs;
      lastMs = changeMs;
    }
    return { fault: null, lastMs, hasFallen, isBelow };
  }

  return walkWith(positionSchema, {
    begin: () => positionSchema.parse({ kind: 'newestFirst', inner: full.begin() }),
    request: ({ inner }) => full.request(inner),
    advance,
    halve: (position) => {
      const inner = full.halve(position.inner);
      return inner === null ? null : { ...position, inner };
    },
    expired: ({ inner }, nowMs) => full.expired(inner, nowMs),
  });
}
