import type { Advance, Listing, PageSeen, Pagination, PaginationStyle } from './pagination.ts';
import type { Entity } from '../definitions/definition.ts';
import type { PageLength } from '../sinks/partition.ts';
import { countMarks, pageMark, shortMark, walkWith } from './pagination.ts';
import {
  askAgain,
  fullOverlap,
  offsetPosition,
  stepForward,
  type OffsetPosition,
} from './offset-position.ts';
import { isLastByLength, noteFollowed, noteLength, noteWhole, type PageLengths } from './page-lengths.ts';

type OffsetRules = Extract<Entity['pagination'], { kind: 'offset' }>;

const stepBack = 2 * fullOverlap;

type Step =
  | Exclude<Advance, { kind: 'continue' }>
  | { readonly kind: 'continue'; readonly position: OffsetPosition; readonly followed?: PageLength };

/**
 * Answers say nothing about the next page: the walk itself must find out whether it met everything. A total saves it
 * calls, and one above what came puts its end in doubt.
 */
export function offsetStyle(rules: OffsetRules): PaginationStyle {
  return {
    restsOnOrder: true,
    walk: (listing) => offsetPagination(rules, listing),
    readNext: () => null,
    calls: (rows, listings) => {
      const further = Math.floor(rows / (rules.maxSize - fullOverlap));
      return listings + further + (further > 0 ? 1 : 0);
    },
  };
}

/**
 * Walks by `offset` on a service that keeps no snapshot between calls. Deleted rows shift unread ones to the left, out
 * of the next page's sight; so every page overlaps the one before it, and its first record must be one of the last
 * 100 of the walk (the seam). While rows only vanish, or move to the end, everything behind a known record is still
 * ahead of the walk: with a fixed order the unbroken seam is a proof.
 */
export function offsetPagination(rules: OffsetRules, listing: Listing): Pagination {
  const { pageLengths, trustsTotal } = listing;
  const countDistinct = countMarks();

  function advance(before: OffsetPosition, seen: PageSeen): Advance {
    const { total: named, ...page } = seen;
    const lastTotal = trustsTotal ? (named ?? null) : null;
    const total = before.pages === 0 || before.total === lastTotal ? lastTotal : null;
    const furthest = Math.max(before.furthest, before.offset + page.marks.length);
    const shown = countShown(before, page);
    const position = { ...before, total, shown };
    const step =
      before.pages === 0
        ? nextFirst(position, page, listing, rules)
        : nextLater(position, page, listing, rules);
    const came = shown ?? furthest;
    if (step.kind === 'end' && lastTotal !== null && lastTotal > came) {
      const askedAgain = position.hasAskedAgain ? null : askAgain(position, page);
      if (askedAgain !== null) return { kind: 'continue', position: askedAgain, isFurther: false };
      return { ...step, doubt: { kind: 'total', total: lastTotal, shown: came } };
    }
    if (step.kind === 'end' && position.pages > 0 && step.proof.kind === 'single') {
      noteWhole(pageLengths, { size: position.size, records: furthest });
    }
    if (step.kind !== 'continue') return step;
    return { ...step, position: { ...step.position, furthest }, isFurther: furthest > before.furthest };
  }

  /** Exactly while this process has met all of the walk; after a resume, as far as the position remembers records. */
  function countShown(before: OffsetPosition, page: PageSeen): number | null {
    if (before.pages > 0 && before.shown === null) return null;
    const shown = before.pages === 0 ? 0 : (before.shown ?? 0);
    return countDistinct(shown, page.marks) ?? shown + newRecords(before, page);
  }

  return walkWith(offsetPosition, {
    begin: () => offsetPosition.parse({ kind: 'offset', offset: 0, size: rules.maxSize }),
    request: ({ offset, size }) => ({ [rules.sizeParam]: size, [rules.offsetParam]: offset }),
    advance,
    halve: (position) =>
      // Below the overlap a page could bring nothing new.
      position.size <= 2 * fullOverlap
        ? null
        : { ...position, size: Math.floor(position.size / 2), before: 0 },
  });
}

/** After the first page: it ends the walk where it shows all of the listing. */
function nextFirst(
  position: OffsetPosition,
  page: PageSeen,
  { pageLengths, storedRows, isOrdered }: Listing,
  { totalCountsListing, honoursSize }: OffsetRules,
): Step {
  const received = page.marks.length;
  const known = noteLength(pageLengths, position.size, page);
  if (received === 0) return endOf({ ...position, isSingle: true }, page, isOrdered);
  // What is stored of the listing was there once: a page that shows less of it may have been cut. Unless the service
  // documents it, a total may count the page alone: then the largest pages are where the service cuts them.
  const isTotalSure = totalCountsListing === true || received < known.records;
  const isAll = isTotalSure && isAllOf(position, page);
  const isShort = isLastByLength(pageLengths, page, known, { size: position.size, honoursSize });
  return received >= storedRows && (isAll || isShort)
    ? endOf({ ...position, isSingle: true }, page, isOrdered, !isAll)
    : { kind: 'continue', position: { ...stepForward(position, page), isSingle: true } };
}

function nextLater(
  position: OffsetPosition,
  page: PageSeen,
  { pageLengths, isOrdered }: Listing,
  { honoursSize }: OffsetRules,
): Step {
  const received = page.marks.length;
  const { size } = position;
  const known = noteLength(pageLengths, size, page);
  if (received === 0) return position.expected === 0 ? endOf(position, page, isOrdered) : seamLost(position);
  if (position.expected === 0) return behindTheEnd(position, pageLengths);
  const recent = new Set(position.recent);
  if (!recent.has(shortMark(page.marks[0] ?? ''))) return seamLost(position);
  const thisPage = pageMark(page.marks);
  if (thisPage === position.pageMark) {
    const why = 'another offset brought exactly the same page: the API seems to ignore paging';
    return { kind: 'restart', code: 'PAGING_BROKEN', why };
  }
  const next = {
    ...stepForward(position, page, thisPage),
    isSingle: position.isSingle && isTailOf(position, page),
  };
  if (received < known.records && isAllOf(position, page)) return endOf(next, page, isOrdered);
  const hasNewKey = page.marks.some((mark) => !recent.has(shortMark(mark)));
  // Noted before the length is judged: once more has come after a page, a page as long does not end a walk.
  const followed = hasNewKey ? noteMore(position, pageLengths) : {};
  const isShort = isLastByLength(pageLengths, page, known, { size, honoursSize, isLater: hasNewKey });
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
function noteMore({ size, before }: OffsetPosition, pageLengths: PageLengths) {
  return before > 0 ? noteFollowed(pageLengths, { size, records: before }) : {};
}

/** `isByLength`: it is the last page because it is short. */
function endOf(
  position: OffsetPosition,
  page: PageSeen,
  isOrdered: boolean,
  isByLength = false,
): Extract<Advance, { kind: 'end' }> {
  return {
    kind: 'end',
    position: { ...position, pages: position.pages + 1, offset: position.offset + page.marks.length },
    proof: { kind: position.isSingle ? 'single' : 'seam', isOrdered: position.isSingle || isOrdered },
    ...(isByLength ? { lastPage: { size: position.size, records: page.marks.length } } : {}),
  };
}

/** Records of the page that are not among those that the walk remembers. */
function newRecords({ recent }: OffsetPosition, { marks }: PageSeen): number {
  const known = new Set(recent);
  return new Set(marks.map(shortMark).filter((mark) => !known.has(mark))).size;
}

/**
 * The page ends where the listing does by its total, and was not cut at the size that was asked for: then such a total
 * could be older than its rows.
 */
function isAllOf({ offset, size, total }: OffsetPosition, { marks }: PageSeen): boolean {
  return marks.length < size && offset + marks.length === total;
}

/** True when the page shows nothing but the end of what was read, in the same order. */
function isTailOf(position: OffsetPosition, page: PageSeen): boolean {
  const tail = position.recent.slice(-position.expected);
  return (
    page.marks.length === tail.length &&
    tail.every((mark, index) => mark === shortMark(page.marks[index] ?? ''))
  );
}

/**
 * Records where none were expected: the overlapping page was cut just behind its known records, which are read again
 * with half the overlap.
 */
function behindTheEnd(position: OffsetPosition, pageLengths: PageLengths): Step {
  const expected = Math.floor(position.overlap / 2);
  if (!position.isProbe || expected === 0) {
    const why =
      'the API gives one record a page; such pages cannot overlap, so records between them could be missed';
    return { kind: 'broken', code: 'PAGING_BROKEN', why, dropWatermark: false };
  }
  return {
    kind: 'continue',
    ...noteMore(position, pageLengths),
    position: {
      ...position,
      offset: position.offset - expected,
      expected,
      overlap: expected,
      isProbe: false,
      isSingle: false,
    },
  };
}

/**
 * A page without a new key is the end only if it ends with the walk's newest record, or, where that has vanished, with
 * the same one as the page before. Otherwise rows inserted in front have pushed known rows back into sight.
 */
function endsWhereTheWalkStands(position: OffsetPosition, page: PageSeen): boolean {
  const last = shortMark(page.marks.at(-1) ?? '');
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
