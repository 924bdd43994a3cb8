import { isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import { fixedText, type Expression } from './expressions.ts';
import type { Component } from './manifest-file.ts';
import type { Need } from './manifest-language.ts';
import { placeOfOption, readBody, urlOf, type Place } from './manifest-request.ts';
import { addressOf, refuse, Refusal, sentBy, type Setting, type Settings } from './manifest-values.ts';
import { listIn, objectIn, oneLine, plainText, textIn, wordsOf } from './schemas.ts';
import type { SignIn } from './sign-in-ways.ts';
import { stated } from './write-definition.ts';

/** The ways in which the requests of a stream are signed. */
export interface Signing {
  /** Equal for requests that are signed alike. */
  readonly id: string;
  readonly ways: readonly SignIn[];
  /** Names in the addresses of token requests, and their values. */
  readonly host: JsonObject;
  readonly used: readonly Setting[];
  /** The place of the key, where the file sends it as a value of the request. */
  readonly place: Place | null;
  readonly needs: ReadonlySet<Need>;
}

interface Reading {
  readonly settings: Settings;
  readonly fields: SignIn['fields'];
  readonly host: Record<string, JsonValue>;
  readonly used: Setting[];
  readonly guesses: string[];
  readonly needs: Set<Need>;
}

const titles = new Map([
  ['BearerAuthenticator', 'API token'],
  ['ApiKeyAuthenticator', 'API key'],
  ['BasicHttpAuthenticator', 'User and password'],
  ['OAuthAuthenticator', 'OAuth'],
  ['SessionTokenAuthenticator', 'User and password'],
]);

/** Reads how a requester signs its requests. Each way that cannot be used has the reason in it. */
export function readSigning(requester: Component, settings: Settings): Signing {
  const shared = { settings, host: {}, used: [], needs: new Set<Need>() };
  const authenticator = requester.part('authenticator');
  if (authenticator === null || authenticator.type === 'NoAuth') {
    const key = statedKey(requester, { ...shared, fields: {}, guesses: [] });
    if (key === null) shared.needs.add('noSignIn');
    const auth = key?.auth ?? { kind: 'none' };
    const title = key === null ? 'No sign-in' : 'API key';
    const way = { title, fields: key?.fields ?? {}, auth, why: '', headers: new Map(), guesses: [] };
    return {
      ...shared,
      id: key === null ? 'none' : JSON.stringify(auth),
      ways: [way],
      place: key?.place ?? null,
    };
  }
  const choices =
    authenticator.type === 'SelectiveAuthenticator' ? objectIn(authenticator.get('authenticators')) : {};
  const named = Object.keys(choices).map((name) => ({
    title: sentence(name),
    one: authenticator.part('authenticators')?.part(name),
  }));
  const alone = [{ title: titles.get(authenticator.type) ?? 'Credentials', one: authenticator }];
  const ways = (named.length > 0 ? named : alone).flatMap(({ title, one }) =>
    one === null || one === undefined ? [] : [readWay(title, one, { ...shared, fields: {}, guesses: [] })],
  );
  const id = JSON.stringify(ways.map(({ auth, why }) => auth ?? why));
  return { ...shared, id, ways, place: null };
}

function sentence(name: string): string {
  const text = wordsOf(name).join(' ').slice(0, 60);
  return text === '' ? 'Credentials' : `${text[0]?.toUpperCase()}${text.slice(1)}`;
}

function readWay(title: string, one: Component, reading: Reading): SignIn {
  const { fields, guesses } = reading;
  const way = { title, fields, headers: new Map<string, string>(), guesses };
  try {
    return { ...way, auth: authOf(one, reading), why: '' };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return { ...way, auth: null, why: error.message };
  }
}

function authOf(one: Component, reading: Reading): JsonObject {
  const value = (name: string): JsonObject => valueOf(one.expression(name), one, reading);
  switch (one.isCustom ? 'custom' : one.type) {
    case 'BearerAuthenticator':
      return { kind: 'bearer', token: value('api_token') };
    case 'BasicHttpAuthenticator': {
      const password = one.expression('password') === null ? { text: '' } : value('password');
      return { kind: 'basic', user: value('username'), password };
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
function prefixed(expression: Expression | null): {
  readonly prefix?: string;
  readonly value: Expression | null;
} {
  const [first, value, ...more] = expression?.kind === 'join' ? expression.parts : [];
  if (first?.kind !== 'value' || value === undefined || more.length > 0) return { value: expression };
  return { prefix: fixedText(first), value };
}

function apiKey(one: Component, reading: Reading): JsonObject {
  const option = one.part('inject_into');
  const named: Place = { where: 'header', name: fixedText(one.expression('header')) };
  const place = option === null ? named : placeOfOption(option, reading.settings);
  const { prefix, value } = prefixed(one.expression('api_token'));
  const key = { value: valueOf(value, one, reading) };
  if (place?.where === 'header' && place.name !== '') {
    return { kind: 'header', name: place.name, ...key, ...stated({ prefix }) };
  }
  if (place?.where === 'query' && prefix === undefined) return { kind: 'query', name: place.name, ...key };
  if (place?.where !== 'body' || prefix !== undefined) return refuse('a key in this place', option ?? one);
  reading.needs.add('keyInBody');
  return { kind: 'body', at: place.name, ...key };
}

/** Names of the members of a token request by RFC 6749. */
const usualNames = ['access_token', 'client_id', 'client_secret', 'refresh_token', 'grant_type'];

function oauth(one: Component, reading: Reading): JsonObject {
  const { fields, guesses, needs } = reading;
  const strange = usualNames.find((name) => (one.text(`${name}_name`) ?? name) !== name);
  if (strange !== undefined) refuse(`a name other than ${strange} in a token request`, one);
  if (one.get('profile_assertion') !== undefined) refuse('a token by a signed assertion', one);
  const grant = fixedText(one.expression('grant_type')) || 'refresh_token';
  const url = one.expression('token_refresh_endpoint') ?? refuse('a token request without an address', one);
  const shared = {
    clientId: valueOf(one.expression('client_id'), one, reading),
    clientSecret: valueOf(one.expression('client_secret'), one, reading),
    tokenUrl: writtenUrl([url], one, reading),
    style: tokenStyle(one),
    format: 'form',
  };
  const params = tokenParams(one, reading);
  const scope = listIn(one.get('scopes')).map(plainText).join(' ');
  if (grant === 'client_credentials') {
    return {
      kind: 'clientCredentials',
      ...shared,
      ...stated({ params }),
      ...(scope === '' ? {} : { scope }),
    };
  }
  if (grant === 'password') {
    needs.add('passwordGrant');
    const { username = '', password = '', ...others } = params;
    if (!isJsonObject(username) || !isJsonObject(password)) {
      refuse('a password that is not of the connector', one);
    }
    return { kind: 'password', ...shared, user: username, password, ...stated({ params: others }) };
  }
  if (grant !== 'refresh_token') refuse(`a token by the grant ${oneLine(grant, 40)}`, one);
  const refreshToken = textIn(valueOf(one.expression('refresh_token'), one, reading), 'field');
  if (refreshToken === null) return refuse('a refresh token that is not of the connector', one);
  const accessToken = fields['access_token'] === undefined ? 'access_token' : 'access_token_2';
  fields[accessToken] = { secret: true, required: false };
  const all = scope === '' ? params : { ...params, scope };
  if (Object.keys(all).length > 0) needs.add('tokenParams');
  guesses.push('style');
  const rotates = one.part('refresh_token_updater') !== null;
  return { kind: 'refresh', accessToken, refreshToken, rotates, ...shared, ...stated({ params: all }) };
}

/** How the client identifies itself: by basic authentication where a header has it. */
function tokenStyle(one: Component): 'basic' | 'body' {
  const headers = Object.entries(objectIn(one.get('refresh_request_headers')));
  const others = headers.filter(([name]) => !/^(?:content-type|accept)$/i.test(name));
  const [first, ...more] = others;
  if (first === undefined) return 'body';
  const [name, value] = first;
  const text = plainText(value);
  const isBasic =
    /^authorization$/i.test(name) && /Basic/.test(text) && /client_id.*client_secret/s.test(text);
  return isBasic && more.length === 0
    ? 'basic'
    : refuse('a token request with a header that is computed', one);
}

/** Additional members of the token request. */
function tokenParams(one: Component, reading: Reading): Readonly<Record<string, JsonValue>> {
  const members = Object.entries(objectIn(one.get('refresh_request_body')));
  const others = members.filter(([name]) => !usualNames.includes(name));
  return Object.fromEntries(
    others.map(([name, value]) => [name, textOrField(plainText(value), one, reading)]),
  );
}

function textOrField(text: string, at: Component, reading: Reading): JsonValue {
  const value = valueOf(at.parse(text), at, reading);
  return textIn(value, 'text') ?? value;
}

/** An address with names in its host only. */
function writtenUrl(parts: readonly Expression[], at: Component, { settings, host, used }: Reading): string {
  const address = addressOf(parts, settings, at);
  Object.assign(host, address.host);
  used.push(...address.used);
  const path = address.path.flatMap((part) => (part.kind === 'join' ? part.parts : [part]));
  if (path.some((part) => part.kind !== 'value')) refuse('an address of tokens with a value in its path', at);
  const text = path
    .map(fixedText)
    .join('')
    .replaceAll(/\/{2,}/g, '/');
  return text.includes('?') ? refuse('an address of tokens with a query', at) : `${address.baseUrl}${text}`;
}

/** A token by one call. */
function login(one: Component, reading: Reading): JsonObject {
  reading.needs.add('login');
  const requester = one.part('login_requester') ?? refuse('a login without its request', one);
  if (requester.isCustom || requester.type !== 'HttpRequester') refuse('a login of this type', requester);
  const inner = requester.part('authenticator');
  if (inner !== null && inner.type !== 'NoAuth') refuse('a login that is signed itself', inner);
  const token = listIn(one.get('session_token_path')).map(plainText).join('.');
  if (token === '') refuse('a login that does not say where its token is', one);
  const values: Record<string, JsonValue> = {};
  const isForm = readBody(requester, (members) => {
    for (const [name, expression] of members) {
      const value = valueOf(expression, requester, reading);
      values[name] = textIn(value, 'text') ?? value;
    }
  });
  const use = one.part('request_authentication');
  const option = use?.part('inject_into') ?? null;
  const place = option === null ? null : placeOfOption(option, reading.settings);
  if (use?.type !== 'Bearer' && place?.where !== 'header') {
    refuse('a token of a login in this place', use ?? one);
  }
  const lifetimeMs = durationOf(one.text('expiration_duration') ?? '') ?? undefined;
  return {
    kind: 'login',
    url: writtenUrl(urlOf(requester), requester, reading),
    method: (requester.text('http_method') ?? 'GET').toUpperCase(),
    ...stated({ [isForm ? 'form' : 'body']: values }),
    token,
    ...stated({ header: place?.name, lifetimeMs }),
  };
}

/** The length of an ISO 8601 duration of days, hours, minutes and seconds, in milliseconds. */
export function durationOf(text: string): number | null {
  const parts = /^P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?$/.exec(text) ?? [];
  const [weeks = 0, days = 0, hours = 0, minutes = 0, seconds = 0] = parts
    .slice(1)
    .map((one) => Number(one ?? 0));
  const ms = ((((weeks * 7 + days) * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000;
  return ms > 0 ? ms : null;
}

/** A secret of the connector that the file sends as a header or a parameter, without a sign-in. */
function statedKey(requester: Component, reading: Reading) {
  const members = [
    ...Object.entries(objectIn(requester.get('request_headers'))).map((one) => ['header', ...one] as const),
    ...Object.entries(objectIn(requester.get('request_parameters'))).map((one) => ['query', ...one] as const),
  ];
  for (const [where, name, text] of members) {
    const { prefix, value } = prefixed(typeof text === 'string' ? requester.parse(text) : null);
    if (value?.kind !== 'path' || value.root !== 'config' || (where === 'query' && prefix !== undefined)) {
      continue;
    }
    if (!reading.settings.isSecretAt(value.steps) && name.toLowerCase() !== 'authorization') continue;
    const auth = { kind: where, name, value: valueOf(value, requester, reading), ...stated({ prefix }) };
    return { auth, fields: reading.fields, place: { where, name } };
  }
  return null;
}
