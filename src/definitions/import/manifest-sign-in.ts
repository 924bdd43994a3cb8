import { isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import type { Expression } from './expressions.ts';
import type { Component } from './manifest-file.ts';
import { placeOfOption, type Place } from './manifest-request.ts';
import { addressOf, refuse, Refusal, sentBy, type Setting, type Settings } from './manifest-values.ts';
import { listIn, oneLine, plainText, textIn, wordsOf } from './schemas.ts';
import type { SignIn } from './sign-in-ways.ts';
import type { Need } from './manifest-language.ts';

/** The ways in which the requests of a stream are signed. */
export interface Signing {
  /** Equal for requests that are signed alike. */
  readonly id: string;
  readonly ways: readonly SignIn[];
  /** Names in the addresses of token requests. */
  readonly host: JsonObject;
  /** The place of the key, where the file sends it as a value of the request. */
  readonly place: Place | null;
  readonly needs: ReadonlySet<Need>;
  /** Values of the connector in addresses of tokens. */
  readonly used: readonly Setting[];
}

/** Reads how a requester signs its requests. Each way that cannot be used has the reason in it. */
export function readSigning(requester: Component, settings: Settings): Signing {
  const needs = new Set<Need>();
  const used: Setting[] = [];
  const host: Record<string, JsonValue> = {};
  const authenticator = requester.part('authenticator');
  if (authenticator === null || authenticator.type === 'NoAuth') {
    const stated = statedKey(requester, settings);
    if (stated !== null)
      return { id: JSON.stringify(stated.auth), ways: [stated.way], host, place: stated.place, needs, used };
    needs.add('noSignIn');
    const way = {
      title: 'No sign-in',
      fields: {},
      auth: { kind: 'none' },
      why: '',
      headers: new Map(),
      guesses: [],
    };
    return { id: 'none', ways: [way], host, place: null, needs, used };
  }
  const choices = authenticator.part('authenticators');
  const names = authenticator.type === 'SelectiveAuthenticator' ? Object.keys(objectOf(authenticator)) : [];
  const all = names.flatMap((name) => {
    const one = choices?.part(name) ?? null;
    return one === null ? [] : [{ title: titleOf(name), one }];
  });
  const stated =
    all.length > 0 ? all : [{ title: titles.get(authenticator.type) ?? 'Credentials', one: authenticator }];
  const ways = stated.map(({ title, one }) => readWay(title, one, { settings, host, needs, used }));
  const id = JSON.stringify(ways.map(({ auth, why }) => auth ?? why));
  return { id, ways, host, place: null, needs, used };
}

function objectOf(authenticator: Component): JsonObject {
  const value = authenticator.get('authenticators');
  return isJsonObject(value) ? value : {};
}

function titleOf(name: string): string {
  const text = wordsOf(name).join(' ').slice(0, 60);
  return text === '' ? 'Credentials' : `${text[0]?.toUpperCase()}${text.slice(1)}`;
}

const titles = new Map([
  ['BearerAuthenticator', 'API token'],
  ['ApiKeyAuthenticator', 'API key'],
  ['BasicHttpAuthenticator', 'User and password'],
  ['OAuthAuthenticator', 'OAuth'],
  ['SessionTokenAuthenticator', 'User and password'],
]);

interface Reading {
  readonly settings: Settings;
  readonly fields: SignIn['fields'];
  readonly host: Record<string, JsonValue>;
  readonly guesses: string[];
  readonly needs: Set<Need>;
  readonly used: Setting[];
}

function readWay(title: string, one: Component, shared: Omit<Reading, 'fields' | 'guesses'>): SignIn {
  const reading: Reading = { ...shared, fields: {}, guesses: [] };
  const { fields, guesses } = reading;
  try {
    const auth = authOf(one, reading);
    return { title, fields, auth, why: '', headers: new Map(), guesses };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return { title, fields, auth: null, why: error.message, headers: new Map(), guesses };
  }
}

function authOf(one: Component, reading: Reading): JsonObject {
  const value = (name: string): JsonObject => valueOf(one.expression(name), one, reading);
  switch (one.isCustom ? 'custom' : one.type) {
    case 'BearerAuthenticator':
      return { kind: 'bearer', token: value('api_token') };
    case 'BasicHttpAuthenticator': {
      const password = one.expression('password');
      return {
        kind: 'basic',
        user: value('username'),
        password: password === null ? { text: '' } : value('password'),
      };
    }
    case 'ApiKeyAuthenticator':
      return apiKey(one, reading);
    case 'OAuthAuthenticator':
      return oauth(one, reading);
    case 'SessionTokenAuthenticator':
      return login(one, reading);
    default:
      return refuse('a sign-in of this type', one);
  }
}

/** A credential value: a field, or a fixed text. */
function valueOf(expression: Expression | null, at: Component, { settings, fields }: Reading): JsonObject {
  if (expression === null) return refuse('a sign-in without its value', at);
  const sent = sentBy(expression, settings, at);
  if (sent.kind === 'text') return { text: plainText(sent.value) };
  if (sent.kind !== 'setting') return refuse('a sign-in by a value that is not of the connector', at);
  const { setting, suffix } = sent;
  fields[setting.name] = { secret: setting.isSecret, required: true };
  return { field: setting.name, ...(suffix === '' ? {} : { suffix }) };
}

/** `Token {{ config.key }}`: the text before a value. */
function prefixed(expression: Expression | null) {
  const [first, ...rest] = expression?.kind === 'join' ? expression.parts : [];
  const [value, ...more] = rest;
  if (first?.kind !== 'value' || value === undefined || more.length > 1)
    return { prefix: '', value: expression };
  return {
    prefix: plainText(first.value),
    value: more.length === 0 ? value : ({ kind: 'join', parts: rest } as const),
  };
}

function apiKey(one: Component, reading: Reading): JsonObject {
  const option = one.part('inject_into');
  const place: Place | null =
    option === null
      ? { where: 'header', name: sentText(one, 'header', reading) }
      : placeOfOption(option, reading.settings);
  const { prefix, value } = prefixed(one.expression('api_token'));
  const key = { value: valueOf(value, one, reading) };
  if (place?.where === 'query' && prefix === '') return { kind: 'query', name: place.name, ...key };
  if (place?.where === 'header') {
    return { kind: 'header', name: place.name, ...key, ...(prefix === '' ? {} : { prefix }) };
  }
  if (place?.where === 'body' && prefix === '') {
    reading.needs.add('keyInBody');
    return { kind: 'body', at: place.name, ...key };
  }
  return refuse('a key in this place', option ?? one);
}

function sentText(one: Component, name: string, { settings }: Reading): string {
  const expression = one.expression(name);
  const sent = expression === null ? null : sentBy(expression, settings, one);
  return sent?.kind === 'text' ? plainText(sent.value) : refuse(`a sign-in without ${name}`, one);
}

/** Names of the fields that a token request has by RFC 6749. */
const usualNames = new Map([
  ['access_token_name', 'access_token'],
  ['client_id_name', 'client_id'],
  ['client_secret_name', 'client_secret'],
  ['refresh_token_name', 'refresh_token'],
  ['grant_type_name', 'grant_type'],
]);

function oauth(one: Component, reading: Reading): JsonObject {
  const { fields, guesses, needs } = reading;
  for (const [name, usual] of usualNames) {
    if ((one.text(name) ?? usual) !== usual) refuse(`${name} other than ${usual}`, one);
  }
  if (one.get('profile_assertion') !== undefined) refuse('a token by a signed assertion', one);
  const grant =
    one.expression('grant_type') === null ? 'refresh_token' : sentText(one, 'grant_type', reading);
  const style = tokenHeaders(one);
  const client = {
    clientId: valueOf(one.expression('client_id'), one, reading),
    clientSecret: valueOf(one.expression('client_secret'), one, reading),
  };
  const shared = { ...client, tokenUrl: tokenUrl(one, reading), style, format: 'form' };
  const params = tokenParams(one, reading);
  const scope = listIn(one.get('scopes')).map(plainText).join(' ');
  if (grant === 'client_credentials') {
    return {
      kind: 'clientCredentials',
      ...shared,
      ...(scope === '' ? {} : { scope }),
      ...filled({ params }),
    };
  }
  if (grant === 'password') {
    needs.add('passwordGrant');
    const { username, password, ...others } = params;
    if (!isJsonObject(username) || !isJsonObject(password))
      refuse('a token by a password that is not of the connector', one);
    return {
      kind: 'password',
      ...shared,
      user: username ?? {},
      password: password ?? {},
      ...filled({ params: others }),
    };
  }
  if (grant !== 'refresh_token') refuse(`a token by the grant ${oneLine(grant, 40)}`, one);
  const refresh = valueOf(one.expression('refresh_token'), one, reading);
  const refreshToken =
    textIn(refresh, 'field') ?? refuse('a refresh token that is not of the connector', one);
  const kept = fields['access_token'] === undefined ? 'access_token' : 'access_token_2';
  fields[kept] = { secret: true, required: false };
  const all = scope === '' ? params : { ...params, scope };
  if (Object.keys(all).length > 0) needs.add('tokenParams');
  guesses.push('style');
  const rotates = one.part('refresh_token_updater') !== null;
  return { kind: 'refresh', accessToken: kept, refreshToken, rotates, ...shared, ...filled({ params: all }) };
}

function filled(members: Readonly<Record<string, JsonObject>>): JsonObject {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => Object.keys(value).length > 0));
}

/** How the client identifies itself: by basic authentication where a header has it. */
function tokenHeaders(one: Component): 'basic' | 'body' {
  const headers = one.get('refresh_request_headers');
  const names = Object.keys(isJsonObject(headers ?? null) ? (headers as JsonObject) : {});
  const others = names.filter((name) => !/^(?:content-type|accept)$/i.test(name));
  if (others.length === 0) return 'body';
  const isBasic = others.length === 1 && /^authorization$/i.test(others[0] ?? '');
  const text = JSON.stringify(headers);
  if (isBasic && /Basic/.test(text) && /client_id/.test(text) && /client_secret/.test(text)) return 'basic';
  return refuse('a token request with a header that is computed', one);
}

/** Additional members of the token request. */
function tokenParams(one: Component, reading: Reading): Readonly<Record<string, JsonObject | string>> {
  const body = one.get('refresh_request_body');
  if (!isJsonObject(body ?? null)) return {};
  const found: Record<string, JsonObject | string> = {};
  // `as`: checked above.
  for (const [name, value] of Object.entries(body as JsonObject)) {
    if (['grant_type', 'client_id', 'client_secret', 'refresh_token'].includes(name)) continue;
    const given = valueOf(one.parse(plainText(value)), one, reading);
    found[name] = textIn(given, 'text') ?? given;
  }
  return found;
}

function tokenUrl(one: Component, reading: Reading): string {
  const url = one.expression('token_refresh_endpoint');
  return url === null ? refuse('a token request without an address', one) : writtenUrl(url, one, reading);
}

/** An address with names in its host only. */
function writtenUrl(url: Expression, at: Component, { settings, host, used }: Reading): string {
  const address = addressOf(url, settings, used, at);
  Object.assign(host, address.host);
  const path = address.path.map((part) =>
    part.kind === 'value'
      ? plainText(part.value)
      : refuse('an address of tokens with a value in its path', at),
  );
  const text = path.join('').replaceAll(/\/{2,}/g, '/');
  if (text.includes('?')) refuse('an address of tokens with a query', at);
  return `${address.baseUrl}${text}`;
}

/** A token by one call. */
function login(one: Component, reading: Reading): JsonObject {
  reading.needs.add('login');
  const requester = one.part('login_requester') ?? refuse('a login without its request', one);
  if (requester.isCustom || requester.type !== 'HttpRequester') refuse('a login of this type', requester);
  const inner = requester.part('authenticator');
  if (inner !== null && inner.type !== 'NoAuth') refuse('a login that is signed itself', inner);
  const base = requester.expression('url_base') ?? requester.expression('url');
  const path = requester.expression('path');
  const parts = [base, path === null ? null : ({ kind: 'value', value: '/' } as const), path].filter(
    (part) => part !== null,
  );
  const url = writtenUrl(
    { kind: 'join', parts: parts.flatMap((part) => (part.kind === 'join' ? part.parts : [part])) },
    requester,
    reading,
  );
  const token = listIn(one.get('session_token_path')).map(plainText).join('.');
  if (token === '') refuse('a login that does not say where its token is', one);
  const sent =
    requester.get('request_body_json') ??
    requester.get('request_body_data') ??
    requester.part('request_body')?.get('value');
  if (sent !== undefined && !isJsonObject(sent)) refuse('a login whose body is no object', requester);
  const values = Object.entries(isJsonObject(sent ?? null) ? (sent as JsonObject) : {}).map(
    ([name, value]) => {
      if (isJsonObject(value)) return refuse('a login whose body has objects in it', requester);
      return [name, valueOf(requester.parse(plainText(value)), requester, reading)] as const;
    },
  );
  const isForm =
    requester.get('request_body_data') !== undefined ||
    requester.part('request_body')?.type === 'RequestBodyUrlEncodedForm';
  const use = one.part('request_authentication');
  const option = use?.part('inject_into') ?? null;
  const place = option === null ? null : placeOfOption(option, reading.settings);
  if (use?.type !== 'Bearer' && place?.where !== 'header')
    refuse('a token of a login in this place', use ?? one);
  const lifetime = durationOf(one.text('expiration_duration') ?? '');
  return {
    kind: 'login',
    url,
    method: (requester.text('http_method') ?? 'GET').toUpperCase(),
    ...filled({ [isForm ? 'form' : 'body']: Object.fromEntries(values) }),
    token,
    ...(place === null ? {} : { header: place.name }),
    ...(lifetime === null ? {} : { lifetimeMs: lifetime }),
  };
}

/** The length of an ISO 8601 duration of days, hours, minutes and seconds, in milliseconds. */
export function durationOf(text: string): number | null {
  const [, weeks = 0, days = 0, hours = 0, minutes = 0, seconds = 0] =
    /^P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?$/
      .exec(text)
      ?.map((one) => Number(one ?? 0)) ?? [];
  const ms = ((((weeks * 7 + days) * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000;
  return ms > 0 ? ms : null;
}

/** A secret of the connector that the file sends as a header or a parameter, without a sign-in. */
function statedKey(requester: Component, settings: Settings) {
  for (const [where, name] of [
    ['header', 'request_headers'],
    ['query', 'request_parameters'],
  ] as const) {
    const members = requester.get(name);
    if (!isJsonObject(members ?? null)) continue;
    for (const [key, value] of Object.entries(members as JsonObject)) {
      const { prefix, value: expression } = prefixed(
        typeof value === 'string' ? requester.parse(value) : null,
      );
      if (expression?.kind !== 'path' || expression.root !== 'config') continue;
      const isKey = settings.isSecretAt(expression.steps) || key.toLowerCase() === 'authorization';
      if (!isKey || (where === 'query' && prefix !== '')) continue;
      const reading: Reading = { settings, fields: {}, host: {}, guesses: [], needs: new Set(), used: [] };
      const field = valueOf(expression, requester, reading);
      const auth = { kind: where, name: key, value: field, ...(prefix === '' ? {} : { prefix }) };
      const { fields } = reading;
      const way: SignIn = { title: 'API key', fields, auth, why: '', headers: new Map(), guesses: [] };
      return { auth, way, place: { where, name: key } as const };
    }
  }
  return null;
}
