import * as z from 'zod';
import type { Params } from '../core/records.ts';
import type { Entity } from '../definitions/definition.ts';
import type { Position } from '../sinks/partition.ts';
import { rememberedKeys } from './listing-end.ts';
import { numberedPosition } from './numbered.ts';
import { offsetPosition } from './offset.ts';
import * as paging from './pagination.ts';

/** A full walk of a filtered listing: only changes since then are requested. */
export function sincePagination(
  full: paging.Pagination,
  { name, write, floor }: paging.SinceParam,
  sinceMs: number,
): paging.Pagination {
  const boundMs = floor(paging.floorSecond(sinceMs));
  return {
    ...full,
    request: (position) => ({ ...full.request(position), [name]: write(boundMs) }),
    advance: (position, page) =>
      // A service may filter whole records and show all their elements: the newest of them counts.
      page.changes.some((change) => change !== null && change.highestMs < boundMs)
        ? paging.ignored(
            `asked for what changed since ${paging.timeParam(boundMs)}, the API returned older records: it seems to ignore ${name}`,
          )
        : full.advance(position, page),
  };
}

/** Below this many records the walk behind the bound continues: a new bound would bring mostly known records. */
const fewestToMove = 20;

const innerPosition = z.discriminatedUnion('kind', [offsetPosition, numberedPosition]);

const keysetPosition = z.object({
  kind: z.literal('keyset'),
  /** The lower bound, whole seconds in milliseconds since the epoch. */
  sinceMs: z.number().int(),
  /** The walk behind the bound, by offset or by page numbers. */
  inner: innerPosition,
});
type KeysetPosition = z.infer<typeof keysetPosition>;

/**
 * Walks a listing that is sorted by its change value, ascending, from a lower bound on: after each page the bound moves
 * up to its last value less a second, and the offset is 0 again. Everything before a page's last value has been read
 * then, whatever vanished or moved to the end meanwhile. Where more records share a second than a page holds, the bound
 * stays and the offset grows, by the seam rule. Numbered pages may be read from the last one to the first: there the
 * bound moves only after a first page. The bound never passes the walk's beginning: one value from the future would
 * carry it over all that changes now.
 */
export function keysetPagination(
  { style, maxSize }: { readonly style: paging.PaginationStyle; readonly maxSize: number },
  {
    sinceParam,
    ...options
  }: { readonly sinceParam: paging.SinceParam; readonly sinceMs: number } & Pick<
    paging.Listing,
    'pageLengths' | 'trustsTotal'
  >,
): paging.Pagination {
  // The total of an answer counts the rows behind the requested bound: each bound begins to count again.
  const behindBound = style.walk({ ...options, isOrdered: true, growsOnly: false, storedRows: 0 });

  function advance(position: KeysetPosition, page: paging.PageSeen): paging.Advance {
    const fault = faultOf(position, page, sinceParam.name);
    if (fault !== null) return paging.ignored(fault);
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

  return paging.walkWith(keysetPosition, {
    begin: () => beginAt(paging.floorSecond(options.sinceMs), maxSize),
    request: ({ sinceMs, inner }) => ({
      ...behindBound.request(inner),
      [sinceParam.name]: sinceParam.write(sinceMs),
    }),
    advance,
    halve: (position) => paging.halveInner(behindBound, position),
    refused: ({ inner }, status) => behindBound.refused(inner, status),
  });
}

/** Why the values cannot come from a listing that is sorted and bounded as asked; null when they can. */
function faultOf({ sinceMs }: KeysetPosition, page: paging.PageSeen, sinceParam: string): string | null {
  let beforeMs = Number.NEGATIVE_INFINITY;
  for (const changeMs of settledChanges(page)) {
    if (changeMs < sinceMs) {
      return `asked for what changed since ${paging.timeParam(sinceMs)}, the service gave ${paging.timeParam(changeMs)}: it seems to ignore ${sinceParam}`;
    }
    if (changeMs < beforeMs) {
      return `expected records sorted by their change, got ${paging.timeParam(changeMs)} after ${paging.timeParam(beforeMs)}: the service seems to ignore the sort`;
    }
    beforeMs = changeMs;
  }
  return null;
}

function nextBound({ sinceMs }: KeysetPosition, page: paging.PageSeen): number {
  const lastMs = settledChanges(page).at(-1);
  if (lastMs === undefined || page.marks.length < fewestToMove) return sinceMs;
  return paging.floorSecond(lastMs - 1000);
}

/**
 * Change values up to the walk's beginning, in the page's order. A record that changes while the page is made may show
 * its new value at its old place.
 */
function settledChanges({ changes, capMs }: paging.PageSeen): readonly number[] {
  return changes.flatMap((change) =>
    change !== null && change.highestMs <= capMs ? [change.highestMs] : [],
  );
}

/** The position of another walk, which reads it by itself. */
const anyPosition = z.custom<Position>(
  (inner) => z.looseObject({ kind: z.string() }).safeParse(inner).success,
);

const newestFirstPosition = z.object({
  kind: z.literal('newestFirst'),
  /** The page tokens' own position. */
  inner: anyPosition,
  /** The change value of the last record, in milliseconds since the epoch. */
  lastMs: z.number().nullable().default(null),
  /** A later record with an earlier value has been met: the listing is sorted. */
  hasFallen: z.boolean().default(false),
  recent: z.array(z.string()).default([]),
});
type NewestFirstPosition = z.infer<typeof newestFirstPosition>;

/**
 * Walks from the newest change down to `untilMs`: all below is known. A record that changes meanwhile comes to the
 * front, and is the next walk's.
 */
export function newestFirstPagination(full: paging.Pagination, untilMs: number): paging.Pagination {
  function advance(position: NewestFirstPosition, page: paging.PageSeen): paging.Advance {
    const order = followOrder(position, page);
    if (order.fault !== null) return paging.ignored(order.fault);
    const step = full.advance(position.inner, page);
    if (step.kind === 'restart' || step.kind === 'broken') return step;
    const tail = page.marks.slice(-rememberedKeys).map(paging.shortMark);
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

  function followOrder(position: NewestFirstPosition, page: paging.PageSeen) {
    const known = new Set(position.recent);
    let { lastMs, hasFallen } = position;
    let isBelow = false;
    for (const [index, change] of page.changes.entries()) {
      // A value later than the walk's beginning may be a record that changed while the page was made, at its old place.
      if (change === null || change.highestMs > page.capMs) continue;
      const changeMs = change.highestMs;
      const isKnown = known.has(paging.shortMark(page.marks[index] ?? ''));
      if (lastMs !== null && changeMs > lastMs && !isKnown) {
        const fault = `expected the newest first, got ${paging.timeParam(changeMs)} after ${paging.timeParam(lastMs)}: the service seems to ignore the sort`;
        return { fault, lastMs, hasFallen, isBelow };
      }
      hasFallen ||= lastMs !== null && changeMs < lastMs;
      isBelow ||= changeMs < untilMs;
      lastMs = changeMs;
    }
    return { fault: null, lastMs, hasFallen, isBelow };
  }

  return paging.walkWith(newestFirstPosition, {
    begin: () => newestFirstPosition.parse({ kind: 'newestFirst', inner: full.begin() }),
    request: ({ inner }) => full.request(inner),
    advance,
    halve: (position) => paging.halveInner(full, position),
    expired: ({ inner }, nowMs) => full.expired(inner, nowMs),
  });
}

const cutPosition = z.object({
  kind: z.literal('cut'),
  /** The walk's own position, of the end that is read. */
  inner: anyPosition,
  /** Records of this end so far; by offset and page, up to where they reach. */
  shown: z.number().default(0),
  /** The records that the last answer with a total counted; null: none named one. */
  total: z.number().nullable().default(null),
  /** An answer from this end says that the listing is cut. */
  isCut: z.boolean().default(false),
  /** The listing was cut, and is read from its other end. */
  isReversed: z.boolean().default(false),
  /** The newest change value of the first end, in milliseconds since the epoch; null: it has none. */
  newestMs: z.number().nullable().default(null),
});
type CutPosition = z.infer<typeof cutPosition>;

/**
 * Walks a listing of which the service shows a part and says so, or no more than `maxResults`. What it shows is read.
 * Where it can sort the other way round, the walk continues from there, newest first, until it meets what it has read:
 * then every record that did not change meanwhile was shown, and one that did comes with the next walk. Otherwise the
 * end is a doubt. `isDown`: the walk itself leads down to what is known, and nothing is missing where it gets there.
 */
export function cutPagination(
  full: paging.Pagination,
  { sign, maxResults = Infinity, reversed }: NonNullable<Entity['cut']>,
  pagination: Entity['pagination'],
  isDown: boolean,
): paging.Pagination {
  const walkOf = ({ isReversed, newestMs }: Pick<CutPosition, 'isReversed' | 'newestMs'>) =>
    isReversed ? newestFirstPagination(full, newestMs ?? Number.NEGATIVE_INFINITY) : full;

  function request(position: CutPosition): Params {
    const params = {
      ...(position.isReversed ? reversed : {}),
      ...walkOf(position).request(position.inner),
    };
    if (pagination.kind !== 'offset') return params;
    const { offsetParam, sizeParam, first = 0 } = pagination;
    // A page that reaches behind the limit is refused by some services.
    const left = Math.max(1, maxResults + first - Number(params[offsetParam] ?? first));
    return sizeParam !== null && Number(params[sizeParam] ?? 0) > left
      ? { ...params, [sizeParam]: left }
      : params;
  }

  /** Number of records of the listing up to the last one that the walk has reached with a page. */
  function reach(position: CutPosition, received: number): number {
    const asked = request(position);
    if (pagination.kind === 'offset') {
      const { offsetParam, first = 0 } = pagination;
      return Number(asked[offsetParam] ?? first) - first + received;
    }
    if (pagination.kind !== 'page') return position.shown + received;
    const { pageParam, first, step = 1, sizeParam, maxSize } = pagination;
    return ((Number(asked[pageParam]) - first) / step) * Number(asked[sizeParam ?? ''] ?? maxSize) + received;
  }

  function doubted(position: CutPosition, isFull: boolean): paging.Advance {
    const said = sign?.is === undefined ? (sign?.key ?? '') : `${sign.key}: ${String(sign.is)}`;
    const doubt = { kind: 'cut', by: isFull ? `maxResults: ${maxResults}` : said } as const;
    return { kind: 'end', position, proof: { kind: 'token', isOrdered: false }, doubt };
  }

  function advance(before: CutPosition, page: paging.PageSeen): paging.Advance {
    const step = walkOf(before).advance(before.inner, page);
    // The service ignores the other order: the first end is all that it shows.
    if (before.isReversed && step.kind === 'broken' && step.dropWatermark) return doubted(before, false);
    if (step.kind === 'restart' || step.kind === 'broken') return step;
    const shown = reach(before, page.marks.length);
    const total = page.total ?? before.total;
    const isFull = shown >= maxResults && (total ?? Infinity) > shown;
    const isCut = before.isCut || page.isCut === true || isFull;
    const read = before.isReversed ? [] : settledChanges(page);
    const newestMs = read.reduce<number | null>((newest, ms) => Math.max(ms, newest ?? ms), before.newestMs);
    const position = { ...before, inner: step.position, shown, total, isCut, newestMs };
    if (step.kind === 'continue' && !isFull) return { ...step, position };
    const isMet = step.kind === 'end' && (step.proof.kind === 'keyset' || !isCut);
    if (before.isReversed && isMet) {
      const { doubt } = step;
      const settled = doubt === undefined ? ({ isSettled: true } as const) : { doubt };
      return { kind: 'end', position, proof: { kind: 'token', isOrdered: false }, ...settled };
    }
    if (step.kind === 'end' && (!isCut || (isDown && isMet))) return { ...step, position };
    if (reversed === undefined || before.isReversed || isDown) return doubted(position, isFull);
    const other = { kind: 'cut', isReversed: true, newestMs } as const;
    const begun = cutPosition.parse({ ...other, inner: walkOf(other).begin() });
    return { kind: 'continue', position: begun, isFurther: true };
  }

  return paging.walkWith(cutPosition, {
    begin: () => cutPosition.parse({ kind: 'cut', inner: full.begin() }),
    request,
    advance,
    refused: (position, status) => walkOf(position).refused(position.inner, status),
    halve: (position) => paging.halveInner(walkOf(position), position),
    expired: (position, nowMs) => walkOf(position).expired(position.inner, nowMs),
  });
}
