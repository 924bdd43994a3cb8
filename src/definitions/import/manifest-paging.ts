import type { JsonObject } from '../../core/json.ts';
import { escaped, expressionText, fixedText, isNothing, rootsOf, type Expression } from './expressions.ts';
import type { Component } from './manifest-file.ts';
import type { Records } from './manifest-records.ts';
import { placeOfOption, sentBy, type Request } from './manifest-request.ts';
import { refuse } from './manifest-settings.ts';
import { plainText } from './schemas.ts';
import { stated } from './write-definition.ts';

/** How a listing pages, as a definition says it. */
interface PagingFound {
  readonly pagination: JsonObject;
  readonly metadata?: JsonObject;
  /** The member `paging` of the request; absent: it needs none. */
  readonly paging?: JsonObject;
  readonly guesses: readonly string[];
  /** The question that a person has to answer; null: there is none. */
  readonly open: string | null;
  readonly summary: string;
}

const single: PagingFound = { pagination: { kind: 'single' }, guesses: [], open: null, summary: 'one page' };

/** Reads a paginator. `isRoot`: an answer is the list of records. Refuses paging that is computed or cannot move. */
export function readPaging(
  paginator: Component | null,
  request: Request,
  records: Records,
  isRoot: boolean,
): PagingFound {
  if (paginator === null || paginator.type === 'NoPagination') return single;
  if (paginator.kind !== 'DefaultPaginator') refuse('paging of this type', paginator);
  const strategy = paginator.part('pagination_strategy') ?? refuse('paging without a strategy', paginator);
  const option = paginator.part('page_token_option');
  const token = request.uses.find((use) => use.kind === 'token');
  const written = token?.param ?? null;
  if (option === null && written === null) {
    refuse('paging that cannot move: no place of the request takes the next page', paginator);
  }
  const isCursor = strategy.type === 'CursorPagination';
  const position = isCursor ? positionBy(strategy.expression('cursor_value')) : null;
  const whole = placeOfOption(option);
  const place = whole && { ...whole, name: `${whole.name}${position?.member ?? ''}` };
  const isNumber = position === null || position.kind === 'count';
  if (token?.where === 'text' && !isNumber) refuse('a token inside a longer text', paginator);
  if (token !== undefined && token.first > 0 && strategy.type !== 'OffsetIncrement') {
    refuse('a next page that the request computes', paginator);
  }
  const param = place === null ? written : request.params.add(place);
  if (param !== null && isNumber) request.params.count(param);
  const size = sizeOf(paginator, strategy, request);
  if (strategy.kind === 'custom') refuse('paging of this type', strategy);
  if (position !== null) return byCursor({ strategy, request, records, param, size, isRoot, position });
  if (param === null) return refuse('numbers of pages in an address', paginator);
  if (strategy.kind === 'OffsetIncrement') return byOffset(param, size, size.max, token?.first);
  if (strategy.kind !== 'PageIncrement') return refuse('paging of this type', strategy);
  const sent = sentBy(strategy.expression('start_from_page'), strategy);
  const first = sent.kind === 'text' ? Number(sent.value) : Number.NaN;
  return Number.isSafeInteger(first) && first >= 0
    ? byPage(param, first, size)
    : refuse('a first page that is computed', strategy);
}

/** The size of a page, and the parameter that asks for it. A size that is not sent, or not stated, is a belief. */
function sizeOf(paginator: Component, strategy: Component, request: Request) {
  const given = strategy.expression('page_size');
  const sent = sentBy(given, strategy);
  const text =
    sent.kind === 'setting' ? sent.setting.fallback : sent.kind === 'text' ? plainText(sent.value) : '';
  const isStated = /^[1-9]\d{0,8}$/.test(text ?? '');
  const max = isStated ? Math.min(Number(text), 10_000) : 100;
  const option = paginator.part('page_size_option');
  // Public files name an option after a value that no connector has, where they want none.
  const isNameless = option?.expression('field_name')?.kind === 'path';
  const place = isNameless ? null : placeOfOption(option);
  const isSent = place !== null && (given !== null || strategy.type !== 'CursorPagination');
  const param = isSent ? request.params.add(place, { type: 'integer', max }) : null;
  return { param, max, guesses: isSent && isStated ? [] : [`maxSize: ${max}`] };
}

type Size = ReturnType<typeof sizeOf>;

function byOffset(offsetParam: string, { param, guesses }: Size, maxSize: number, first = 0): PagingFound {
  const counted = first === 0 ? {} : { first };
  const pagination = { kind: 'offset', offsetParam, ...counted, sizeParam: param, maxSize };
  return { ...single, pagination, guesses, summary: 'pages by offset' };
}

function byPage(pageParam: string, first: number, { param, max, guesses }: Size): PagingFound {
  const sized = param === null ? {} : { sizeParam: param };
  const pagination = { kind: 'page', pageParam, first, ...sized, maxSize: max };
  return { ...single, pagination, guesses, summary: 'pages by number' };
}

/** The value that asks for the next page. */
interface Position {
  /**
   * `token`: in the answer; `header`; `record`: in the last record; `link`: in the `Link` header; `inAddress`: a
   * parameter of an address in the answer; `count`: a number of the answer and what is added to it.
   */
  readonly kind: 'token' | 'header' | 'record' | 'link' | 'inAddress' | 'count' | 'other';
  /** The path of the answer or of a record, or the name of a header; of `other` what the file computes. */
  readonly place: string;
  /** The parameter of the address, or the added number. */
  readonly more: string;
  /** The place in the variables of GraphQL, where the file writes them as a text: `{"after": "…"}`. */
  readonly member?: string;
}

/** Forms of a value of the answer or the last record. */
const paths: readonly (readonly [Position['kind'], RegExp])[] = [
  ['header', /^headers\.([\w-]+)$/],
  ['record', /^(?:last_record|last_records\.-1|response(?:\..+)?\.-1)\.(.+)$/],
  ['token', /^response\.(.+)$/],
];
const sum = /^\+\((?:int\()?response\.([\w.]+)\)?, (?:int\()?(\d+|response\.[\w.]+)\)*$/;
/** `response.next.split('cursor=')[1].split('&')[0]`, `regex_search('cursor=([^&]+)')` */
const address =
  /^(?:(?:part|split|regex_search|last|first)\()+response\.([@\w.\\-]+)(?=[,)]).*?, "(?:[?&]|\\+)*([\w.$[\]-]+)=/;

function positionBy(value: Expression | null): Position {
  if (value === null) return { kind: 'other', place: 'no cursor_value', more: '' };
  if (value.kind === 'join') {
    const [, inner = null] = value.parts;
    const [, name] = /^ *\{"(\w+)": *"$/.exec(fixedText(value.parts[0])) ?? [];
    const isVariable = fixedText(value.parts[2]).trim() === '"}' && value.parts.length === 3;
    if (name !== undefined && isVariable) return { ...positionBy(inner), member: `.${name}` };
  }
  const text = expressionText(value);
  const other = { kind: 'other', place: text, more: '' } as const;
  const [test = null, second = null, third = null] = 'parts' in value ? value.parts : [];
  if (value.kind === 'or') return value.parts.slice(1).every(isNothing) ? positionBy(test) : other;
  // A test for the end of the listing: without its value there is no next page anyway.
  if (value.kind === 'if' && third !== null && isNothing(third)) return positionBy(second);
  if (value.kind === 'if') return second !== null && isNothing(second) ? positionBy(third) : other;
  if (/^(?:[\w(]*)headers\.link\b/i.test(text)) return { ...other, kind: 'link' };
  if (value.kind === 'path') {
    const plain = [value.root, ...value.steps.map(escaped)].join('.');
    const [kind, form] = paths.find(([, one]) => one.test(plain)) ?? ['other'];
    return form === undefined ? other : { ...other, kind, place: form.exec(plain)?.[1] ?? '' };
  }
  if (value.kind !== 'call') return other;
  if (/^(?:int|urlencode|strip|trim|tojson)$/.test(value.name)) return positionBy(test);
  const [, place, more = ''] = sum.exec(text) ?? address.exec(text) ?? [];
  return place === undefined ? other : { kind: value.name === '+' ? 'count' : 'inAddress', place, more };
}

interface Walk {
  readonly strategy: Component;
  readonly request: Request;
  readonly records: Records;
  /** The parameter that takes the position; null: the address itself does. */
  readonly param: string | null;
  readonly size: Size;
  readonly isRoot: boolean;
  readonly position: Position;
}

function byCursor({ strategy, request, records, param, size, isRoot, position }: Walk): PagingFound {
  const { kind, place, more } = position;
  const end = endOf(strategy, position);
  const sized = size.param === null ? {} : { sizeParam: size.param, maxSize: size.max };
  const shared = { ...single, guesses: size.param === null ? [] : size.guesses, open: end.open };
  const metadata: JsonObject = stated({ has_more: end.more, is_last: end.done });
  const flags = {
    ...(end.more === undefined ? {} : { flagKeys: ['has_more'] }),
    ...(end.done === undefined ? {} : { doneKeys: ['is_last'] }),
    ...sized,
  };
  const key = 'next_page';
  const pagination = { kind: 'pageToken', tokenParam: param, tokenKeys: [key], ...flags };
  if (kind === 'other') refuse(`a next page that is computed (${place})`, strategy);
  if (kind === 'token' && isRoot) {
    refuse(`paging that cannot move: the answer is the list itself, and ${place} of it the token`, strategy);
  }
  if (param === null) {
    if (kind !== 'token' && kind !== 'link') refuse('an address that is no member of the answer', strategy);
    const tokenParam = request.params.add({ where: 'query', name: key });
    const walk = { kind: 'pageToken', tokenParam, tokenKeys: [key], ...sized };
    return { ...shared, pagination: walk, ...byAddress(kind === 'link' ? null : place, end) };
  }
  switch (kind) {
    case 'link':
      return refuse('a parameter that takes the address of the Link header', strategy);
    case 'token':
    case 'header': {
      const token = kind === 'token' ? place : { header: place };
      const paging = { kind: 'cursor', token, ...stated({ more: end.more }) };
      const done = stated({ is_last: end.done });
      return { ...shared, pagination, metadata: done, paging, summary: 'pages by token' };
    }
    case 'inAddress':
      return {
        ...shared,
        pagination: { ...pagination, tokenKeys: [{ key, param: more }] },
        metadata: { [key]: place, ...metadata },
        summary: 'pages by a token in the next address',
      };
    case 'record': {
      const field = records.columnAt(place.split('.'));
      const walk = { kind: 'lastRecord', tokenParam: param, ...flags, field };
      return { ...shared, pagination: walk, metadata, summary: 'pages by the last record' };
    }
    case 'count': {
      if (more !== '1') return byOffset(param, size, Number(more) || size.max);
      const open = `write the number of the first page: the file adds 1 to ${place} of each answer`;
      return { ...byPage(param, 1, size), open };
    }
  }
}

/** `place`: where the answer has the next address; null: in the `Link` header. It has no flag beside it. */
function byAddress(place: string | null, { more, done = more, open }: End) {
  if (place === null) {
    return { paging: { kind: 'linkHeader', keep: 'any' }, open, summary: 'pages by the Link header' };
  }
  const asked = `keep the pagination if the last page has no address of another one: the file ends the listing by ${more ?? done}`;
  const paging = { kind: 'nextUrl', path: place, keep: 'any' };
  return { paging, open: done === undefined ? open : asked, summary: 'pages by the next address' };
}

/**
 * The meaning of a stop condition beyond the absence of a position. `more`, `done`: the place of a flag in the answer.
 */
interface End {
  readonly more?: string;
  readonly done?: string;
  readonly open: string | null;
}

const unsaid: End = { open: null };
const shortPage: End = {
  open: 'keep the pagination if the last page has no token: the file ends the listing at a short or empty page',
};

function endOf(strategy: Component, position: Position): End {
  const stop = strategy.expression('stop_condition');
  if (stop === null) return unsaid;
  const ends = conditionsIn(stop).map((one) => endBy(one, position));
  const found = ends.find((end) => end !== null && end !== unsaid) ?? unsaid;
  // A listing that is walked by its last record or by numbers ends with an empty page in any case.
  if (position.kind === 'record' || position.kind === 'count') return { ...found, open: null };
  return ends.includes(null)
    ? refuse(`an end of the listing that is computed (${expressionText(stop)})`, strategy)
    : found;
}

function conditionsIn(stop: Expression): readonly Expression[] {
  const [inner] = stop.kind === 'not' ? stop.parts : [];
  if (inner?.kind === 'or' || inner?.kind === 'and') {
    return conditionsIn(inner).map((part) => ({ kind: 'not', name: 'not', parts: [part] }));
  }
  return stop.kind === 'or' || stop.kind === 'and' ? stop.parts.flatMap(conditionsIn) : [stop];
}

const flagName = /(?:^|[_.])(?:has|is|more)(?:_|$|[A-Z])|more$|^has|continue|remaining/i;
const isSet = /^response\.([\w.]+)(?: (?:== (?:true|"[Tt]rue")|!= (?:false|"[Ff]alse")))?$/;
const isUnset = /^response\.([\w.]+) (?:== (?:false|"[Ff]alse")|!= (?:true|"[Tt]rue"))$/;
const isAbsent = /^(?:not )?(?:\w+\()*response\.([@\w.\\-]+)\)*(?: == (?:null|""|0|"null"))?$/;

/** The meaning of one condition; null: it is computed. */
function endBy(stop: Expression, { place }: Position): End | null {
  if (stop.kind === 'value') return unsaid;
  const text = expressionText(stop);
  const [, done] = isSet.exec(text) ?? [];
  if (done !== undefined) return { done, open: null };
  const [, more] = isUnset.exec(text) ?? [];
  if (more !== undefined) return { more, open: null };
  const roots = [...rootsOf(stop)];
  // 'next' not in headers.link, not headers.link, not last_record
  if (/ not in |^not (?:regex_search\()?(?:headers|last_record)/.test(text) && !roots.includes('other')) {
    return unsaid;
  }
  const [, absent] = isAbsent.exec(text) ?? [];
  if (absent !== undefined && !/length|count\(/.test(text)) {
    // The position itself, an object around it, or the next address.
    if (`${place}.`.startsWith(`${absent}.`) || absent.startsWith(`${place}.`)) return unsaid;
    if (flagName.test(absent)) return { more: absent, open: null };
    if (/next|cursor|token|link|url/i.test(absent)) return unsaid;
  }
  const isOfAnswer = roots.every((root) => /^(?:response|last_page_size|headers)$/.test(root));
  const isCount = stop.kind === 'compare' && /^(?:[<>]=?|==)$/.test(stop.name) && !/"/.test(text);
  return isOfAnswer && (isCount || absent !== undefined) ? shortPage : null;
}
