import { hash } from 'node:crypto';
import type * as z from 'zod';
import type { ErrorCode } from '../core/errors.ts';
import {
  type JsonValue,
  isJsonObject,
  memberInAnySpelling,
  memberOf,
  valueAtKey,
  type JsonObject,
} from '../core/json.ts';
import type { Params } from '../core/records.ts';
import { textNumber } from '../core/text-number.ts';
import { timeFormat } from '../core/time-format.ts';
import type { Doubt, PageLength, Position, Proof } from '../sinks/partition.ts';
import type { Entity } from '../definitions/definition.ts';
import {
  keyOfToken,
  numberedKey,
  flagOf,
  signOfMore,
  tokenOf,
  type TokenKey,
} from '../definitions/pagination-file.ts';

/** One style of pagination: all that depends on how pages follow one another. */
export interface PaginationStyle {
  /** Completeness rests on a fixed order of the records: whether the service keeps it is checked. */
  readonly restsOnOrder: boolean;
  walk(listing: Listing): Pagination;
  /**
   * Reads the next page from an answer; null where this style learns nothing from answers. `lastRecord`: undefined
   * where the page is empty.
   */
  readNext(answer: PageAnswer, lastRecord: () => JsonValue | undefined): NextPage | UnreadableNext | null;
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
  /** False: totals of its answers are ignored. */
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
  /** The answer says nothing at all. */
  readonly isSilent?: true;
}

/**
 * Steps of one kind of walk from page to page: pure functions. Its position holds all it needs to resume after a kill.
 */
export interface Pagination<Own extends Position = Position> {
  begin(): Own;
  /** Parameters of the call that `position` asks for: paging, and the lower bound of an incremental walk. */
  request(position: Own): Params;
  advance(position: Own, page: PageSeen): Advance;
  /**
   * Interprets a refusal of the call with this status (400, 404). `empty`: the page lies behind the last one.
   * `perhapsEmpty`: it may lie there, which the service does not say. Null: neither.
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
  /** Beginning of the walk, by the service's clock: later changes are read again by the next walk. */
  readonly capMs: number;
  readonly bytes: number;
  readonly next: NextPage | null;
  /** Number of records in the listing; absent: the answer does not state it. */
  readonly total?: number;
  /** The answer says that the service shows a part of the listing. */
  readonly isCut?: boolean;
  /** There was no answer but a refusal, or the failure of the service (500). */
  readonly refusal?: 'refused' | 'failed';
  readonly nowMs: number;
}

export type Advance =
  /** `isFurther`: the page reached behind everything read before, as far as its place tells. */
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
      /** Every record that did not change since the walk began was shown, in whatever order. */
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

/** The service ignores a parameter: reading in full may help. */
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
 * The doubt of a walk that ends with fewer records than were counted; nothing where one of the numbers is not known.
 */
export function doubtOf(total: number | undefined, shown: number | null): { readonly doubt?: Doubt } {
  return total === undefined || shown === null || total <= shown
    ? {}
    : { doubt: { kind: 'total', total, shown } };
}

/**
 * 64 bits that stand for a mark in a position: a hundred of them take 1.4 KB for keys of any length. A position is
 * stored with every commit.
 */
export function shortMark(mark: string): string {
  return hash('sha256', mark, 'base64url').slice(0, 11);
}

/** Records of one walk that are kept apart: 100,000 of them take 2 MiB. */
const mostMarks = 100_000;

/**
 * Counts the different records of a walk, while its process lives and their number allows: never too many, and hardly
 * ever one too few. `before`: the result for the page before, 0 at the beginning. Null: not all records before the page
 * were remembered.
 */
export function countMarks(): (before: number | null, marks: readonly string[]) => number | null {
  let seen = openNumbers(1_024);
  return (before, marks) => {
    if (before === 0) seen = openNumbers(1_024);
    if (before !== seen.count() || seen.count() + marks.length > mostMarks) return null;
    for (const mark of marks) {
      if (seen.count() * 2 >= seen.size) seen = seen.doubled();
      seen.add(textNumber(mark) + 1);
    }
    return seen.count();
  };
}

/** A set of numbers other than 0, at most half as many as its `size`, in eight bytes each. */
function openNumbers(size: number) {
  const slots = new Float64Array(size);
  let count = 0;
  const add = (number: number): void => {
    let at = (number ^ Math.floor(number / 2 ** 21)) & (size - 1);
    while (slots[at] !== 0 && slots[at] !== number) at = (at + 1) & (size - 1);
    if (slots[at] === 0) count += 1;
    slots[at] = number;
  };
  return {
    size,
    count: () => count,
    add,
    doubled: () => {
      const larger = openNumbers(size * 2);
      for (const number of slots) if (number !== 0) larger.add(number);
      return larger;
    },
  };
}

/** One value for a whole page's marks in order; '' for an empty page. */
export function pageMark(marks: readonly string[]): string {
  return marks.length === 0 ? '' : shortMark(JSON.stringify(marks));
}

/** A bound as the services are known to read it, rounded down to the second: `2015-10-21T15:41:36+00:00`. */
export const timeParam = timeFormat('iso').write;

/** The parameter that asks for what changed since a time, and how it has that. */
export interface SinceParam {
  readonly name: string;
  readonly write: (ms: number) => string | number;
  /** The time that the service is asked for: formats say less than a time. */
  readonly floor: (ms: number) => number;
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
 * Lengths by requested size, over all partitions of an entity in this run: the largest page, the shortest that more
 * came after, and the largest that was confirmed to be all. They tell where the service cuts its pages.
 */
export type PageLengths = Map<number, KnownLengths>;

const nothingKnown: KnownLengths = { records: 0, bytes: 0, followed: Infinity, whole: 0 };
/** Key of the lengths that hold for all requested sizes. */
const anySize = 0;

export function lengthsOf(lengths: PageLengths, size: number): KnownLengths {
  return lengths.get(size) ?? lengths.get(anySize) ?? nothingKnown;
}

/** Notes a page; returns the lengths known before it. */
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
 * Notes that a page of `records` was followed by more; returns the length for which walks must be made again, if that
 * is new. A full page may always be followed. Powers of two, so that a falling cap repeats few walks.
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
 * Whether the page is short enough to be the last one. Where the service documents that it fills pages to the requested
 * size, and no page of this run has contradicted that: a page below that size for which `hasAgreed` holds. Elsewhere: a
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
  // The service gives longer pages, or one as long was all of its listing; and as many bytes.
  const hasAgreed = (records <= known.whole || records < known.records) && page.bytes <= known.bytes;
  if (isHonoured && hasAgreed) return true;
  // Below half of the largest page in records and bytes; a service may cap silently by either.
  return !isLater && records < followed && records * 2 < known.records && page.bytes * 2 < known.bytes;
}

type Cut = NonNullable<Entity['cut']>;

/**
 * Objects that may hold paging: `connector_metadata`, the `meta` of the result, and the result itself: shapes that this
 * API has had without a new version.
 */
function placesOf({ metadata, result }: PageAnswer): readonly JsonObject[] {
  const places = isJsonObject(result) ? [metadata, memberOf(result, 'meta'), result] : [metadata];
  return places.filter((place) => isJsonObject(place));
}

/** The keys by which an answer says that more follows, or (`doneKeys`) that nothing does. */
export interface Flags {
  readonly flagKeys?: readonly string[] | undefined;
  readonly doneKeys?: readonly string[] | undefined;
}

/**
 * Reads from an answer, by its keys alone, whether more pages follow; `hasMore` null: it does not say. Null: the
 * definition names no keys.
 */
export function readFlag(
  { flagKeys = [], doneKeys }: Flags,
  answer: PageAnswer,
): NextPage | UnreadableNext | null {
  if (doneKeys !== undefined) return readDone(doneKeys, answer);
  if (flagKeys.length === 0) return null;
  for (const place of placesOf(answer)) {
    const flag = firstOf(place, flagKeys);
    if (flag === undefined) continue;
    // The number or address of the next page says the same.
    if (flag === null || flag === '') return { hasMore: false, token: null };
    const said = flagOf(flag);
    if (said !== null || typeof flag !== 'object') return { hasMore: said ?? true, token: null };
    return {
      fault: `expected true, false or the next page at ${flagKeys.join(', ')}, got ${kindOf(flag)}`,
    };
  }
  return { hasMore: null, token: null };
}

/** Without the flag of the last page, an answer could be any page. */
function readDone(doneKeys: readonly string[], answer: PageAnswer): NextPage | UnreadableNext {
  const value = placesOf(answer)
    .map((place) => firstOf(place, doneKeys))
    .find((found) => found !== undefined);
  const isDone = flagOf(value);
  if (isDone !== null) return { hasMore: !isDone, token: null };
  const fault = `expected true or false at ${doneKeys.join(', ')}, by which the last page is known`;
  return value === undefined ? { fault, isSilent: true } : { fault: `${fault}, got ${kindOf(value)}` };
}

/** Whether an answer says that its listing is cut; `is` absent: by any value that says something. */
export function saysCut({ key, is }: NonNullable<Cut['sign']>, answer: PageAnswer): boolean {
  const values = placesOf(answer).map((place) => valueAtKey(place, key, memberInAnySpelling) ?? null);
  const nothing: readonly JsonValue[] = [null, false, 0, ''];
  return values.some((value) => (is === undefined ? !nothing.includes(value) : value === is));
}

/** The key by which an answer says that more follows, against a definition by which it has everything; null: none. */
export function readSignOfMore(answer: PageAnswer): string | null {
  const [found = null] = placesOf(answer).flatMap((place) => signOfMore(place) ?? []);
  return found;
}

/** The next page's token, and the answer's own flag. */
export function readToken(
  {
    flagKeys,
    doneKeys,
    tokenKeys,
  }: Flags & { readonly flagKeys: readonly string[]; readonly tokenKeys: readonly TokenKey[] },
  answer: PageAnswer,
): NextPage | UnreadableNext {
  const done = doneKeys === undefined ? null : readDone(doneKeys, answer);
  const meta = isJsonObject(answer.result) ? memberOf(answer.result, 'meta') : undefined;
  for (const place of placesOf(answer)) {
    const keys = place === meta ? [...tokenKeys, 'cursor'] : tokenKeys;
    const flag = firstOf(place, flagKeys);
    const token = tokenIn(place, keys);
    if (flag === undefined && token === undefined) continue;
    const hasMore = flagOf(flag);
    if (hasMore === null && flag !== undefined && flag !== null && flag !== '') {
      const advice = 'if it is no flag, take it out of the flagKeys of the pagination';
      return { fault: `expected true or false at ${flagKeys.join(', ')}, got ${kindOf(flag)}; ${advice}` };
    }
    if (typeof token === 'object' && token !== null) return token;
    // A token leads on: the flag is not missing because there is nothing.
    if (done !== null && 'fault' in done) return { fault: done.fault };
    const numbered = memberOf(place, numberedKey) === true ? { isNumbered: true } : {};
    return { hasMore: done?.hasMore ?? hasMore, token: token ?? null, ...numbered };
  }
  if (done !== null) return done;
  // Without it the walk would take the page for the last one: a silent gap.
  const keys = [...flagKeys, ...tokenKeys.map(keyOfToken)];
  return { fault: `expected one of ${keys.join(', ')} in connector_metadata`, isSilent: true };
}

function firstOf(place: JsonObject, keys: readonly string[]): JsonValue | undefined {
  return keys.map((key) => valueAtKey(place, key, memberInAnySpelling)).find((value) => value !== undefined);
}

function tokenIn(place: JsonObject, keys: readonly TokenKey[]): string | null | undefined | UnreadableNext {
  for (const key of keys) {
    const value = valueAtKey(place, keyOfToken(key), memberInAnySpelling);
    if (value === undefined) continue;
    const token = tokenOf(value);
    if (token === undefined) return { fault: notText(keyOfToken(key), value) };
    return token === null || typeof key === 'string' ? token : paramOf(token, key);
  }
  // The object that would hold it is there: nothing follows.
  return keys.some((key) => isObjectThere(place, keyOfToken(key))) ? null : undefined;
}

function notText(key: string, value: JsonValue): string {
  const advice = isJsonObject(value) ? `: name its member that is the token, such as ${key}.offset` : '';
  return `expected a text, a whole number or null as page token ${key}, got ${kindOf(value)}${advice}`;
}

function isObjectThere(place: JsonObject, key: string): boolean {
  const [first = '', ...rest] = key.split('.');
  return rest.length > 0 && isJsonObject(memberInAnySpelling(place, first));
}

/** The parameter of an address's query; its host and path are not used. */
function paramOf(address: string, { key, param }: Exclude<TokenKey, string>): string | UnreadableNext {
  const base = 'https://localhost';
  const token = URL.canParse(address, base) ? new URL(address, base).searchParams.get(param) : null;
  return token === null || token === ''
    ? { fault: `expected an address with the parameter ${param} at ${key}, got none` }
    : token;
}

function kindOf(value: JsonValue): string {
  if (Array.isArray(value)) return 'an array';
  return isJsonObject(value) ? 'an object' : `a ${typeof value}`;
}
