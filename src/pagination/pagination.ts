import { hash } from 'node:crypto';
import type * as z from 'zod';
import type { ErrorCode } from '../core/errors.ts';
import type { JsonValue } from '../core/json.ts';
import type { Params } from '../core/records.ts';
import type { Doubt, PageLength, Position, Proof } from '../sinks/partition.ts';

/** One style of pagination: all that depends on how pages follow one another. */
export interface PaginationStyle {
  /** Completeness rests on a fixed order of the records: whether the service keeps it is checked. */
  readonly restsOnOrder: boolean;
  walk(listing: Listing): Pagination;
  /**
   * What an answer says about the next page; null where this style learns nothing from answers. `lastRecord`: undefined
   * where the page is empty.
   */
  readNext(answer: PageAnswer, lastRecord: () => JsonValue | undefined): NextPage | UnreadableNext | null;
  /** Calls that so many rows in so many listings cost at least. */
  calls(rows: number, listings: number): number;
}

export interface Listing {
  /** It has a fixed order, or nothing ever leaves it. */
  readonly isOrdered: boolean;
  /** Nothing ever leaves it, and records may be added anywhere. */
  readonly growsOnly: boolean;
  /** Shared by all listings of one entity in a run: it shows what the server caps a page at. */
  readonly pageLengths: PageLengths;
  /**
   * Rows that it is known to have had: those stored, or as far as its last full walk reached. 0 where an incremental
   * walk shows less than there is.
   */
  readonly storedRows: number;
  /** False: what its answers name as total is not used for anything. */
  readonly trustsTotal: boolean;
}

export interface PageAnswer {
  readonly result: JsonValue;
  /** `connector_metadata`; null where there is none. */
  readonly metadata: JsonValue;
}

export interface NextPage {
  /** The response's flag; null when it carried only a token field. */
  readonly hasMore: boolean | null;
  readonly token: string | null;
  /** The token only counts pages: rows that come and go shift them. */
  readonly isNumbered?: boolean;
  /** The key that says so, where the definition names none. */
  readonly sign?: string;
}

/** The answer must speak of the next page and does not, or not in the agreed way. */
export interface UnreadableNext {
  readonly fault: string;
  /** It says nothing at all. */
  readonly isSilent?: true;
}

/**
 * How one kind of walk goes from page to page: pure functions. All that it needs to resume after a kill is in its
 * position.
 */
export interface Pagination<Own extends Position = Position> {
  begin(): Own;
  /** Parameters of the call that `position` asks for: paging, and the lower bound of an incremental walk. */
  request(position: Own): Params;
  advance(position: Own, page: PageSeen): Advance;
  /**
   * What it means that the service refuses the call with this status (400, 404): the page lies behind the last one and
   * is `empty`; it may lie there, which the service does not say; or, null, nothing of the kind.
   */
  refused(position: Own, status: number | null): 'empty' | 'perhapsEmpty' | null;
  /** The same place with half the page size; null when it cannot be halved. */
  halve(position: Own): Position | null;
  /** Why the position can no longer be requested (a page token past its lifetime); null when it can. */
  expired(position: Own, nowMs: number): string | null;
}

/** A walk as its style tells it: each function gets a position as its schema reads it. Absent ones always give null. */
type Walk<Own extends Position> = Pick<Pagination<Own>, 'begin' | 'request' | 'advance'> &
  Partial<Pick<Pagination<Own>, 'refused' | 'halve' | 'expired'>>;

/** A position with that of another walk in it, halved as that one is; null where it cannot be. */
export function halveInner(inner: Pagination, position: Position & { readonly inner: Position }) {
  const halved = inner.halve(position.inner);
  return halved === null ? null : { ...position, inner: halved };
}

export function walkWith<Schema extends z.ZodType<Position>>(
  schema: Schema,
  walk: Walk<z.output<Schema>>,
): Pagination {
  return {
    begin: () => walk.begin(),
    request: (stored) => walk.request(schema.parse(stored)),
    advance: (stored, page) => walk.advance(schema.parse(stored), page),
    refused: (stored, status) => walk.refused?.(schema.parse(stored), status) ?? null,
    halve: (stored) => walk.halve?.(schema.parse(stored)) ?? null,
    expired: (stored, nowMs) => walk.expired?.(schema.parse(stored), nowMs) ?? null,
  };
}

export interface PageSeen {
  /** One mark per record in the response's order: equal marks mean the same record. */
  readonly marks: readonly string[];
  /** One per record: its change values; null where it has none. Empty where only full walks are made. */
  readonly changes: readonly (ChangeSpan | null)[];
  /** When the walk began, by the service's clock: what changed later is read again by the next walk. */
  readonly capMs: number;
  readonly bytes: number;
  readonly next: NextPage | null;
  /** How many records the listing has; absent: the answer does not say. */
  readonly total?: number;
  /** The answer says that the service shows a part of the listing. */
  readonly isCut?: boolean;
  /** There was no answer but a refusal, or the failure of the service (500). */
  readonly refusal?: 'refused' | 'failed';
  readonly nowMs: number;
}

export type Advance =
  /** `isFurther`: the page reached behind what was read before, as far as its place tells. */
  | {
      readonly kind: 'continue';
      readonly position: Position;
      readonly isFurther: boolean;
      /** A page of this length was not the last one, which was not known before. */
      readonly followed?: PageLength;
    }
  /** `lastPage`: it was the last one because it was short; `followed`: the one before it was as above. */
  | {
      readonly kind: 'end';
      readonly position: Position;
      readonly followed?: PageLength;
      readonly proof: Proof;
      /** The furthest row that the walk has reached, counted from 1; absent where places are not counted. */
      readonly reach?: number;
      readonly lastPage?: PageLength;
      readonly doubt?: Doubt;
      /** Whatever its order: what did not change since the walk began was shown. */
      readonly isSettled?: true;
    }
  /** The walk must begin again; at most three times a run, then it is set aside with `code`. */
  | { readonly kind: 'restart'; readonly code: ErrorCode; readonly why: string }
  /** The service contradicts itself: beginning again would not help. `dropWatermark`: reading in full may. */
  | {
      readonly kind: 'broken';
      readonly code: ErrorCode;
      readonly why: string;
      readonly dropWatermark: boolean;
    };

/** The service ignores what it was asked for: reading in full may help. */
export function ignored(why: string): Advance {
  return { kind: 'broken', code: 'PAGING_BROKEN', why, dropWatermark: true };
}

/**
 * Milliseconds since the epoch between which a record's change values lie: one value, or those of an array's elements.
 */
export interface ChangeSpan {
  readonly lowestMs: number;
  readonly highestMs: number;
}

/**
 * The doubt of a walk at whose end more records are counted than came; nothing where one of the numbers is not known.
 */
export function doubtOf(total: number | undefined, shown: number | null): { readonly doubt?: Doubt } {
  return total === undefined || shown === null || total <= shown
    ? {}
    : { doubt: { kind: 'total', total, shown } };
}

/**
 * 64 bits that stand for a mark in a position: a hundred of them take 1.4 KB whatever the keys' length. A position is
 * stored with every commit.
 */
export function shortMark(mark: string): string {
  return hash('sha256', mark, 'base64url').slice(0, 11);
}

/** Records of one walk that are kept apart: 100,000 of them take some 8 MB. */
const mostMarks = 100_000;

/**
 * Counts the different records of a walk exactly, while its process lives and their number allows. `before`: what this
 * gave for the page before, 0 at the beginning. Null: not all records before the page were remembered.
 */
export function countMarks(): (before: number | null, marks: readonly string[]) => number | null {
  const seen = new Set<string>();
  return (before, marks) => {
    if (before === 0) seen.clear();
    if (before !== seen.size || seen.size + marks.length > mostMarks) return null;
    for (const mark of marks) seen.add(mark);
    return seen.size;
  };
}

/** One value for a whole page's marks in order; '' for an empty page. */
export function pageMark(marks: readonly string[]): string {
  return marks.length === 0 ? '' : shortMark(JSON.stringify(marks));
}

/** A bound as the services are known to read it, rounded down to the second: `2015-10-21T15:41:36+00:00`. */
export function timeParam(ms: number): string {
  return `${new Date(floorSecond(ms)).toISOString().slice(0, 19)}+00:00`;
}

/** The parameter that asks for what changed since a time, and how it has that. */
export interface SinceParam {
  readonly name: string;
  readonly write: (ms: number) => string | number;
}

/** The same in another form, for a parameter of this type. */
export function numberParam(ms: number, format: 'unix' | 'unixMs', type: string): string | number {
  const number = format === 'unix' ? Math.floor(ms / 1000) : ms;
  return type === 'integer' ? number : String(number);
}

export function floorSecond(ms: number): number {
  return Math.floor(ms / 1000) * 1000;
}

type Page = Pick<PageSeen, 'marks' | 'bytes'>;

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
export function noteFollowed(lengths: PageLengths, { size, records }: PageLength) {
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
