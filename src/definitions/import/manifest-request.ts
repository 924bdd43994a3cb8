import { isJsonArray, isJsonObject, withValueAt, type JsonObject, type JsonValue } from '../../core/json.ts';
import type { Expression } from './expressions.ts';
import type { Component } from './manifest-file.ts';
import {
  addressOf,
  refuse,
  sentBy,
  type PartOf,
  type Sent,
  type Setting,
  type Settings,
} from './manifest-values.ts';
import { plainText, wordsOf } from './schemas.ts';

export type Where = 'path' | 'query' | 'header' | 'body';

/** A place of a request that a value goes to. `name`: dotted in a body. */
export interface Place {
  readonly where: Where;
  readonly name: string;
}

/** A list parameter of the definition. */
interface Param {
  readonly name: string;
  readonly place: Place;
  readonly type: 'string' | 'integer' | 'array';
  readonly isRequired: boolean;
  readonly max: number | null;
}

/** A place that is filled from outside of the connector's values, with the list parameter that stands for it. */
export type Use =
  | {
      readonly kind: 'partition';
      readonly name: string;
      readonly above: number;
      readonly part: PartOf | null;
    }
  | { readonly kind: 'bound'; readonly bound: 'from' | 'to'; readonly format: string | null }
  | { readonly kind: 'token' }
  | { readonly kind: 'clock'; readonly days: number; readonly format: string };

export type Request = ReturnType<typeof readRequest>;

/** Reads what a requester sends. `signed`: a place that the sign-in fills. Refuses what cannot be sent so. */
export function readRequest(requester: Component, settings: Settings, signed: Place | null) {
  if (requester.isCustom || requester.type !== 'HttpRequester') refuse('a request of this type', requester);
  for (const name of ['fetch_properties_from_endpoint', 'query_properties']) {
    const part = requester.part(name);
    if (part !== null) refuse('requests that are divided by properties', part);
  }
  const method = (requester.text('http_method') ?? 'GET').toUpperCase();
  if (method !== 'GET' && method !== 'POST') refuse(`the method ${method}`, requester);
  const params = openParams(method);
  const used: Setting[] = [];
  const fixed = new Map<string, JsonValue>();
  const query: Record<string, JsonValue> = {};
  const headers: Record<string, JsonValue> = {};
  const fill: Record<string, JsonValue> = {};
  const uses: (Use & { readonly param: string })[] = [];
  let body: JsonObject = {};

  const use = (sent: Use, place: Place): void => {
    const isNeeded = sent.kind === 'partition' || place.where === 'path';
    const hint = sent.kind === 'partition' ? sent.name : sent.kind === 'bound' ? sent.bound : null;
    const param = params.add(place, { isRequired: isNeeded, hint });
    uses.push({ ...sent, param });
    if (sent.kind === 'clock') fixed.set(param, { days: sent.days, format: sent.format || 'dateTime' });
  };
  const put = (place: Place, sent: Sent, at: Component): void => {
    if (signed !== null && signed.where === place.where && signed.name === place.name) return;
    switch (sent.kind) {
      case 'text':
        return putText(place, sent.value, at);
      case 'setting': {
        used.push(sent.setting);
        const value = { field: sent.setting.name, ...(sent.suffix === '' ? {} : { suffix: sent.suffix }) };
        const target = { query, header: headers, body: fill, path: {} as Record<string, JsonValue> }[
          place.where
        ];
        target[place.name] = value;
        return;
      }
      default:
        use(sent, place);
    }
  };
  const putText = ({ where, name }: Place, value: JsonValue, at: Component): void => {
    if (value === null || value === '') return;
    if (where === 'body') body = withValueAt(body, name.split('.'), value);
    else if (typeof value !== 'object') {
      if (where === 'query') query[name] = plainText(value);
      else if (!ownHeaders.has(name.toLowerCase())) headers[name] = plainText(value);
    } else if (isJsonArray(value) && where === 'query') {
      const param = params.add({ where, name }, { type: 'array' });
      fixed.set(param, value.map(plainText));
    } else refuse(`a value of ${name} that is no text`, at);
  };

  const { baseUrl, host, path } = addressOf(urlOf(requester), settings, used, requester);
  const written = writePath(path, (expression, name) => {
    const sent = sentBy(expression, settings, requester);
    if (sent.kind === 'text') return plainText(sent.value);
    if (sent.kind === 'setting') {
      used.push({ ...sent.setting, isRequired: sent.setting.fallback === null });
      return `{${sent.setting.name}}${sent.suffix}`;
    }
    use(sent, { where: 'path', name });
    return `{${uses.at(-1)?.param}}`;
  });
  for (const [name, expression] of written.query)
    put({ where: 'query', name }, sentBy(expression, settings, requester), requester);
  for (const [where, of] of [
    ['query', 'request_parameters'],
    ['header', 'request_headers'],
  ] as const) {
    for (const [name, expression] of membersOf(requester, of)) {
      put({ where, name }, sentBy(expression, settings, requester), requester);
    }
  }
  const form = readBody(requester, (place, expression) => {
    put(place, sentBy(expression, settings, requester), requester);
  });
  return {
    baseUrl,
    host,
    method,
    path: written.path,
    form,
    fixed,
    uses,
    used,
    params,
    put: (place: Place, sent: Sent, at: Component): void => put(place, sent, at),
    /** What is sent with every call. */
    parts: () => ({ query, headers, body, fill }),
    hasBody: () => Object.keys(body).length > 0 || Object.keys(fill).length > 0 || params.inBody(),
  };
}

/** Headers that the program sets itself. */
const ownHeaders: ReadonlySet<string> = new Set([
  'content-type',
  'accept-encoding',
  'connection',
  'host',
  'content-length',
]);

function urlOf(requester: Component): Expression {
  const base = requester.expression('url_base') ?? requester.expression('url');
  const path = requester.expression('path');
  if (base === null) return refuse('a request without an address', requester);
  for (const part of [base, path]) {
    if (part?.kind === 'other') refuse(`an address that is computed: ${part.why}`, requester);
  }
  if (path === null) return base;
  const parts = [base, { kind: 'value', value: '/' } as const, path];
  return { kind: 'join', parts: parts.flatMap((part) => (part.kind === 'join' ? part.parts : [part])) };
}

/** Writes the path, and divides off a query that stands in it. */
function writePath(path: readonly Expression[], write: (expression: Expression, name: string) => string) {
  let text = '';
  const query: (readonly [string, Expression])[] = [];
  let open: string | null = null;
  for (const part of path) {
    if (part.kind !== 'value') {
      if (open === null) text += write(part, /\/([^/]*)\/$/.exec(text)?.[1] ?? 'id');
      else query.push([open, part]);
      continue;
    }
    const [before = '', ...behind] = plainText(part.value).split('?');
    if (open === null) text += before;
    const rest: string = open === null ? behind.join('?') : plainText(part.value);
    for (const pair of rest.split('&').filter((one) => one !== '')) {
      const [name = '', ...value] = pair.split('=');
      open = decoded(name);
      if (value.join('') !== '') query.push([open, { kind: 'value', value: decoded(value.join('=')) }]);
    }
  }
  return { path: `/${text.replaceAll(/\/{2,}/g, '/').replace(/^\//, '')}`, query };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // Not encoded: the text stands for itself.
    return text;
  }
}

/** The members of a map of templates; a text such as `a=b&c=d` is one too. */
function membersOf(requester: Component, name: string): readonly (readonly [string, Expression])[] {
  const value = requester.get(name);
  if (value === undefined || value === null || value === '') return [];
  if (typeof value === 'string') {
    const whole = requester.parse(value);
    if (whole.kind !== 'value') return refuse(`${name} that are computed as a whole`, requester);
    return [...new URLSearchParams(value)].map(([key, one]) => [key, { kind: 'value', value: one }] as const);
  }
  if (!isJsonObject(value)) return refuse(`${name} of a form that is not read`, requester);
  return Object.entries(value)
    .filter(([key]) => key !== '$parameters')
    .map(([key, one]) => {
      if (isJsonObject(one)) return refuse(`a value of ${key} that is no text`, requester);
      const parsed =
        typeof one === 'string' ? requester.parse(one) : ({ kind: 'value', value: one } as const);
      return [key, parsed] as const;
    });
}

/** Reads the body; true: it is sent as a form. */
function readBody(requester: Component, put: (place: Place, expression: Expression) => void): boolean {
  const stated = requester.part('request_body');
  const kind = stated?.type ?? '';
  const isForm = kind === 'RequestBodyUrlEncodedForm' || requester.get('request_body_data') !== undefined;
  if (
    stated !== null &&
    !['RequestBodyJsonObject', 'RequestBodyGraphQL', 'RequestBodyUrlEncodedForm'].includes(kind)
  ) {
    refuse('a body of this type', stated);
  }
  const data =
    stated?.get('value') ?? requester.get('request_body_json') ?? requester.get('request_body_data');
  if (data === undefined || data === null || data === '' || JSON.stringify(data, withoutBigints) === '{}')
    return false;
  const walk = (value: JsonValue, at: readonly string[], depth: number): void => {
    if (depth > 20) refuse('a body with too much nesting', requester);
    if (isJsonObject(value) && Object.keys(value).length > 0) {
      for (const [name, one] of Object.entries(value)) {
        if (name === '$parameters') continue;
        if (name.includes('.')) refuse(`a member of the body with a dot in its name (${name})`, requester);
        walk(one, [...at, name], depth + 1);
      }
      return;
    }
    const name = at.join('.');
    if (isJsonArray(value) && /\{[{%]/.test(JSON.stringify(value, withoutBigints))) {
      refuse(`a template in a list of the body (${name})`, requester);
    }
    put(
      { where: 'body', name },
      typeof value === 'string' ? requester.parse(value) : { kind: 'value', value },
    );
  };
  walk(typeof data === 'string' ? parsedBody(data, isForm, requester) : data, [], 0);
  return isForm;
}

function withoutBigints(_name: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value;
}

function parsedBody(text: string, isForm: boolean, requester: Component): JsonObject {
  if (requester.parse(text).kind !== 'value')
    return refuse('a body that a template writes as a whole', requester);
  if (isForm) return Object.fromEntries(new URLSearchParams(text));
  try {
    // `as`: a text in JSON has JSON.
    const value = JSON.parse(text) as JsonValue;
    if (isJsonObject(value)) return value;
  } catch {
    // Refused below, as JSON that is no object is.
  }
  return refuse('a body that is no object', requester);
}

/** Collects list parameters under names that a definition accepts. */
function openParams(method: string) {
  const params: Param[] = [];
  const isFree = (name: string): boolean => !params.some((param) => param.name === name);
  return {
    add: (
      place: Place,
      more: { type?: Param['type']; isRequired?: boolean; hint?: string | null; max?: number } = {},
    ): string => {
      const wanted = [
        place.where === 'path' ? (more.hint ?? place.name) : place.name,
        more.hint ?? '',
        place.name,
      ]
        .map((name) =>
          /^[A-Za-z$][A-Za-z0-9_.$[\]-]{0,59}$/.test(name) ? name : wordsOf(name).join('_').slice(0, 60),
        )
        .filter((name) => /^[a-z$]/i.test(name) && (place.where !== 'path' || /^[\w.-]+$/.test(name)));
      const base = wanted[0] ?? 'value';
      let name = wanted.find(isFree) ?? base;
      for (let number = 2; !isFree(name); number += 1) name = `${base}_${number}`;
      const { type = 'string', isRequired = false, max = null } = more;
      params.push({ name, place, type, isRequired, max });
      return name;
    },
    /** The parameter that already goes to a place. */
    at: ({ where, name }: Place): string | null =>
      params.find(({ place }) => place.where === where && place.name === name)?.name ?? null,
    /** Takes a parameter away; its place, or null where there is none. */
    remove: (name: string): Place | null => {
      const index = params.findIndex((param) => param.name === name);
      return params.splice(index, index < 0 ? 0 : 1)[0]?.place ?? null;
    },
    inBody: () => params.some(({ place }) => place.where === 'body'),
    declared: (): JsonObject =>
      Object.fromEntries(
        params.map(({ name, type, isRequired, max }) => [
          name,
          { type, ...(isRequired ? { required: true } : {}), ...(max === null ? {} : { min: 1, max }) },
        ]),
      ),
    rules: (): JsonObject =>
      Object.fromEntries(
        params.flatMap(({ name, place: { where, name: sent }, type }) => {
          if (where === 'path') return [];
          const rule: Record<string, JsonValue> = {};
          if (where === 'body' && sent !== name) rule['at'] = sent;
          if (where !== 'body' && sent !== name) rule['as'] = sent;
          if (where === 'header') rule['in'] = 'header';
          if (where === 'query' && method === 'POST') rule['in'] = 'query';
          if (type === 'array') rule['list'] = 'repeat';
          return Object.keys(rule).length === 0 ? [] : [[name, rule] as const];
        }),
      ),
  };
}

/** Where an option of a request goes; null: it is the address itself. */
export function placeOfOption(option: Component, settings: Settings): Place | null {
  if (option.type === 'RequestPath') return null;
  const into = option.text('inject_into') ?? '';
  const where = whereByWord.get(into);
  if (into === 'path') return null;
  if (where === undefined) return refuse(`an option that goes into ${into || 'nothing'}`, option);
  const path = option.get('field_path');
  const names = isJsonArray(path) ? path.map(plainText) : [option.text('field_name') ?? ''];
  const texts = names.map((name) => {
    const sent = sentBy(option.parse(name), settings, option);
    return sent.kind === 'text'
      ? plainText(sent.value)
      : refuse('a name of an option that is computed', option);
  });
  if (texts.includes('')) return refuse('an option without a name', option);
  return { where, name: texts.join('.') };
}

const whereByWord = new Map<string, Where>([
  ['request_parameter', 'query'],
  ['header', 'header'],
  ['body_json', 'body'],
  ['body_data', 'body'],
]);
