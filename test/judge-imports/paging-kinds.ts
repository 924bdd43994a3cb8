import type { JsonObject, JsonValue } from '../../src/core/json.ts';

/** A record at its place in a listing: places stay when others come and go. */
export interface Row {
  readonly rank: number;
  readonly record: JsonObject;
}

/** One call of a listing. */
export interface Ask {
  /** Of the query, or of the body by its dotted place. */
  readonly param: (name: string) => string | undefined;
  /** The address that was called. */
  readonly self: URL;
  /** Which listing it is: tokens of another one are unknown. */
  readonly scope: string;
  /** A service that allows less than it documents; null: it does not. */
  readonly cap: number | null;
}

export interface Page {
  readonly records: readonly JsonObject[];
  /** Besides the records, by dotted place. */
  readonly members?: Readonly<Record<string, JsonValue>>;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Throws `Refused`. The rows are in the order of the listing. */
export interface Pages {
  (rows: readonly Row[], ask: Ask): Page;
  /** The longest page that it gives; 0: it has only one. */
  readonly longest: number;
  /** A walk sees every row that stays, whatever comes and goes meanwhile. */
  readonly isStable: boolean;
}

/** An answer that is an error. */
export class Refused extends Error {
  override readonly name = 'Refused';
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** A page has `usual` records unless `name` asks for another number. */
export interface Size {
  /** Absent: all pages have the same length. */
  readonly name?: string;
  readonly max?: number;
  readonly usual: number;
  /** Above `max`: a page of `max`, or an error. */
  readonly over?: 'clamp' | 'refuse';
}

function pagesOf(
  size: Size | null,
  isStable: boolean,
  call: (rows: readonly Row[], ask: Ask, length: number) => Page,
): Pages {
  const longest = size === null ? 0 : (size.max ?? size.usual);
  const pages = (rows: readonly Row[], ask: Ask): Page =>
    call(rows, ask, size === null ? rows.length : lengthOf(size, ask));
  return Object.assign(pages, { longest, isStable });
}

function lengthOf({ name, usual, max = usual, over = 'clamp' }: Size, { param, cap }: Ask): number {
  const asked = name === undefined ? undefined : param(name);
  const wanted = asked === undefined ? usual : wholeNumber(asked, name ?? '', 1);
  if (wanted > max && over === 'refuse') throw new Refused(400, `${name} is at most ${max}, got ${wanted}`);
  return Math.min(wanted, max, cap ?? max);
}

function wholeNumber(text: string, name: string, least: number): number {
  const value = /^\d+$/.test(text) ? Number(text) : -1;
  if (value < least) throw new Refused(400, `${name} is a whole number from ${least}, got ${text}`);
  return value;
}

/** One answer has everything. */
export const single = (): Pages => pagesOf(null, true, (rows) => ({ records: recordsOf(rows) }));

interface Numbered {
  readonly page: string;
  readonly size: Size;
}

/** Pages are counted by the caller, from 1 on. */
export const numbered = ({ page, size }: Numbered): Pages =>
  pagesOf(size, false, (rows, ask, length) => {
    const at = (wholeNumber(ask.param(page) ?? '1', page, 1) - 1) * length;
    return { records: recordsOf(rows.slice(at, at + length)) };
  });

interface Offset {
  readonly offset: string;
  readonly size: Size;
  readonly total: string;
}

/** Records are counted by the caller. */
export const offset = (form: Offset): Pages =>
  pagesOf(form.size, false, (rows, ask, length) => {
    const at = wholeNumber(ask.param(form.offset) ?? '0', form.offset, 0);
    return { records: recordsOf(rows.slice(at, at + length)), members: { [form.total]: rows.length } };
  });

interface Token {
  /** Parameter that takes the token. */
  readonly send: string;
  /** Where the answer has it; null at the end. */
  readonly told: string;
  readonly size: Size;
}

/** An opaque token in the answer is the next page's parameter. */
export const token = ({ send, told, size }: Token): Pages =>
  pagesOf(size, true, (rows, ask, length) => {
    const { records, next } = seek(rows, ask, send, length);
    return { records, members: { [told]: next } };
  });

interface Address {
  /** Dotted place of the next page's address in the answer; null at the end. */
  readonly told: string;
  /** The parameter in it that leads on. */
  readonly send: string;
  readonly size: Size;
}

/** The answer has the address of the next page. */
export const address = ({ told, send, size }: Address): Pages =>
  pagesOf(size, true, (rows, ask, length) => {
    const { records, next } = seek(rows, ask, send, length);
    const to = new URL(ask.self);
    if (next !== null) to.searchParams.set(send, next);
    return { records, members: { [told]: next === null ? null : to.href } };
  });

interface AfterRecord {
  readonly send: string;
  readonly field: string;
  readonly size: Size;
  /** Says whether there is more. */
  readonly more: string;
}

/** The key of the last record is the next page's parameter. */
export const afterRecord = ({ send, field, more, size }: AfterRecord): Pages =>
  pagesOf(size, true, (rows, ask, length) => {
    const given = ask.param(send);
    const found = given === undefined ? -1 : rows.findIndex(({ record }) => textOf(record[field]) === given);
    if (given !== undefined && found < 0) throw new Refused(400, `${send}: no such record: ${given}`);
    const isMore = found + 1 + length < rows.length;
    return { records: recordsOf(rows.slice(found + 1, found + 1 + length)), members: { [more]: isMore } };
  });

/**
 * Rows behind the place of the token. A service that allows less than it documents gives pages of different lengths,
 * empty ones among them.
 */
function seek(rows: readonly Row[], { param, scope, cap }: Ask, send: string, most: number) {
  const given = param(send);
  const place = given === undefined || given === '' ? start : placeIn(given, scope, send);
  const length = cap === null ? most : (place.page * 5 + 2) % (most + 1);
  const rest = rows.filter(({ rank }) => rank > place.rank);
  const page = rest.slice(0, length);
  const end = page.at(-1)?.rank ?? place.rank;
  const last = Buffer.from(JSON.stringify([scope, end, place.page + 1])).toString('base64url');
  return { records: recordsOf(page), next: rest.length > length ? last : null };
}

/** Behind it is every row. */
const start = { rank: Number.MIN_SAFE_INTEGER, page: 0 };

function placeIn(text: string, scope: string, send: string): typeof start {
  try {
    const [from, rank, page] = JSON.parse(Buffer.from(text, 'base64url').toString('utf8')) as unknown[];
    if (from === scope && typeof rank === 'number' && typeof page === 'number') return { rank, page };
  } catch {
    // Not one of ours: refused below.
  }
  throw new Refused(400, `${send}: unknown token ${text}`);
}

function recordsOf(rows: readonly Row[]): readonly JsonObject[] {
  return rows.map(({ record }) => record);
}

export function textOf(value: JsonValue | undefined): string {
  return typeof value === 'string' ? value : JSON.stringify(value ?? null);
}
