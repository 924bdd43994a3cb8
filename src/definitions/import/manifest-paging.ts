import type { JsonObject } from '../../core/json.ts';
import { expressionText, fixedText, isNothing, rootsOf, type Expression } from './expressions.ts';
import type { Component } from './manifest-file.ts';
import type { Need } from './manifest-language.ts';
import { placeOfOption, type Request } from './manifest-request.ts';
import { refuse, sentBy, type Settings } from './manifest-values.ts';
import { plainText } from './schemas.ts';

/** How a listing pages, as a definition says it. */
export interface PagingFound {
  readonly pagination: JsonObject;
  readonly metadata: JsonObject;
  /** The member `paging` of the request; null: it needs none. */
  readonly paging: JsonObject | null;
  readonly guesses: readonly string[];
  /** The question that a person has to answer; null: there is none. */
  readonly open: string | null;
  readonly summary: string;
  readonly needs: readonly Need[];
}

const single: PagingFound = {
  pagination: { kind: 'single' },
  metadata: {},
  paging: null,
  guesses: [],
  open: null,
  summary: 'one page',
  needs: [],
};

/** Reads a paginator. `isRoot`: an answer is the list of records. Refuses paging that is computed or cannot move. */
export function readPaging(
  paginator: Component | null,
  request: Request,
  isRoot: boolean,
  settings: Settings,
): PagingFound {
  if (paginator === null || paginator.type === 'NoPagination') return single;
  if (paginator.isCustom || paginator.type !== 'DefaultPaginator') refuse('paging of this type', paginator);
  const strategy = paginator.part('pagination_strategy') ?? refuse('paging without a strategy', paginator);
  const option = paginator.part('page_token_option');
  const place = option === null ? null : placeOfOption(option, settings);
  const stated = request.uses.find((use) => use.kind === 'token')?.param ?? null;
  if (option === null && stated === null) {
    refuse('paging that cannot move: no place of the request takes the next page', paginator);
  }
  const position =
    strategy.type === 'CursorPagination' ? positionBy(strategy.expression('cursor_value')) : null;
  const isNumber = position === null || position.kind === 'count';
  const param =
    place === null ? stated : request.params.add(place, { type: isNumber ? 'integer' : 'string' });
  const size = sizeOf(paginator, strategy, request, settings);
  if (strategy.isCustom) return refuse('paging of this type', strategy);
  if (position !== null) return byCursor({ strategy, request, param, size, isRoot, position });
  if (param === null) return refuse('numbers of pages in an address', paginator);
  if (strategy.type === 'OffsetIncrement') return byOffset(param, size);
  if (strategy.type !== 'PageIncrement') return refuse('paging of this type', strategy);
  const sent = sentBy(strategy.expression('start_from_page'), settings, strategy);
  const first = sent.kind === 'text' ? Number(sent.value) : Number.NaN;
  if (!Number.isSafeInteger(first) || first < 0) refuse('a first page that is computed', strategy);
  return { ...byPage(param, first, size), needs: first > 1 ? ['firstPage'] : [] };
}

interface Size {
  readonly param: string | null;
  readonly max: number;
  readonly isGuessed: boolean;
}

/** The size of a page, and the parameter that asks for it. */
function sizeOf(paginator: Component, strategy: Component, request: Request, settings: Settings): Size {
  const stated = strategy.expression('page_size');
  const sent = sentBy(stated, settings, strategy);
  const text =
    sent.kind === 'text' ? plainText(sent.value) : sent.kind === 'setting' ? sent.setting.fallback : '';
  const isGuessed = !/^[1-9]\d{0,8}$/.test(text ?? '');
  const max = isGuessed ? 100 : Math.min(Number(text), 10_000);
  const option = paginator.part('page_size_option');
  // Public files name an option after a value that no connector has, where they want none.
  const isNameless = option?.expression('field_name')?.kind === 'path';
  const place = option === null || isNameless ? null : placeOfOption(option, settings);
  if (place === null || (stated === null && strategy.type === 'CursorPagination')) {
    return { param: null, max, isGuessed };
  }
  return { param: request.params.add(place, { type: 'integer', max }), max, isGuessed };
}

/** A size that is not sent, or not stated, is a belief. */
function sizeGuess({ param, max, isGuessed }: Size): readonly string[] {
  return param === null || isGuessed ? [`maxSize: ${max}`] : [];
}

function byOffset(offsetParam: string, size: Size): PagingFound {
  const pagination = { kind: 'offset', offsetParam, sizeParam: size.param, maxSize: size.max };
  const needs: readonly Need[] = size.param === null ? ['sizeUnsent'] : [];
  return { ...single, pagination, guesses: sizeGuess(size), needs, summary: 'pages by offset' };
}

function byPage(pageParam: string, first: number, size: Size): PagingFound {
  const sized = size.param === null ? {} : { sizeParam: size.param };
  const pagination = { kind: 'page', pageParam, first, ...sized, maxSize: size.max };
  return { ...single, pagination, guesses: sizeGuess(size), summary: 'pages by number' };
}

/** The value that asks for the next page. `place`: a path of the answer or of a record, or the name of a header. */
type Position =
  | { readonly kind: 'token' | 'header'; readonly place: string }
  | { readonly kind: 'record'; readonly place: string }
  | { readonly kind: 'link' }
  /** A parameter of an address in the answer. */
  | { readonly kind: 'inAddress'; readonly place: string; readonly param: string }
  /** A number of the answer, and what is added to it; null: another number of the answer. */
  | { readonly kind: 'count'; readonly place: string; readonly step: number | null }
  | { readonly kind: 'other'; readonly why: string };

function positionBy(value: Expression | null): Position {
  if (value === null) return { kind: 'other', why: 'no cursor_value' };
  const text = expressionText(value);
  const other = { kind: 'other', why: text } as const;
  if (value.kind === 'or') {
    return value.parts.slice(1).every(isNothing) ? positionBy(value.parts[0] ?? null) : other;
  }
  if (value.kind === 'if') {
    // A test for the end of the listing: without its value there is no next page anyway.
    const [, yes, no] = value.parts;
    return isNothing(no) ? positionBy(yes) : isNothing(yes) ? positionBy(no) : other;
  }
  if (/^(?:[\w(]*)headers\.link\b/i.test(text)) return { kind: 'link' };
  if (value.kind === 'path') {
    const [, header] = /^headers\.([\w-]+)$/.exec(text) ?? [];
    if (header !== undefined) return { kind: 'header', place: header };
    const [, record] = /^(?:last_record|last_records\.-1|response(?:\..+)?\.-1)\.(.+)$/.exec(text) ?? [];
    if (record !== undefined) return { kind: 'record', place: record };
    return value.root === 'response' && value.steps.length > 0
      ? { kind: 'token', place: value.steps.join('.') }
      : other;
  }
  if (value.kind !== 'call') return other;
  const [inner = null] = value.parts;
  if (['int', 'urlencode', 'strip', 'trim'].includes(value.name)) return positionBy(inner);
  const [, place, step] =
    /^\+\((?:int\()?response\.([\w.]+)\)?, (?:int\()?(\d+|response\.[\w.]+)\)*$/.exec(text) ?? [];
  if (place !== undefined) {
    return { kind: 'count', place, step: Number.isNaN(Number(step)) ? null : Number(step) };
  }
  // `response.next.split('cursor=')[1].split('&')[0]`, `regex_search('cursor=([^&]+)')`
  const [, address] =
    /^(?:(?:part|split|regex_search|last|first)\()+response\.([@\w.-]+)[,)]/.exec(text) ?? [];
  const [, param] = /, "(?:[?&]|\\+)*([\w.$[\]-]+)=/.exec(text) ?? [];
  return address === undefined || param === undefined ? other : { kind: 'inAddress', place: address, param };
}

interface Walk {
  readonly strategy: Component;
  readonly request: Request;
  /** The parameter that takes the position; null: the address itself does. */
  readonly param: string | null;
  readonly size: Size;
  readonly isRoot: boolean;
  readonly position: Position;
}

const tokenKey = 'next_page';

function byCursor({ strategy, request, param, size, isRoot, position }: Walk): PagingFound {
  const { more, done, open } = endOf(strategy, position);
  const sized: JsonObject = size.param === null ? {} : { sizeParam: size.param, maxSize: size.max };
  const flags = {
    ...(more === null ? {} : { flagKeys: ['has_more'] }),
    ...(done === null ? {} : { doneKeys: ['is_last'] }),
  };
  const doneAt: JsonObject = done === null ? {} : { is_last: done };
  const flagsAt: JsonObject = { ...(more === null ? {} : { has_more: more }), ...doneAt };
  const guesses = size.param === null ? [] : sizeGuess(size);
  const shared = { ...single, guesses, open, needs: done === null ? [] : (['doneFlag'] as const) };
  const needed = (): string => param ?? refuse('an address that is no member of the answer', strategy);
  const token = {
    kind: 'pageToken',
    tokenParam: param ?? tokenKey,
    tokenKeys: [tokenKey],
    ...flags,
    ...sized,
  };
  const ofFlag = more === null ? {} : { more };
  switch (position.kind) {
    case 'token':
      if (isRoot) {
        refuse(
          `paging that cannot move: the answer is the list itself, and ${position.place} of it the token`,
          strategy,
        );
      }
      if (param !== null) {
        const paging = { kind: 'cursor', token: position.place, ...ofFlag };
        return { ...shared, pagination: token, metadata: doneAt, paging, summary: 'pages by token' };
      }
      return byAddress(request, sized, shared, more ?? done, {
        kind: 'nextUrl',
        path: position.place,
        keep: 'any',
      });
    case 'link':
      if (param !== null) refuse('a parameter that takes the address of the Link header', strategy);
      return byAddress(request, sized, shared, null, { kind: 'linkHeader', keep: 'any' });
    case 'header': {
      needed();
      const paging = { kind: 'cursor', token: { header: position.place }, ...ofFlag };
      return { ...shared, pagination: token, metadata: doneAt, paging, summary: 'pages by token' };
    }
    case 'other':
      return refuse(`a next page that is computed (${position.why})`, strategy);
    default:
      return byMember(position, token, flagsAt, { ...shared, sizing: size }, needed());
  }
}

/** A part of an address, the last record, or a number of the answer asks for the next page. */
function byMember(
  position: Extract<Position, { kind: 'inAddress' | 'record' | 'count' }>,
  { kind, ...token }: JsonObject,
  metadata: JsonObject,
  { sizing, ...shared }: PagingFound & { readonly sizing: Size },
  tokenParam: string,
): PagingFound {
  switch (position.kind) {
    case 'inAddress': {
      const tokenKeys = [{ key: tokenKey, param: position.param }];
      const pagination = { kind: kind ?? '', ...token, tokenParam, tokenKeys };
      const all = { [tokenKey]: position.place, ...metadata };
      return { ...shared, pagination, metadata: all, summary: 'pages by a token in the next address' };
    }
    case 'record': {
      const { tokenKeys: _, ...flags } = token;
      const pagination = { kind: 'lastRecord', ...flags, tokenParam, field: position.place };
      return { ...shared, pagination, metadata, summary: 'pages by the last record' };
    }
    case 'count': {
      const { place, step } = position;
      if (step !== 1) return byOffset(tokenParam, { ...sizing, max: step ?? sizing.max });
      const open = `write the number of the first page: the file adds 1 to ${place} of each answer`;
      return { ...byPage(tokenParam, 1, sizing), open };
    }
  }
}

/** The next address has no flag beside it. */
function byAddress(
  request: Request,
  sized: JsonObject,
  shared: PagingFound,
  flag: string | null,
  paging: JsonObject,
): PagingFound {
  const tokenParam = request.params.add({ where: 'query', name: tokenKey });
  const pagination = { kind: 'pageToken', tokenParam, tokenKeys: [tokenKey], ...sized };
  const open =
    flag === null
      ? shared.open
      : `keep the pagination if the last page has no address of another one: the file ends the listing by ${flag}`;
  const summary = paging['kind'] === 'linkHeader' ? 'pages by the Link header' : 'pages by the next address';
  return { ...shared, pagination, paging, open, needs: [], summary };
}

interface End {
  /** Where the answer has a flag that says that more follows. */
  readonly more: string | null;
  /** Where it has one that says that this was the last page. */
  readonly done: string | null;
  readonly open: string | null;
}

const unsaid: End = { more: null, done: null, open: null };
const shortPage =
  'keep the pagination if the last page has no token: the file ends the listing at a short or empty page';

/** Reads what the stop condition says beyond the absence of a position. */
function endOf(strategy: Component, position: Position): End {
  const stop = strategy.expression('stop_condition');
  if (stop === null) return unsaid;
  const ends = conditionsIn(stop).map((one) => endBy(expressionText(one), one, position));
  const found = ends.find((end) => end !== null && end !== unsaid) ?? unsaid;
  // A listing that is walked by its last record or by numbers ends with an empty page in any case.
  const isCounted = position.kind === 'record' || position.kind === 'count';
  if (isCounted) return { ...found, open: null };
  return ends.includes(null)
    ? refuse(`an end of the listing that is computed (${expressionText(stop)})`, strategy)
    : found;
}

function conditionsIn(stop: Expression): readonly Expression[] {
  const isNegated = stop.kind === 'not' && ['or', 'and'].includes(stop.parts[0].kind);
  if (isNegated) return conditionsIn(stop.parts[0]).map((part) => ({ kind: 'not', parts: [part] }) as const);
  return stop.kind === 'or' || stop.kind === 'and' ? stop.parts.flatMap(conditionsIn) : [stop];
}

const flagName = /(?:^|[_.])(?:has|is|more)(?:_|$|[A-Z])|more$|^has|continue|remaining/i;

/** The meaning of one condition; null: it is computed. */
function endBy(text: string, stop: Expression, position: Position): End | null {
  if (stop.kind === 'value') return unsaid;
  const [, done] =
    /^response\.([\w.]+)(?: (?:== (?:true|"[Tt]rue")|!= (?:false|"[Ff]alse")))?$/.exec(text) ?? [];
  if (done !== undefined) return { ...unsaid, done };
  const [, more] = /^response\.([\w.]+) (?:== (?:false|"[Ff]alse")|!= (?:true|"[Tt]rue"))$/.exec(text) ?? [];
  if (more !== undefined) return { ...unsaid, more };
  const roots = [...rootsOf(stop)];
  // 'next' not in headers.link, not headers.link, not last_record
  if (/ not in |^not (?:headers|last_record)/.test(text) && !roots.includes('other')) return unsaid;
  const [, absent] =
    /^(?:not )?(?:\w+\()*response\.([@\w.-]+)\)*(?: == (?:null|""|0|"null"))?$/.exec(text) ?? [];
  if (absent !== undefined && !/length|count\(/.test(text)) {
    const asked = 'place' in position ? position.place : '';
    // The position itself, an object around it, or the next address.
    if (`${asked}.`.startsWith(`${absent}.`) || absent.startsWith(`${asked}.`)) return unsaid;
    if (flagName.test(absent)) return { ...unsaid, more: absent };
    if (/next|cursor|token|link|url/i.test(absent)) return unsaid;
  }
  const isOfAnswer = roots.every((root) => ['response', 'last_page_size', 'headers'].includes(root));
  const isCount = stop.kind === 'compare' && /^(?:[<>]=?|==)$/.test(stop.operator) && !/"/.test(text);
  return isOfAnswer && (isCount || absent !== undefined) ? { ...unsaid, open: shortPage } : null;
}

/** Texts of a list in a component, which must be fixed. */
export function fixedTexts(component: Component, name: string): readonly string[] {
  const value = component.get(name);
  return (Array.isArray(value) ? value : []).map((one) => {
    const expression = component.parse(plainText(one));
    return expression.kind === 'value'
      ? fixedText(expression)
      : refuse(`${name} with a template in it`, component);
  });
}
