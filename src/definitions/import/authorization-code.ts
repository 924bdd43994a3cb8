import { isJsonObject, type JsonObject } from '../../core/json.ts';
import { queryName, templateUrl } from '../upstream/sent-texts.ts';
import { namesIn } from '../upstream/template.ts';
import { listIn, objectIn, oneLine, partIn, plainText, prefix, textIn, textsIn } from './parts.ts';
import type { Server } from './server.ts';
import type { ServiceFile } from './service-file.ts';
import {
  mappedField,
  ownScheme,
  plainAddress,
  statedFields,
  statedWays,
  tokenRequest,
  type SignIn,
  type StatedWay,
} from './sign-in.ts';

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
