import * as z from 'zod';
import { rememberedKeys, remember } from './numbered-position.ts';
import { pageMark, shortMark, type PageSeen } from './pagination.ts';

/** Rows requested again at the head of each page: they must be known, or rows have moved under the walk. */
export const fullOverlap = 10;

/** Also what a keyset walk keeps for each of its bounds. The defaults are those of its first page. */
export const offsetPosition = z.object({
  kind: z.literal('offset'),
  offset: z.number().int().min(0),
  size: z.number().int().min(1),
  pages: z.number().int().min(0).default(0),
  /** Short marks of the last records in walking order, the newest last. */
  recent: z.array(z.string()).default([]),
  /** The previous page as a whole, and its last record. */
  pageMark: z.string().default(''),
  lastMark: z.string().default(''),
  /** Rows at the head of the page asked for that are expected to be known. */
  expected: z.number().int().min(0).default(0),
  steppedBack: z.boolean().default(false),
  /** Rows by which the last overlapping page overlapped. */
  overlap: z.number().int().min(0).default(0),
  /** Asks for what lies right behind the newest record: nothing is expected there. */
  isProbe: z.boolean().default(false),
  /** Everything read so far came in the first page, and later ones showed the end of it as it was. */
  isSingle: z.boolean().default(false),
  /** The furthest row that a page has reached, counted from 1. */
  furthest: z.number().int().min(0).default(0),
  /** Of the listing, as every page so far has reported; null where one did not, or reported another. */
  total: z.number().int().min(0).nullable().default(null),
  /** Different records so far; null before the first page. */
  shown: z.number().int().min(0).nullable().default(null),
  /** The total was above what had come, and what lies behind was asked for once more. */
  hasAskedAgain: z.boolean().default(false),
  /** Records of the page before; 0 where nothing can be concluded from what comes after it. */
  before: z.number().int().min(0).default(0),
});
export type OffsetPosition = z.infer<typeof offsetPosition>;

/** Behind a page, and back by the overlap. `thisPage`: its `pageMark`. */
export function stepForward(
  position: OffsetPosition,
  page: PageSeen,
  thisPage = pageMark(page.marks),
): OffsetPosition {
  const received = page.marks.length;
  // One row less than the page, so that the walk moves even where a server gives tiny pages. Behind the first page less
  // than half of it: a page that shows that alone is far below it, and the end.
  const most = position.pages === 0 ? Math.max(1, Math.ceil(received / 2) - 1) : fullOverlap;
  const expected = Math.max(0, Math.min(fullOverlap, most, received - 1));
  const tail = page.marks.slice(-rememberedKeys).map(shortMark);
  return {
    ...position,
    offset: position.offset + received - expected,
    pages: position.pages + 1,
    recent: remember(position.recent, tail),
    pageMark: thisPage,
    lastMark: tail.at(-1) ?? '',
    expected,
    overlap: expected,
    steppedBack: false,
    isProbe: false,
    before: received,
  };
}

/**
 * What lies behind the last record that came, on a smaller page: a service may fail on large ones. Null where no page
 * is smaller.
 */
export function askAgain(position: OffsetPosition, page: PageSeen): OffsetPosition | null {
  const size = Math.floor(position.size / 2);
  if (size < 1) return null;
  const again = { ...position, size, before: 0, hasAskedAgain: true };
  if (page.marks.length === 0 && position.pages === 0) return again;
  const offset = position.offset + page.marks.length;
  const passed = page.marks.length === 0 ? again : { ...stepForward(again, page), before: 0 };
  return { ...passed, offset, expected: 0, overlap: Math.min(fullOverlap, offset), isProbe: true };
}
