import type { JsonObject, JsonValue } from '../../../src/core/json.ts';
import type { Params } from '../../../src/core/records.ts';
import type { Pagination as PaginationRules } from '../../../src/definitions/definition.ts';
import type { Paging } from '../../../src/definitions/upstream/upstream.ts';
import { keysetPagination, newestFirstPagination } from '../../../src/pagination/incremental-walks.ts';
import { styleOf } from '../../../src/pagination/pagination-of.ts';
import { type PageLengths, type Pagination, timeParam } from '../../../src/pagination/pagination.ts';
import { readTotal } from '../../../src/definitions/pagination-file.ts';
import type { PagedCall } from '../../../src/upstream/ask-upstream.ts';
import type { Doubt, PageLength, Proof } from '../../../src/sinks/partition.ts';
import { textOf } from '../../../src/sample/sample-values.ts';
import { translatePaging } from '../../../src/upstream/translate-paging.ts';
import { UpstreamFailure } from '../../../src/upstream/upstream-failure.ts';

/** A service that pages in its own way, whatever its definition says. */
export interface MadeUpPaging {
  readonly kind: 'page' | 'offset' | TokenKind;
  /** Records of a page at most. */
  readonly cap: number;
  /**
   * What it does with the size that is asked for; `renamed`: it hears another name, and gives what it gives without
   * one.
   */
  readonly size: 'heard' | 'ignored' | 'renamed';
  readonly after: 'empty' | 'refused' | 'wrap' | 'repeat';
  /** What is wrong with its page tokens; nothing by default. */
  readonly fault?: TokenFault;
  /** Rows that it leaves out of a page after it has cut it. */
  readonly hidden?: ReadonlySet<string>;
  /** Bytes of a record, 100 by default, and those after which a page is cut once it has a record. */
  readonly bytesOf?: (row: string) => number;
  readonly maxBytes?: number;
  /** Numbered pages say whether more follow. */
  readonly isFlagged?: boolean;
  /** What it says of the number of records; null: nothing. */
  readonly totalOf: (rows: number) => number | null;
}

/** What the definition says of it. */
export interface Declared {
  readonly maxSize: number;
  readonly isFixed: boolean;
  readonly end: 'repeats' | 'refused' | null;
  readonly isOrdered: boolean;
  readonly growsOnly: boolean;
  readonly gaps?: 'never';
  readonly honoursSize?: true;
  readonly totalCountsListing?: true;
  /** False: the settings say that totals are not to be used. */
  readonly trustsTotal?: boolean;
  /** Rows of the listing that are known from before. */
  readonly storedRows?: number;
  /** A walk from a watermark on instead of a full one; `fromRow`: the first row that changed since. */
  readonly incremental?: { readonly kind: 'keyset' | 'newestFirst'; readonly fromRow: number };
}

export interface MadeUpWalk {
  readonly seen: ReadonlySet<string>;
  readonly calls: number;
  /** Parameters of its calls. */
  readonly asked: readonly Params[];
  /** How the walk ended: with a proof, or why not. */
  readonly proof: Proof | null;
  readonly doubt: Doubt | null;
  readonly why: string | null;
  /** Lengths of pages that more came after, and of the one that ended the walk by its length. */
  readonly followed: readonly PageLength[];
  readonly lastPage: PageLength | null;
  /** What the last answer that was read says of the number of records. */
  readonly counted: number | null;
}

/** The run's report would call the listing complete. */
export function saysComplete({ proof, doubt }: MadeUpWalk): boolean {
  return proof !== null && doubt === null && (proof.isOrdered || proof.isCounted === true);
}

/** The walk saw what its last answer counts, or it ended where it had seen all that changed. */
export function hasCounted({ seen, counted, proof }: MadeUpWalk): boolean {
  return counted === null || counted <= seen.size || proof?.kind === 'keyset';
}

/** Three rows share a second. */
function changedMs(row: string): number {
  return Date.UTC(2026, 4, 1) + Math.floor(Number(row.replace(/\D/g, '')) / 3) * 1000;
}

/**
 * Walks as the engine does; `between` runs before each call. Records are marked by themselves: what changes its place
 * changes its mark.
 */
export function walkMadeUp(
  rows: string[],
  service: MadeUpPaging,
  declared: Declared,
  between: (call: number) => void = () => undefined,
  pageLengths: PageLengths = new Map(),
): MadeUpWalk {
  const { rules, paging } = describe(service, declared);
  const style = styleOf(rules);
  const pages = openWalk(rules, declared, pageLengths);
  const seen = new Set<string>();
  let position = pages.begin();
  let restarts = 0;
  let counted: number | null = null;
  const asked: Params[] = [];
  const followed: PageLength[] = [];
  const { bytesOf = () => 100 } = service;
  for (let calls = 1; calls < 6000; calls += 1) {
    between(calls);
    const ended = (end: Partial<MadeUpWalk>): MadeUpWalk => ({
      seen,
      calls,
      asked,
      followed,
      counted,
      proof: null,
      doubt: null,
      why: null,
      lastPage: null,
      ...end,
    });
    const params = pages.request(position);
    asked.push(params);
    const read = ask(rows, service, { pagination: rules, paging, params });
    if ('why' in read) return ended(read);
    if (read.isRefused && pages.refused(position, 404) !== 'empty') return ended({ why: 'refused' });
    const marks = read.records.map(({ id }) => textOf(id ?? null));
    for (const mark of marks) seen.add(mark.replaceAll("'", ''));
    const { metadata } = read;
    const next = style.readNext({ result: [], metadata }, () => read.records.at(-1));
    if (next !== null && 'fault' in next) return ended({ why: next.fault });
    const total = readTotal(rules.totalKeys, metadata);
    counted = total ?? counted;
    const changes = marks.map(changedMs).map((ms) => ({ lowestMs: ms, highestMs: ms }));
    const step = pages.advance(position, {
      marks,
      changes: declared.incremental === undefined ? [] : changes,
      capMs: Infinity,
      bytes: marks.reduce((sum, mark) => sum + bytesOf(mark), 0),
      next,
      ...(total === null ? {} : { total }),
      nowMs: calls,
    });
    if ('followed' in step && step.followed !== undefined) followed.push(step.followed);
    if (step.kind === 'end') {
      return ended({ proof: step.proof, doubt: step.doubt ?? null, lastPage: step.lastPage ?? null });
    }
    if (step.kind === 'broken') return ended({ why: step.why });
    restarts += step.kind === 'restart' ? 1 : 0;
    if (step.kind === 'restart' && restarts > 3) return ended({ why: step.why });
    // What the ledger keeps is JSON: a walk must survive the way there and back.
    position =
      step.kind === 'restart'
        ? pages.begin()
        : (JSON.parse(JSON.stringify(step.position)) as typeof position);
  }
  throw new Error('the walk does not end');
}

function openWalk(
  rules: PaginationRules,
  { isOrdered, growsOnly, incremental, storedRows = 0, trustsTotal = true }: Declared,
  pageLengths: PageLengths,
): Pagination {
  const listing = { pageLengths, trustsTotal };
  const full = styleOf(rules).walk({ ...listing, isOrdered, growsOnly, storedRows });
  if (incremental === undefined) return full;
  const sinceMs = changedMs(`row-${incremental.fromRow}`);
  return rules.kind === 'offset' || rules.kind === 'page'
    ? keysetPagination(
        { style: styleOf(rules), maxSize: rules.maxSize },
        { ...listing, sinceParam: { name: 'since', write: timeParam, floor: (ms) => ms }, sinceMs },
      )
    : newestFirstPagination(full, sinceMs);
}

interface Call {
  readonly pagination: PaginationRules;
  readonly paging: Paging;
  readonly params: Params;
}

/** One call through what the definition says of it. */
function ask(
  rows: readonly string[],
  service: MadeUpPaging,
  { pagination, paging, params }: Call,
):
  | { readonly records: readonly JsonObject[]; readonly metadata: JsonObject; readonly isRefused: boolean }
  | { readonly why: string } {
  try {
    const call = translatePaging({ pagination }, { paging }, params);
    const answer = answerOf(rows, service, call.call);
    if (answer === null) return { records: [], metadata: {}, isRefused: call.endStatus !== 404 };
    const { records, total, next, more } = answer;
    const own =
      paging.kind === 'none' && (service.isFlagged === true || service.kind === 'lastRecord') ? { more } : {};
    const url = new URL('https://made-up.example/');
    const value: JsonValue = { total, next, more };
    const header = (): string => `<${next}>; rel="${more ? 'next' : 'first'}"`;
    const metadata = call.readMetadata({ value, status: 200, header, url, holdsSecret: () => false });
    return {
      records,
      metadata: { total, ...own, ...metadata },
      isRefused: false,
    };
  } catch (error) {
    if (error instanceof UpstreamFailure) return { why: error.message };
    throw error;
  }
}

interface MadeUpAnswer extends TokenPage {
  readonly total: number | null;
}

/** Null: there is no such page. */
function answerOf(
  rows: readonly string[],
  { kind, cap, size, after, totalOf, fault, isFlagged, hidden, bytesOf, maxBytes = Infinity }: MadeUpPaging,
  { params, query = [] }: PagedCall,
): MadeUpAnswer | null {
  const sinceMs = Date.parse(textOf(params['since'] ?? '1970-01-01'));
  const found = rows.filter((row) => changedMs(row) >= sinceMs);
  const asked = typeof params['limit'] === 'number' && size === 'heard' ? params['limit'] : cap;
  const length = size === 'ignored' ? cap : Math.min(cap, asked);
  const total = totalOf(found.length);
  if (kind !== 'page' && kind !== 'offset') {
    const token = query[0]?.[1] ?? params['cursor'];
    const isAsked = token !== undefined;
    return { ...tokenPage(found, { kind, length, fault, token: isAsked ? textOf(token) : null }), total };
  }
  const last = Math.max(0, Math.ceil(found.length / length) - 1) * length;
  const number = Number(query[0]?.[1] ?? params['page'] ?? 1);
  const numbers = { page: (number - 1) * length, offset: Number(params['offset'] ?? 0) };
  let start = numbers[kind];
  if (start > 0 && start >= found.length) {
    if (after === 'refused') return null;
    if (after === 'wrap') start = 0;
    if (after === 'repeat') start = last;
  }
  let bytes = 0;
  const shown = found.slice(start, start + length).filter((id, index) => {
    bytes += bytesOf?.(id) ?? 0;
    return hidden?.has(id) !== true && (index === 0 || bytes <= maxBytes);
  });
  const records = shown.map((id) => ({ id }));
  const more = start + length < found.length;
  return { records, total, next: null, more: isFlagged === true && more };
}

function describe(
  { kind }: MadeUpPaging,
  { maxSize, isFixed, end, gaps, honoursSize, totalCountsListing }: Declared,
): { rules: PaginationRules; paging: Paging } {
  const none: Paging = { kind: 'none' };
  const sized = { sizeParam: 'limit', maxSize, totalKeys: ['total'] } as const;
  const flagKeys = ['more'];
  const behind = end === 'refused' ? ({ status: 404 } as const) : (end ?? undefined);
  switch (kind) {
    case 'lastRecord': {
      const field = { field: 'id', tokenType: 'string', isUnique: true } as const;
      return { rules: { kind, tokenParam: 'cursor', ...sized, flagKeys, ...field }, paging: none };
    }
    case 'page': {
      const sizeParam = isFixed ? null : 'limit';
      const own = { pageParam: 'page', first: 1, ...sized, sizeParam, flagKeys, gaps, honoursSize };
      return { rules: { kind, ...own, ...(behind === undefined ? {} : { end: behind }) }, paging: none };
    }
    case 'offset': {
      const refused = end === 'refused' ? { status: 404 } : undefined;
      const own = { offsetParam: 'offset', ...sized, gaps, honoursSize, totalCountsListing };
      const rules = { kind, ...own, end: refused };
      return { rules, paging: none };
    }
    case 'cursor':
    case 'nextUrl':
    case 'linkHeader':
    case 'anyOfUrl':
    case 'anyOfLink': {
      const token = { tokenParam: 'cursor', tokenKeys: ['next'], lifetimeMs: 1e9 };
      return { rules: { kind: 'pageToken', ...sized, flagKeys, ...token }, paging: tokenPaging[kind] };
    }
  }
}

export type TokenKind = 'cursor' | 'lastRecord' | 'nextUrl' | 'linkHeader' | 'anyOfUrl' | 'anyOfLink';

/**
 * `repeats`, `leadsBack`: behind the last page comes that page again, or the first one, for ever. `skips`: a page
 * begins in the middle of the one before it, and the next one where it should. `endsEarly`: the second page is declared
 * the last. `empty`: a page without records that announces more.
 */
export type TokenFault = 'repeats' | 'leadsBack' | 'skips' | 'endsEarly' | 'empty';

export interface TokenPage {
  readonly records: readonly JsonObject[];
  readonly next: string | null;
  readonly more: boolean;
}

const body = (name: string): { kind: 'body'; path: string[] } => ({ kind: 'body', path: [name] });
const anyOfAddress = { keep: { except: [] }, isAlone: true };
const fromAddress = { keep: ['cursor'], isAlone: false };
export const tokenPaging: Readonly<Record<TokenKind, Paging>> = {
  cursor: { kind: 'cursor', token: body('next'), more: null },
  lastRecord: { kind: 'none' },
  nextUrl: { kind: 'nextUrl', url: ['next'], ...fromAddress },
  linkHeader: { kind: 'linkHeader', url: [], ...fromAddress },
  anyOfUrl: { kind: 'nextUrl', url: ['next'], ...anyOfAddress },
  anyOfLink: { kind: 'linkHeader', url: [], ...anyOfAddress },
};

interface Asked {
  readonly kind: TokenKind;
  readonly length: number;
  readonly fault: TokenFault | undefined;
  readonly token: string | null;
}

/** A token is the row it stands at, and how many have led there: no two are alike. */
export function tokenPage(rows: readonly string[], { kind, length, fault, token }: Asked): TokenPage {
  const [row = 0, step = 0] = (token ?? '')
    .replace(/^place-(.*)-of-row$/, '$1')
    .split('.')
    .map(Number);
  let start = kind === 'lastRecord' && token !== null ? rows.indexOf(token) + 1 : row;
  if (start > 0 && start >= rows.length) {
    if (fault === 'leadsBack') start = 0;
    if (fault === 'repeats') start = Math.max(0, Math.ceil(rows.length / length) - 1) * length;
  }
  const end = start + length;
  const from = fault === 'skips' ? Math.max(0, start - Math.ceil(length / 2)) : start;
  const isOver = end >= rows.length;
  const more =
    fault === 'endsEarly'
      ? start === 0 && !isOver
      : !isOver || (fault !== undefined && fault !== 'skips' && step < 40);
  const at = `${end}.${step + 1}`;
  const isToken = kind === 'cursor' || kind === 'lastRecord';
  const isAny = kind === 'anyOfUrl' || kind === 'anyOfLink';
  // As the place of a cursor, not as a number.
  const place = isAny ? `place-${at}-of-row&step=${step}` : at;
  return {
    records: rows.slice(from, from + length).map((id) => ({ id })),
    next: !more ? null : isToken ? at : `https://made-up.example/list?cursor=${place}`,
    more,
  };
}
