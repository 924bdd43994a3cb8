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
 * By requested size, over all partitions of an entity in this run: the largest page, and the shortest that more came
 * after.
 */
export type PageLengths = Map<number, KnownLengths>;

const nothingKnown: KnownLengths = { records: 0, bytes: 0, followed: Infinity };

/** Notes a page; gives what was known before it. */
export function noteLength(lengths: PageLengths, size: number, page: Page): KnownLengths {
  const known = lengths.get(size) ?? nothingKnown;
  lengths.set(size, {
    ...known,
    records: Math.max(known.records, page.marks.length),
    bytes: Math.max(known.bytes, page.bytes),
  });
  return known;
}

/**
 * A page of `records` was followed by more: gives what to make walks again for, where that is not known. Powers of two,
 * so that a falling cap repeats few walks.
 */
export function noteFollowed(
  lengths: PageLengths,
  { size, records }: PageLength,
): { readonly followed?: PageLength } {
  const known = lengths.get(size) ?? nothingKnown;
  if (records < 1 || records >= known.followed) return {};
  const followed = 2 ** Math.floor(Math.log2(records));
  lengths.set(size, { ...known, followed });
  return { followed: { size, records: followed } };
}

/**
 * Less than half of the largest page in records and bytes, by one of which a service may cap silently; shorter than any
 * that more came after.
 */
export function isFarBelow(page: Page, { records, bytes, followed }: KnownLengths): boolean {
  return page.marks.length * 2 < records && page.bytes * 2 < bytes && page.marks.length < followed;
}
