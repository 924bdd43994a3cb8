import { remember, shownBy, type ListedPage } from './listing-end.ts';
import { noteGap } from './page-lengths.ts';
import type { Listing } from './pagination.ts';
import {
  beginPlain,
  endNumbered,
  goTo,
  type NumberedPosition,
  type NumberedStep,
  type NumberedRules,
} from './numbered-position.ts';

/** Times that a walk begins again in a smaller size, which a service in changing order seems to need. */
const mostSizes = 2;

/**
 * Records that a long page should have in common with the one before it: so many may leave between the two. Of a page
 * of thirty two, so that five of them cost nine calls, three of which show that nothing follows.
 */
const overlap = 5;
const stepBack = 20;
/** Times that a listing that only grows is read again because a page began at another row than it should. */
const mostRounds = 4;

/**
 * Of the pages of at most `length` records, the one that shows the most behind row `row` and begins with rows before
 * it. Null: none does both, as happens for some rows where pages are tiny.
 */
function placePage(row: number, length: number) {
  return placeFrom(row - Math.max(1, Math.min(overlap, Math.floor(length / 15), row)), row, length);
}

/** The same, where the page may begin at the row itself. The first page is known behind it, in whatever size. */
export function placeWindow(row: number, length: number) {
  const { page, size } = placeFrom(row, row, length) ?? { page: row, size: 1 };
  return { page: row === 0 ? 0 : Math.max(1, page), size };
}

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
export function nextOverlapping(
  position: NumberedPosition,
  answer: ListedPage,
  { isOrdered }: Listing,
): NumberedStep {
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
    if (!isNewest || row > shownBy(position)) return beginPlain(position, { size: length });
    const isSingle = pages === 2 && recent.slice(-received).every((one, index) => one === marks[index]);
    return endNumbered(position, isSingle || isOrdered, { isSingle });
  }
  // A short page may be requested once more, and is the end then: another one that is the same is none.
  if (mark === position.pageMark) return beginPlain(position, { size: length });
  return overlapFrom({
    ...position,
    row,
    recent: remember(recent, answer),
    pageMark: mark,
    steppedBack: position.steppedBack && isKnown,
  });
}

export function overlapFrom(position: NumberedPosition): NumberedStep {
  const { row, length } = position;
  const placed = placePage(row, length);
  return placed === null
    ? beginPlain(position, { size: length })
    : goTo({ ...position, ...placed, phase: 'overlap' });
}

/**
 * Page after page, to one that the answer calls the last. A short page with more behind it shows that pages are shorter
 * than was thought, and their numbers mean other rows: the walk begins again in that size. An empty page ends it, as
 * does one that is the same as the one before or as the first.
 */
export function nextPlain(
  position: NumberedPosition,
  answer: ListedPage,
  listing: Listing,
  rules: NumberedRules,
): NumberedStep {
  const { received, mark, added, hasMore } = answer;
  const { page, size, total } = position;
  // The service leaves records out of its pages, or this page has just lost them all.
  if (received === 0 && hasMore === true) return goTo({ ...position, page: page + 1 });
  if (added === 0) {
    const isAgain = received > 0 && (mark === position.pageMark || mark === position.firstMark);
    if (page === 0 && isAgain) return endNumbered(position, true, { isSingle: true });
    // Pages of two records cannot overlap: where none has left the first one meanwhile, it was all.
    const isPair = position.length === 2 && position.pages === 2 && received === 0 && !position.isFixed;
    if (isPair && total === null && hasMore === null) return goTo({ ...position, page: 0 });
    const isLast = received === 0 || isAgain || position.isAsking || position.isFixed;
    const isWhole = received >= size || position.rounds >= mostSizes;
    // A page of known records, and of no page that came, shows another order, or as many new ones in front.
    const strays = !isAgain && (received >= size || position.isFixed) ? received : 0;
    const ended = { ...position, strays: position.strays + strays };
    if (isLast || isWhole) return endPlain(ended, isAgain, listing, rules);
    // Nothing follows, or pages have become shorter and begin at other rows.
    if (position.short > 0) return beginSmaller(position, position.short);
    return goTo({ ...position, page: page + 1, row: (page + 1) * size, short: received, isShortNew: false });
  }
  // With a size that has changed, records of the short page would have come before.
  const isCut = position.short > 0 && (position.isShortNew || position.rounds >= mostSizes);
  const isUneven = received !== position.length || position.short !== position.length;
  if (isCut && isUneven) noteGap(listing.pageLengths);
  const isFixed = position.isFixed || received > size || isCut;
  const isShort = received < (isFixed ? Math.max(position.length, received) : size);
  if (!isFixed && position.short > 0) return beginSmaller(position, position.short);
  const length = Math.max(position.length, received);
  if (
    listing.growsOnly &&
    isShort &&
    !isFixed &&
    page > 0 &&
    added < received &&
    total === null &&
    hasMore === null
  ) {
    // Rows have come in front of it, or pages have become shorter, and this one begins at other rows.
    if (position.rounds < mostRounds) {
      return beginPlain(
        { ...position, rounds: position.rounds + 1 },
        { size: Math.max(received, Math.floor(size / 2)) },
      );
    }
    return goTo({ ...position, page: page + 1, isDisturbed: true });
  }
  if (hasMore === false || (isShort && total !== null && total <= shownBy(position) && hasMore === null)) {
    return endPlain({ ...position, page: page + 1, length }, false, listing, rules);
  }
  return goTo({
    ...position,
    page: page + 1,
    row: (page + 1) * size,
    isFixed,
    length,
    short: page > 0 && isShort && !isFixed ? received : 0,
    isShortNew: added === received,
    recent: remember(position.recent, answer),
    firstMark: page === 0 ? mark : position.firstMark,
    pageMark: mark,
    isAsking: false,
  });
}

/** The service gives pages of `received` records by now. Half the size at least, so that calls double at most. */
function beginSmaller(position: NumberedPosition, received: number): NumberedStep {
  const { size, rounds } = position;
  const smaller = Math.max(1, Math.floor(size / 2), Math.min(received, size - 1));
  return beginPlain({ ...position, rounds: rounds + 1 }, { size: smaller });
}

/** The first page was all. A page that was cut could be whole by now, because rows have left. */
function isFirstAll(position: NumberedPosition, { maxSize, isFixed }: NumberedRules): boolean {
  const { page, length, total, isSteady, hasAskedAgain, hasSaidMore, strays } = position;
  if (page !== 1 || length >= maxSize || hasAskedAgain || hasSaidMore || strays > 0) return false;
  return isFixed || (total === null ? length === 1 : isSteady && total === length);
}

/** Behind the last page. `isAgain`: what came there had come before. */
function endPlain(
  position: NumberedPosition,
  isAgain: boolean,
  { growsOnly }: Listing,
  rules: NumberedRules,
): NumberedStep {
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
  const isEnd = !isAgain || total !== null || rules.endsByRepeat;
  if (!isEnd) return endNumbered(position, false, { doubt: { kind: 'repeats' } });
  const isSingle = isFirstAll(position, rules);
  return endNumbered(position, isSingle || (growsOnly && !position.isDisturbed), { isSingle });
}
