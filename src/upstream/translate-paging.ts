import { memberOf, type JsonObject, type JsonValue } from '../core/json.ts';
import type { Params } from '../core/records.ts';
import type { Entity, Pagination } from '../definitions/definition.ts';
import { keyOfToken, numberedKey, flagOf, tokenOf } from '../definitions/pagination-file.ts';
import { firstNames } from '../definitions/suggest-name.ts';
import type { ListRequest, Paging } from '../definitions/upstream/upstream.ts';
import type { JsonAnswer, PagedCall } from './ask-upstream.ts';
import { queryText, refusedValue } from './call-address.ts';
import { valueAt, valueAtPlace } from './answers.ts';
import { brokenAnswer, UpstreamFailure } from './upstream-failure.ts';

type ListAnswer = Pick<JsonAnswer, 'value' | 'status' | 'header' | 'url' | 'holdsSecret'>;

/** One call for a page of the definition's `pagination`: the parts of its request, and the meaning of its answer. */
export interface TranslatedCall {
  readonly call: PagedCall;
  /** A refusal with this status means that the page is after the last one: it is empty. Null: no refusal means that. */
  readonly endStatus: number | null;
  /** Reads the metadata that the answer adds. Throws `UpstreamFailure` where the answer contradicts itself. */
  readonly readMetadata: (answer: ListAnswer) => JsonObject;
}

/** The kinds whose pages follow each other by a token. */
type TokenPaging = Extract<Paging, { kind: 'cursor' | 'nextUrl' | 'linkHeader' }>;
type TokenRules = Extract<Pagination, { kind: 'pageToken' }>;

interface Next {
  readonly more: boolean;
  readonly token: string | null;
  /** The token only counts pages. */
  readonly isNumbered?: boolean;
}

export function translatePaging(
  { pagination }: Pick<Entity, 'pagination'>,
  { paging }: Pick<ListRequest, 'paging'>,
  params: Params,
): TranslatedCall {
  switch (paging.kind) {
    case 'none':
      // The entity's own page numbers: a page after the last one may be refused.
      return { call: { params }, endStatus: endStatusOf(pagination, params), readMetadata: () => ({}) };
    case 'cursor':
    case 'nextUrl':
    case 'linkHeader':
      return byToken(pagination, paging, params);
  }
}

function endStatusOf(pagination: Pagination, params: Params): number | null {
  if (pagination.kind !== 'page' || typeof pagination.end !== 'object') return null;
  return wholeNumber(memberOf(params, pagination.pageParam), 0) > pagination.first
    ? pagination.end.status
    : null;
}

function byToken(pagination: Pagination, paging: TokenPaging, params: Params): TranslatedCall {
  if (pagination.kind !== 'pageToken') throw new TypeError('the paging does not fit the pagination');
  const token = memberOf(params, pagination.tokenParam);
  const isAddressed = paging.kind === 'nextUrl' || paging.kind === 'linkHeader';
  const hasAddress = isAddressed && typeof token === 'string' && token !== '';
  const place = hasAddress ? readKept(token, paging.keep) : null;
  return {
    call: place !== null && isAddressed ? { params, ...place, isAlone: paging.isAlone } : { params },
    endStatus: null,
    readMetadata: (answer) => inMetadata(pagination, readNext(paging, answer, place?.segment ?? null)),
  };
}

/** `segment`: the end of the call's path, from the address of its page. */
function readNext(paging: TokenPaging, answer: ListAnswer, segment: string | null): Next {
  switch (paging.kind) {
    case 'cursor': {
      const token = asToken(valueAtPlace(answer, paging.token), answer);
      const flag = paging.more === null ? undefined : valueAtPlace(answer, paging.more);
      // More records without a token are a contradiction, which the walk must see: ending here would lose the rest.
      return { more: flag === undefined ? token !== null : readFlag(flag, answer), token };
    }
    case 'nextUrl':
    case 'linkHeader': {
      const isLink = paging.kind === 'linkHeader';
      const url = isLink ? nextLinkOf(answer.header('link')) : (valueAt(answer.value, paging.url) ?? '');
      if (url === null || url === '') return { more: false, token: null };
      if (typeof url === 'string') return { more: true, ...writeKept(url, answer, paging.keep, segment) };
      throw brokenAnswer('expected a text as the address of the next page', answer.status);
    }
  }
}

function inMetadata({ tokenKeys, flagKeys }: TokenRules, { more, token, isNumbered }: Next): JsonObject {
  const [tokenKey] = tokenKeys;
  const [flagKey] = flagKeys;
  return {
    ...(tokenKey === undefined ? {} : { [keyOfToken(tokenKey)]: more ? token : null }),
    ...(flagKey === undefined ? {} : { [flagKey]: more }),
    ...(isNumbered === true ? { [numberedKey]: true } : {}),
  };
}

function asToken(value: JsonValue | undefined, { status }: ListAnswer): string | null {
  const token = tokenOf(value ?? null);
  if (token !== undefined) return token;
  throw brokenAnswer('expected a text, a number or null as page token, got another kind', status);
}

/** Null and an empty text mean no. */
function readFlag(value: JsonValue, { status }: ListAnswer): boolean {
  const flag = value === null || value === '' ? false : flagOf(value);
  if (flag !== null) return flag;
  throw brokenAnswer('expected true or false as the flag for more pages, got another kind', status);
}

function wholeNumber(value: JsonValue | undefined, otherwise: number): number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : otherwise;
}

type Pair = readonly [string, string];
type Answered = Pick<JsonAnswer, 'url' | 'status' | 'holdsSecret'>;

/** Says which parameters of an address's query are kept: these, or all except those that sign the call. */
type Kept = Extract<Paging, { kind: 'nextUrl' | 'linkHeader' }>['keep'];

/** The parts of the page's address that a call sends. */
interface NextPlace {
  readonly query: readonly Pair[];
  /** Appended to the path of the request; null: nothing. */
  readonly segment: string | null;
}

/** Limits for the parts of an address that `any` keeps; a service that sends more is not understood. */
const mostParameters = 50;
const longestName = 200;
const longestValue = 8_000;

/**
 * Makes a page token of the address of the next page: the parameters of its query that the definition keeps, and
 * nothing else. The next call's address is built as usual. With `any`, a last segment that the address appends to the
 * path of the request is kept too; a parameter that contains a secret of the call never is. `asked`: the segment of
 * this call. Throws `UpstreamFailure` refused for an address of another origin with `any`, and unavailable for one that
 * names no page.
 */
function writeKept(address: string, answer: Answered, keep: Kept, asked: NextPlace['segment']) {
  const { url, status } = answer;
  const next = URL.canParse(address, url.href) ? new URL(address, url.href) : null;
  if (next === null) throw brokenAnswer("expected the next page's address, got none", status);
  if (!('except' in keep)) {
    // Nothing else of the address is used, whatever its origin: a proxy may be in between.
    const pairs = namedIn(next.searchParams, keep);
    if (pairs.length > 0) return { token: queryText(pairs), isNumbered: false };
    const others = [...new Set(next.searchParams.keys())].filter((name) => !answer.holdsSecret(name));
    const got = firstNames(others.map((name) => name.slice(0, 40))) || 'none';
    const text = `the next page's address has none of the parameters ${keep.join(', ')}; it has ${got}`;
    throw brokenAnswer(text, status);
  }
  if (next.origin !== url.origin || next.username !== '' || next.password !== '') {
    const text = `the answer of ${url.host} names a next page of another origin, which is not called; to use parameters of it alone, name them in keep: [...] of the paging`;
    throw new UpstreamFailure('refused', text, { reason: 'otherOrigin', status });
  }
  const query = othersIn(next.searchParams, keep.except).filter(
    ([name, value]) => !answer.holdsSecret(`${name}=${value}`),
  );
  const segment = segmentBehind(url.pathname, asked, next.pathname);
  const problem = problemOf({ query, segment });
  if (problem !== null || (segment !== null && answer.holdsSecret(segment))) {
    throw brokenAnswer(`the next page's address ${problem ?? 'holds a credential in its path'}`, status);
  }
  const before = new Set([...url.searchParams].map((pair) => queryText([pair])));
  const changed = query.filter((pair) => !before.has(queryText([pair]))).map(([, value]) => value);
  const isNumbered = ![...changed, segment ?? ''].some(isPlace);
  return { token: placeText({ query, segment }), isNumbered };
}

/**
 * Reads a token of `writeKept`. It may have passed through another program, so only parameters that the definition
 * keeps are accepted; with `any`, the program that hands tokens on seals them.
 */
function readKept(token: string, keep: Kept): NextPlace {
  if (!('except' in keep)) {
    const query = namedIn(new URLSearchParams(token), keep);
    if (query.length > 0) return { query, segment: null };
    throw refusedValue('the page token', 'is none that this connector gave out');
  }
  const [, encoded = null, text = ''] = /^(?:\/([^?]+))?(?:\?(.*))?$/s.exec(token) ?? [];
  const segment = encoded === null ? null : decoded(encoded);
  const query = othersIn(new URLSearchParams(text), keep.except);
  const problem = problemOf({ query, segment });
  if (problem !== null) throw refusedValue('the page token', problem);
  return { query, segment };
}

function placeText({ query, segment }: NextPlace): string {
  const path = segment === null ? '' : `/${encodeURIComponent(segment)}`;
  return query.length === 0 ? path : `${path}?${queryText(query)}`;
}

function problemOf({ query, segment }: NextPlace): string | null {
  if (query.length === 0 && segment === null) return 'names no page';
  if (query.length > mostParameters) return `has more than ${mostParameters} parameters`;
  return query.some(([name, value]) => name.length > longestName || value.length > longestValue)
    ? `has a parameter of more than ${longestValue} characters`
    : null;
}

/**
 * Whether a value can be the position where a page ends. A page's number, a time or a word is none: added and removed
 * rows shift the page at such an address, so it proves nothing about a listing.
 */
function isPlace(value: string): boolean {
  return value.length >= 8 && /\d/.test(value) && !/^[\d\s:.,TZ+-]+$/.test(value);
}

function namedIn(query: URLSearchParams, names: readonly string[]): readonly Pair[] {
  return names.flatMap((name) => query.getAll(name).map((value): Pair => [name, value]));
}

function othersIn(query: URLSearchParams, names: readonly string[]): readonly Pair[] {
  const left = new Set(names.map((name) => name.toLowerCase()));
  return [...query].filter(([name]) => !left.has(name.toLowerCase()));
}

/** The one segment that `path` appends to that of the request; null where it has another one, or the same. */
function segmentBehind(asked: string, segment: string | null, path: string): string | null {
  const own = segment === null ? asked : asked.slice(0, asked.lastIndexOf('/'));
  const start = own.endsWith('/') ? own : `${own}/`;
  const rest = path.startsWith(start) ? path.slice(start.length) : '';
  return rest === '' || rest.includes('/') ? null : decoded(rest);
}

function decoded(segment: string): string | null {
  try {
    return decodeURIComponent(segment);
  } catch {
    // Not a valid text: treated as absent.
    return null;
  }
}

const maxLinkChars = 32_768;
const parameter = /;\s*([\w!#$&^`|~+.-]+)\s*(?:=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",;]*)))?/g;

/** The target of `rel=next` in a `Link` header (RFC 8288); null where there is none. */
export function nextLinkOf(header: string | null): string | null {
  let rest = header?.slice(0, maxLinkChars) ?? '';
  for (;;) {
    const [, target, tail = ''] = /^[\s,]*<([^<>]*)>(.*)$/s.exec(rest) ?? [];
    if (target === undefined) return null;
    const [parameters = ''] =
      /^(?:\s*;\s*[^\s=;,"]+\s*(?:=\s*(?:"(?:[^"\\]|\\.)*"|[^\s",;]*))?)*/.exec(tail) ?? [];
    const values = new Map<string, string>();
    for (const [, name = '', quoted, bare = ''] of parameters.matchAll(parameter)) {
      values.set(name.toLowerCase(), values.get(name.toLowerCase()) ?? (quoted ?? bare).toLowerCase());
    }
    if (values.get('rel')?.split(/\s+/).includes('next') === true) {
      // Some services always name a next page, and say here that it is empty.
      return values.get('results') === 'false' ? null : target;
    }
    const following = tail.slice(parameters.length);
    const comma = following.indexOf(',');
    if (comma === -1) return null;
    rest = following.slice(comma);
  }
}
