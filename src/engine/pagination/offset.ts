import { z } from 'zod';
import type { Entity } from '../../definitions/definition.ts';
import { pageMark, shortMark } from './mark.ts';
import type { Advance, PageSeen, Pagination } from './pagination.ts';

type OffsetRules = Extract<Entity['pagination'], { kind: 'offset' }>;

/** Requested page size -> the largest page that came for it, over all partitions of an entity in this run. */
export type LargestPages = Map<number, number>;

/** Rows asked for again at the head of each page: they must be known, or rows have moved under the walk. */
const overlap = 10;
const stepBack = 2 * overlap;
/** Keys that a page's first record may match. */
const rememberedKeys = 100;

const positionSchema = z.object({
  kind: z.literal('offset'),
  offset: z.number().int().min(0),
  size: z.number().int().min(1),
  pages: z.number().int().min(0),
  /** Short marks of the last records in walking order, the newest last. */
  recent: z.array(z.string()),
  /** The previous page as a whole, and its last record. */
  pageMark: z.string(),
  lastMark: z.string(),
  /** Rows at the head of the page asked for that are expected to be known. */
  expected: z.number().int().min(0),
  steppedBack: z.boolean(),
});
type OffsetPosition = z.infer<typeof positionSchema>;

/**
 * Walks by `offset` on a service that keeps no snapshot between calls. Deleted rows shift unread ones to the left, out
 * of the next page's sight; so every page overlaps the one before it, and its first record must be one of the last
 * 100 of the walk (the seam). While rows only vanish, or move to the end, everything behind a known record is still
 * ahead of the walk: with a fixed order the unbroken seam is a proof.
 */
export function offsetPagination(
  rules: OffsetRules,
  options: { readonly isOrdered: boolean; readonly largestPages: LargestPages },
): Pagination {
  const { largestPages, isOrdered } = options;

  function advance(stored: unknown, page: PageSeen): Advance {
    const position = positionSchema.parse(stored);
    const received = page.marks.length;
    const isFirst = position.pages === 0;
    if (isFirst) {
      const largest = largestPages.get(position.size) ?? 0;
      largestPages.set(position.size, Math.max(largest, received));
      // A server may cap the page size silently, so only a page shorter than one it gave before is known to be the last.
      if (received < largest || received === 0) return endOf(position, page, 'single');
      return { kind: 'continue', position: stepForward(position, page) };
    }
    if (received === 0) {
      return position.expected === 0 ? endOf(position, page, proofKind(position)) : seamLost(position);
    }
    const known = new Set(position.recent);
    if (position.expected > 0 && !known.has(shortMark(page.marks[0] ?? ''))) return seamLost(position);
    if (pageMark(page.marks) === position.pageMark) {
      return {
        kind: 'restart',
        code: 'PAGING_BROKEN',
        why: 'another offset brought exactly the same page: the service seems to ignore paging',
      };
    }
    const largest = Math.max(largestPages.get(position.size) ?? 0, received);
    largestPages.set(position.size, largest);
    const hasNewKey = page.marks.some((mark) => !known.has(shortMark(mark)));
    // A full page of known records may end just where unread ones begin.
    return !hasNewKey && received < largest && endsWhereTheWalkStands(position, page)
      ? endOf(position, page, proofKind(position))
      : { kind: 'continue', position: stepForward(position, page) };
  }

  function proofKind(position: OffsetPosition): 'single' | 'seam' {
    return position.pages === 1 ? 'single' : 'seam';
  }

  function endOf(position: OffsetPosition, page: PageSeen, kind: 'single' | 'seam'): Advance {
    return {
      kind: 'end',
      position: { ...position, pages: position.pages + 1, offset: position.offset + page.marks.length },
      proof: { kind, isOrdered: kind === 'single' || isOrdered },
    };
  }

  return {
    begin: () => ({
      kind: 'offset',
      offset: 0,
      size: rules.maxSize,
      pages: 0,
      recent: [],
      pageMark: '',
      lastMark: '',
      expected: 0,
      steppedBack: false,
    }),
    request: (stored) => {
      const { offset, size } = positionSchema.parse(stored);
      return { [rules.sizeParam]: size, [rules.offsetParam]: offset };
    },
    advance,
    halve: (stored) => {
      const position = positionSchema.parse(stored);
      // Below the overlap a page could not bring anything new any more.
      return position.size <= 2 * overlap ? null : { ...position, size: Math.floor(position.size / 2) };
    },
    expired: () => null,
  };
}

/**
 * A page without a new key is the end only if nothing lies behind it: it ends with the walk's newest record, or, where
 * that one has vanished, with the same record as the page before it. Otherwise rows inserted in front have pushed
 * known rows back into sight, and the walk goes on.
 */
function endsWhereTheWalkStands(position: OffsetPosition, page: PageSeen): boolean {
  const last = shortMark(page.marks.at(-1) ?? '');
  return last === position.recent.at(-1) || last === position.lastMark;
}

function stepForward(position: OffsetPosition, page: PageSeen): OffsetPosition {
  const received = page.marks.length;
  // One row less than the page, so that the walk moves even where a server gives tiny pages.
  const expected = Math.max(0, Math.min(overlap, received - 1));
  const tail = page.marks.slice(-rememberedKeys).map(shortMark);
  const tailSet = new Set(tail);
  return {
    ...position,
    offset: position.offset + received - expected,
    pages: position.pages + 1,
    recent: [...position.recent.filter((mark) => !tailSet.has(mark)), ...tail].slice(-rememberedKeys),
    pageMark: pageMark(page.marks),
    lastMark: tail.at(-1) ?? '',
    expected,
    steppedBack: false,
  };
}

function seamLost(position: OffsetPosition): Advance {
  if (position.steppedBack) {
    return {
      kind: 'restart',
      code: 'SEAM_LOST',
      why: 'rows moved under the walk faster than its overlap can follow',
    };
  }
  return {
    kind: 'continue',
    position: {
      ...position,
      offset: Math.max(0, position.offset - stepBack),
      expected: position.expected + stepBack,
      steppedBack: true,
    },
  };
}
