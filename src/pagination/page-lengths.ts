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
  /** A page of so many records was all of its listing, as another call has confirmed. */
  readonly whole: number;
}

/**
 * By requested size, over all partitions of an entity in this run: the largest page, the shortest that more came after,
 * and the largest that was confirmed to be all. It tells where the service cuts its pages.
 */
export type PageLengths = Map<number, KnownLengths>;

const nothingKnown: KnownLengths = { records: 0, bytes: 0, followed: Infinity, whole: 0 };
/** What holds for all requested sizes. */
const anySize = 0;

export function lengthsOf(lengths: PageLengths, size: number): KnownLengths {
  return lengths.get(size) ?? lengths.get(anySize) ?? nothingKnown;
}

/** Notes a page; gives what was known before it. */
export function noteLength(lengths: PageLengths, size: number, page: Page): KnownLengths {
  const known = lengthsOf(lengths, size);
  lengths.set(size, {
    ...known,
    records: Math.max(known.records, page.marks.length),
    bytes: Math.max(known.bytes, page.bytes),
  });
  return known;
}

/**
 * A page of `records` was followed by more: gives what to make walks again for, where that is not known. A full page
 * may always be. Powers of two, so that a falling cap repeats few walks.
 */
export function noteFollowed(
  lengths: PageLengths,
  { size, records }: PageLength,
): { readonly followed?: PageLength } {
  const known = lengthsOf(lengths, size);
  if (records < 1 || records >= Math.min(size, known.followed)) return {};
  const followed = 2 ** Math.floor(Math.log2(records));
  lengths.set(size, { ...known, followed });
  return { followed: { size, records: followed } };
}

/** A page of `records` was confirmed to be all of its listing. */
export function noteWhole(lengths: PageLengths, { size, records }: PageLength): void {
  const known = lengthsOf(lengths, size);
  lengths.set(size, { ...known, whole: Math.max(known.whole, records) });
}

/** The service leaves records out of its pages: no short page is believed to be the last one any more in this run. */
export function noteGap(lengths: PageLengths): void {
  for (const size of [anySize, ...lengths.keys()]) {
    lengths.set(size, { ...lengthsOf(lengths, size), followed: 1 });
  }
}

export function hasGaps(lengths: PageLengths): boolean {
  return lengths.has(anySize);
}

/** A page of so many records is below the size that was requested, and below any that more came after. */
export function isShort(lengths: PageLengths, size: number, records: number): boolean {
  return records < Math.min(size, lengthsOf(lengths, size).followed);
}

/**
 * Whether the page is short enough to be the last one. Where the service documents that it gives pages of the size
 * asked for, and no page of this run has contradicted that: a page no longer than what has agreed with it. Elsewhere: a
 * page far below the largest, and shorter than any that more came after; but not one behind the first page that shows
 * something new (`isLater`), because pages may have become shorter during the walk. `known`: before this page.
 */
export function isLastByLength(
  lengths: PageLengths,
  page: Page,
  known: KnownLengths,
  asked: { readonly size: number; readonly honoursSize?: boolean | undefined; readonly isLater?: boolean },
): boolean {
  const { size, honoursSize = false, isLater = false } = asked;
  const records = page.marks.length;
  const { followed } = lengths.get(size) ?? known;
  const isHonoured = honoursSize && records < size && followed === Infinity;
  if (isHonoured && hasAgreed(page, known)) return true;
  return !isLater && records < followed && isFarBelow(page, known);
}

/** The service gives longer pages, or one as long was all of its listing; and as many bytes. */
function hasAgreed({ marks, bytes }: Page, { records, bytes: mostBytes, whole }: KnownLengths): boolean {
  return (marks.length <= whole || marks.length < records) && bytes <= mostBytes;
}

/** Less than half of the largest page in records and bytes, by one of which a service may cap silently. */
function isFarBelow({ marks, bytes }: Page, { records, bytes: mostBytes }: KnownLengths): boolean {
  return marks.length * 2 < records && bytes * 2 < mostBytes;
}
