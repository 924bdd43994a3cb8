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

/** What the last page has in place of a token; `last`: one that leads to nothing. */
type End = 'absent' | 'null' | 'empty' | 'last';

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
export const single = (total?: string): Pages =>
  pagesOf(null, true, (rows) => ({
    records: recordsOf(rows),
    ...(total === undefined ? {} : { members: { [total]: rows.length } }),
  }));

/** The first records, and nothing that leads to the others. */
export const firstOnly = (most: number): Pages =>
  pagesOf({ usual: most }, true, (rows, _ask, length) => ({ records: recordsOf(rows.slice(0, length)) }));

interface Numbered {
  readonly page: string;
  readonly first?: 0 | 1;
  readonly size: Size;
  readonly total?: string;
  readonly pages?: string;
  readonly more?: string;
  /** Says `true` on the last page. */
  readonly last?: string;
  /** Of the next page: its number. */
  readonly next?: string;
  readonly nextAddress?: string;
  readonly totalHeader?: string;
  readonly hasLink?: boolean;
  /** Status of a page behind the last one; absent: an empty page. */
  readonly beyond?: number;
}

/** Pages are counted by the caller. */
export const numbered = (form: Numbered): Pages =>
  pagesOf(form.size, false, (rows, ask, length) => {
    const {
      page,
      first = 1,
      total,
      pages,
      more,
      last,
      next,
      nextAddress,
      totalHeader,
      hasLink,
      beyond,
    } = form;
    const number = wholeNumber(ask.param(page) ?? String(first), page, first);
    const at = (number - first) * length;
    const isBeyond = at >= rows.length && number > first;
    if (isBeyond && beyond !== undefined) throw new Refused(beyond, 'no such page');
    const isMore = at + length < rows.length;
    const address = new URL(ask.self);
    address.searchParams.set(page, String(number + 1));
    return {
      records: recordsOf(rows.slice(at, at + length)),
      members: {
        ...(total === undefined ? {} : { [total]: rows.length }),
        ...(pages === undefined ? {} : { [pages]: Math.ceil(rows.length / length) }),
        ...(more === undefined ? {} : { [more]: isMore }),
        ...(last === undefined ? {} : { [last]: !isMore }),
        ...(next === undefined ? {} : { [next]: isMore ? number + 1 : null }),
        ...(nextAddress === undefined ? {} : { [nextAddress]: isMore ? address.href : null }),
      },
      headers: {
        ...(totalHeader === undefined ? {} : { [totalHeader]: String(rows.length) }),
        ...(hasLink === true && isMore ? { link: `<${address.href}>; rel="next"` } : {}),
      },
    };
  });

interface Offset {
  readonly offset: string;
  readonly size: Size;
  readonly total?: string;
  readonly more?: string;
  /** The offset of the next page. */
  readonly next?: string;
}

/** Records are counted by the caller. */
export const offset = (form: Offset): Pages =>
  pagesOf(form.size, false, (rows, ask, length) => {
    const at = wholeNumber(ask.param(form.offset) ?? '0', form.offset, 0);
    const isMore = at + length < rows.length;
    return {
      records: recordsOf(rows.slice(at, at + length)),
      members: {
        ...(form.total === undefined ? {} : { [form.total]: rows.length }),
        ...(form.more === undefined ? {} : { [form.more]: isMore }),
        ...(form.next !== undefined && isMore ? { [form.next]: at + length } : {}),
      },
    };
  });

interface Token {
  /** Parameter that takes the token. */
  readonly send: string;
  /** Where the answer has it. */
  readonly told: string;
  readonly size: Size;
  readonly end?: End;
  readonly more?: string;
  readonly total?: string;
  /** Members that have something else: an address beside the token, say. */
  readonly besides?: (token: string, self: URL) => Readonly<Record<string, JsonValue>>;
  /** The object around the token is null on the last page. */
  readonly nullAtEnd?: string;
}

/** An opaque token in the answer is the next page's parameter. */
export const token = (form: Token): Pages =>
  pagesOf(form.size, true, (rows, ask, length) => {
    const { records, next, last } = seek(rows, ask, form.send, length);
    const { told, end = 'absent', more, total, besides, nullAtEnd } = form;
    // An empty listing has no last record that a token could stand for.
    const atNothing = more === undefined ? 'absent' : 'null';
    return {
      records,
      members: {
        ...(next === null
          ? atEnd(told, records.length === 0 && end === 'last' ? atNothing : end, last)
          : { [told]: next, ...besides?.(next, ask.self) }),
        ...(nullAtEnd === undefined || next !== null ? {} : { [nullAtEnd]: null }),
        ...(more === undefined ? {} : { [more]: next !== null }),
        ...(total === undefined ? {} : { [total]: rows.length }),
      },
    };
  });

interface Address {
  /** Dotted place of the next page's address in the answer, or the header `Link`. */
  readonly told: string;
  /** The parameter in it that leads on. */
  readonly send: string;
  readonly size: Size;
  readonly end?: End;
  /** The other parameters of the call that stand in the address too; absent: all of them. */
  readonly keeps?: readonly string[];
  /** Parameters that only addresses have. */
  readonly extra?: Readonly<Record<string, string>>;
  /** With `send`, only what the address has is allowed. */
  readonly isAlone?: boolean;
  /** The address begins with the path. */
  readonly isRelative?: boolean;
  /** Where the last page has a link as well, its `results` says "false". */
  readonly hasResults?: boolean;
  readonly total?: string;
}

/** The answer has the address of the next page. */
export const address = (form: Address): Pages =>
  pagesOf(form.size, true, (rows, ask, length) => {
    const { told, send, end = 'null', keeps, extra = {}, hasResults = false } = form;
    const besides = [...ask.self.searchParams.keys()].filter(
      (name) => name !== send && !keeps?.includes(name),
    );
    if (form.isAlone === true && ask.param(send) !== undefined && besides.length > 0) {
      throw new Refused(400, `${besides.join(', ')} cannot be sent with ${send}`);
    }
    const { records, next, last } = seek(rows, ask, send, length);
    const to = new URL(ask.self);
    const others = [...to.searchParams.keys()].filter((name) => keeps?.includes(name) === false);
    for (const name of others) to.searchParams.delete(name);
    for (const [name, value] of Object.entries({ ...extra, [send]: next ?? last })) {
      to.searchParams.set(name, value);
    }
    const text = form.isRelative === true ? to.pathname + to.search : to.href;
    const total = form.total === undefined ? {} : { [form.total]: rows.length };
    if (told !== 'Link') {
      return {
        records,
        members: { ...(next === null ? atEnd(told, end, text) : { [told]: text }), ...total },
      };
    }
    const flag = hasResults ? `; results="${next !== null}"; cursor="${next ?? last}"` : '';
    return {
      records,
      members: total,
      ...(next === null && !hasResults ? {} : { headers: { link: `<${text}>; rel="next"${flag}` } }),
    };
  });

interface AfterRecord {
  readonly send: string;
  readonly field: string;
  readonly size: Size;
  /** Absent: nothing says whether there is more. */
  readonly more?: string;
}

/** The key of the last record is the next page's parameter. */
export const afterRecord = (form: AfterRecord): Pages =>
  pagesOf(form.size, true, (rows, ask, length) => {
    const { send, field, more } = form;
    const given = ask.param(send);
    const found = given === undefined ? -1 : rows.findIndex(({ record }) => textOf(record[field]) === given);
    if (given !== undefined && found < 0) throw new Refused(400, `${send}: no such record: ${given}`);
    const records = recordsOf(rows.slice(found + 1, found + 1 + length));
    const isMore = found + 1 + length < rows.length;
    return { records, ...(more === undefined ? {} : { members: { [more]: isMore } }) };
  });

/**
 * Rows behind the place of the token; `last` is the token of the page's own end. A service that allows less than it
 * documents gives pages of different lengths, empty ones among them.
 */
function seek(rows: readonly Row[], { param, scope, cap }: Ask, send: string, most: number) {
  const given = param(send);
  const place = given === undefined || given === '' ? start : placeIn(given, scope, send);
  const length = cap === null ? most : (place.page * 5 + 2) % (most + 1);
  const rest = rows.filter(({ rank }) => rank > place.rank);
  const page = rest.slice(0, length);
  const end = page.at(-1)?.rank ?? place.rank;
  const last = Buffer.from(JSON.stringify([scope, end, place.page + 1])).toString('base64url');
  return { records: recordsOf(page), next: rest.length > length ? last : null, last };
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

function atEnd(told: string, end: End, last: string): Readonly<Record<string, JsonValue>> {
  if (end === 'absent') return {};
  return { [told]: end === 'null' ? null : end === 'empty' ? '' : last };
}

function recordsOf(rows: readonly Row[]): readonly JsonObject[] {
  return rows.map(({ record }) => record);
}

export function textOf(value: JsonValue | undefined): string {
  return typeof value === 'string' ? value : JSON.stringify(value ?? null);
}
