import {
  countMarks,
  pageMark,
  shortMark,
  walkWith,
  type Advance,
  type Listing,
  type PageSeen,
  type Pagination,
} from './pagination.ts';
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
  type OffsetRules,
} from './numbered-position.ts';
import { isFarBelow, noteFollowed, noteLength } from './page-lengths.ts';

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
export function numberedPagination(rules: OffsetRules, listing: Listing): Pagination {
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
    const position: NumberedPosition = {
      ...before,
      pages: before.pages + 1,
      total: total ?? before.total,
      // Behind the last page an answer may be a refusal, which names nothing.
      isSteady:
        before.isSteady &&
        (total === null ? marks.length === 0 : before.pages === 0 || total === before.total),
      shown: before.shown + fresh,
      distinct,
    };
    const page: NumberedPage = { seen, marks, mark: pageMark(seen.marks), added };
    const step = nextOf(position, page);
    if (step.kind !== 'next') return step;
    const isFollowed = before.pages === 1 && added > 0;
    return {
      kind: 'continue',
      position: step.position,
      isFurther: added > 0,
      ...(isFollowed ? noteFollowed(pageLengths, { size: rules.maxSize, records: before.length }) : {}),
    };
  }

  function nextOf(position: NumberedPosition, page: NumberedPage): NumberedStep {
    switch (position.phase) {
      case 'first':
        return nextFirst(position, page);
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

  function nextFirst(position: NumberedPosition, { seen, marks, mark }: NumberedPage): NumberedStep {
    const { size, total } = position;
    const received = marks.length;
    const known = noteLength(pageLengths, size, seen);
    if (received === 0) {
      if (total === null || total === 0) return endNumbered(position, true, { isSingle: true });
      if (position.hasAskedAgain || size === 1) {
        return endNumbered(position, false, { doubt: { kind: 'total', total, shown: 0 } });
      }
      const smaller = position.isFixed ? size : Math.floor(size / 2);
      return goTo({ ...position, pages: 0, size: smaller, hasAskedAgain: true });
    }
    // What is stored of the listing was there once: a page that shows less of it may have been cut.
    const isLikeStored = received >= listing.storedRows;
    // A total may count the page alone: then the largest pages are where the service cuts them.
    const isAll = total === received && received < Math.min(size, known.records);
    const isShort = (total === null || total <= received) && isFarBelow(seen, known);
    if (isLikeStored && (isAll || isShort)) {
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
    if (total !== null && listing.isOrdered && !listing.growsOnly) {
      const page = Math.max(1, Math.floor(total / received));
      // What the first page shows is all, as far as its total tells: it need not be read again.
      return goTo({ ...next, phase: 'up', page, reach: total <= received ? received : 0 });
    }
    return total === null && !isFixed && received > 1
      ? overlapFrom(next)
      : goTo({ ...next, phase: 'plain', page: 1 });
  }

  return walkWith(numberedPosition, {
    begin: () => beginNumbered(rules.maxSize, rules.numbered?.isFixed ?? false),
    request: ({ page, size }) => ({ [rules.sizeParam]: size, [rules.offsetParam]: page * size }),
    advance,
    refused: (position) => {
      if (position.page === 0) return null;
      const isCounted = position.total !== null && position.total <= shownBy(position);
      return position.phase === 'up' || isCounted ? 'empty' : 'perhapsEmpty';
    },
    halve: ({ size, isFixed }) => (isFixed || size === 1 ? null : beginNumbered(Math.floor(size / 2), false)),
  });
}
