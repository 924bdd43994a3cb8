import { isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import { fixedText, partsOf, type Expression } from './expressions.ts';
import type { Component } from './manifest-file.ts';
import { addressOf, needed, placeOfOption, readBody, sentBy, urlOf, type Place } from './manifest-request.ts';
import { refuse, unlessRefused, type Setting } from './manifest-settings.ts';
import { listIn, objectIn, oneLine, plainText, textIn, wordsOf } from './schemas.ts';
import type { SignIn } from './sign-in-ways.ts';
import { stated } from './write-definition.ts';

interface Reading {
  readonly fields: SignIn['fields'];
  /** Names in the addresses of token requests, and their values. */
  readonly host: Record<string, JsonValue>;
  readonly used: Setting[];
  readonly guesses: string[];
}

export type Signing = ReturnType<typeof readSigning>;

/**
 * Reads how a requester signs its requests. Each way that cannot be used has the reason in it. `id`: equal for
 * requests that are signed alike.
 */
export function readSigning(requester: Component) {
  const shared = { host: {}, used: [] };
  const authenticator = requester.part('authenticator');
  if (authenticator === null || authenticator.type === 'NoAuth') {
    const { place, ...way } = statedKey(requester, { ...shared, fields: {}, guesses: [] });
    return { ...shared, id: place === null ? 'none' : JSON.stringify(way.auth), ways: [way], place };
  }
  const choices = authenticator.part('authenticators');
  const named = Object.keys(objectIn(authenticator.get('authenticators'))).flatMap((name) => {
    const one = choices?.part(name) ?? null;
    return one === null ? [] : [{ title: sentence(name), one }];
  });
  const alone = [{ title: titles.get(authenticator.type) ?? 'Credentials', one: authenticator }];
  const isChoice = authenticator.type === 'SelectiveAuthenticator' && named.length > 0;
  const ways = (isChoice ? named : alone).map(({ title, one }): SignIn => {
    const reading = { ...shared, fields: {}, guesses: [] };
    const found = unlessRefused(
      () => ({ auth: authOf(one, reading), why: '' }),
      (why) => ({ auth: null, why }),
    );
    return { title, fields: reading.fields, headers: new Map(), guesses: reading.guesses, ...found };
  });
  return { ...shared, id: JSON.stringify(ways.map(({ auth, why }) => auth ?? why)), ways, place: null };
}

const titles = new Map([
  ['BearerAuthenticator', 'API token'],
  ['ApiKeyAuthenticator', 'API key'],
  ['BasicHttpAuthenticator', 'User and password'],
  ['OAuthAuthenticator', 'OAuth'],
  ['SessionTokenAuthenticator', 'User and password'],
]);

function sentence(name: string): string {
  const text = wordsOf(name).join(' ').slice(0, 60);
  return text === '' ? 'Credentials' : `${text[0]?.toUpperCase()}${text.slice(1)}`;
}

function authOf(one: Component, reading: Reading): JsonObject {
  const value = (name: string): JsonObject => valueOf(one.expression(name), one, reading);
  switch (one.kind) {
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
function valueOf(expression: Expression | null, at: Component, { fields }: Reading): JsonObject {
  if (expression === null) return refuse('a sign-in without its value', at);
  const sent = sentBy(expression, at);
  if (sent.kind === 'text') return { text: plainText(sent.value) };
  if (sent.kind !== 'setting') return refuse('a sign-in by a value that is not of the connector', at);
  const { setting, suffix } = sent;
  fields[setting.name] = { secret: setting.isSecret, required: true };
  return { field: setting.name, ...(suffix === '' ? {} : { suffix }) };
}

/** `Token {{ config.key }}`: the text before a value. */
function prefixed(expression: Expression | null) {
  const [first, value, ...more] = expression?.kind === 'join' ? expression.parts : [];
  return first?.kind === 'value' && value !== undefined && more.length === 0
    ? { prefix: fixedText(first), value }
    : { prefix: undefined, value: expression };
}

function apiKey(one: Component, reading: Reading): JsonObject {
  const option = one.part('inject_into');
  const named: Place = { where: 'header', name: fixedText(one.expression('header')) };
  const place = option === null ? named : placeOfOption(option);
  const { prefix, value } = prefixed(one.expression('api_token'));
  const key = { value: valueOf(value, one, reading) };
  if (place?.where === 'header' && place.name !== '') {
    return { kind: 'header', name: place.name, ...key, ...stated({ prefix }) };
  }
  if (place?.where === 'query' && prefix === undefined) return { kind: 'query', name: place.name, ...key };
  return place?.where === 'body' && prefix === undefined
    ? { kind: 'body', at: place.name, ...key }
    : refuse('a key in this place', option ?? one);
}

/** Names of the members of a token request by RFC 6749. */
const usualNames = ['access_token', 'client_id', 'client_secret', 'refresh_token', 'grant_type'];

function oauth(one: Component, reading: Reading): JsonObject {
  const { fields, guesses } = reading;
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
    return { kind: 'clientCredentials', ...shared, ...stated({ params, scope: scope || undefined }) };
  }
  if (grant === 'password') {
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
  guesses.push('style');
  const rotates = one.part('refresh_token_updater') !== null;
  return { kind: 'refresh', accessToken, refreshToken, rotates, ...shared, ...stated({ params: all }) };
}

/** How the client identifies itself: by basic authentication where a header has it. */
function tokenStyle(one: Component): 'basic' | 'body' {
  const headers = Object.entries(objectIn(one.get('refresh_request_headers')));
  const [first, ...more] = headers.filter(([name]) => !/^(?:content-type|accept)$/i.test(name));
  if (first === undefined) return 'body';
  const isBasic =
    /^authorization$/i.test(first[0]) && /Basic.*client_id.*client_secret/s.test(plainText(first[1]));
  return isBasic && more.length === 0
    ? 'basic'
    : refuse('a token request with a header that is computed', one);
}

/** Additional members of the token request. */
function tokenParams(one: Component, reading: Reading): Readonly<Record<string, JsonValue>> {
  const members = Object.entries(objectIn(one.get('refresh_request_body')));
  return Object.fromEntries(
    members
      .filter(([name]) => !usualNames.includes(name))
      .map(([name, value]) => [name, textOrField(one.parse(plainText(value)), one, reading)]),
  );
}

function textOrField(expression: Expression, at: Component, reading: Reading): JsonValue {
  const value = valueOf(expression, at, reading);
  return textIn(value, 'text') ?? value;
}

/** An address with names in its host and its path. */
function writtenUrl(parts: readonly Expression[], at: Component, { host, used }: Reading): string {
  const address = addressOf(parts, at);
  Object.assign(host, address.host);
  used.push(...address.used);
  const path = address.path.flatMap(partsOf).map((part): string => {
    const sent = sentBy(part, at);
    if (sent.kind === 'text') return plainText(sent.value);
    if (sent.kind !== 'setting') return refuse('an address of tokens with a computed path', at);
    const { setting, suffix } = sent;
    used.push({ ...setting, isRequired: setting.fallback === null });
    host[setting.name] = { from: [{ field: setting.name }], pattern: '[A-Za-z0-9][A-Za-z0-9._-]{0,99}' };
    return `{${setting.name}}${suffix}`;
  });
  const text = path.join('').replaceAll(/\/{2,}/g, '/');
  return text.includes('?') ? refuse('an address of tokens with a query', at) : `${address.baseUrl}${text}`;
}

/** A token by one call. */
function login(one: Component, reading: Reading): JsonObject {
  const requester = needed(one, 'login_requester', 'HttpRequester', 'a login of this type');
  const inner = requester.part('authenticator');
  const sign = inner === null || inner.type === 'NoAuth' ? undefined : authOf(inner, reading);
  if (
    inner !== null &&
    sign !== undefined &&
    !/^(?:basic|bearer|header|query)$/.test(plainText(sign['kind']))
  ) {
    refuse('a login that is signed by another call', inner);
  }
  const token = listIn(one.get('session_token_path')).map(plainText).join('.');
  if (token === '') refuse('a login that does not say where its token is', one);
  const { isForm, members } = readBody(requester);
  const values = members.map(([name, value]) => [name, textOrField(value, requester, reading)]);
  const method = (requester.text('http_method') ?? 'GET').toUpperCase();
  const use = one.part('request_authentication');
  const place = placeOfOption(use?.part('inject_into') ?? null);
  if (use?.type !== 'Bearer' && place?.where !== 'header') {
    refuse('a token of a login in this place', use ?? one);
  }
  const lifetimeMs = durationOf(one.text('expiration_duration') ?? '') ?? undefined;
  return {
    kind: 'login',
    url: writtenUrl(urlOf(requester), requester, reading),
    method,
    [isForm || method === 'GET' ? 'form' : 'body']: Object.fromEntries(values) as JsonObject,
    ...stated({ sign }),
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

/** A secret of the connector that the file sends as a header or a parameter; without one, no sign-in. */
function statedKey(requester: Component, reading: Reading): SignIn & { readonly place: Place | null } {
  const shared = { fields: reading.fields, why: '', headers: new Map<string, string>(), guesses: [] };
  const members = (['header', 'query'] as const).flatMap((where) => {
    const all = objectIn(requester.get(where === 'header' ? 'request_headers' : 'request_parameters'));
    return Object.entries(all).map(([name, text]) => ({ where, name, ...prefixed(requester.parse(text)) }));
  });
  const isAuthorization = ({ name }: { name: string }): boolean => name.toLowerCase() === 'authorization';
  const keys = members.filter(
    ({ where, name, prefix, value }) =>
      value?.kind === 'path' &&
      value.root === 'config' &&
      (where === 'header' || prefix === undefined) &&
      (requester.settings.isSecretAt(value.steps) || isAuthorization({ name })),
  );
  const key = keys.find(isAuthorization) ?? keys[0];
  if (key === undefined) return { ...shared, title: 'No sign-in', auth: { kind: 'none' }, place: null };
  const { where, name, value, prefix } = key;
  const auth = { kind: where, name, value: valueOf(value, requester, reading), ...stated({ prefix }) };
  return { ...shared, title: 'API key', auth, place: { where, name } };
}
