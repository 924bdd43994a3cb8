import {
  countMarks,
  pageMark,
  shortMark,
  walkWith,
  type Advance,
  type Listing,
  type PageSeen,
  type Pagination,
  type PaginationStyle,
} from './pagination.ts';
import { readFlag } from './answer-keys.ts';
import { nextDown, nextUp } from './numbered-backwards.ts';
import { nextOverlapping, nextPlain, overlapFrom } from './numbered-forwards.ts';
import {
  beginNumbered,
  endNumbered,
  goTo,
  numberedPosition,
  remember,
  shownBy,
  type NumberedPage,
  type NumberedPosition,
  type NumberedStep,
  type NumberedRules,
} from './numbered-position.ts';
import { isLastByLength, noteFollowed, noteLength, noteWhole } from './page-lengths.ts';

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
  const { pageLengths, trustsTotal } = listing;
  const countDistinct = countMarks();

  function advance(before: NumberedPosition, seen: PageSeen): Advance {
    const total = trustsTotal ? (seen.total ?? null) : null;
    const marks = seen.marks.map(shortMark);
    const recent = new Set(before.recent);
    const fresh = new Set(marks.filter((mark) => !recent.has(mark))).size;
    const distinct = countDistinct(before.pages === 0 ? 0 : before.distinct, marks);
    const added =
      distinct === null || before.distinct === null || before.pages === 0
        ? fresh
        : distinct - before.distinct;
    const hasMore = seen.next?.hasMore ?? null;
    const position: NumberedPosition = {
      ...before,
      hasSaidMore: before.hasSaidMore || hasMore === true,
      pages: before.pages + 1,
      total: total ?? before.total,
      // Behind the last page an answer may be a refusal, which names nothing.
      isSteady:
        before.isSteady &&
        (total === null ? marks.length === 0 : before.pages === 0 || total === before.total),
      shown: before.shown + fresh,
      distinct,
    };
    const page: NumberedPage = { seen, hasMore, marks, mark: pageMark(seen.marks), added };
    const step = nextOf(position, page, listing, rules);
    if (step.kind === 'end' && before.pages > 0 && step.proof.kind === 'single') {
      noteWhole(pageLengths, { size: rules.maxSize, records: before.length });
    }
    if (step.kind !== 'next') return step;
    const isFollowed = before.pages === 1 && added > 0;
    return {
      kind: 'continue',
      position: step.position,
      isFurther: added > 0,
      ...(isFollowed ? noteFollowed(pageLengths, { size: rules.maxSize, records: before.length }) : {}),
    };
  }

  return walkWith(numberedPosition, {
    begin: () => beginNumbered(rules.maxSize, rules.isFixed),
    request: ({ page, size }) => rules.ask(page, size),
    advance,
    refused: (position, status) => {
      if (position.page === 0) return null;
      if (status !== null && status === rules.endStatus) return 'empty';
      const isCounted = position.total !== null && position.total <= shownBy(position);
      return position.phase === 'up' || isCounted ? 'empty' : 'perhapsEmpty';
    },
    halve: ({ size, isFixed }) => (isFixed || size === 1 ? null : beginNumbered(Math.floor(size / 2), false)),
  });
}

function nextOf(
  position: NumberedPosition,
  page: NumberedPage,
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
  { seen, hasMore, marks, mark }: NumberedPage,
  { pageLengths, storedRows, isOrdered, growsOnly }: Listing,
  rules: NumberedRules,
): NumberedStep {
  const { size, total } = position;
  const received = marks.length;
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
    recent: remember([], marks),
    firstMark: mark,
    pageMark: mark,
  };
  if (total !== null && isOrdered && !growsOnly) {
    const page = Math.max(1, Math.floor(total / received));
    // What the first page shows is all, as far as its total tells: it need not be read again.
    return goTo({ ...next, phase: 'up', page, reach: total <= received ? received : 0 });
  }
  return total === null && !isFixed && received > 1
    ? overlapFrom(next)
    : goTo({ ...next, phase: 'plain', page: 1 });
}
