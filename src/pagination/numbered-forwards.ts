import type { Listing } from './pagination.ts';
import {
  beginPlain,
  endNumbered,
  goTo,
  remember,
  shownBy,
  type NumberedPage,
  type NumberedPosition,
  type NumberedStep,
  type NumberedRules,
} from './numbered-position.ts';

/** Records that a page should have in common with the one before it: so many may leave between the two. */
const overlap = 5;
const stepBack = 20;
/** Times that a listing that only grows is read again because a page began at another row than it should. */
const mostRounds = 4;

/**
 * Of the pages of at most `length` records, the one that shows the most behind row `row` and begins with rows before
 * it. Null: none does both, as happens for some rows where pages are tiny.
 */
function placePage(row: number, length: number) {
  const common = Math.max(1, Math.min(overlap, Math.floor(length / 4), row));
  let best: { readonly page: number; readonly size: number } | null = null;
  let furthest = row;
  for (let size = length; size > 1; size -= 1) {
    const page = Math.floor((row - common) / size);
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
  { marks, mark, hasMore }: NumberedPage,
  { isOrdered }: Listing,
): NumberedStep {
  const { page, size, length, recent, pages } = position;
  const received = marks.length;
  if (received > size) return beginPlain(position, { isFixed: true, size: length });
  const known = new Set(recent);
  const [first] = marks;
  if (first === undefined || !known.has(first)) {
    // Right behind the first page it rather means that the size is not heard.
    if (pages === 2) return beginPlain(position, { size: length });
    if (position.steppedBack) {
      const why = 'records moved between pages faster than overlapping pages can follow';
      return { kind: 'restart', code: 'SEAM_LOST', why };
    }
    const row = Math.max(1, position.row - stepBack);
    return overlapFrom({ ...position, row, steppedBack: true });
  }
  if (mark === position.pageMark) return beginPlain(position, { size: length });
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
  return overlapFrom({
    ...position,
    row,
    recent: remember(recent, marks),
    pageMark: mark,
    steppedBack: false,
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
  answer: NumberedPage,
  listing: Listing,
  rules: NumberedRules,
): NumberedStep {
  const { marks, mark, added, hasMore } = answer;
  const { page, size, total } = position;
  const received = marks.length;
  // The service leaves records out of its pages, or this page has just lost them all.
  if (received === 0 && hasMore === true) return goTo({ ...position, page: page + 1 });
  const isAgain = page > 0 && received > 0 && (mark === position.pageMark || mark === position.firstMark);
  if (received === 0 || isAgain || (position.isAsking && added === 0)) {
    return endPlain(position, received > 0, listing, rules);
  }
  const isFixed = position.isFixed || received > size;
  const isShort = received < (isFixed ? Math.max(position.length, received) : size);
  if (!isFixed && position.short > 0) {
    const smaller = position.rounds === 0 ? position.short : Math.floor(size / 2);
    return beginPlain(
      { ...position, rounds: position.rounds + 1 },
      { size: Math.max(1, Math.min(position.short, smaller)) },
    );
  }
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
    size: page === 0 && !isFixed ? received : size,
    isFixed,
    length,
    short: page > 0 && isShort && !isFixed ? received : 0,
    recent: remember(position.recent, marks),
    firstMark: page === 0 ? mark : position.firstMark,
    pageMark: mark,
    isAsking: false,
  });
}

/** The first page was all. A page that was cut could be whole by now, because rows have left. */
function isFirstAll(position: NumberedPosition, { maxSize, isFixed }: NumberedRules): boolean {
  const { page, length, total, isSteady, hasAskedAgain, hasSaidMore } = position;
  if (page !== 1 || length >= maxSize || hasAskedAgain || hasSaidMore) return false;
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
    return goTo({ ...asking, size: smaller, page: Math.floor(shown / smaller), pageMark: '' });
  }
  const isEnd = !isAgain || total !== null || rules.endsByRepeat;
  if (!isEnd) return endNumbered(position, false, { doubt: { kind: 'repeats' } });
  const isSingle = isFirstAll(position, rules);
  return endNumbered(position, isSingle || (growsOnly && !position.isDisturbed), { isSingle });
}
