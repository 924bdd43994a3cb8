import * as z from 'zod';
import * as paging from './pagination.ts';
import {
  count,
  remember,
  shortestLook,
  walkToEnd,
  type ListedPage,
  pagesSoFar,
  shownBy,
  rememberedKeys,
} from './listing-end.ts';
import type { Params } from '../core/records.ts';
import type { Entity } from '../definitions/definition.ts';

type NumberedRules = Extract<Entity['pagination'], { kind: 'page' }>;

/** Completeness rests on a fixed order, or on a total: see `numberedPagination`. */
export function numberedStyle(rules: NumberedRules): paging.PaginationStyle {
  return {
    restsOnOrder: true,
    walk: (listing) => numberedPagination(rules, listing),
    readNext: (answer) => paging.readFlag(rules, answer),
  };
}

/**
 * Walks a service that numbers its pages and keeps no snapshot between calls. What the first page holds is how long
 * pages are here, whatever was asked for: later ones are asked for in that size, so that their numbers mean the same to
 * a service that caps them, one that ignores the size, and one that does as asked. From there the total and the order
 * decide:
 *
 * - An ordered listing with a total is read from its last page down to the first. Rows that leave move unread ones
 *   towards the walk, not out of its sight, and no page needs to overlap another.
 * - Without a total, each page overlaps the one before it by some record, in sizes that make the most of it. In a
 *   listing that only grows, nothing leaves between two pages, and page follows page.
 * - Otherwise, and wherever pages contradict what is expected of them, page follows page.
 */
function numberedPagination(rules: NumberedRules, listing: paging.Listing): paging.Pagination {
  const { pageLengths } = listing;
  const { pageParam, first, step = 1, sizeParam } = rules;
  /** Parameters that ask for a page, counted from 0, of so many records. */
  const ask = (page: number, size: number): Params => ({
    [pageParam]: first + page * step,
    ...(sizeParam === null ? {} : { [sizeParam]: size }),
  });

  function advance(before: NumberedPosition, page: ListedPage): paging.Advance {
    const hasSaidMore = before.hasSaidMore || page.hasMore === true;
    const isBackwards = before.phase === 'up' || before.phase === 'down';
    const strays = isBackwards ? 0 : before.strays;
    const risen = Math.max(0, before.risen - (before.rounds > 0 ? page.added : 0));
    const position = { ...before, pages: before.pages + 1, hasSaidMore, risen, strays };
    const step = stepOf[before.phase](position, page, listing, rules);
    if (step.kind !== 'continue') return step;
    const isFollowed = before.pages === 1 && page.added > 0;
    const followed = isFollowed
      ? paging.noteFollowed(pageLengths, { size: rules.maxSize, records: before.length })
      : {};
    return { ...step, isFurther: page.added > 0, ...followed };
  }

  const walk = {
    // Without a parameter for it, pages hold `maxSize` records.
    begin: () => beginNumbered(rules.maxSize, sizeParam === null),
    request: ({ page, size }: NumberedPosition) => ask(page, size),
    advance,
    rowOf: ({ page, size, isFixed, length }: NumberedPosition) =>
      page * (isFixed ? Math.max(size, length) : size),
    behind: (position: NumberedPosition) => behindPages(position, rules.maxSize),
    windowAt: ({ isFixed, size: asked }: NumberedPosition, row: number, length: number) => {
      const { page, size } = isFixed
        ? { page: Math.floor(row / length), size: length }
        : placeWindow(row, length);
      return {
        // In another size, the numbers could mean other rows.
        params: ask(page, isFixed ? asked : size),
        from: page * size,
        to: (page + 1) * size,
      };
    },
    sizeOf: () => rules.maxSize,
    // Behind a first page that was short, and behind one that is shorter than those before it.
    mayBeBehind: ({ phase, page, length, short }: NumberedPosition) =>
      phase === 'up' || (phase === 'plain' && (short > 0 || (page === 1 && length < rules.maxSize))),
    halve: ({ size, isFixed }: NumberedPosition) =>
      isFixed || size === 1 ? null : beginNumbered(Math.floor(size / 2), false),
  };
  return walkToEnd(numberedPosition, walk, listing, rules);
}

/** Behind the pages that were requested: a walk to the first page has seen the last one before. */
function behindPages(position: NumberedPosition, maxSize: number) {
  const { phase, page, top, row, size, longest, furthest, isFixed, isAsking } = position;
  const ofPhase = phase === 'first' ? Math.min(size, longest || size) : position.length;
  const whole = isFixed ? Math.max(size, position.length) : phase === 'plain' && !isAsking ? size : ofPhase;
  const rows = {
    first: whole,
    up: (page + 1) * whole,
    down: (top + 1) * whole,
    overlap: (page + 1) * size,
    plain: row + whole,
  };
  const isOne = !isFixed && furthest <= whole;
  const known = phase === 'plain' || phase === 'overlap' ? row : furthest;
  const length = isOne ? Math.max(whole, Math.min(maxSize, shortestLook)) : whole;
  return { known, row: rows[phase], length };
}

/** The step behind a page, by the phase of the walk. */
const stepOf: Readonly<Record<NumberedPosition['phase'], typeof nextPlain>> = {
  first: nextFirst,
  up: nextUp,
  down: nextDown,
  overlap: nextOverlapping,
  plain: nextPlain,
};

function nextFirst(
  position: NumberedPosition,
  answer: ListedPage,
  { pageLengths, storedRows, isOrdered, growsOnly }: paging.Listing,
  rules: NumberedRules,
): paging.Advance {
  const { size, total } = position;
  const { seen, received, hasMore, mark } = answer;
  const known = paging.noteLength(pageLengths, size, seen);
  if (hasMore === false && (total === null || total <= received)) {
    return endNumbered(position, true, { isSingle: true });
  }
  if (received === 0) {
    if (hasMore === true) return goTo({ ...position, phase: 'plain', page: 1 });
    if (total === null || total === 0) return endNumbered(position, true, { isSingle: true });
    if (position.hasAskedAgain || size === 1) {
      return endNumbered(position, false, { doubt: { kind: 'total', total, shown: 0 } });
    }
    const smaller = position.isFixed ? size : Math.floor(size / 2);
    return goTo({ ...position, pages: 0, size: smaller, hasAskedAgain: true });
  }
  // Stored rows of the listing existed once: a page that shows fewer of them may have been cut.
  const isLikeStored = received >= storedRows;
  // A total may count the page alone: then the largest pages are where the service cuts them.
  const isAll = total === received && received < Math.min(size, known.records);
  const honoursSize = !position.isFixed && rules.honoursSize === true;
  const isShort =
    (total === null || total <= received) &&
    paging.isLastByLength(pageLengths, seen, known, { size, honoursSize });
  if (hasMore === null && isLikeStored && (isAll || isShort)) {
    const lastPage = { size, records: received };
    return endNumbered(position, true, { isSingle: true, ...(isAll ? {} : { lastPage }) });
  }
  const isFixed = position.isFixed || received > size;
  const next: NumberedPosition = {
    ...position,
    isFixed,
    size: isFixed ? size : received,
    length: received,
    row: received,
    recent: remember([], answer),
    firstMark: mark,
    pageMark: mark,
  };
  if (total !== null && isOrdered && !growsOnly) {
    const page = Math.max(1, Math.floor(total / received));
    // The first page shows everything, as far as its total tells: it need not be read again.
    return goTo({ ...next, phase: 'up', page, reach: total <= received ? received : 0 });
  }
  return total === null && !isFixed && received > 2 && !growsOnly
    ? overlapFrom(next)
    : goTo({ ...next, phase: 'plain', page: 1 });
}

/**
 * Position of a walk through numbered pages: the page numbered `page` of `size` records is requested. The defaults are
 * those of its first page.
 */
export const numberedPosition = z.object({
  kind: z.literal('numbered'),
  ...pagesSoFar,
  /**
   * `first`: nothing is known. `up`: towards the end, where the total expects it. `down`: from the end to the first
   * page. `overlap`: forwards, each page begins with known records. `plain`: forwards, page after page.
   */
  phase: z.enum(['first', 'up', 'down', 'overlap', 'plain']).default('first'),
  page: count.default(0),
  size: count.min(1),
  /** Records of a full page, as the first one showed it; 0 before that. */
  length: count.default(0),
  /** Pages keep their length, whatever size is requested. */
  isFixed: z.boolean(),
  /** The flag of an answer was that more follows. */
  hasSaidMore: z.boolean().default(false),
  /**
   * Walking down: what stands at the end of the listing; where this round may stop; the page at which it began; the row
   * behind the last one.
   */
  tail: z.array(z.string()).default([]),
  stopAt: z.array(z.string()).default([]),
  top: count.default(0),
  reach: count.default(0),
  rounds: count.default(0),
  /** Rows may have passed the walk: to the end behind its back, or between two pages that do not meet. */
  isDisturbed: z.boolean().default(false),
  /**
   * Walking forwards: the first row that is not read yet, and the length of the page before where it was short; 0 where
   * it was not.
   */
  row: count.default(0),
  short: count.default(0),
  /** Every record of that short page was new: the service leaves records out of its pages. */
  isShortNew: z.boolean().default(false),
  /** The page behind the end is requested once more. */
  isAsking: z.boolean().default(false),
});
export type NumberedPosition = z.infer<typeof numberedPosition>;

function beginNumbered(size: number, isFixed: boolean): NumberedPosition {
  return numberedPosition.parse({ kind: 'numbered', size, isFixed });
}

function goTo(position: NumberedPosition): paging.Advance {
  return { kind: 'continue', position, isFurther: false };
}

/** Walks from the first page on, forwards: the pages so far contradict the expectations about them. */
function beginPlain(
  position: NumberedPosition,
  changed: Partial<Pick<NumberedPosition, 'size' | 'isFixed'>> = {},
): paging.Advance {
  return goTo({
    ...position,
    ...changed,
    phase: 'plain',
    page: 0,
    length: 0,
    row: 0,
    short: 0,
    shown: 0,
    distinct: 0,
    strays: 0,
    isDisturbed: false,
    recent: [],
    pageMark: '',
  });
}

/** The end of a walk. `isOrdered`: its kind of walking is a proof where the records keep their order. */
function endNumbered(
  position: NumberedPosition,
  isOrdered: boolean,
  more: Pick<Extract<paging.Advance, { kind: 'end' }>, 'doubt' | 'lastPage'> & {
    readonly isSingle?: boolean;
  } = {},
): paging.Advance {
  const { isSingle = false, ...rest } = more;
  return { kind: 'end', position, proof: { kind: isSingle ? 'single' : 'seam', isOrdered }, ...rest };
}

/** Times that a walk begins again in a smaller size, which a service in changing order seems to need. */
const mostSizes = 2;

/**
 * Records that a long page should have in common with the one before it: so many may leave between the two. Of a page
 * of thirty two, so that five of them cost nine calls, three of which show that nothing follows.
 */
const overlap = 5;
const stepBack = 20;

/** The page that shows the most from row `row` on. The first page is known behind it, in whatever size. */
function placeWindow(row: number, length: number) {
  const { page, size } = placeFrom(row, row, length) ?? { page: row, size: 1 };
  return { page: row === 0 ? 0 : Math.max(1, page), size };
}

/**
 * The page of at most `length` records that shows the most behind row `row` and begins at row `from` or before it.
 * Null: no page does both, as happens for some rows where pages are tiny.
 */
function placeFrom(from: number, row: number, length: number) {
  let best: { readonly page: number; readonly size: number } | null = null;
  let furthest = row;
  for (let size = length; size > 1; size -= 1) {
    const page = Math.floor(from / size);
    if ((page + 1) * size > furthest) {
      best = { page, size };
      furthest = (page + 1) * size;
    }
  }
  return best;
}

/**
 * Each page begins with a record that is known: while records only leave or move to the end, all behind it is still
 * ahead of the walk.
 */
function nextOverlapping(
  position: NumberedPosition,
  answer: ListedPage,
  { isOrdered }: paging.Listing,
): paging.Advance {
  const { page, size, length, recent, pages } = position;
  const { received, marks, mark, hasMore } = answer;
  if (received > size) return beginPlain(position, { isFixed: true, size: length });
  const known = new Set(recent);
  const [first] = marks;
  if (first === undefined || !known.has(first)) {
    // Right behind the first page it rather means that the size is not heard.
    if (pages === 2) return beginPlain(position, { size: length });
    // All that the page has may be left out of it.
    if (position.steppedBack && first === undefined) return beginPlain(position, { size: length });
    if (position.steppedBack) {
      const why = 'records moved between pages faster than overlapping pages can follow';
      return { kind: 'restart', code: 'SEAM_LOST', why };
    }
    const row = Math.max(1, position.row - stepBack);
    return overlapFrom({ ...position, row, steppedBack: true });
  }
  const isKnown = marks.every((one) => known.has(one));
  const row = page * size + received;
  if (hasMore === false) return endNumbered(position, isOrdered);
  if (received < size && isKnown && hasMore === null) {
    // Pages that have become shorter meanwhile begin at other rows, and may show what is known from the middle.
    const isNewest = marks.at(-1) === recent.at(-1);
    // Records behind a lost seam are shown, and their place is not known.
    const isFurther = position.steppedBack || row > shownBy(position);
    if (!isNewest || isFurther) return beginPlain(position, { size: length });
    const isSingle = pages === 2 && recent.slice(-received).every((one, index) => one === marks[index]);
    return endNumbered(position, isSingle || isOrdered, { isSingle });
  }
  // A short page may be requested once more, and is the end then: another one that is the same is none.
  if (mark === position.pageMark) return beginPlain(position, { size: length });
  return overlapFrom({
    ...position,
    row,
    // A page further back, as behind a lost seam, does not end with the newest record.
    recent: isKnown ? recent : remember(recent, answer),
    pageMark: mark,
    steppedBack: position.steppedBack && isKnown,
  });
}

function overlapFrom(position: NumberedPosition): paging.Advance {
  const { row, length } = position;
  const shared = Math.max(1, Math.min(overlap, Math.floor(length / 15), row));
  const placed = placeFrom(row - shared, row, length);
  return placed === null
    ? beginPlain(position, { size: length })
    : goTo({ ...position, ...placed, phase: 'overlap' });
}

/**
 * Page after page, to one that the answer calls the last. A short page with more behind it shows that pages are shorter
 * than was thought, and their numbers mean other rows: the walk begins again in that size. An empty page ends it, as
 * does one that is the same as the one before or as the first.
 */
function nextPlain(
  position: NumberedPosition,
  answer: ListedPage,
  listing: paging.Listing,
  rules: NumberedRules,
): paging.Advance {
  const { received, mark, added, hasMore } = answer;
  const { page, size, total } = position;
  // The service leaves records out of its pages, or this page has just lost them all.
  if (received === 0 && hasMore === true) return goTo({ ...position, page: page + 1 });
  if (added === 0) return nextWithoutNew(position, answer, listing, rules);
  // With a size that has changed, records of the short page would have come before.
  const isCut = position.short > 0 && (position.isShortNew || position.rounds >= mostSizes);
  const isUneven = received !== position.length || position.short !== position.length;
  if (isCut && isUneven) paging.noteGap(listing.pageLengths);
  const isFixed = position.isFixed || received > size || isCut;
  const isShort = received < (isFixed ? Math.max(position.length, received) : size);
  if (!isFixed && position.short > 0) return beginSmaller(position, position.short);
  const length = Math.max(position.length, received);
  const isSmallWithKnown = isShort && !isFixed && page > 0 && added < received;
  if (listing.growsOnly && isSmallWithKnown && total === null && hasMore === null) {
    // Rows have come in front of it, or pages have become shorter, and this one begins at other rows.
    if (position.rounds < mostRounds) {
      return beginPlain(
        { ...position, rounds: position.rounds + 1 },
        { size: Math.max(received, Math.floor(size / 2)) },
      );
    }
    return goTo({ ...position, page: page + 1, isDisturbed: true });
  }
  const isCapped = page === 0 && isShort && !isFixed && total === null && 2 * received >= size;
  // The next page may begin at a row further behind than this one ends.
  const isSkipping =
    (isShort && !isFixed && (page === 0 ? !isCapped : added < received)) ||
    (isFixed && rules.sizeParam !== null && page > 0 && received !== position.length) ||
    (isCut && !position.isShortNew);
  const isDisturbed = position.isDisturbed || isSkipping;
  if (hasMore === false || (isShort && total !== null && total <= shownBy(position) && hasMore === null)) {
    return endPlain({ ...position, page: page + 1, length }, false, listing, rules);
  }
  return goTo({
    ...position,
    page: page + 1,
    // The service caps its pages by now: in its own size, their numbers mean the same if the cap changes.
    size: isCapped ? received : size,
    row: isCapped ? received : (page + 1) * size,
    isFixed,
    isDisturbed,
    length,
    short: page > 0 && isShort && !isFixed ? received : 0,
    isShortNew: added === received,
    recent: remember(position.recent, answer),
    firstMark: page === 0 ? mark : position.firstMark,
    pageMark: mark,
    isAsking: false,
  });
}

/** Behind a page of records that had all come before, or of none. */
function nextWithoutNew(
  position: NumberedPosition,
  { received, mark, hasMore }: ListedPage,
  listing: paging.Listing,
  rules: NumberedRules,
): paging.Advance {
  const { page, size, total } = position;
  const isAgain = received > 0 && (mark === position.pageMark || mark === position.firstMark);
  if (page === 0 && isAgain) return endNumbered(position, true, { isSingle: true });
  // Pages of two records cannot overlap: where none has left the first one meanwhile, it was all.
  const isPair = position.length === 2 && position.pages === 2 && received === 0 && !position.isFixed;
  if (isPair && total === null && hasMore === null) return goTo({ ...position, page: 0 });
  const isLast = received === 0 || isAgain || position.isAsking || position.isFixed;
  const isWhole = received >= size || position.rounds >= mostSizes;
  // A page of known records, and of no page that came, shows another order, or as many new ones in front.
  const isStray = !isAgain && !position.isAsking && (received >= size || position.isFixed);
  const strays = isStray ? received : 0;
  // So many rows may have come in front that unread ones are still behind, or pages have become shorter meanwhile.
  const isDisturbed = position.isDisturbed || (received > 0 && !isAgain);
  const ended = { ...position, strays: position.strays + strays, isDisturbed };
  if (isLast || isWhole) return endPlain(ended, isAgain, listing, rules);
  // Nothing follows, or pages have become shorter and begin at other rows.
  if (position.short > 0) return beginSmaller(position, position.short);
  return goTo({
    ...position,
    page: page + 1,
    row: (page + 1) * size,
    short: received,
    isShortNew: false,
    isDisturbed,
  });
}

/** The service gives pages of `received` records by now. Half the size at least, so that calls double at most. */
function beginSmaller(position: NumberedPosition, received: number): paging.Advance {
  const { size, rounds } = position;
  const smaller = Math.max(1, Math.floor(size / 2), Math.min(received, size - 1));
  return beginPlain({ ...position, rounds: rounds + 1 }, { size: smaller });
}

/** The first page was all. A page that was cut could be whole by now, because rows have left. */
function isFirstAll(position: NumberedPosition, { maxSize, sizeParam }: NumberedRules): boolean {
  const { page, length, total, isSteady, hasAskedAgain, hasSaidMore, strays } = position;
  if (page !== 1 || length >= maxSize || hasAskedAgain || hasSaidMore || strays > 0) return false;
  return sizeParam === null || (total === null ? length === 1 : isSteady && total === length);
}

/** Ends behind the last page. `isAgain`: its records had come before. */
function endPlain(
  position: NumberedPosition,
  isAgain: boolean,
  { growsOnly }: paging.Listing,
  rules: NumberedRules,
): paging.Advance {
  const { total, size } = position;
  const shown = shownBy(position);
  if (total !== null && total > shown) {
    if (position.hasAskedAgain) {
      return endNumbered(position, false, { doubt: { kind: 'total', total, shown } });
    }
    const asking: NumberedPosition = { ...position, hasAskedAgain: true, isAsking: true, short: 0 };
    if (position.isFixed || size === 1) return goTo(asking);
    const smaller = Math.floor(size / 2);
    return goTo({ ...asking, length: size, size: smaller, page: Math.floor(shown / smaller), pageMark: '' });
  }
  const isEnd = !isAgain || total !== null || rules.end === 'repeats';
  if (!isEnd) return endNumbered(position, false, { doubt: { kind: 'repeats' } });
  const isSingle = isFirstAll(position, rules);
  const isOrdered = growsOnly && !position.isDisturbed;
  return endNumbered(position, isSingle || isOrdered, { isSingle });
}

/** Below this many records at the end, all of them may have moved before the page in front is read. */
const fewestAtEnd = 10;
/**
 * Times that records that moved to the end meanwhile are read; or, forwards, that a listing that only grows is read
 * again because a page began at another row than it should.
 */
const mostRounds = 4;

/**
 * Towards the end: from the page that the total takes for the last one on, until one is not full. Whatever contradicts
 * the total, or shows that the size is not heard, is left to a walk forwards.
 */
function nextUp(position: NumberedPosition, { marks, mark, hasMore }: ListedPage): paging.Advance {
  const { page, length, pageMark, firstMark, stopAt } = position;
  const received = marks.length;
  const total = position.total ?? 0;
  const start = page * length;
  if (received > length) return beginPlain(position, { isFixed: true });
  const isAgain = received > 0 && (mark === pageMark || (page > 0 && mark === firstMark));
  const isBehind = received === 0 || (isAgain && total <= start);
  if (isAgain && !isBehind) return beginPlain(position);
  // A full page may be the last one: the first round makes sure that the total is not too low.
  const isLast = position.rounds > 0 && total <= start + received;
  if (!isBehind && received === length && !isLast && hasMore !== false) {
    return goTo({ ...position, page: page + 1, pageMark: mark });
  }
  if (hasMore === true) return beginPlain(position);
  const reach = isBehind ? start : start + received;
  if (total > reach) return beginPlain(position);
  const isFirstAll = position.pages === 2 && position.reach === length;
  if (isBehind && isFirstAll) return endNumbered(position, true, { isSingle: true });
  const shown = isBehind ? [] : marks;
  const top: NumberedPosition = {
    ...position,
    top: page,
    reach,
    recent: shown.slice(0, rememberedKeys),
    tail: shown.slice(-rememberedKeys),
    // Shorter than it should be by its place: pages may have become shorter, and their numbers mean other rows.
    isDisturbed: !isBehind && received < length && total < reach && total !== received,
    pageMark: isBehind ? '' : mark,
  };
  if (page === 0 || shown.some((one) => stopAt.includes(one))) return endRound(top);
  const isDisturbed = top.isDisturbed || shown.length < fewestAtEnd;
  return goTo({ ...top, phase: 'down', page: page - 1, isDisturbed });
}

/**
 * From the end to the first page, or to what stood at the end in the round before. Records only leave, or move to the
 * end: those that are not read yet come towards the walk, and none passes it but to the end. Where none has left in
 * front of a page, the page ends where the one behind it begins; a known record shows that one has, and then what
 * stands at the end now is read as well.
 */
function nextDown(position: NumberedPosition, { marks, mark }: ListedPage): paging.Advance {
  const { page, length, recent, tail, stopAt, firstMark } = position;
  const received = marks.length;
  if (received > length) return beginPlain(position, { isFixed: true });
  const isAgain = received > 0 && (mark === position.pageMark || (page > 0 && mark === firstMark));
  if (isAgain || (received < length && (position.total ?? 0) > page * length + received)) {
    return beginPlain(position);
  }
  const known = new Set(recent);
  const next: NumberedPosition = {
    ...position,
    page: page - 1,
    isDisturbed: position.isDisturbed || received < length || marks.some((one) => known.has(one)),
    recent: [...marks, ...recent].slice(0, rememberedKeys),
    tail: tail.length < rememberedKeys ? [...marks, ...tail].slice(-rememberedKeys) : tail,
    pageMark: mark,
  };
  return page === 0 || marks.some((one) => stopAt.includes(one)) ? endRound(next) : goTo(next);
}

function endRound(position: NumberedPosition): paging.Advance {
  const { reach, length, rounds, tail, distinct, isDisturbed } = position;
  const total = position.total ?? 0;
  const isGrown = total > reach;
  if ((isGrown || isDisturbed) && rounds < mostRounds) {
    return goTo({
      ...position,
      phase: 'up',
      page: Math.max(0, Math.floor((total - 1) / length)),
      rounds: rounds + 1,
      stopAt: tail,
      tail: [],
      recent: [],
      pageMark: '',
      isDisturbed: false,
    });
  }
  if (isGrown || (distinct !== null && total > distinct)) return beginPlain(position);
  // Records that came in front of the walk have pushed others behind it. A total that never moves and is below what
  // came would not show that.
  const isBlind = position.isSteady && distinct !== null && total < distinct;
  return endNumbered({ ...position, page: 0 }, !isDisturbed && position.risen === 0 && !isBlind);
}
