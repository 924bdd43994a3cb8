import type { PageLength } from '../sinks/partition.ts';

interface Page {
  readonly marks: readonly string[];
  readonly bytes: number;
}

interface KnownLengths {
  readonly records: number;
  readonly bytes: number;
  /** Pages at least as long have been followed by more. */
  readonly followed: number;
}

/**
 * By requested page size: the most records and the most bytes that came for it, and the shortest page that more came after, over
 * all partitions of an entity in this run.
 */
export type PageLengths = Map<number, KnownLengths>;

const nothingKnown: KnownLengths = { records: 0, bytes: 0, followed: Infinity };

export function knownLengths(lengths: PageLengths, size: number): KnownLengths {
  return lengths.get(size) ?? nothingKnown;
}

/** Notes a page; gives what was known before it. */
export function noteLength(lengths: PageLengths, size: number, page: Page): KnownLengths {
  const known = knownLengths(lengths, size);
  lengths.set(size, {
    ...known,
    records: Math.max(known.records, page.marks.length),
    bytes: Math.max(known.bytes, page.bytes),
  });
  return known;
}

/**
 * Notes that a page of `records` was followed by more; gives what walks that ended with a page must be made again for, null where
 * that was known. Rounded down to a power of two, so that a cap that goes on falling has each of them made again a few times only.
 */
export function noteFollowed(lengths: PageLengths, { size, records }: PageLength): PageLength | null {
  const known = knownLengths(lengths, size);
  if (records < 1 || records >= known.followed) return null;
  const followed = 2 ** Math.floor(Math.log2(records));
  lengths.set(size, { ...known, followed });
  return { size, records: followed };
}

/**
 * Less than half of the largest page in records and in bytes, because a service that caps its pages silently, by one of the two,
 * would have given more; and shorter than any page that more came after, because the cap may fall during a run.
 */
export function isFarBelow(page: Page, { records, bytes, followed }: KnownLengths): boolean {
  return page.marks.length * 2 < records && page.bytes * 2 < bytes && page.marks.length < followed;
}
