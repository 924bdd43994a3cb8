import type { Entity } from '../definitions/definition.ts';
import type { PageLength } from '../sinks/partition.ts';
import { count, pagesSoFar, remember, shortestLook, shownBy, walkToEnd } from './listing-end.ts';
import type { ListedPage } from './listing-end.ts';
import * as paging from './pagination.ts';
import * as z from 'zod';

type OffsetRules = Extract<Entity['pagination'], { kind: 'offset' }>;

const stepBack = 20;

type Step =
  | Exclude<paging.Advance, { kind: 'continue' }>
  | { readonly kind: 'continue'; readonly position: OffsetPosition; readonly followed?: PageLength };

/**
 * Answers say nothing about the next page: the walk itself must find out whether it met everything. A total saves it
 * calls; one that is higher than the number of received records puts its end in doubt.
 */
export function offsetStyle(rules: OffsetRules): paging.PaginationStyle {
  return {
    restsOnOrder: true,
    walk: (listing) => offsetPagination(rules, listing),
    readNext: (answer) => paging.readFlag(rules, answer),
  };
}

/**
 * Walks by `offset` on a service that keeps no snapshot between calls. Deleted rows shift unread ones to the left, out
 * of the next page's sight; so every page overlaps the one before it, and its first record must be one of the last
 * 100 of the walk (the seam). While rows only vanish, or move to the end, everything behind a known record is still
 * ahead of the walk: with a fixed order the unbroken seam is a proof.
 */
function offsetPagination(rules: OffsetRules, listing: paging.Listing): paging.Pagination {
  const { maxSize, offsetParam, sizeParam, first = 0 } = rules;
  const ask = (offset: number, size: number) => ({
    ...(sizeParam === null ? {} : { [sizeParam]: size }),
    [offsetParam]: first + offset,
  });
  const walk = {
    begin: () => offsetPosition.parse({ kind: 'offset', offset: 0, size: maxSize }),
    request: ({ offset, size }: OffsetPosition) => ask(offset, size),
    advance: (position: OffsetPosition, page: ListedPage, isFurther: boolean): paging.Advance => {
      const step =
        position.pages === 0
          ? nextFirst(position, page, listing, rules)
          : nextLater(position, page, listing, rules);
      if (step.kind === 'end' && (position.total ?? 0) > shownBy(position) && !position.hasAskedAgain) {
        const askedAgain = askAgain(position, page);
        if (askedAgain !== null) return { kind: 'continue', position: askedAgain, isFurther: false };
      }
      return step.kind === 'continue' ? { ...step, isFurther } : step;
    },
    rowOf: ({ offset }: OffsetPosition) => offset,
    behind: ({ offset, size, longest, furthest }: OffsetPosition) => {
      const whole = longest === 0 ? size : longest;
      const length = furthest <= whole ? Math.max(whole, Math.min(size, shortestLook)) : whole;
      return { known: furthest, row: offset + Math.min(size, whole), length };
    },
    windowAt: ({ size }: OffsetPosition, row: number, length: number) => ({
      params: ask(row, Math.max(size, length)),
      from: row,
      to: row + length,
    }),
    sizeOf: ({ size }: OffsetPosition) => size,
    halve: (position: OffsetPosition) => {
      const size = Math.floor(position.size / 2);
      // Below that a page could bring nothing new.
      return size < 2 || sizeParam === null
        ? null
        : { ...position, size, longest: Math.min(size, position.longest), before: 0 };
    },
  };
  return walkToEnd(offsetPosition, walk, listing, rules);
}

/** After the first page: it ends the walk where it shows all of the listing. */
function nextFirst(
  position: OffsetPosition,
  page: ListedPage,
  { pageLengths, storedRows, isOrdered }: paging.Listing,
  { totalCountsListing, honoursSize }: OffsetRules,
): Step {
  const { received } = page;
  const known = paging.noteLength(pageLengths, position.size, page.seen);
  const { total } = position;
  if (received === 0 || (page.hasMore === false && (total === null || total <= received))) {
    return endOf({ ...position, isSingle: true }, page, isOrdered);
  }
  // Stored rows of the listing existed once: a page that shows fewer of them may have been cut. Unless the service
  // documents it, a total may count the page alone: then the largest pages are where the service cuts them.
  const isTotalSure = totalCountsListing === true || received < known.records;
  const isAll = isTotalSure && isAllOf(position, page);
  const isShort = paging.isLastByLength(pageLengths, page.seen, known, { size: position.size, honoursSize });
  return received >= storedRows && page.hasMore !== true && (isAll || isShort)
    ? endOf({ ...position, isSingle: true }, page, isOrdered, !isAll)
    : { kind: 'continue', position: { ...stepForward(position, page), isSingle: true } };
}

function nextLater(
  position: OffsetPosition,
  page: ListedPage,
  { pageLengths, isOrdered }: paging.Listing,
  { honoursSize, gaps }: OffsetRules,
): Step {
  const { received } = page;
  const { size } = position;
  const known = paging.noteLength(pageLengths, size, page.seen);
  if (received === 0) {
    if (position.expected === 0) return endOf(position, page, isOrdered);
    // A smaller page may show nothing of the known records, where a service leaves most records out of its pages.
    return position.hasAskedAgain
      ? endOf({ ...position, isTorn: true }, page, isOrdered)
      : seamLost(position);
  }
  if (position.expected === 0) {
    return behindTheEnd(position, page, pageLengths) ?? endOf({ ...position, isTorn: true }, page, isOrdered);
  }
  const recent = new Set(position.recent);
  if (!recent.has(page.markAt(0))) return seamLost(position);
  // A shorter page may show the same few records from another offset on.
  if (page.mark === position.pageMark && received >= position.longest) {
    const why = 'another offset brought exactly the same page: the API seems to ignore paging';
    return { kind: 'restart', code: 'PAGING_BROKEN', why };
  }
  const next = {
    ...stepForward(position, page),
    isSingle: position.isSingle && isTailOf(position, page),
  };
  const isLast = page.hasMore === false && (position.total ?? 0) <= shownBy(position);
  const isAll = received < known.records && page.hasMore !== true && isAllOf(position, page);
  if (isLast || isAll) return endOf(next, page, isOrdered);
  const hasNewKey = page.seen.marks.some((_, index) => !recent.has(page.markAt(index)));
  // Noted before the length is judged: once more has come after a page, a page as long does not end a walk.
  const followed = hasNewKey ? noteMore(position, pageLengths) : {};
  const isByLength = paging.isLastByLength(pageLengths, page.seen, known, {
    size,
    // In the middle of a listing a page may be short because the service has left records out of it.
    honoursSize: honoursSize === true && (gaps === 'never' || !hasNewKey),
    isLater: hasNewKey,
  });
  const isShort = isByLength && page.hasMore !== true;
  if (hasNewKey && isShort) return { ...endOf(next, page, isOrdered, true), ...followed };
  // A full page of known records may end just where unread ones begin.
  if (hasNewKey || received >= known.records || !endsWhereTheWalkStands(position, page)) {
    return { kind: 'continue', position: next, ...followed };
  }
  if (isShort) return endOf(next, page, isOrdered, true);
  // As large as pages get here, it may have been cut by its bytes: only nothing behind it is the end.
  const offset = position.offset + received;
  return {
    kind: 'continue',
    position: { ...next, offset, expected: 0, overlap: position.overlap, isProbe: true },
  };
}

/** The page before is not the last one. */
function noteMore({ size, before }: OffsetPosition, pageLengths: paging.PageLengths) {
  return before > 0 ? paging.noteFollowed(pageLengths, { size, records: before }) : {};
}

/** `isByLength`: it is the last page because it is short. */
function endOf(
  position: OffsetPosition,
  page: ListedPage,
  isOrdered: boolean,
  isByLength = false,
): Extract<paging.Advance, { kind: 'end' }> {
  return {
    kind: 'end',
    position: { ...position, pages: position.pages + 1, offset: position.offset + page.received },
    proof: {
      kind: position.isSingle ? 'single' : 'seam',
      isOrdered: position.isSingle || (isOrdered && !position.isTorn),
    },
    ...(isByLength ? { lastPage: { size: position.size, records: page.received } } : {}),
  };
}

/**
 * The page ends where the listing does by its total, and was not cut at the size that was asked for: then such a total
 * could be older than its rows.
 */
function isAllOf({ offset, size, total, isSteady }: OffsetPosition, { received }: ListedPage): boolean {
  return isSteady && received < size && offset + received === total;
}

/** True when the page shows only the last records read, in the same order. */
function isTailOf(position: OffsetPosition, page: ListedPage): boolean {
  const tail = position.recent.slice(-position.expected);
  return page.marks.length === tail.length && tail.every((mark, index) => mark === page.markAt(index));
}

/**
 * Handles records where none were expected: the overlapping page was cut just behind its known records, which are read
 * again with half the overlap. Null: the service repeats known records.
 */
function behindTheEnd(
  position: OffsetPosition,
  page: ListedPage,
  pageLengths: paging.PageLengths,
): Step | null {
  const expected = position.isProbe ? Math.floor(position.overlap / 2) : 0;
  if (expected === 0 && page.added === 0) return null;
  if (expected === 0 && position.longest <= 1) {
    const why =
      'the API gives one record a page; such pages cannot overlap, so records between them could be missed';
    return { kind: 'broken', code: 'PAGING_BROKEN', why, dropWatermark: false };
  }
  const next =
    expected === 0
      ? // The page before had one record only, others have more.
        { ...stepForward(position, page), isTorn: true }
      : { ...position, offset: position.offset - expected, expected, overlap: expected, isProbe: false };
  return {
    kind: 'continue',
    position: { ...next, isSingle: false },
    ...noteMore(position, pageLengths),
  };
}

/**
 * A page without a new key is the end only if it ends with the walk's newest record, or, where that has vanished, with
 * the same one as the page before. Otherwise rows inserted in front have pushed known rows back into sight.
 */
function endsWhereTheWalkStands(position: OffsetPosition, page: ListedPage): boolean {
  const last = page.markAt(page.received - 1);
  return last === position.recent.at(-1) || last === position.lastMark;
}

function seamLost(position: OffsetPosition): Step {
  if (position.steppedBack) {
    const why = 'records moved between pages faster than overlapping pages can follow';
    return { kind: 'restart', code: 'SEAM_LOST', why };
  }
  return {
    kind: 'continue',
    position: {
      ...position,
      offset: Math.max(0, position.offset - stepBack),
      expected: position.expected + stepBack,
      steppedBack: true,
      before: 0,
    },
  };
}

/** Rows requested again at the head of a page at most. */
const fullOverlap = 10;

/**
 * State of a walk by offsets, which a keyset walk also keeps for each of its bounds. The defaults are those of its
 * first page.
 */
export const offsetPosition = z.object({
  kind: z.literal('offset'),
  ...pagesSoFar,
  offset: count,
  size: count.min(1),
  /** The previous page's last record. */
  lastMark: z.string().default(''),
  /** Rows at the head of the page asked for that are expected to be known. */
  expected: count.default(0),
  /** Rows by which the last overlapping page overlapped. */
  overlap: count.default(0),
  /** Requests the rows right behind the newest record: none are expected there. */
  isProbe: z.boolean().default(false),
  /** Everything read so far came in the first page, and later ones showed the end of it as it was. */
  isSingle: z.boolean().default(false),
  /** A page of one record could not be overlapped. */
  isTorn: z.boolean().default(false),
  /** Records of the page before; 0 where the next page proves nothing about it. */
  before: count.default(0),
});
export type OffsetPosition = z.infer<typeof offsetPosition>;

/**
 * Behind a page, and back by the overlap. Rows of it that are requested again must be known, or rows have moved under
 * the walk: a fifth of the page, so that a listing costs a quarter more calls at most.
 */
export function stepForward(position: OffsetPosition, page: ListedPage): OffsetPosition {
  const { received } = page;
  const overlap = Math.max(1, Math.min(fullOverlap, Math.floor(received / 5)));
  // One row less than the page, so that the walk moves even where a server gives tiny pages.
  const expected = Math.max(0, Math.min(overlap, received - 1));
  return {
    ...position,
    offset: position.offset + received - expected,
    pages: position.pages + 1,
    recent: remember(position.recent, page),
    pageMark: page.mark,
    lastMark: received === 0 ? '' : page.markAt(received - 1),
    expected,
    overlap: expected,
    steppedBack: false,
    isProbe: false,
    before: received,
  };
}

/**
 * Requests the rows behind the last received record once more, on a smaller page: a service may fail on large ones.
 * Null where no page is smaller.
 */
export function askAgain(position: OffsetPosition, page: ListedPage): OffsetPosition | null {
  const { received } = page;
  const size = Math.floor(position.size / 2);
  if (size < 1) return null;
  const again = { ...position, size, before: 0, hasAskedAgain: true };
  if (received === 0 && position.pages === 0) return again;
  const offset = position.offset + received;
  const passed = received === 0 ? again : { ...stepForward(again, page), before: 0 };
  return { ...passed, offset, expected: 0, overlap: Math.min(fullOverlap, offset), isProbe: true };
}
