import { isJsonArray, isJsonObject, withValueAt, type JsonObject, type JsonValue } from '../../core/json.ts';
import {
  expressionText,
  fixedText,
  isNothing,
  partsOf,
  rootsOf,
  type Expression,
  type Steps,
} from './expressions.ts';
import type { Component } from './manifest-file.ts';
import { placesIn, refuse, type Setting } from './manifest-settings.ts';
import { holdsTemplate, oneLine, plainText, wordsOf } from './schemas.ts';
import { hostPattern } from './service-file.ts';
import { stated } from './write-definition.ts';

/** A place of a request that a value goes to; `text`: within a text of another one. `name`: dotted in a body. */
export interface Place {
  readonly where: 'path' | 'text' | 'query' | 'header' | 'body';
  readonly name: string;
}

export type Request = ReturnType<typeof readRequest>;
type Member = readonly [name: string, value: Expression];

/** Reads what a requester sends. `signed`: a place that the sign-in fills. Refuses what cannot be sent so. */
export function readRequest(requester: Component, signed: Place | null) {
  if (requester.kind !== 'HttpRequester') refuse('a request of this type', requester);
  const divided = requester.part('fetch_properties_from_endpoint') ?? requester.part('query_properties');
  if (divided !== null) refuse('requests that are divided by properties', divided);
  const method = (requester.text('http_method') ?? 'GET').toUpperCase();
  if (method !== 'GET' && method !== 'POST') refuse(`the method ${method}`, requester);
  const { baseUrl, host, path, used } = addressOf(urlOf(requester), requester);
  const params = openParams(method);
  const fixed: Record<string, JsonValue> = {};
  const uses: (Use & Pick<Place, 'where'> & { readonly param: string })[] = [];
  const parts: Record<'query' | 'header' | 'body', Record<string, JsonValue>> = {
    query: {},
    header: {},
    body: {},
  };
  let body: JsonObject = {};

  /** Puts a value at its place. In a path or a text, returns what is written there. */
  const put = (place: Place, sent: Sent, at: Component): string => {
    const { where, name } = place;
    if (signed?.where === where && signed.name === name) return '';
    if (sent.kind === 'joined') {
      const inner = { where: where === 'path' ? where : 'text', name } as const;
      const template = sent.parts.map((part) => put(inner, part, at)).join('');
      if (where === 'path') return template;
      if (where !== 'query' && where !== 'body') refuse('a value inside a longer text of a header', at);
      parts[where][name] = { template };
      return '';
    }
    if (sent.kind === 'text') {
      const text = plainText(sent.value);
      if (where === 'path' || where === 'text') return text;
      if (where === 'body') body = withValueAt(body, name.split('.'), sent.value);
      else if (isJsonArray(sent.value) && where === 'query') {
        fixed[params.add(place, { type: 'array' })] = sent.value.map(plainText);
      } else if (isJsonObject(sent.value)) refuse(`a value of ${name} that is no text`, at);
      else if (text !== '' && !ownHeaders.test(name)) parts[where][name] = text;
      return '';
    }
    if (sent.kind === 'setting') {
      const { setting, suffix } = sent;
      const isWritten = where === 'path' || where === 'text';
      if (where === 'text' && setting.isSecret) refuse('a secret inside a longer text', at);
      used.push(isWritten ? { ...setting, isRequired: setting.fallback === null } : setting);
      if (isWritten) return `{${setting.name}}${suffix}`;
      parts[where][name] = { field: setting.name, ...(suffix === '' ? {} : { suffix }) };
      return '';
    }
    const hint = sent.kind === 'partition' ? sent.name : sent.kind === 'bound' ? sent.bound : null;
    const param = params.add(place, { isRequired: sent.kind === 'partition' || where === 'path', hint });
    if (!uses.some((use) => use.param === param)) uses.push({ ...sent, param, where });
    if (sent.kind === 'clock') fixed[param] = { days: sent.days, format: sent.format };
    return `{${param}}`;
  };
  const putAll = (where: Place['where'], members: readonly Member[]): void => {
    for (const [name, value] of members) put({ where, name }, sentBy(value, requester), requester);
  };

  const written = writePath(path, (value, name) =>
    put({ where: 'path', name }, sentBy(value, requester), requester),
  );
  putAll('query', [...written.query, ...membersOf(requester, 'request_parameters')]);
  putAll('header', membersOf(requester, 'request_headers'));
  const sentBody = readBody(requester);
  putAll('body', sentBody.members);
  return {
    baseUrl,
    host,
    method,
    /** Parameters with the same value in every call. */
    fixed,
    uses,
    used,
    params,
    put,
    /** The members of the request that are the same in every call. */
    sent: (): JsonObject => {
      const hasBody = params.areInBody() || [body, parts.body].some((part) => Object.keys(part).length > 0);
      const json = hasBody && method === 'GET' ? 'json' : undefined;
      return {
        ...(method === 'POST' ? { method, safe: true } : {}),
        path: written.path,
        ...stated({ query: parts.query, body, fill: parts.body, bodyAs: sentBody.isForm ? 'form' : json }),
      };
    },
    headers: parts.header,
  };
}

/** Headers that the program sets itself. */
const ownHeaders = /^(?:content-type|accept-encoding|connection|host|content-length)$/i;

/** The address and the path of a requester. */
export function urlOf(requester: Component): readonly Expression[] {
  const base = requester.expression('url_base') ?? requester.expression('url');
  const path = requester.expression('path');
  if (base === null) return refuse('a request without an address', requester);
  for (const part of [base, path]) {
    if (part?.kind === 'other') refuse(`an address that is computed (${part.why})`, requester);
  }
  return path === null ? [base] : [base, { kind: 'value', value: '/' }, path];
}

/** Writes the path, and divides off a query that stands in it. */
function writePath(given: readonly Expression[], write: (value: Expression, name: string) => string) {
  const query: Member[] = [];
  let text = '';
  let open: string | null = null;
  for (const part of given.flatMap(partsOf)) {
    if (part.kind !== 'value') {
      if (open === null) text += write(part, /\/([^/]*)\/$/.exec(text)?.[1] ?? 'id');
      else query.push([open, part]);
      continue;
    }
    const [before = '', behind = '']: readonly string[] =
      open === null ? fixedText(part).split('?', 2) : ['', fixedText(part)];
    text += before;
    for (const [name, value] of new URLSearchParams(behind)) {
      open = name;
      if (value !== '') query.push([name, { kind: 'value', value }]);
    }
  }
  return { path: `/${text.replaceAll(/\/{2,}/g, '/').replace(/^\//, '')}`, query };
}

/** The members of a map of templates; a text such as `a=b&c=d` is one too. */
function membersOf(requester: Component, name: string): readonly Member[] {
  const value = requester.get(name) ?? '';
  const isMap = isJsonObject(value);
  if (!isMap && (isJsonArray(value) || requester.parse(value).kind !== 'value')) {
    refuse(`${name} that are computed as a whole`, requester);
  }
  return Object.entries(isMap ? value : Object.fromEntries(new URLSearchParams(plainText(value))))
    .filter(([key]) => key !== '$parameters')
    .map(([key, one]) => [key.trim(), requester.parse(one)]);
}

/** The members of a body by their dotted places. `isForm`: it is sent as a form. */
export function readBody(requester: Component) {
  const part = requester.part('request_body');
  const kind = part?.kind ?? 'RequestBodyJsonObject';
  if (part !== null && !/^RequestBody(?:JsonObject|GraphQL|UrlEncodedForm)$/.test(kind)) {
    refuse('a body of this type', part);
  }
  const form = requester.get('request_body_data');
  const isForm = kind === 'RequestBodyUrlEncodedForm' || form !== undefined;
  const data = part?.get('value') ?? requester.get('request_body_json') ?? form ?? {};
  const membersIn = (value: JsonValue, at: readonly string[]): readonly Member[] => {
    if (isJsonObject(value) && (at.length === 0 || Object.keys(value).length > 0)) {
      return Object.entries(value).flatMap(([name, one]) => {
        if (name.includes('.') || at.length > 20) {
          refuse(`a member of the body with a dot in its name (${name})`, requester);
        }
        return name === '$parameters' ? [] : membersIn(one, [...at, name]);
      });
    }
    if (isJsonArray(value) && holdsTemplate(value)) {
      refuse(`a template in a list of the body (${at.join('.')})`, requester);
    }
    return [[at.join('.'), requester.parse(value)]];
  };
  return {
    isForm,
    members: membersIn(typeof data === 'string' ? parsedBody(data, isForm, requester) : data, []),
  };
}

function parsedBody(text: string, isForm: boolean, requester: Component): JsonObject {
  if (requester.parse(text).kind !== 'value') refuse('a body that a template writes as a whole', requester);
  if (isForm || text === '') return Object.fromEntries(new URLSearchParams(text));
  try {
    // `as`: a text in JSON has JSON.
    const value = JSON.parse(text) as JsonValue;
    if (isJsonObject(value)) return value;
  } catch {
    // Refused below, as JSON that is no object is.
  }
  return refuse('a body that is no object', requester);
}

/** A list parameter of the definition. `hint`: its name in a path, or a second choice of one. */
interface Param {
  readonly type?: 'string' | 'integer' | 'array';
  readonly isRequired?: boolean;
  readonly hint?: string | null;
  readonly max?: number;
}

/** Collects list parameters under names that a definition accepts. */
function openParams(method: string) {
  const params = new Map<string, Param & { readonly place: Place }>();
  const rule = (name: string, { place: { where, name: sent }, type }: Param & { place: Place }): JsonObject =>
    stated({
      as: sent === name || !/^(?:query|header)$/.test(where) ? undefined : sent,
      at: where === 'body' && (sent !== name || method === 'GET') ? sent : undefined,
      in: where === 'header' || (where === 'query' && method === 'POST') ? where : undefined,
      list: type === 'array' ? 'repeat' : undefined,
    });
  return {
    /** The name of the parameter at a place, which takes one only. */
    add: (place: Place, more: Param = {}): string => {
      const isPath = place.where === 'path' || place.where === 'text';
      const isThere = (one: Place): boolean => one.where === place.where && one.name === place.name;
      const [known] = [...params].find(([, one]) => isThere(one.place)) ?? [];
      if (known !== undefined && !isPath) return known;
      const hint = more.hint ?? place.name;
      const [first, second] = [accepted(isPath ? hint : place.name, isPath), accepted(hint, isPath)];
      let name = params.has(first) ? second : first;
      for (let number = 2; params.has(name); number += 1) name = `${first}_${number}`;
      params.set(name, { ...more, place });
      return name;
    },
    /** Says that the service counts with a parameter. */
    count: (name: string): void => {
      const known = params.get(name);
      if (known !== undefined) params.set(name, { ...known, type: 'integer' });
    },
    /** Takes a parameter away; its place, or null where there is none. */
    remove: (name: string): Place | null => {
      const place = params.get(name)?.place ?? null;
      params.delete(name);
      return place;
    },
    areInBody: () => [...params.values()].some(({ place }) => place.where === 'body'),
    declared: (): JsonObject =>
      Object.fromEntries(
        [...params].map(([name, { type = 'string', isRequired = false, max }]) => [
          name,
          stated({ type, required: isRequired || undefined, min: max && 1, max }),
        ]),
      ),
    rules: (): JsonObject =>
      stated(Object.fromEntries([...params].map(([name, param]) => [name, rule(name, param)]))),
  };
}

function accepted(name: string, isPath: boolean): string {
  const names = isPath ? /^[A-Za-z][\w.-]{0,59}$/ : /^[A-Za-z$][\w.$[\]-]{0,59}$/;
  return names.test(name) ? name : wordsOf(`p ${name}`).join('_').slice(0, 58);
}

/** Where an option of a request goes; null: it is the address itself, or there is no option. */
export function placeOfOption(option: Component | null): Place | null {
  const into = option?.text('inject_into') ?? '';
  if (option === null || option.type === 'RequestPath' || into === 'path') return null;
  const [, word] = /^(request_parameter|header|body_json|body_data)$/.exec(into) ?? [];
  if (word === undefined) return refuse(`an option that goes into ${into || 'nothing'}`, option);
  const path = [option.get('field_path') ?? option.text('field_name') ?? ''].flat();
  const names = path.map((name) => fixedText(option.parse(plainText(name))).trim());
  if (names.length === 0 || names.includes('')) refuse('an option without a fixed name', option);
  const where = word === 'header' ? 'header' : word === 'request_parameter' ? 'query' : 'body';
  return { where, name: names.join('.') };
}

// --- Values of a request

/** The member, which has to be a component of this kind. `what`: how the refusal of another one begins. */
export function needed(of: Component, name: string, kind: string, what: string): Component {
  const part = of.part(name) ?? refuse(`a ${of.type} without ${name}`, of);
  return part.kind === kind ? part : refuse(what, part);
}

/** Texts of a list in a component, which must be fixed. */
export function fixedTexts(component: Component, name: string): readonly string[] {
  const value = component.get(name);
  return (isJsonArray(value) ? value : []).map((one) => {
    const expression = component.parse(plainText(one));
    return expression.kind === 'value'
      ? fixedText(expression)
      : refuse(`${name} with a template in it`, component);
  });
}

/** The value that a template of a request stands for. */
export type Sent =
  | { readonly kind: 'text'; readonly value: JsonValue }
  | { readonly kind: 'setting'; readonly setting: Setting; readonly suffix: string }
  /** Texts and values one after another. */
  | { readonly kind: 'joined'; readonly parts: readonly Sent[] }
  | Use;

/** A value from outside of the connector's values. */
export type Use =
  /** A value of the parent's record or of a list of values, by its name. `above`: 1 for that of the parent's parent. */
  | {
      readonly kind: 'partition';
      readonly name: string;
      readonly above: number;
      readonly part: JsonObject | null;
    }
  /** `format`: null: that of the cursor. `isCut`: without the minutes of its offset, which are 00 in UTC. */
  | {
      readonly kind: 'bound';
      readonly bound: 'from' | 'to';
      readonly format: string | null;
      readonly isCut?: boolean;
    }
  /** `first`: what the file adds to it. */
  | { readonly kind: 'token'; readonly first: number }
  /** A number of days from now, in a format. */
  | { readonly kind: 'clock'; readonly days: number; readonly format: string };

/** Reads an expression of a request; an absent one is an empty text. Refuses all other forms. */
export function sentBy(expression: Expression | null, at: Component): Sent {
  if (expression === null) return { kind: 'text', value: '' };
  const sent = read(expression, at);
  if (sent !== null) return sent;
  // Where only values of the connector stand in it, a person gives the text itself.
  if ([...rootsOf(expression)].join() === 'config') return settingOf(at.settings.madeOf(expression, at));
  const what =
    expression.kind === 'join' ? 'a value inside a longer text' : 'a template of a form that is not read';
  return refuse(`${what} (${expressionText(expression)})`, at);
}

function settingOf(setting: Setting, suffix = ''): Sent {
  return { kind: 'setting', setting, suffix };
}

function read(expression: Expression, at: Component): Sent | null {
  if (expression.kind === 'value') return { kind: 'text', value: expression.value };
  if (expression.kind === 'path') return readPath(expression.root, expression.steps, at);
  if (expression.kind === 'other') return null;
  const { kind, name, parts } = expression;
  const [first, second, third] = parts;
  if (kind === 'call') return readCall(name, parts, at);
  if (first === undefined) return null;
  if (kind === 'join') return readJoined(parts, at);
  if (second === undefined || parts.length > (kind === 'if' ? 3 : 2)) return null;
  if (kind === 'or') return withFallback(first, second, at);
  if (kind !== 'if' || third === undefined) return null;
  const tested = (first.kind === 'compare' ? first.parts[0] : undefined) ?? first;
  if (tested.kind === 'path' && tested.root === 'token') {
    if (second.kind === 'value') return sentBy(third, at);
    if (third.kind === 'value') return sentBy(second, at);
  }
  const isSame =
    first.kind === 'path' &&
    placesIn(second).some((steps) => first.steps.every((step, index) => steps[index] === step));
  return isSame || expressionText(first) === expressionText(second) ? withFallback(second, third, at) : null;
}

function readJoined(parts: readonly Expression[], at: Component): Sent | null {
  const [first, second] = parts;
  const isSuffixed = parts.length === 2 && second?.kind === 'value';
  if (isSuffixed && first?.kind === 'path' && first.root === 'config') {
    return settingOf(at.settings.at(first.steps, at), fixedText(second));
  }
  // Where only values of the connector stand in it, a person gives the text itself.
  const isFixed = parts.every((part) => part.kind === 'value' || [...rootsOf(part)].join() === 'config');
  return isFixed ? null : { kind: 'joined', parts: parts.map((part) => sentBy(part, at)) };
}

function readPath(root: string, steps: Steps, at: Component): Sent | null {
  if (root === 'token') return { kind: 'token', first: 0 };
  if (root === 'config') {
    // Public files name a value that no connector has where they want none.
    return at.settings.isKnown(steps) ? settingOf(at.settings.at(steps, at)) : { kind: 'text', value: '' };
  }
  const text = steps.join('.');
  if (root !== 'slice' || text === '') return null;
  if (text === 'start_time' || text === 'end_time') {
    return { kind: 'bound', bound: text === 'start_time' ? 'from' : 'to', format: null };
  }
  const [, parents = '', name = ''] = /^((?:parent_slice\.)*)(.+)$/.exec(text) ?? [];
  return name === '' ? null : { kind: 'partition', name, above: parents.split('.').length - 1, part: null };
}

/** `config.x or 'text'`, `next_page_token or 1` */
function withFallback(first: Expression, second: Expression, at: Component): Sent | null {
  // Two places of the same value, in an older form of the configuration and in a newer one.
  if ([first, second].every((part) => part.kind === 'path' && part.root === 'config')) {
    return sentBy(first.kind === 'path' && at.settings.isKnown(first.steps) ? first : second, at);
  }
  const sent = sentBy(first, at);
  if (sent.kind !== 'setting') return sent.kind === 'text' ? null : sent;
  if (isNothing(second)) return sent;
  const fallback = sent.setting.isSecret ? '' : fixedText(second);
  // A value that each run computes: a person gives one.
  return { ...sent, setting: { ...sent.setting, isRequired: fallback === '', fallback: fallback || null } };
}

const clockFormats = new Map([
  ['', 'dateTime'],
  ['%Y-%m-%d', 'date'],
  ['%Y%m%d', 'compactDate'],
  ['%Y-%m-%dT%H:%M:%SZ', 'dateTime'],
  ['%s', 'unix'],
]);

function readClock(name: string): Sent | null {
  if (name !== 'now_utc' && name !== 'today_utc') return null;
  return { kind: 'clock', days: 0, format: name === 'now_utc' ? 'dateTime' : 'date' };
}

function readCall(name: string, [value, ...rest]: readonly Expression[], at: Component): Sent | null {
  const [second] = rest;
  if (value === undefined) return readClock(name);
  const text = fixedText(second);
  switch (name) {
    case 'day_delta': {
      const format = clockFormats.get(text);
      const days = Number(fixedText(value) || Number.NaN);
      return format === undefined || Number.isNaN(days) ? null : { kind: 'clock', days, format };
    }
    case 'format_datetime':
    case 'strftime':
      return value.kind === 'path' && value.root === 'config'
        ? settingOf(at.settings.at(value.steps, at, text))
        : inFormat(sentBy(value, at), text);
    case 'slice': {
      const sent = sentBy(value, at);
      const [start, end] = rest.map((one) => expressionText(one));
      if (sent.kind !== 'bound' || sent.format !== null) return null;
      if (start === '-2' && end === 'null') return { kind: 'text', value: '00' };
      return start === 'null' && end === '-2' ? { ...sent, isCut: true } : null;
    }
    case 'timestamp':
      return inFormat(sentBy(value, at), '%s');
    case '-':
    case '+': {
      const given = second === undefined ? '' : expressionText(second);
      // A record is counted from 1.
      if (name === '+' && given === '1' && rootsOf(value).has('token')) {
        const sent = sentBy(value, at);
        return sent.kind === 'token' ? { ...sent, first: 1 } : null;
      }
      const [, days] = /^duration\("P(\d+)D"\)$/.exec(given) ?? [];
      const sent = days === undefined ? null : sentBy(value, at);
      return sent?.kind === 'clock' ? { ...sent, days: sent.days + Number(`${name}${days}`) } : null;
    }
    case 'part': {
      if (value.kind !== 'call' || value.name !== 'split' || second?.kind !== 'value') return null;
      const sent = sentBy(value.parts[0] ?? null, at);
      const part = { split: fixedText(value.parts[1]), part: second.value };
      return sent.kind === 'partition' && typeof second.value === 'number' ? { ...sent, part } : null;
    }
    default:
      return /^(?:int|strip|trim|str_to_datetime|sanitize_url)$/.test(name) ? sentBy(value, at) : null;
  }
}

/** The time as a text of this format; null: it is no time, or no run could write it so. */
function inFormat(sent: Sent, text: string): Sent | null {
  if (sent.kind === 'bound') return { ...sent, format: text };
  const format = clockFormats.get(text || 'none');
  return sent.kind === 'clock' && format !== undefined ? { ...sent, format } : null;
}

// --- The address of a request

/**
 * Divides the whole address of a request into its host and its path, whose templates are still in it. `host`: names in
 * the host, and where their values come from.
 */
export function addressOf(given: readonly Expression[], at: Component) {
  const queue = given.flatMap(partsOf);
  const used: Setting[] = [];
  const host: Record<string, JsonValue> = {};
  const [, scheme, start = ''] = /^\s*(?:([a-z]+):\/\/)?(.*)$/s.exec(fixedText(queue[0])) ?? [];
  if (queue[0]?.kind === 'value') queue[0] = { kind: 'value', value: start };
  if (queue[0]?.kind === 'value' && scheme !== 'https') {
    const shown = oneLine(fixedText(given[0]), 60);
    refuse(`an address that is not https (${shown}): credentials are sent there`, at);
  }
  let written = '';
  for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
    const [, before = '', behind = ''] = /^([^/]*)(.*)$/s.exec(fixedText(next)) ?? [];
    written += before;
    if (behind !== '') {
      queue.unshift({ kind: 'value', value: behind });
      break;
    }
    if (next.kind === 'value') continue;
    const isWhole = written === '' && (queue.length === 0 || /^[/:]/.test(fixedText(queue[0])));
    const named = hostName(next, isWhole, at);
    used.push(named.setting);
    host[named.setting.name] = named.host;
    written += `{${named.setting.name}}`;
    if (named.path !== '') queue.unshift({ kind: 'value', value: named.path });
  }
  return { baseUrl: `https://${written}`, host, path: queue, used };
}

/** A name in a host, of a value of the connector or of a table that it chooses from. */
function hostName(part: Expression, isWhole: boolean, at: Component) {
  const table = tableOf(part, at);
  if (table !== null) {
    const parts = Object.entries(table.map).map(([value, url]) => {
      const [, host = '', path = ''] = /^(?:https:\/\/)?([^/]*)(\/.*)?$/.exec(url) ?? [];
      return { value, host, path };
    });
    const path = parts[0]?.path ?? '';
    if (parts.some((one) => one.host === '' || one.path !== path)) {
      refuse('addresses to choose from that differ in more than the host', at);
    }
    const map = Object.fromEntries(parts.map(({ value, host }) => [value, host]));
    return { setting: table.setting, host: { from: [{ field: table.setting.name }], map }, path };
  }
  const isBare = part.kind === 'call' && /^(?:r?strip|replace|trim|sanitize_url)$/.test(part.name);
  const inner = isBare ? (part.parts[0] ?? part) : part;
  if ([...rootsOf(inner)].join() !== 'config') {
    refuse(`a host that is not fixed (${expressionText(inner)})`, at);
  }
  const sent = sentBy(inner, at);
  if (sent.kind !== 'setting') return refuse(`a host that is computed (${expressionText(inner)})`, at);
  const { setting, suffix } = sent;
  const stated = [...setting.values, setting.fallback ?? ''].filter((one) => one !== '');
  const paths = new Set(stated.map((one) => /^https?:\/\/[^/]*(.*?)\/?$/.exec(one)?.[1] ?? ''));
  if (paths.size > 1) {
    refuse(`addresses with several paths in ${setting.name}, of which only the host is used`, at);
  }
  const areHosts = setting.values.every((one) => /^[a-z0-9][a-z0-9.-]*$/.test(one));
  const isShort = setting.values.join('|').length <= 200;
  const pattern = hostPattern(areHosts && isShort ? setting.values : [], isWhole);
  const from = [{ field: setting.name, ...(isWhole ? { origin: true } : {}) }];
  return { setting, host: { from, pattern }, path: [...paths].join('') + suffix };
}

/** A text chosen by a value of the connector: `'eu' if config.region == 'EU' else 'us'`. */
function tableOf(expression: Expression, at: Component) {
  const map: Record<string, string> = {};
  let next = expression;
  let by: Steps | null = null;
  while (next.kind === 'if') {
    const [test, yes, no] = next.parts;
    const isEqual = test?.kind === 'compare' && test.name === '==';
    const [left, right] = isEqual ? test.parts : [test, { kind: 'value', value: true } as const];
    const isChoice = left?.kind === 'path' && left.root === 'config' && right?.kind === 'value';
    if (!isChoice || yes?.kind !== 'value' || (by ?? left.steps).join('.') !== left.steps.join('.')) {
      return null;
    }
    by = left.steps;
    map[fixedText(right)] = fixedText(yes);
    next = no ?? yes;
  }
  if (by === null || next.kind !== 'value') return null;
  const setting = at.settings.at(by, at);
  const values = Object.hasOwn(map, 'true') ? ['true', 'false'] : setting.values;
  const others = values.filter((value) => !Object.hasOwn(map, value));
  // Without a list of the values the file does not say which ones the last choice stands for.
  for (const value of others.length > 0 ? others : ['other']) map[value] = fixedText(next);
  return { setting, map };
}
