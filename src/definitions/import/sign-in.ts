import { isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import { queryName, templateUrl } from '../upstream/sent-texts.ts';
import { namesIn } from '../upstream/template.ts';
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

type Value = { field: string } | { field: string; suffix: string } | { text: string };

/** One way to sign in, as a definition says it. */
export interface SignIn {
  readonly title: string;
  readonly fields: Readonly<Record<string, { readonly secret: boolean; readonly required: boolean }>>;
  /** Null where direct calls cannot be signed so; `why` says it. */
  readonly auth: JsonObject | null;
  readonly why: string;
  /** Headers whose values are fields of the credentials. */
  readonly headers: ReadonlyMap<string, string>;
  /** What in it is not proven by the file. */
  readonly guesses: readonly string[];
  /** Where secrets are sent beside the service itself. */
  readonly tokenUrl: string | null;
  /** Evidence and suggestions. */
  readonly notes?: readonly string[];
}

/** Names of fields that are no secrets. */
const open =
  /^(?:client_id|account_id|email|username|user|subdomain|domain|site|shop|region|hostname|account_sid)$/;

/** A scheme of the file with one choice of what it takes. */
interface StatedWay {
  /** Of the scheme. */
  readonly name: string;
  readonly title: string;
  readonly scheme: JsonObject;
  readonly config: JsonObject;
}

/** Every way to sign in that the file describes. */
export function signInWays(service: ServiceFile): readonly SignIn[] {
  return statedWays(service).map(signIn);
}

function statedWays({ root }: ServiceFile): readonly StatedWay[] {
  const schemes = Object.entries(objectIn(root, 'components', 'securitySchemes'));
  const taken = new Set<string>();
  return schemes.flatMap(([name, scheme]) => {
    const config = partIn(scheme, `${prefix}auth-config`) ?? {};
    const choices = listIn(config, 'oneOf');
    return (choices.length > 0 ? choices : [config]).map((choice) => {
      const stated = oneLine(textIn(choice, 'title') ?? textIn(config, 'title') ?? name, 80) || 'Credentials';
      let title = stated;
      for (let number = 2; taken.has(title); number += 1) title = `${stated} ${number}`;
      taken.add(title);
      const [own, chosen] = [isJsonObject(scheme) ? scheme : {}, isJsonObject(choice) ? choice : {}];
      return { name, title, scheme: own, config: chosen };
    });
  });
}

function signIn({ title, scheme, config }: StatedWay): SignIn {
  const mapping = objectIn(config, 'auth_mapping');
  const guesses: string[] = [];
  const { fields, headers, problems, authorization } = statedFields(config);
  const auth = authOf({ scheme, mapping, fields, guesses, authorization });
  if (typeof auth === 'string') problems.push(auth);
  const tokenUrl = typeof auth === 'string' ? null : textIn(auth, 'tokenUrl');
  return {
    title,
    fields,
    auth: problems.length > 0 || typeof auth === 'string' ? null : auth,
    why: problems[0] ?? '',
    headers,
    guesses,
    tokenUrl,
  };
}

/** The fields of the credentials, and the headers that are made of them. */
function statedFields(config: JsonObject) {
  const required = new Set(textsIn(config, 'required'));
  const fields: Record<string, { secret: boolean; required: boolean }> = {};
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

type MutableFields = Record<string, { secret: boolean; required: boolean }>;

/** What the file says of a way to sign in. */
interface Stated {
  readonly scheme: JsonObject;
  /** What the scheme's values are made of. */
  readonly mapping: JsonObject;
  readonly fields: MutableFields;
  readonly guesses: string[];
  /** Of the headers besides; undefined: none. */
  readonly authorization: JsonValue | undefined;
}

/** The authentication, or why there is none. */
function authOf(stated: Stated): JsonObject | string {
  const { scheme, mapping, fields } = stated;
  const value = (name: string): Value | null => credentialValue(textIn(mapping, name), fields);
  switch (textIn(scheme, 'type') ?? '') {
    case 'http':
      return httpAuth(textIn(scheme, 'scheme')?.toLowerCase() ?? '', value);
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
      return oauth(stated);
    default:
      return `a security scheme of type ${oneLine(textIn(scheme, 'type') ?? 'none', 40)} is not supported`;
  }
}

function httpAuth(scheme: string, value: (name: string) => Value | null): JsonObject | string {
  if (scheme === 'bearer') {
    const token = value('token');
    return token === null
      ? 'the file does not say which of its fields is the token'
      : { kind: 'bearer', token };
  }
  if (scheme !== 'basic') return `HTTP authentication ${oneLine(scheme, 40)} is not supported`;
  const user = value('username');
  const password = value('password');
  if (user === null || password === null) return 'the file does not say what user and password are made of';
  return { kind: 'basic', user, password };
}

/** `${api_key}`, `${email}/token` or a fixed text. */
function credentialValue(text: string | null, fields: MutableFields): Value | null {
  if (text === null) return null;
  const [, field, suffix = ''] = /^\$\{(\w+)\}([^${}]*)$/.exec(text) ?? [];
  if (field === undefined) return /[${}]/.test(text) ? null : { text };
  if (!Object.hasOwn(fields, field)) return null;
  return suffix === '' ? { field } : { field, suffix };
}

/** With a refresh token it is renewed; with an access token alone it lasts as long as that. */
function oauth({ scheme, mapping, fields, guesses, authorization }: Stated): JsonObject | string {
  const fieldOf = (name: string): string | null => mappedField(mapping, name, fields);
  const own = ownScheme(authorization);
  if (typeof own === 'string') return own;
  const [accessToken, refreshToken] = [fieldOf('access_token'), fieldOf('refresh_token')];
  const [clientId, clientSecret] = [fieldOf('client_id'), fieldOf('client_secret')];
  const isClient = refreshToken === null && (accessToken === null || fields[accessToken]?.required !== true);
  if (clientId === null || clientSecret === null || (refreshToken === null && !isClient)) {
    if (accessToken === null) return 'the file does not say how its access token is requested';
    setRequired(fields, accessToken);
    return { kind: 'bearer', token: { field: accessToken }, ...own };
  }
  const tokenUrl = tokenUrlOf(scheme);
  if (tokenUrl === null) return 'the file has no address for its tokens';
  for (const field of [clientId, clientSecret]) setRequired(fields, field);
  const kept = textsIn(scheme, `${prefix}token-extract`);
  for (const field of kept) fields[field] ??= { secret: false, required: false };
  const shared = {
    clientId: { field: clientId },
    clientSecret: { field: clientSecret },
    tokenUrl,
    ...tokenRequest(scheme, guesses),
    ...(kept.length === 0 ? {} : { keeps: Object.fromEntries(kept.map((field) => [field, field])) }),
    ...own,
  };
  if (refreshToken === null) return { kind: 'clientCredentials', ...shared };
  guesses.push('rotates');
  if (accessToken === null) fields['access_token'] = { secret: true, required: false };
  if (fields[accessToken ?? 'access_token']?.required !== true) setRequired(fields, refreshToken);
  return {
    kind: 'refresh',
    accessToken: accessToken ?? 'access_token',
    refreshToken,
    rotates: false,
    ...shared,
  };
}

/** The field that the whole of a part of the scheme is made of. */
function mappedField(mapping: JsonObject, part: string, fields: object): string | null {
  const field = /^\$\{(\w+)\}$/.exec(textIn(mapping, part) ?? '')?.[1] ?? null;
  return field !== null && Object.hasOwn(fields, field) ? field : null;
}

/** The word before the token, where the file states another one than Bearer; or why it cannot be used. */
function ownScheme(authorization: JsonValue | undefined): { readonly scheme?: string } | string {
  if (authorization === undefined) return {};
  const [, scheme] =
    /^([A-Za-z][A-Za-z0-9-]*) \{\{? *(?:access_)?token *\}?\}$/.exec(plainText(authorization)) ?? [];
  return scheme === undefined ? 'its header Authorization is computed by a template' : { scheme };
}

/** How the client names itself to the token endpoint. */
function tokenRequest(scheme: JsonObject, guesses: string[]) {
  const refresh = objectIn(scheme, `${prefix}token-refresh`);
  const style = textIn(refresh, 'auth_style');
  const format = textIn(refresh, 'body_format');
  if (style === null || format === null) guesses.push('style and format of the token request');
  return {
    style: style === 'basic' ? 'basic' : 'body',
    format: format === 'json' ? 'json' : 'form',
  } as const;
}

function setRequired(fields: MutableFields, name: string): void {
  const field = fields[name];
  if (field !== undefined) field.required = true;
}

function tokenUrlOf(scheme: JsonObject): string | null {
  const flows = Object.values(objectIn(scheme, 'flows'));
  const url = flows
    .map((flow) => textIn(flow, 'refreshUrl') ?? textIn(flow, 'tokenUrl'))
    .find((one) => one !== null);
  return url === undefined ? null : plainAddress(url);
}

/** With its names in single braces; null: a template computes it. */
function plainAddress(url: string): string | null {
  const plain = url.replaceAll(/\{\{ *(\w+) *\}\}/g, '{$1}');
  return holdsTemplate(plain) ? null : plain;
}

/**
 * The ways in which a person signs in with `login`: one for each OAuth scheme with a code in the browser, beside what
 * the file takes itself. `entities`: those that are read.
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
    const way = wayOf(stated, flow, scopeOf(service, stated, flow, entities), server);
    const same = way.auth === null ? undefined : others.find((other) => isSame(other, way));
    if (same === undefined) return [way];
    return [
      { ...way, auth: null, why: `the same credentials already serve without a person (${same.title})` },
    ];
  });
}

/** What a definition has room for. */
const mostText = 2_000;

/** Credentials that fit both. */
function isSame(other: SignIn, way: SignIn): boolean {
  const fits = (needed: SignIn['fields'], given: SignIn['fields']): boolean =>
    Object.entries(needed).every(([name, { required }]) => !required || Object.hasOwn(given, name));
  return other.auth !== null && fits(other.fields, way.fields) && fits(way.fields, other.fields);
}

function wayOf({ title, scheme, config }: StatedWay, flow: JsonObject, scope: Scope, server: Server): SignIn {
  const mapping = objectIn(config, 'auth_mapping');
  const { fields: stated, headers, problems, authorization } = statedFields(config);
  const tokens = ['access_token', 'refresh_token'].flatMap(
    (part) => mappedField(mapping, part, stated) ?? [],
  );
  const guesses: string[] = [];
  const client = (part: 'client_id' | 'client_secret'): string => {
    const field = mappedField(mapping, part, stated);
    const isStated =
      field !== null || partIn(scheme, `${prefix}oauth-credentials`, 'properties', part) !== undefined;
    if (!isStated) guesses.push(part);
    return field ?? part;
  };
  const [id, secret] = [client('client_id'), client('client_secret')];
  const kept = textsIn(scheme, `${prefix}token-extract`);
  const fields = {
    ...Object.fromEntries(Object.entries(stated).filter(([name]) => !tokens.includes(name))),
    [id]: { secret: false, required: true },
    [secret]: { secret: true, required: true },
    ...Object.fromEntries(kept.map((name) => [name, { secret: false, required: false }])),
  };
  for (const [name, field] of headers) {
    if (tokens.includes(field)) problems.push(`its header ${oneLine(name, 40)} has the token in it`);
  }
  const own = ownScheme(authorization);
  if (typeof own === 'string') problems.push(own);
  const addresses = addressesOf(scheme, flow, server);
  if (typeof addresses === 'string') problems.push(addresses);
  if (scope.text.length > mostText) {
    problems.push(`its scopes are longer than ${mostText} characters together`);
  }
  const request = tokenRequest(scheme, guesses);
  guesses.push('pkce', ...scope.guesses);
  const auth =
    problems.length > 0 || typeof addresses === 'string'
      ? null
      : {
          kind: 'authorizationCode',
          clientId: { field: id },
          clientSecret: { field: secret },
          ...addresses,
          ...request,
          ...(scope.text === '' ? {} : { scope: scope.text }),
          ...(kept.length === 0 ? {} : { keeps: Object.fromEntries(kept.map((field) => [field, field])) }),
          ...(typeof own === 'string' ? {} : own),
        };
  return {
    title: `${title} with login`,
    fields,
    auth,
    why: problems[0] ?? '',
    headers,
    guesses,
    tokenUrl: auth === null ? null : textIn(auth, 'tokenUrl'),
    notes: [...scope.evidence, ...(auth === null || isLasting(auth) ? [] : [offline])],
  };
}

const offline =
  'suggestion: params such as access_type: offline, where the service issues a refresh token only for them';

/** The request itself says that the sign-in is to last. */
function isLasting({ params, scope }: JsonObject): boolean {
  return (
    params !== undefined ||
    plainText(scope)
      .split(' ')
      .some((one) => forRefreshing.test(one))
  );
}

/** Where the person agrees and tokens are issued, as far as the service may be asked there; or why not. */
function addressesOf(scheme: JsonObject, flow: JsonObject, server: Server): JsonObject | string {
  const [authorize = '', query = ''] = (textIn(flow, 'authorizationUrl') ?? '').split('?', 2);
  const tokenUrl = textIn(flow, 'tokenUrl') ?? '';
  const refreshUrl = textIn(flow, 'refreshUrl') ?? tokenUrl;
  if (refreshUrl !== tokenUrl) return 'its tokens are renewed at another address than they are issued at';
  const device = objectIn(scheme, 'flows', 'deviceAuthorization');
  const deviceUrl = textIn(device, 'tokenUrl') === tokenUrl ? textIn(device, 'deviceAuthorizationUrl') : null;
  const stated = {
    authorizeUrl: authorize,
    tokenUrl,
    ...(deviceUrl === null ? {} : { deviceUrl }),
  };
  const known = server.kind === 'found' ? Object.keys(server.host) : [];
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
    ([name, value]) => value !== '' && isQueryName(name) && !sentAnyway.test(name),
  );
  return { ...urls, ...(params.length === 0 ? {} : { params: Object.fromEntries(params) }) };
}

function isQueryName(name: string): boolean {
  const problems: string[] = [];
  queryName(name, (message) => problems.push(message));
  return problems.length === 0;
}

/** What the program sends itself. */
const sentAnyway =
  /^(?:response_type|client_id|redirect_uri|scope|state|code_challenge|code_challenge_method)$/;

interface Scope {
  readonly text: string;
  readonly evidence: readonly string[];
  readonly guesses: readonly string[];
}

const reads: ReadonlySet<string> = new Set(['list', 'get', 'api_search']);

/** Without it, services issue no refresh token. */
const forRefreshing = /^(?:offline_access|offline|refresh_token)$/;
const writes = /\b(?:writes?|manages?|modif(?:y|ies)|deletes?|creates?|sends?|posts?|admin|full)\b/i;

/** The scopes that reading takes: as operations or the file name them, otherwise those that do not say they write. */
function scopeOf(
  service: ServiceFile,
  { name, scheme }: StatedWay,
  flow: JsonObject,
  entities: readonly string[],
): Scope {
  const declared = Object.entries(objectIn(flow, 'scopes'));
  const forever = declared.flatMap(([scope]) => (forRefreshing.test(scope) ? [scope] : []));
  const operations = service.operations.filter(
    ({ entity, action }) => entities.includes(entity) && reads.has(action),
  );
  const asked = operations.flatMap(({ security }) => {
    const requirement = (security ?? listIn(service.root, 'security')).find(
      (one) => isJsonObject(one) && Object.hasOwn(one, name),
    );
    return textsIn(requirement, name);
  });
  if (asked.length > 0) {
    return {
      text: joined([...asked, ...forever]),
      evidence: ['scope: as its operations require'],
      guesses: [],
    };
  }
  const byEntity = listIn(scheme, `${prefix}oauth-scopes`).flatMap((one) => {
    const isRead = textIn(one, 'mode')?.startsWith('read') === true;
    const isWanted = isRead && textsIn(one, 'entities').some((entity) => entities.includes(entity));
    return isWanted ? (textIn(one, 'scope') ?? []) : [];
  });
  if (byEntity.length > 0) {
    const evidence = ['scope: what the file says that reading these entities takes'];
    return { text: joined([...byEntity, ...forever]), evidence, guesses: [] };
  }
  const all = declared.map(([scope]) => scope).filter((scope) => !/\s/.test(scope));
  const reading = all.filter((scope) => !writes.test(`${scope} ${textIn(flow, 'scopes', scope) ?? ''}`));
  const chosen = reading.every((scope) => forRefreshing.test(scope)) ? all : reading;
  const left = all.filter((scope) => !chosen.includes(scope));
  const without = left.length === 0 ? '' : `, without ${oneLine(left.join(' '), 100)}`;
  return { text: joined(chosen), evidence: [], guesses: all.length === 0 ? [] : [`scope${without}`] };
}

function joined(scopes: readonly string[]): string {
  return [...new Set(scopes)].filter((scope) => /^[\x21\x23-\x5b\x5d-\x7e]+$/.test(scope)).join(' ');
}
