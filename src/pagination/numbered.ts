import { readFlag } from './answer-keys.ts';
import { remember, shortestLook, walkToEnd, type ListedPage } from './listing-end.ts';
import { nextDown, nextUp } from './numbered-backwards.ts';
import { nextOverlapping, nextPlain, overlapFrom, placeWindow } from './numbered-forwards.ts';
import {
  beginNumbered,
  endNumbered,
  goTo,
  numberedPosition,
  type NumberedPosition,
  type NumberedStep,
  type NumberedRules,
} from './numbered-position.ts';
import { isLastByLength, noteFollowed, noteLength } from './page-lengths.ts';
import type { Advance, Listing, Pagination, PaginationStyle } from './pagination.ts';

/** Completeness rests on a fixed order, or on a total: see `numberedPagination`. */
export function numberedStyle(rules: NumberedRules, flagKeys: readonly string[] = []): PaginationStyle {
  return {
    restsOnOrder: true,
    walk: (listing) => numberedPagination(rules, listing),
    readNext: (answer) => (flagKeys.length === 0 ? null : readFlag(flagKeys, answer)),
    calls: (rows, listings) => {
      const further = Math.floor(rows / rules.maxSize);
      return listings + further + (further > 0 ? 1 : 0);
    },
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
 * - Without a total, each page overlaps the one before it by some record, in sizes that make the most of it.
 * - Otherwise, and wherever pages contradict what is expected of them, page follows page.
 */
function numberedPagination(rules: NumberedRules, listing: Listing): Pagination {
  const { pageLengths } = listing;

  function advance(before: NumberedPosition, page: ListedPage): Advance {
    const hasSaidMore = before.hasSaidMore || page.hasMore === true;
    const isBackwards = before.phase === 'up' || before.phase === 'down';
    const strays = isBackwards ? 0 : before.strays;
    const risen = Math.max(0, before.risen - (before.rounds > 0 ? page.added : 0));
    const step = nextOf(
      { ...before, pages: before.pages + 1, hasSaidMore, risen, strays },
      page,
      listing,
      rules,
    );
    if (step.kind !== 'next') return step;
    const isFollowed = before.pages === 1 && page.added > 0;
    return {
      kind: 'continue',
      position: step.position,
      isFurther: page.added > 0,
      ...(isFollowed ? noteFollowed(pageLengths, { size: rules.maxSize, records: before.length }) : {}),
    };
  }

  const walk = {
    begin: () => beginNumbered(rules.maxSize, rules.isFixed),
    request: ({ page, size }: NumberedPosition) => rules.ask(page, size),
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
        params: rules.ask(page, isFixed ? asked : size),
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

function nextOf(
  position: NumberedPosition,
  page: ListedPage,
  listing: Listing,
  rules: NumberedRules,
): NumberedStep {
  switch (position.phase) {
    case 'first':
      return nextFirst(position, page, listing, rules);
    case 'up':
      return nextUp(position, page);
    case 'down':
      return nextDown(position, page);
    case 'overlap':
      return nextOverlapping(position, page, listing);
    case 'plain':
      return nextPlain(position, page, listing, rules);
  }
}

function nextFirst(
  position: NumberedPosition,
  answer: ListedPage,
  { pageLengths, storedRows, isOrdered, growsOnly }: Listing,
  rules: NumberedRules,
): NumberedStep {
  const { size, total } = position;
  const { seen, received, hasMore, mark } = answer;
  const known = noteLength(pageLengths, size, seen);
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
  // What is stored of the listing was there once: a page that shows less of it may have been cut.
  const isLikeStored = received >= storedRows;
  // A total may count the page alone: then the largest pages are where the service cuts them.
  const isAll = total === received && received < Math.min(size, known.records);
  const honoursSize = !position.isFixed && rules.honoursSize;
  const isShort =
    (total === null || total <= received) && isLastByLength(pageLengths, seen, known, { size, honoursSize });
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
    // What the first page shows is all, as far as its total tells: it need not be read again.
    return goTo({ ...next, phase: 'up', page, reach: total <= received ? received : 0 });
  }
  return total === null && !isFixed && received > 2
    ? overlapFrom(next)
    : goTo({ ...next, phase: 'plain', page: 1 });
}
