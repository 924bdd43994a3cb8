import { isJsonArray, isJsonObject, withValueAt, type JsonObject, type JsonValue } from '../../core/json.ts';
import { fixedText, partsOf, type Expression } from './expressions.ts';
import type { Component } from './manifest-file.ts';
import { refuse } from './manifest-settings.ts';
import { addressOf, sentBy, textBy, type Sent, type Use } from './manifest-values.ts';
import { holdsTemplate, plainText, wordsOf } from './schemas.ts';
import { stated } from './write-definition.ts';

/** A place of a request that a value goes to. `name`: dotted in a body. */
export interface Place {
  readonly where: 'path' | 'query' | 'header' | 'body';
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
  const uses: (Use & { readonly param: string })[] = [];
  const parts: Record<'query' | 'header' | 'body', Record<string, JsonValue>> = {
    query: {},
    header: {},
    body: {},
  };
  let body: JsonObject = {};

  /** Puts a value at its place. In a path, returns what is written there. */
  const put = (place: Place, sent: Sent, at: Component): string => {
    const { where, name } = place;
    if (signed?.where === where && signed.name === name) return '';
    if (sent.kind === 'text') {
      const text = plainText(sent.value);
      if (where === 'path') return text;
      if (where === 'body') body = withValueAt(body, name.split('.'), sent.value);
      else if (isJsonArray(sent.value) && where === 'query') {
        fixed[params.add(place, { type: 'array' })] = sent.value.map(plainText);
      } else if (isJsonObject(sent.value)) refuse(`a value of ${name} that is no text`, at);
      else if (text !== '' && !ownHeaders.test(name)) parts[where][name] = text;
      return '';
    }
    if (sent.kind === 'setting') {
      const { setting, suffix } = sent;
      used.push(where === 'path' ? { ...setting, isRequired: setting.fallback === null } : setting);
      if (where === 'path') return `{${setting.name}}${suffix}`;
      parts[where][name] = { field: setting.name, ...(suffix === '' ? {} : { suffix }) };
      return '';
    }
    const hint = sent.kind === 'partition' ? sent.name : sent.kind === 'bound' ? sent.bound : null;
    const param = params.add(place, { isRequired: sent.kind === 'partition' || where === 'path', hint });
    if (!uses.some((use) => use.param === param)) uses.push({ ...sent, param });
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
    /** Whether a GET has a body. */
    isOdd: () =>
      method === 'GET' &&
      ([body, parts.body].some((part) => Object.keys(part).length > 0) || params.areInBody()),
    /** The members of the request that are the same in every call. */
    sent: (): JsonObject => ({
      ...(method === 'POST' ? { method, safe: true } : {}),
      path: written.path,
      ...stated({ query: parts.query, body, fill: parts.body }),
      ...(sentBody.isForm ? { bodyAs: 'form' } : {}),
    }),
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
  const isFixed = !isJsonArray(value) && requester.parse(value).kind === 'value';
  if (!isJsonObject(value) && !isFixed) refuse(`${name} that are computed as a whole`, requester);
  const members = isJsonObject(value) ? Object.entries(value) : [...new URLSearchParams(plainText(value))];
  return members
    .filter(([key]) => key !== '$parameters')
    .map(([key, one]) => [key, isJsonObject(value) ? requester.parse(one) : { kind: 'value', value: one }]);
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
  return {
    /** The name of the parameter at a place, which takes one only. */
    add: (place: Place, more: Param = {}): string => {
      const isPath = place.where === 'path';
      const [known] =
        [...params].find(([, one]) => one.place.where === place.where && one.place.name === place.name) ?? [];
      if (known !== undefined && !isPath) return known;
      const [first = '', second = ''] = [
        (isPath ? more.hint : null) ?? place.name,
        more.hint ?? place.name,
      ].map((name) => accepted(name, isPath));
      let name = params.has(first) ? second : first;
      for (let number = 2; params.has(name); number += 1) name = `${first}_${number}`;
      params.set(name, { ...more, place });
      return name;
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
          { type, ...(isRequired ? { required: true } : {}), ...(max === undefined ? {} : { min: 1, max }) },
        ]),
      ),
    rules: (): JsonObject =>
      stated(
        Object.fromEntries(
          [...params].map(
            ([
              name,
              {
                place: { where, name: sent },
                type,
              },
            ]) => [
              name,
              {
                ...(sent === name || where === 'path' ? {} : { [where === 'body' ? 'at' : 'as']: sent }),
                ...(where === 'header' || (where === 'query' && method === 'POST') ? { in: where } : {}),
                ...(type === 'array' ? { list: 'repeat' } : {}),
              },
            ],
          ),
        ),
      ),
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
  const path = option.get('field_path') ?? [option.text('field_name') ?? ''];
  const names = (isJsonArray(path) ? path : []).map((name) => textBy(option.parse(plainText(name)), option));
  if (names.length === 0 || names.includes('')) refuse('an option without a fixed name', option);
  const where = word === 'header' ? 'header' : word === 'request_parameter' ? 'query' : 'body';
  return { where, name: names.join('.') };
}
