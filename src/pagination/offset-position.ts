import * as z from 'zod';
import { pagesSoFar, remember, type ListedPage } from './listing-end.ts';

/** Rows requested again at the head of a page at most. */
const fullOverlap = 10;

/** Also what a keyset walk keeps for each of its bounds. The defaults are those of its first page. */
export const offsetPosition = z.object({
  kind: z.literal('offset'),
  ...pagesSoFar,
  offset: z.number().int().min(0),
  size: z.number().int().min(1),
  /** The previous page's last record. */
  lastMark: z.string().default(''),
  /** Rows at the head of the page asked for that are expected to be known. */
  expected: z.number().int().min(0).default(0),
  /** Rows by which the last overlapping page overlapped. */
  overlap: z.number().int().min(0).default(0),
  /** Asks for what lies right behind the newest record: nothing is expected there. */
  isProbe: z.boolean().default(false),
  /** Everything read so far came in the first page, and later ones showed the end of it as it was. */
  isSingle: z.boolean().default(false),
  /** A page of one record could not be overlapped. */
  isTorn: z.boolean().default(false),
  /** Records of the page before; 0 where nothing can be concluded from what comes after it. */
  before: z.number().int().min(0).default(0),
});
export type OffsetPosition = z.infer<typeof offsetPosition>;

/**
 * Rows requested again behind a page of so many: they must be known, or rows have moved under the walk. A fifth of the
 * page, so that a listing costs a quarter more calls at most.
 */
export function overlapOf(records: number): number {
  return Math.max(1, Math.min(fullOverlap, Math.floor(records / 5)));
}

/** Behind a page, and back by the overlap. */
export function stepForward(position: OffsetPosition, page: ListedPage): OffsetPosition {
  const { received } = page;
  // One row less than the page, so that the walk moves even where a server gives tiny pages.
  const expected = Math.max(0, Math.min(overlapOf(received), received - 1));
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
 * What lies behind the last record that came, on a smaller page: a service may fail on large ones. Null where no page
 * is smaller.
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
