import { isJsonArray, isJsonObject, withValueAt, type JsonObject, type JsonValue } from '../../core/json.ts';
import { fixedText, type Expression } from './expressions.ts';
import type { Component } from './manifest-file.ts';
import { addressOf, refuse, sentBy, type Sent, type Settings, type Use } from './manifest-values.ts';
import { plainText, wordsOf } from './schemas.ts';

/** A place of a request that a value goes to. `name`: dotted in a body. */
export interface Place {
  readonly where: 'path' | 'query' | 'header' | 'body';
  readonly name: string;
}

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
  const fixed = new Map<string, JsonValue>();
  const given: Record<'query' | 'header' | 'body', Record<string, JsonValue>> = {
    query: {},
    header: {},
    body: {},
  };
  const uses: (Use & { readonly param: string })[] = [];
  let body: JsonObject = {};
  const address = addressOf(urlOf(requester), settings, requester);
  const used = [...address.used];

  /** Puts a value at its place. In a path, returns what is written there. */
  const put = (place: Place, sent: Sent, at: Component): string => {
    const { where, name } = place;
    if (signed?.where === where && signed.name === name) return '';
    if (sent.kind === 'text') {
      if (where === 'path') return plainText(sent.value);
      if (where === 'body') body = withValueAt(body, name.split('.'), sent.value);
      else if (isJsonArray(sent.value) && where === 'query') {
        fixed.set(params.add(place, { type: 'array' }), sent.value.map(plainText));
      } else if (isJsonObject(sent.value)) refuse(`a value of ${name} that is no text`, at);
      else if (plainText(sent.value) !== '' && !ownHeaders.has(name.toLowerCase())) {
        given[where][name] = plainText(sent.value);
      }
      return '';
    }
    if (sent.kind === 'setting') {
      const { setting, suffix } = sent;
      used.push(where === 'path' ? { ...setting, isRequired: setting.fallback === null } : setting);
      if (where === 'path') return `{${setting.name}}${suffix}`;
      given[where][name] = { field: setting.name, ...(suffix === '' ? {} : { suffix }) };
      return '';
    }
    const hint = sent.kind === 'partition' ? sent.name : sent.kind === 'bound' ? sent.bound : null;
    const param = params.add(place, { isRequired: sent.kind === 'partition' || where === 'path', hint });
    if (!uses.some((use) => use.param === param)) uses.push({ ...sent, param });
    if (sent.kind === 'clock') fixed.set(param, { days: sent.days, format: sent.format });
    return `{${param}}`;
  };
  const putAll = (where: Place['where'], members: readonly (readonly [string, Expression])[]): void => {
    for (const [name, expression] of members) {
      put({ where, name }, sentBy(expression, settings, requester), requester);
    }
  };

  const written = writePath(address.path, (expression, name) => {
    return put({ where: 'path', name }, sentBy(expression, settings, requester), requester);
  });
  putAll('query', [...written.query, ...membersOf(requester, 'request_parameters')]);
  putAll('header', membersOf(requester, 'request_headers'));
  const form = readBody(requester, (members) => putAll('body', members));
  return {
    baseUrl: address.baseUrl,
    host: address.host,
    method,
    path: written.path,
    form,
    fixed,
    uses,
    used,
    params,
    put,
    /** Values that are sent with every call. */
    parts: () => ({ query: given.query, headers: given.header, body, fill: given.body }),
    hasBody: () => [body, given.body].some((part) => Object.keys(part).length > 0) || params.inBody(),
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
function writePath(given: readonly Expression[], write: (expression: Expression, name: string) => string) {
  const parts = given.flatMap((part) => (part.kind === 'join' ? part.parts : [part]));
  const query: (readonly [string, Expression])[] = [];
  let text = '';
  let open: string | null = null;
  for (const part of parts) {
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
function membersOf(requester: Component, name: string): readonly (readonly [string, Expression])[] {
  const value = requester.get(name) ?? '';
  if (isJsonObject(value)) {
    return Object.entries(value)
      .filter(([key]) => key !== '$parameters')
      .map(([key, one]) => [
        key,
        typeof one === 'string' ? requester.parse(one) : { kind: 'value', value: one },
      ]);
  }
  const whole = requester.parse(plainText(value));
  if (whole.kind !== 'value' || isJsonArray(value)) {
    return refuse(`${name} that are computed as a whole`, requester);
  }
  return [...new URLSearchParams(plainText(value))].map(([key, one]) => [key, { kind: 'value', value: one }]);
}

/** Reads the body; true: it is sent as a form. */
export function readBody(
  requester: Component,
  put: (members: readonly (readonly [string, Expression])[]) => void,
): boolean {
  const stated = requester.part('request_body');
  const kind = stated?.type ?? 'RequestBodyJsonObject';
  if (stated !== null && !/^RequestBody(?:JsonObject|GraphQL|UrlEncodedForm)$/.test(kind)) {
    refuse('a body of this type', stated);
  }
  const isForm = kind === 'RequestBodyUrlEncodedForm' || requester.get('request_body_data') !== undefined;
  const data =
    stated?.get('value') ?? requester.get('request_body_json') ?? requester.get('request_body_data') ?? {};
  const walk = (value: JsonValue, at: readonly string[]): void => {
    if (isJsonObject(value) && (at.length === 0 || Object.keys(value).length > 0)) {
      for (const [name, one] of Object.entries(value)) {
        if (name.includes('.') || at.length > 20) {
          refuse(`a member of the body with a dot in its name (${name})`, requester);
        }
        if (name !== '$parameters') walk(one, [...at, name]);
      }
      return;
    }
    if (isJsonArray(value) && /\{[{%]/.test(JSON.stringify(value, withoutBigints))) {
      refuse(`a template in a list of the body (${at.join('.')})`, requester);
    }
    put([[at.join('.'), typeof value === 'string' ? requester.parse(value) : { kind: 'value', value }]]);
  };
  walk(typeof data === 'string' ? parsedBody(data, isForm, requester) : data, []);
  return isForm;
}

function withoutBigints(_name: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value;
}

function parsedBody(text: string, isForm: boolean, requester: Component): JsonObject {
  if (requester.parse(text).kind !== 'value') {
    return refuse('a body that a template writes as a whole', requester);
  }
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

/** A list parameter of the definition. */
interface Param {
  readonly name: string;
  readonly place: Place;
  readonly type: 'string' | 'integer' | 'array';
  readonly isRequired: boolean;
  readonly max: number | null;
}

/** Collects list parameters under names that a definition accepts. */
function openParams(method: string) {
  const params: Param[] = [];
  return {
    /** The name of the parameter at a place, which takes one only. `hint`: its name in a path, or a second choice. */
    add: (
      place: Place,
      more: { type?: Param['type']; isRequired?: boolean; hint?: string | null; max?: number } = {},
    ): string => {
      const known = params.find(
        (param) => param.place.where === place.where && param.place.name === place.name,
      );
      if (known !== undefined && place.where !== 'path') return known.name;
      const isPath = place.where === 'path';
      const names = [...(isPath ? [more.hint ?? place.name] : [place.name]), more.hint ?? place.name].map(
        (name) =>
          (isPath ? /^[A-Za-z][\w.-]{0,59}$/ : /^[A-Za-z$][\w.$[\]-]{0,59}$/).test(name)
            ? name
            : wordsOf(`p ${name}`).join('_').slice(0, 58),
      );
      const isFree = (name: string): boolean => !params.some((param) => param.name === name);
      let name = names.find(isFree) ?? `${names[0]}_2`;
      for (let number = 3; !isFree(name); number += 1) name = `${names[0]}_${number}`;
      params.push({
        name,
        place,
        type: more.type ?? 'string',
        isRequired: more.isRequired ?? false,
        max: more.max ?? null,
      });
      return name;
    },
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
          const rule = {
            ...(sent === name || where === 'path' ? {} : { [where === 'body' ? 'at' : 'as']: sent }),
            ...(where === 'header' || (where === 'query' && method === 'POST') ? { in: where } : {}),
            ...(type === 'array' ? { list: 'repeat' } : {}),
          };
          return Object.keys(rule).length === 0 ? [] : [[name, rule] as const];
        }),
      ),
  };
}

const whereByWord = new Map<string, Place['where']>([
  ['request_parameter', 'query'],
  ['header', 'header'],
  ['body_json', 'body'],
  ['body_data', 'body'],
]);

/** Where an option of a request goes; null: it is the address itself. */
export function placeOfOption(option: Component, settings: Settings): Place | null {
  const into = option.text('inject_into') ?? '';
  if (option.type === 'RequestPath' || into === 'path') return null;
  const path = option.get('field_path');
  const names = isJsonArray(path) ? path.map(plainText) : [option.text('field_name') ?? ''];
  const texts = names.map((name) => {
    const sent = sentBy(option.parse(name), settings, option);
    return sent.kind === 'text' ? plainText(sent.value) : '';
  });
  const where = whereByWord.get(into) ?? refuse(`an option that goes into ${into || 'nothing'}`, option);
  return texts.includes('')
    ? refuse('an option without a fixed name', option)
    : { where, name: texts.join('.') };
}
