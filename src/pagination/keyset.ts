import * as z from 'zod';
import { numberedPosition } from './numbered.ts';
import { offsetPosition } from './offset.ts';
import {
  type Advance,
  type Listing,
  type PageSeen,
  type Pagination,
  type PaginationStyle,
  type SinceParam,
  floorSecond,
  ignored,
  timeParam,
  walkWith,
} from './pagination.ts';

/**
 * Below this many records the walk behind the bound continues: a new bound would bring little else than what is known.
 */
const fewestToMove = 20;

const innerPosition = z.discriminatedUnion('kind', [offsetPosition, numberedPosition]);

const positionSchema = z.object({
  kind: z.literal('keyset'),
  /** The lower bound, whole seconds in milliseconds since the epoch. */
  sinceMs: z.number().int(),
  /** The walk through what lies behind the bound, by offset or by page numbers. */
  inner: innerPosition,
});
type KeysetPosition = z.infer<typeof positionSchema>;

/**
 * Walks a listing that is sorted by its change value, ascending, from a lower bound on: after each page the bound moves
 * up to its last value less a second, and the offset is 0 again. Everything before a page's last value has been read
 * then, whatever vanished or moved to the end meanwhile. Where more records share a second than a page holds, the bound
 * stays and the offset grows, by the seam rule. Numbered pages may be read from the last one to the first: there the
 * bound moves only after a first page. The bound never passes the walk's beginning: one value from the future would
 * carry it over all that changes now.
 */
export function keysetPagination(
  { style, maxSize }: { readonly style: PaginationStyle; readonly maxSize: number },
  options: { readonly sinceParam: SinceParam; readonly sinceMs: number } & Pick<
    Listing,
    'pageLengths' | 'trustsTotal'
  >,
): Pagination {
  const { sinceParam } = options;
  // The total of an answer counts what lies behind the bound that was asked for: each bound begins to count again.
  const behindBound = style.walk({
    ...options,
    isOrdered: true,
    growsOnly: false,
    storedRows: 0,
  });

  function advance(position: KeysetPosition, page: PageSeen): Advance {
    const fault = faultOf(position, page, sinceParam.name);
    if (fault !== null) return ignored(fault);
    const step = behindBound.advance(position.inner, page);
    if (step.kind === 'restart' || step.kind === 'broken') return step;
    const inner = innerPosition.parse(step.position);
    if (step.kind === 'end') {
      return { ...step, position: { ...position, inner }, proof: { ...step.proof, kind: 'keyset' } };
    }
    // A step back for a lost seam does not count the page: something before it may be unread.
    const isSeamWhole = inner.pages > position.inner.pages;
    const isForwards = inner.kind === 'offset' || position.inner.pages === 0;
    const sinceMs = isSeamWhole && isForwards ? nextBound(position, page) : position.sinceMs;
    return sinceMs > position.sinceMs
      ? { ...step, position: beginAt(sinceMs, position.inner.size), isFurther: true }
      : { ...step, position: { ...position, inner } };
  }

  function beginAt(sinceMs: number, size: number): KeysetPosition {
    return { kind: 'keyset', sinceMs, inner: { ...innerPosition.parse(behindBound.begin()), size } };
  }

  return walkWith(positionSchema, {
    begin: () => beginAt(floorSecond(options.sinceMs), maxSize),
    request: ({ sinceMs, inner }) => ({
      ...behindBound.request(inner),
      [sinceParam.name]: sinceParam.write(sinceMs),
    }),
    advance,
    halve: (position) => {
      const inner = behindBound.halve(position.inner);
      return inner === null ? null : { ...position, inner: innerPosition.parse(inner) };
    },
    refused: ({ inner }, status) => behindBound.refused(inner, status),
  });
}

/** Why the values cannot come from a listing that is sorted and bounded as asked; null when they can. */
function faultOf({ sinceMs }: KeysetPosition, page: PageSeen, sinceParam: string): string | null {
  let beforeMs = Number.NEGATIVE_INFINITY;
  for (const changeMs of settledChanges(page)) {
    if (changeMs < sinceMs) {
      return `asked for what changed since ${timeParam(sinceMs)}, the service gave ${timeParam(changeMs)}: it seems to ignore ${sinceParam}`;
    }
    if (changeMs < beforeMs) {
      return `expected records sorted by their change, got ${timeParam(changeMs)} after ${timeParam(beforeMs)}: the service seems to ignore the sort`;
    }
    beforeMs = changeMs;
  }
  return null;
}

function nextBound({ sinceMs }: KeysetPosition, page: PageSeen): number {
  const lastMs = settledChanges(page).at(-1);
  if (lastMs === undefined || page.marks.length < fewestToMove) return sinceMs;
  return floorSecond(lastMs - 1000);
}

/**
 * Up to the walk's beginning, in the page's order. A record that changes while the page is made may show its new value
 * at its old place.
 */
function settledChanges({ changes, capMs }: PageSeen): readonly number[] {
  return changes.flatMap((change) =>
    change !== null && change.highestMs <= capMs ? [change.highestMs] : [],
  );
}
