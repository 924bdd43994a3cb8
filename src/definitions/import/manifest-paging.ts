import type { JsonObject, JsonValue } from '../../core/json.ts';
import { expressionText, isNothing, type Expression, type Steps } from './expressions.ts';
import type { Component } from './manifest-file.ts';
import type { Need } from './manifest-language.ts';
import { placeOfOption, type Place, type Request } from './manifest-request.ts';
import { refuse, sentBy, type Settings } from './manifest-values.ts';
import { listIn, oneLine, plainText, textIn } from './schemas.ts';

/** How a listing pages, as a definition says it. */
export interface PagingFound {
  readonly pagination: JsonObject;
  readonly metadata: JsonObject;
  /** The member `paging` of the request; null: it needs none. */
  readonly paging: JsonObject | null;
  /** The path of the last record whose value asks for the next page. */
  readonly recordPath: string | null;
  readonly guesses: readonly string[];
  /** What a person has to confirm. */
  readonly open: string | null;
  readonly summary: string;
  readonly needs: readonly Need[];
}

const single: PagingFound = {
  pagination: { kind: 'single' },
  metadata: {},
  paging: null,
  recordPath: null,
  guesses: [],
  open: null,
  summary: 'one page',
  needs: [],
};

interface Walk {
  readonly paginator: Component;
  readonly strategy: Component;
  readonly settings: Settings;
  readonly request: Request;
  /** The parameter that takes the position; null: the address itself does. */
  readonly param: string | null;
  readonly size: Size;
  /** Where the records of an answer are; an empty text: the answer is the list. */
  readonly recordsAt: string;
}

interface Size {
  readonly param: string | null;
  readonly max: number | null;
  readonly isGuessed: boolean;
}

/** Reads a paginator. Refuses paging that is computed, and paging that cannot move. */
export function readPaging(
  paginator: Component | null,
  request: Request,
  recordsAt: string,
  settings: Settings,
): PagingFound {
  const [token] = request.uses.filter((use) => use.kind === 'token');
  if (paginator === null || paginator.type === 'NoPagination') {
    if (token !== undefined && paginator !== null) refuse('a token of a next page without paging', paginator);
    return single;
  }
  if (paginator.isCustom || paginator.type !== 'DefaultPaginator') refuse('paging of this type', paginator);
  const strategy = paginator.part('pagination_strategy') ?? refuse('paging without a strategy', paginator);
  const option = paginator.part('page_token_option');
  const place = option === null ? null : placeOfOption(option, settings);
  if (place === null && option === null && token === undefined) {
    refuse('paging that cannot move: no place of the request takes the next page', paginator);
  }
  const isCounted = ['PageIncrement', 'OffsetIncrement'].includes(strategy.type) && !strategy.isCustom;
  const position = positionOf(strategy);
  const isNumber = isCounted || position.kind === 'count';
  const param = place === null ? (token?.param ?? null) : paramAt(request, place, isNumber);
  const size = sizeOf(paginator, strategy, request, settings);
  const walk: Walk = { paginator, strategy, settings, request, param, size, recordsAt };
  if (isCounted) return counted(walk);
  if (strategy.isCustom || strategy.type !== 'CursorPagination')
    return refuse('paging of this type', strategy);
  return byCursor(walk, position);
}

function paramAt(request: Request, place: Place, isNumber: boolean): string {
  return request.params.at(place) ?? request.params.add(place, { type: isNumber ? 'integer' : 'string' });
}

/** The size of a page, and the parameter that asks for it. */
function sizeOf(paginator: Component, strategy: Component, request: Request, settings: Settings): Size {
  const stated = strategy.expression('page_size') ?? paginator.expression('page_size');
  const sent = stated === null ? null : sentBy(stated, settings, strategy);
  const text =
    sent?.kind === 'text' ? plainText(sent.value) : sent?.kind === 'setting' ? sent.setting.fallback : null;
  const number = /^[1-9]\d*$/.test(text ?? '') ? Number(text) : null;
  const max = number === null ? null : Math.min(number, 10_000);
  const option = paginator.part('page_size_option');
  const place = option === null || isNameless(option) ? null : placeOfOption(option, settings);
  if (place === null || (stated === null && strategy.type === 'CursorPagination')) {
    return { param: null, max, isGuessed: max === null };
  }
  const param = request.params.at(place) ?? request.params.add(place, { type: 'integer', max: max ?? 100 });
  return { param, max: max ?? 100, isGuessed: max === null };
}

/** Public files name an option after a value that no connector has, where they want none. */
function isNameless(option: Component): boolean {
  const name = option.expression('field_name');
  return name?.kind === 'path' && name.root === 'config' && option.get('field_path') === undefined;
}

/** Numbers that the caller counts. */
function counted(walk: Walk): PagingFound {
  const { strategy, settings, size, paginator } = walk;
  const param = walk.param ?? refuse('numbers of pages in an address', paginator);
  const guesses = size.param === null || size.isGuessed ? [`maxSize: ${size.max ?? 100}`] : [];
  const maxSize = size.max ?? 100;
  if (strategy.type === 'OffsetIncrement') {
    const needs: readonly Need[] = size.param === null ? ['sizeUnsent'] : [];
    const pagination = { kind: 'offset', offsetParam: param, sizeParam: size.param, maxSize };
    return { ...single, pagination, guesses, needs, summary: 'pages by offset' };
  }
  const stated = strategy.expression('start_from_page');
  const sent = stated === null ? null : sentBy(stated, settings, strategy);
  const first = sent === null ? 0 : sent.kind === 'text' ? Number(sent.value) : Number.NaN;
  if (!Number.isSafeInteger(first) || first < 0) refuse('a first page that is computed', strategy);
  const sized = size.param === null ? {} : { sizeParam: size.param };
  const pagination = { kind: 'page', pageParam: param, first, ...sized, maxSize };
  return {
    ...single,
    pagination,
    guesses,
    needs: first > 1 ? ['firstPage'] : [],
    summary: 'pages by number',
  };
}

/** What asks for the next page. */
type Position =
  | { readonly kind: 'token'; readonly path: string; readonly text: Steps }
  | { readonly kind: 'header'; readonly name: string }
  | { readonly kind: 'link' }
  | { readonly kind: 'record'; readonly path: string }
  /** A parameter of an address in the answer. */
  | { readonly kind: 'inAddress'; readonly path: string; readonly param: string }
  /** A number of the answer, and what is added to it. */
  | { readonly kind: 'count'; readonly path: string; readonly step: number | null }
  | { readonly kind: 'other'; readonly why: string };

function positionOf(strategy: Component): Position {
  const value = strategy.type === 'CursorPagination' ? strategy.expression('cursor_value') : null;
  return value === null ? { kind: 'other', why: 'no cursor_value' } : positionBy(value);
}

function positionBy(value: Expression): Position {
  const other = { kind: 'other', why: expressionText(value) } as const;
  if (value.kind === 'path') return positionAt(value.root, value.steps) ?? other;
  if (value.kind === 'or') {
    const [first, ...rest] = value.parts;
    return first !== undefined && rest.every(isNothing) ? positionBy(first) : other;
  }
  if (value.kind === 'if') {
    // A test for the end of the listing: without its value there is no next page anyway.
    const { yes, no } = value;
    return isNothing(no) ? positionBy(yes) : isNothing(yes) ? positionBy(no) : other;
  }
  if (value.kind !== 'call') return other;
  const inner = value.args[0];
  if (inner === undefined) return other;
  if (['int', 'urlencode', 'strip', 'trim'].includes(value.name)) return positionBy(inner);
  if (value.name === '+') {
    const [left, right] = value.args.map((arg) =>
      arg.kind === 'call' && arg.name === 'int' ? (arg.args[0] ?? arg) : arg,
    );
    const [path, step] = left?.kind === 'path' ? [left, right] : [right, left];
    if (path?.kind !== 'path' || path.root !== 'response') return other;
    const by = step?.kind === 'value' && typeof step.value === 'number' ? step.value : null;
    return { kind: 'count', path: path.steps.join('.'), step: by };
  }
  return holdsLink(value) ? { kind: 'link' } : (inAddress(value) ?? other);
}

/** Texts cut out of the `Link` header. */
function holdsLink(value: Expression): boolean {
  if (value.kind === 'path') return value.root === 'headers' && /^link$/i.test(String(value.steps[0]));
  return (
    value.kind === 'call' && /^(?:part|split|slice|strip)$/.test(value.name) && value.args.some(holdsLink)
  );
}

function positionAt(root: string, steps: Steps): Position | null {
  const names = steps.map(String);
  if (root === 'headers') {
    const [name = '', ...rest] = names;
    if (name.toLowerCase() !== 'link') return rest.length === 0 ? { kind: 'header', name } : null;
    return rest.join('.') === 'next.url' ? { kind: 'link' } : null;
  }
  if (root === 'last_record') return { kind: 'record', path: names.join('.') };
  if (root === 'last_records')
    return names[0] === '-1' ? { kind: 'record', path: names.slice(1).join('.') } : null;
  if (root !== 'response' || steps.length === 0) return null;
  const last = steps.lastIndexOf(-1);
  if (last >= 0)
    return last === steps.length - 1 ? null : { kind: 'record', path: names.slice(last + 1).join('.') };
  return { kind: 'token', path: names.join('.'), text: steps };
}

/** `response.next.split('cursor=')[1].split('&')[0]`, `regex_search('cursor=([^&]+)')` */
function inAddress(value: Expression): Position | null {
  let next = value;
  let param: string | null = null;
  while (next.kind === 'call') {
    const { name, args }: Extract<Expression, { kind: 'call' }> = next;
    const [inner, sign] = args;
    if (inner === undefined) return null;
    if (name === 'split' || name === 'regex_search') {
      const text = sign?.kind === 'value' ? plainText(sign.value) : '';
      const named = /^(?:[?&]|\\)*([\w.$[\]-]+)=/.exec(text)?.[1];
      if (named !== undefined) param = named;
      else if (!['&', '?'].includes(text)) return null;
    } else if (!['part', 'last', 'first'].includes(name)) return null;
    next = inner;
  }
  if (next.kind !== 'path' || next.root !== 'response' || param === null) return null;
  return { kind: 'inAddress', path: next.steps.join('.'), param };
}

const tokenKey = 'next_page';

function byCursor(walk: Walk, position: Position): PagingFound {
  const { strategy, request, param, size, recordsAt, paginator } = walk;
  const end = endOf(strategy, position);
  const sized = size.param !== null && size.max !== null ? { sizeParam: size.param, maxSize: size.max } : {};
  const guesses = size.param !== null && size.isGuessed ? [`maxSize: ${size.max}`] : [];
  const shared = { ...single, guesses, open: end.open, needs: end.needs };
  const more = end.more === null ? {} : { more: end.more };
  const ofFlag = end.more === null ? {} : { flagKeys: ['has_more'] };
  const ofDone = end.done === null ? {} : { doneKeys: ['is_last'] };
  const doneAt: JsonObject = end.done === null ? {} : { is_last: end.done };
  const isRoot = recordsAt === '' || recordsAt.startsWith('[*]');
  switch (position.kind) {
    case 'token': {
      if (isRoot) {
        refuse(
          `paging that cannot move: the answer is the list itself, and ${position.path} of it the token`,
          strategy,
        );
      }
      const name = param ?? request.params.add({ where: 'query', name: tokenKey });
      const walked = {
        kind: 'pageToken',
        tokenParam: name,
        tokenKeys: [tokenKey],
        ...ofFlag,
        ...ofDone,
        ...sized,
      };
      if (param === null) {
        const flag = end.more ?? end.done;
        const open =
          flag === null
            ? end.open
            : `keep the pagination if the last page has no address of another one: the file ends the listing by ${flag}`;
        const alone = { kind: 'pageToken', tokenParam: name, tokenKeys: [tokenKey], ...sized };
        const paging = { kind: 'nextUrl', path: position.path, keep: 'any' };
        return {
          ...shared,
          needs: [],
          open,
          pagination: alone,
          paging,
          summary: 'pages by the next address',
        };
      }
      const paging = { kind: 'cursor', token: position.path, ...more };
      return { ...shared, pagination: walked, metadata: doneAt, paging, summary: 'pages by token' };
    }
    case 'header': {
      const name = param ?? refuse('an address in a header other than Link', strategy);
      const walked = {
        kind: 'pageToken',
        tokenParam: name,
        tokenKeys: [tokenKey],
        ...ofFlag,
        ...ofDone,
        ...sized,
      };
      const paging = { kind: 'cursor', token: { header: position.name }, ...more };
      return { ...shared, pagination: walked, metadata: doneAt, paging, summary: 'pages by token' };
    }
    case 'link': {
      if (param !== null) return refuse('a parameter that takes the address of the Link header', strategy);
      const name = request.params.add({ where: 'query', name: tokenKey });
      const paging = { kind: 'linkHeader', keep: 'any' };
      const walked = { kind: 'pageToken', tokenParam: name, tokenKeys: [tokenKey], ...sized };
      return { ...shared, pagination: walked, paging, summary: 'pages by the Link header' };
    }
    case 'inAddress': {
      const name = param ?? refuse('a part of an address as an address', strategy);
      const tokenKeys = [{ key: tokenKey, param: position.param }];
      const metadata = {
        [tokenKey]: position.path,
        ...(end.more === null ? {} : { has_more: end.more }),
        ...doneAt,
      };
      const walked = { kind: 'pageToken', tokenParam: name, tokenKeys, ...ofFlag, ...ofDone, ...sized };
      return { ...shared, pagination: walked, metadata, summary: 'pages by a token in the next address' };
    }
    case 'record': {
      const name = param ?? refuse('an address in the last record', strategy);
      const metadata = { ...(end.more === null ? {} : { has_more: end.more }), ...doneAt };
      const walked = {
        kind: 'lastRecord',
        tokenParam: name,
        field: position.path,
        ...ofFlag,
        ...ofDone,
        ...sized,
      };
      return {
        ...shared,
        pagination: walked,
        metadata,
        recordPath: position.path,
        summary: 'pages by the last record',
      };
    }
    case 'count':
      return byCount(walk, position, shared);
    case 'other':
      return refuse(
        `a next page that is computed (${position.why})`,
        strategy.part('cursor_value') ?? paginator,
      );
  }
}

/** The service's own number of a page, and one more: the same as counting them. */
function byCount(
  { strategy, param, size }: Walk,
  { path, step }: Extract<Position, { kind: 'count' }>,
  shared: PagingFound,
): PagingFound {
  const name = param ?? refuse('numbers of pages in an address', strategy);
  const sized = { ...(size.param === null ? {} : { sizeParam: size.param }), maxSize: size.max ?? 100 };
  const guesses = size.param === null ? [`maxSize: ${size.max ?? 100}`] : shared.guesses;
  if (step !== 1 && (step ?? size.max ?? 0) < 2) return refuse('a next page by arithmetic', strategy);
  const open = `write the number of the first page or record: the file adds ${step} to ${oneLine(path, 60)} of each answer`;
  if (step === 1) {
    const pagination = { kind: 'page', pageParam: name, first: 1, ...sized };
    return { ...shared, pagination, guesses, open, summary: 'pages by number' };
  }
  const pagination = {
    kind: 'offset',
    offsetParam: name,
    sizeParam: size.param,
    maxSize: Math.min(step ?? size.max ?? 100, 10_000),
  };
  const needs: readonly Need[] = size.param === null ? ['sizeUnsent'] : [];
  return { ...shared, pagination, guesses, needs, summary: 'pages by offset' };
}

interface End {
  /** Where the answer has a flag that says that more follows. */
  readonly more: string | null;
  /** Where it has one that says that this was the last page. */
  readonly done: string | null;
  readonly open: string | null;
  readonly needs: readonly Need[];
}

const unsaid: End = { more: null, done: null, open: null, needs: [] };

/** What the stop condition says beyond the absence of a position. */
function endOf(strategy: Component, position: Position): End {
  const stop = strategy.expression('stop_condition');
  if (stop === null) return unsaid;
  const ends = (stop.kind === 'or' ? stop.parts : [stop]).map((one) => endBy(one, position));
  const bad = ends.findIndex((end) => end === null);
  if (bad >= 0) {
    // A listing that is walked by its last record ends with an empty page in any case.
    if (position.kind === 'record' || position.kind === 'count')
      return ends.find((end) => end?.more) ?? unsaid;
    refuse(`an end of the listing that is computed (${expressionText(stop)})`, strategy);
  }
  const found = ends.filter((end) => end !== null);
  return {
    more: found.find(({ more }) => more !== null)?.more ?? null,
    done: found.find(({ done }) => done !== null)?.done ?? null,
    open: found.find(({ open }) => open !== null)?.open ?? null,
    needs: found.flatMap(({ needs }) => needs),
  };
}

const flagName = /(?:^|_|\.)(?:has|is|more)(?:_|$|[A-Z])|more$|^has|continue|remaining/i;

/** The meaning of one condition; null: it is computed. */
function endBy(stop: Expression, position: Position): End | null {
  const asked = 'path' in position ? position.path : '';
  if (stop.kind === 'value') return unsaid;
  if (stop.kind === 'and') {
    const ends = stop.parts.map((part) => endBy(part, position));
    return ends.some((end) => end === null) ? null : (ends.find((end) => end?.more ?? end?.done) ?? unsaid);
  }
  if (stop.kind === 'not') return endWithout(stop.part, asked, position);
  if (stop.kind === 'path' && stop.root === 'response') return doneAt(stop.steps);
  if (stop.kind !== 'compare') return null;
  const { left, operator, right } = stop;
  if (operator === 'not in') {
    // 'next' not in headers.link
    return left.kind === 'value' && right.kind === 'path' && ['headers', 'response'].includes(right.root)
      ? unsaid
      : null;
  }
  if (/^[<>]=?$/.test(operator) && [left, right].every(isAnswered)) return emptyPage(position);
  if (operator === '==' && left.kind === 'path' && right.kind === 'path' && isAnswered(right)) {
    return emptyPage(position);
  }
  if (isCount(left) || (right.kind === 'value' && JSON.stringify(right.value) === '[]'))
    return emptyPage(position);
  if (left.kind !== 'path' || right.kind !== 'value' || !['==', '!='].includes(operator)) return null;
  const is = right.value;
  const isYes = ['true', 'True', true].some((word) => word === is);
  const isNo = ['false', 'False', false].some((word) => word === is);
  if (isYes || isNo) {
    if (left.root !== 'response') return null;
    return isYes === (operator === '==') ? doneAt(left.steps) : { ...unsaid, more: left.steps.join('.') };
  }
  const isAbsent = is === null || is === '' || is === 'null' || is === 0;
  return isAbsent && operator === '==' ? endWithout(left, asked, position) : null;
}

function doneAt(steps: Steps): End {
  return { ...unsaid, done: steps.join('.'), needs: ['doneFlag'] };
}

/** The listing ends where this is absent, empty or false. */
function endWithout(part: Expression, asked: string, position: Position): End | null {
  if (part.kind === 'or' || part.kind === 'and') {
    return part.parts.map((one) => endWithout(one, asked, position)).find((end) => end?.more) ?? unsaid;
  }
  if (isCount(part)) return emptyPage(position);
  if (part.kind === 'call' && part.args[0] !== undefined) return endWithout(part.args[0], asked, position);
  if (part.kind !== 'path') return null;
  if (part.root !== 'response')
    return ['headers', 'last_record', 'last_records'].includes(part.root) ? unsaid : null;
  const path = part.steps.join('.');
  // The position itself, an object around it, or the next address.
  if (path === asked || asked.startsWith(`${path}.`) || path.startsWith(`${asked}.`)) return unsaid;
  if (flagName.test(path)) return { ...unsaid, more: path };
  if (/next|cursor|token|link|url/i.test(path)) return unsaid;
  return emptyPage(position);
}

/** A number, or something of the answer. */
function isAnswered(value: Expression): boolean {
  if (value.kind === 'value') return typeof value.value === 'number';
  if (value.kind === 'call') return value.args.every(isAnswered);
  return value.kind === 'path' && ['response', 'last_page_size', 'headers'].includes(value.root);
}

function isCount(value: Expression): boolean {
  if (value.kind === 'path') return value.root === 'last_page_size';
  return value.kind === 'call' && (value.name === 'length' || value.name === 'count');
}

function emptyPage({ kind }: Position): End {
  if (kind === 'record' || kind === 'count') return unsaid;
  const open =
    'keep the pagination if the last page has no token: the file ends the listing at a short or empty page';
  return { ...unsaid, open };
}

/** Texts of a list in a component, as far as they are fixed. */
export function fixedTexts(component: Component, name: string): readonly string[] {
  return listIn(component.get(name)).flatMap((one: JsonValue) => {
    const expression =
      typeof one === 'string' ? component.parse(one) : ({ kind: 'value', value: one } as const);
    if (expression.kind !== 'value')
      return refuse(`${name} with a template in it (${textIn({ one }, 'one')})`, component);
    return [plainText(expression.value)];
  });
}
