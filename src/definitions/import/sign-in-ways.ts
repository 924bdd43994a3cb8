import { isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import { templateUrl, namesIn } from '../upstream/service-texts.ts';
import {
  holdsTemplate,
  listIn,
  objectIn,
  oneLine,
  partIn,
  plainText,
  prefix,
  textIn,
  textsIn,
} from './schemas.ts';
import type { Server, ServiceFile } from './service-file.ts';

/** One way to sign in, as a definition says it. */
export interface SignIn {
  readonly title: string;
  readonly fields: Fields;
  /** Null where direct calls cannot be signed so; `why` says it. */
  readonly auth: JsonObject | null;
  readonly why: string;
  /** Headers whose values are fields of the credentials. */
  readonly headers: ReadonlyMap<string, string>;
  /** Parts that the file does not prove. */
  readonly guesses: readonly string[];
}

type Fields = Record<string, { secret: boolean; required: boolean }>;

/** Names of fields that are no secrets. */
const open =
  /^(?:client_id|account_id|email|username|user|subdomain|domain|site|shop|region|hostname|account_sid)$/;

/** Every way to sign in that the file describes. */
export function signInWays(service: ServiceFile): readonly SignIn[] {
  return statedWays(service).map((stated) => {
    const { title, fields, headers } = stated;
    const guesses: string[] = [];
    const auth = authOf(stated, guesses);
    const why = stated.problems[0] ?? (typeof auth === 'string' ? auth : '');
    const usable = why === '' && typeof auth === 'object' ? auth : null;
    return { title, fields, auth: usable, why, headers, guesses };
  });
}

type StatedWay = ReturnType<typeof statedWays>[number];

/** Every scheme of the file, with each choice of its fields. */
function statedWays({ schemes }: ServiceFile) {
  const taken = new Set<string>();
  return Object.entries(schemes).flatMap(([name, one]) => {
    const scheme = isJsonObject(one) ? one : {};
    const config = objectIn(scheme, `${prefix}auth-config`);
    const choices = listIn(config, 'oneOf');
    return (choices.length > 0 ? choices : [config]).map((choice) => {
      const stated = oneLine(textIn(choice, 'title') ?? textIn(config, 'title') ?? name, 80) || 'Credentials';
      let title = stated;
      for (let number = 2; taken.has(title); number += 1) title = `${stated} ${number}`;
      taken.add(title);
      return { name, title, scheme, mapping: objectIn(choice, 'auth_mapping'), ...statedFields(choice) };
    });
  });
}

/** The fields of the credentials, and the headers that are made of them. */
function statedFields(config: JsonValue) {
  const required = new Set(textsIn(config, 'required'));
  const fields: Fields = {};
  for (const name of Object.keys(objectIn(config, 'properties'))) {
    fields[name] = { secret: !open.test(name), required: required.has(name) };
  }
  const headers = new Map<string, string>();
  const problems: string[] = [];
  let authorization: JsonValue | undefined;
  for (const [name, value] of Object.entries(objectIn(config, 'additional_headers'))) {
    const field = /^\{\{ *([A-Za-z_]\w*) *\}\}$/.exec(plainText(value))?.[1];
    if (name.toLowerCase() === 'authorization') authorization = value;
    else if (field !== undefined && Object.hasOwn(fields, field)) headers.set(name, field);
    else problems.push(`its header ${oneLine(name, 40)} is computed by a template`);
  }
  return { fields, headers, problems, authorization };
}

/** The authentication, or the reason why there is none. */
function authOf(stated: StatedWay, guesses: string[]): JsonObject | string {
  const { scheme, mapping, fields } = stated;
  switch (textIn(scheme, 'type') ?? '') {
    case 'http':
      return httpAuth(stated);
    case 'apiKey': {
      const name = textIn(scheme, 'name') ?? '';
      const place = textIn(scheme, 'in');
      const key = /^(.*?)\$\{(\w+)\}$/s.exec(textIn(mapping, 'api_key') ?? '');
      const [, before = '', field = ''] = key ?? [];
      if (!Object.hasOwn(fields, field)) return 'the file does not say which of its fields is the API key';
      if (place === 'query' && before === '') return { kind: 'query', name, value: { field } };
      if (place !== 'header') return `an API key in a ${oneLine(place ?? '', 20)} is not supported`;
      return { kind: 'header', name, value: { field }, ...(before === '' ? {} : { prefix: before }) };
    }
    case 'oauth2':
      return oauth(stated, guesses);
    default:
      return `a security scheme of type ${oneLine(textIn(scheme, 'type') ?? 'none', 40)} is not supported`;
  }
}

function httpAuth({ scheme, mapping, fields }: StatedWay): JsonObject | string {
  /** `${api_key}`, `${email}/token` or a fixed text. */
  const valueOf = (part: string): JsonObject | null => {
    const text = textIn(mapping, part);
    const [, field, suffix = ''] = /^\$\{(\w+)\}([^${}]*)$/.exec(text ?? '') ?? [];
    if (field === undefined) return text === null || /[${}]/.test(text) ? null : { text };
    return Object.hasOwn(fields, field) ? { field, ...(suffix === '' ? {} : { suffix }) } : null;
  };
  const kind = textIn(scheme, 'scheme')?.toLowerCase() ?? '';
  if (kind === 'bearer') {
    const token = valueOf('token');
    return token === null ? 'the file does not say which of its fields is the token' : { kind, token };
  }
  if (kind !== 'basic') return `HTTP authentication ${oneLine(kind, 40)} is not supported`;
  const [user, password] = [valueOf('username'), valueOf('password')];
  if (user === null || password === null) return 'the file does not say what user and password are made of';
  return { kind, user, password };
}

/** Reads OAuth: a refresh token renews the access token; without one the access token lasts until it ends. */
function oauth(stated: StatedWay, guesses: string[]): JsonObject | string {
  const { scheme, fields } = stated;
  const own = ownScheme(stated);
  if (typeof own === 'string') return own;
  const field = (part: string): string | null => mappedField(stated, part);
  const [accessToken, refreshToken] = [field('access_token'), field('refresh_token')];
  const [clientId, clientSecret] = [field('client_id'), field('client_secret')];
  const isClient = refreshToken === null && (accessToken === null || fields[accessToken]?.required !== true);
  if (clientId === null || clientSecret === null || (refreshToken === null && !isClient)) {
    if (accessToken === null) return 'the file does not say how its access token is requested';
    setRequired(fields, accessToken);
    return { kind: 'bearer', token: { field: accessToken }, ...own };
  }
  const flows = Object.values(objectIn(scheme, 'flows'));
  const tokenUrl = plainAddress(
    flows.map((flow) => textIn(flow, 'refreshUrl') ?? textIn(flow, 'tokenUrl')).find((one) => one !== null),
  );
  if (tokenUrl === null) return 'the file has no address for its tokens';
  for (const name of [clientId, clientSecret]) setRequired(fields, name);
  const shared = {
    clientId: { field: clientId },
    clientSecret: { field: clientSecret },
    tokenUrl,
    ...tokenRequest(stated, guesses),
    ...own,
  };
  if (refreshToken === null) return { kind: 'clientCredentials', ...shared };
  guesses.push('rotates');
  const kept = accessToken ?? 'access_token';
  fields[kept] ??= { secret: true, required: false };
  if (!fields[kept].required) setRequired(fields, refreshToken);
  return { kind: 'refresh', accessToken: kept, refreshToken, rotates: false, ...shared };
}

/** The field that the whole of a part of the scheme is made of. */
function mappedField({ mapping, fields }: StatedWay, part: string): string | null {
  const field = /^\$\{(\w+)\}$/.exec(textIn(mapping, part) ?? '')?.[1] ?? null;
  return field !== null && Object.hasOwn(fields, field) ? field : null;
}

/** The word before the token, where the file states another one than Bearer; or why it cannot be used. */
function ownScheme({ authorization }: StatedWay): { readonly scheme?: string } | string {
  if (authorization === undefined) return {};
  const [, scheme] =
    /^([A-Za-z][A-Za-z0-9-]*) \{\{? *(?:access_)?token *\}?\}$/.exec(plainText(authorization)) ?? [];
  return scheme === undefined ? 'its header Authorization is computed by a template' : { scheme };
}

/**
 * Reads how the client identifies itself to the token endpoint, and which values of its answers are kept in the
 * credentials.
 */
function tokenRequest({ scheme, fields }: StatedWay, guesses: string[]): JsonObject {
  const refresh = objectIn(scheme, `${prefix}token-refresh`);
  const style = textIn(refresh, 'auth_style');
  const format = textIn(refresh, 'body_format');
  if (style === null || format === null) guesses.push('style and format of the token request');
  const kept = textsIn(scheme, `${prefix}token-extract`);
  for (const field of kept) fields[field] = { secret: fields[field]?.secret ?? false, required: false };
  return {
    style: style === 'basic' ? 'basic' : 'body',
    format: format === 'json' ? 'json' : 'form',
    ...(kept.length === 0 ? {} : { keeps: Object.fromEntries(kept.map((field) => [field, field])) }),
  };
}

function setRequired(fields: Fields, name: string): void {
  const field = fields[name];
  if (field !== undefined) field.required = true;
}

/** The address with its names in single braces; null: there is none, or a template computes it. */
function plainAddress(url: string | null | undefined): string | null {
  const plain = url?.replaceAll(/\{\{ *(\w+) *\}\}/g, '{$1}');
  return plain === undefined || holdsTemplate(plain) ? null : plain;
}

// --- Ways in which a person signs in with `login`

/**
 * Returns one way for each OAuth scheme with a code in the browser; its `auth` is null where another way already works
 * with the same credentials. `entities`: the entities that are read.
 */
export function authorizationCodeWays(
  service: ServiceFile,
  others: readonly SignIn[],
  server: Server,
  entities: readonly string[],
): readonly SignIn[] {
  return statedWays(service).flatMap((stated) => {
    const flow = objectIn(stated.scheme, 'flows', 'authorizationCode');
    if (textIn(stated.scheme, 'type') !== 'oauth2' || Object.keys(flow).length === 0) return [];
    const way = loginWay(stated, flow, scopeOf(service, stated, flow, entities), server);
    const same = way.auth === null ? undefined : others.find((other) => isSame(other, way));
    if (same === undefined) return [way];
    const why = `the same credentials already serve without a person (${same.title})`;
    return [{ ...way, auth: null, why }];
  });
}

/** Credentials that fit both. */
function isSame(other: SignIn, way: SignIn): boolean {
  const fits = (needed: Fields, given: Fields): boolean =>
    Object.entries(needed).every(([name, { required }]) => !required || Object.hasOwn(given, name));
  return other.auth !== null && fits(other.fields, way.fields) && fits(way.fields, other.fields);
}

/** The longest scope that a definition accepts, in characters. */
const mostText = 2_000;

function loginWay(stated: StatedWay, flow: JsonObject, scope: Scope, server: Server): SignIn {
  const { title, scheme, fields, headers } = stated;
  const problems = [...stated.problems];
  const guesses: string[] = [];
  const clientField = (part: 'client_id' | 'client_secret'): string => {
    const field = mappedField(stated, part);
    const known = field ?? partIn(scheme, `${prefix}oauth-credentials`, 'properties', part);
    if (known === undefined) guesses.push(part);
    return field ?? part;
  };
  const [id, secret] = [clientField('client_id'), clientField('client_secret')];
  const tokens = ['access_token', 'refresh_token'].flatMap((part) => mappedField(stated, part) ?? []);
  for (const [name, field] of headers) {
    if (tokens.includes(field)) problems.push(`its header ${oneLine(name, 40)} has the token in it`);
  }
  for (const token of tokens) delete fields[token];
  fields[id] = { secret: false, required: true };
  fields[secret] = { secret: true, required: true };
  const own = ownScheme(stated);
  if (typeof own === 'string') problems.push(own);
  const addresses = addressesOf(scheme, flow, server);
  if (typeof addresses === 'string') problems.push(addresses);
  if (scope.text.length > mostText) {
    problems.push(`its scopes are longer than ${mostText} characters together`);
  }
  const client = { clientId: { field: id }, clientSecret: { field: secret } };
  const request = tokenRequest(stated, guesses);
  const auth =
    typeof addresses === 'string' || typeof own === 'string' || problems.length > 0
      ? null
      : {
          kind: 'authorizationCode',
          ...client,
          ...addresses,
          ...request,
          ...(scope.text === '' ? {} : { scope: scope.text }),
          ...own,
        };
  return {
    title: `${title} with login`,
    fields,
    auth,
    why: problems[0] ?? '',
    headers,
    guesses: [...guesses, 'pkce', ...scope.guesses],
  };
}

/** The addresses of authorization and of tokens, as far as the service may be called there; or the reason why not. */
function addressesOf(scheme: JsonObject, flow: JsonObject, server: Server): JsonObject | string {
  const [authorizeUrl = '', query = ''] = (textIn(flow, 'authorizationUrl') ?? '').split('?', 2);
  const tokenUrl = textIn(flow, 'tokenUrl') ?? '';
  const refreshUrl = textIn(flow, 'refreshUrl') ?? tokenUrl;
  if (refreshUrl !== tokenUrl) return 'its tokens are renewed at another address than they are issued at';
  const device = objectIn(scheme, 'flows', 'deviceAuthorization');
  const deviceUrl = textIn(device, 'tokenUrl') === tokenUrl ? textIn(device, 'deviceAuthorizationUrl') : null;
  const stated = { authorizeUrl, tokenUrl, ...(deviceUrl === null ? {} : { deviceUrl }) };
  const known = Object.keys(server.host);
  const urls: Record<string, string> = {};
  for (const [name, text] of Object.entries(stated)) {
    const url = plainAddress(text);
    const problems: string[] = [];
    const template = url === null ? [] : templateUrl(url, (message) => problems.push(message));
    if (url === null || problems.length > 0) {
      return `its address ${oneLine(text, 100)} is no plain https address`;
    }
    const unknown = namesIn(template).find((one) => !known.includes(one));
    if (unknown !== undefined) return `its address ${oneLine(text, 100)} has a name that no credentials fill`;
    urls[name] = url;
  }
  const params = [...new URLSearchParams(query)].filter(
    ([name, value]) => value !== '' && /^[A-Za-z_][\w.-]{0,63}$/.test(name),
  );
  return { ...urls, ...(params.length === 0 ? {} : { params: Object.fromEntries(params) }) };
}

type Scope = ReturnType<typeof scopeOf>;

/** Without it, services issue no refresh token. */
const forRefreshing = /^(?:offline_access|offline|refresh_token)$/;
const writes = /\b(?:writes?|manages?|modif(?:y|ies)|deletes?|creates?|sends?|posts?|admin|full)\b/i;

/** The scopes that reading takes: as operations or the file name them, otherwise those that do not say they write. */
function scopeOf(
  service: ServiceFile,
  { name, scheme }: StatedWay,
  flow: JsonObject,
  entities: readonly string[],
) {
  const declared = Object.keys(objectIn(flow, 'scopes'));
  const scopeText = (scopes: readonly string[]): string =>
    [...new Set([...scopes, ...declared.filter((scope) => forRefreshing.test(scope))])]
      .filter((scope) => /^[\x21\x23-\x5b\x5d-\x7e]+$/.test(scope))
      .join(' ');
  const operations = service.operations.filter(
    ({ entity, action }) => entities.includes(entity) && ['list', 'get', 'api_search'].includes(action),
  );
  const required = operations.flatMap(({ security }) => {
    const all = security ?? listIn(service.root, 'security');
    return textsIn(
      all.find((one) => isJsonObject(one) && Object.hasOwn(one, name)),
      name,
    );
  });
  if (required.length > 0) return { text: scopeText(required), guesses: [] as readonly string[] };
  const byEntity = listIn(scheme, `${prefix}oauth-scopes`).flatMap((one) => {
    const isRead = textIn(one, 'mode')?.startsWith('read') === true;
    const isWanted = isRead && textsIn(one, 'entities').some((entity) => entities.includes(entity));
    return isWanted ? (textIn(one, 'scope') ?? []) : [];
  });
  if (byEntity.length > 0) return { text: scopeText(byEntity), guesses: [] };
  const reading = declared.filter((scope) => !writes.test(`${scope} ${textIn(flow, 'scopes', scope) ?? ''}`));
  const chosen = reading.every((scope) => forRefreshing.test(scope)) ? declared : reading;
  const left = declared.filter((scope) => !chosen.includes(scope));
  const without = left.length === 0 ? '' : `, without ${oneLine(left.join(' '), 100)}`;
  return { text: scopeText(chosen), guesses: declared.length === 0 ? [] : [`scope${without}`] };
}
