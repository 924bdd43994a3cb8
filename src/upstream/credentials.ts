import { hash } from 'node:crypto';
import type { JsonObject } from '../core/json.ts';
import type { Definition } from '../definitions/definition.ts';
import { credentialProblems } from '../definitions/params.ts';
import {
  linearPattern,
  fillTemplate,
  namesIn,
  type AnswerPath,
  type Template,
} from '../definitions/upstream/service-texts.ts';
import {
  isIssued,
  type Authentication,
  type CredentialValue,
  type IssuedAuthentication,
  type HostSource,
  type HostVariable,
} from '../definitions/upstream/upstream-file.ts';
import type { Upstream, UpstreamRequest } from '../definitions/upstream/upstream.ts';
import { control, buildAddress, segmentProblem } from './call-address.ts';
import { UpstreamFailure } from './upstream-failure.ts';

/** Credentials for one call: nothing keeps them longer, and nothing prints them. */
export interface OpenCredentials {
  /** The way to sign in; null for a definition that declares none. */
  readonly auth: Authentication | null;
  /** Trimmed, without control characters. */
  readonly values: ReadonlyMap<string, string>;
  /** Values that must not be shown. */
  readonly secrets: readonly string[];
  /**
   * Identifies the account, among those of other services too: the hash of values that do not change when tokens are
   * renewed.
   */
  readonly account: string;
}

/** Throws `UpstreamFailure` unauthorized for credentials that cannot be used. It names fields, and repeats no value. */
export function readCredentials(
  definition: Pick<Definition, 'name' | 'credentials'>,
  upstream: Upstream,
  given: JsonObject,
  connector: string,
): OpenCredentials {
  const shape = definition.credentials.find(
    (one) => credentialProblems({ credentials: [one] }, given).length === 0,
  );
  if (shape === undefined && definition.credentials.length > 0) {
    const [problem] = credentialProblems(definition, given);
    throw unusable(`${problem?.field === null ? '' : `${problem?.field}: `}${problem?.message ?? ''}`);
  }
  const auth = upstream.auth.get(shape?.title ?? '') ?? null;
  const values = new Map<string, string>();
  for (const [field, value] of Object.entries(given)) {
    if (typeof value !== 'string') continue;
    const text = value.trim();
    if (control.test(text)) throw unusable(`${field} holds a control character, such as a line break`);
    if (text !== '') values.set(field, text);
  }
  for (const [name, { setting }] of shape?.fields ?? []) {
    const usual = setting?.default ?? null;
    if (usual !== null && !values.has(name)) values.set(name, usual);
  }
  const isRenewed = (field: string): boolean =>
    isIssued(auth) &&
    (Object.hasOwn(auth.keeps, field) ||
      (auth.kind === 'refresh' && (field === auth.accessToken || field === auth.refreshToken)));
  const stable = [...values].filter(([field]) => !isRenewed(field)).toSorted(([a], [b]) => (a < b ? -1 : 1));
  // Renewed tokens cannot tell two accounts of one application apart, so the connector does.
  const named = auth?.kind === 'refresh' || auth?.kind === 'authorizationCode' ? connector : '';
  return {
    auth,
    values,
    secrets: [...values]
      .filter(([field]) => shape?.fields.get(field)?.isSecret ?? true)
      .map(([, value]) => value),
    account: hash('sha256', JSON.stringify([definition.name, upstream.baseUrl, named, stable]), 'hex'),
  };
}

/** A key among the values of credentials: no field of a definition has such a name. */
const issuedToken = 'the issued token';

/** The address of the call that issues tokens. */
export function tokenAddress(auth: IssuedAuthentication): Template {
  return auth.kind === 'login' ? auth.url : auth.tokenUrl;
}

/** The field of the access token. */
export function accessTokenField(auth: IssuedAuthentication): string {
  return auth.kind === 'refresh' ? auth.accessToken : issuedToken;
}

/** Adds values that a token endpoint has issued, which are secret. */
export function withIssued(
  credentials: OpenCredentials,
  issued: Iterable<readonly [field: string, value: string]>,
): OpenCredentials {
  const more = [...issued];
  return {
    ...credentials,
    values: new Map([...credentials.values, ...more]),
    secrets: [...credentials.secrets, ...more.map(([, value]) => value)],
  };
}

/** Null where the credentials do not have the value. */
export function credentialValue(value: CredentialValue, values: ReadonlyMap<string, string>): string | null {
  if (value.kind === 'text') return value.text;
  const field = values.get(value.field);
  if (field === undefined) return null;
  switch (value.kind) {
    case 'field':
      return field;
    case 'suffix':
      return `${field}${value.suffix}`;
    case 'afterLast':
      // Without the separator, or with nothing after it, there is no value.
      return field.includes(value.separator)
        ? field.slice(field.lastIndexOf(value.separator) + value.separator.length) || null
        : null;
  }
}

/** Throws `UpstreamFailure` unauthorized where the credentials do not have the value. */
export function neededValue(value: CredentialValue, values: ReadonlyMap<string, string>): string {
  const found = credentialValue(value, values);
  if (found !== null) return found;
  throw unusable(value.kind === 'text' ? 'a fixed value is empty' : `${value.field} has no usable value`);
}

export function unusable(why: string): UpstreamFailure {
  return new UpstreamFailure('unauthorized', `the credentials of the connector cannot be used: ${why}`, {
    reason: 'credentials',
  });
}

type Pair = readonly [string, string];

/** Headers and query parameters that authentication adds to a request. */
interface Signature {
  readonly headers: Readonly<Record<string, string>>;
  readonly query: readonly Pair[];
  /** Texts at places in the body. */
  readonly fill: readonly Filled[];
  /** Values derived from the credentials, as secret as they are. */
  readonly secrets: readonly string[];
}

interface Filled {
  readonly at: AnswerPath;
  readonly text: string;
}

const noSignature: Signature = { headers: {}, query: [], fill: [], secrets: [] };

/** The parts of a request that are made of the credentials and settings. */
export type GivenParts = ReturnType<typeof openRequest>;

/**
 * Opens the headers of a request, and the other parts of it that are made of the credentials and settings. A header, a
 * parameter or a member of the body that has no value is left out. Throws `UpstreamFailure` unauthorized for a value
 * that no header or path can contain.
 */
export function openRequest(
  {
    headers,
    query,
    fill,
    path,
    texts,
    params,
  }: Pick<UpstreamRequest, 'headers' | 'query' | 'fill' | 'path' | 'texts' | 'params'>,
  { values, secrets }: Pick<OpenCredentials, 'values' | 'secrets'>,
) {
  const opened: Record<string, string> = {};
  const shown: Pair[] = [];
  const hidden: Pair[] = [];
  const filled: Filled[] = [];
  const made: string[] = [];
  const openValue = (value: string | CredentialValue) => {
    const text = typeof value === 'string' ? value : credentialValue(value, values);
    const isGiven = typeof value !== 'string' && value.kind !== 'text';
    return { text, isSecret: isGiven && secrets.includes(values.get(value.field) ?? '') };
  };
  for (const [name, value] of headers) {
    const { text, isSecret } = openValue(value);
    if (text === null) continue;
    Object.assign(opened, inHeader(name, text).headers);
    // A part of a secret is secret too.
    if (isSecret) made.push(text);
  }
  for (const [name, value] of query) {
    const { text, isSecret } = typeof value === 'string' ? { text: null, isSecret: false } : openValue(value);
    if (text === null) continue;
    (isSecret ? hidden : shown).push([name, text]);
    if (isSecret) made.push(text, ...inQuery(name, text));
  }
  for (const { at, value } of fill) {
    const { text, isSecret } = openValue(value);
    if (text === null) continue;
    filled.push({ at, text });
    if (isSecret) made.push(text, ...inBody(at, text));
  }
  const inPath = namesIn(path).filter((name) => !params.has(name));
  const inTexts = texts.flatMap(({ template }) => namesIn(template)).filter((name) => !params.has(name));
  return {
    headers: opened,
    /** Parameters of the query, which are sent with each page. */
    query: shown,
    /** Parameters that hold a secret: they are shown by name only. */
    hidden,
    fill: filled,
    /** Values of names in the path and in texts. */
    path: new Map([
      ...inTexts.flatMap((name) => [[name, values.get(name) ?? []].flat()] as [string, string][]),
      ...inPath.map((name): Pair => [name, pathValue(name, values)]),
    ]),
    /** Names in the path whose values are secret. */
    hiddenPath: inPath.filter((name) => secrets.includes(values.get(name) ?? '')),
    /** Values derived from the credentials, as secret as they are. */
    secrets: made,
  };
}

function pathValue(name: string, values: ReadonlyMap<string, string>): string {
  const value = neededValue({ kind: 'field', field: name }, values);
  const problem = segmentProblem(value);
  if (problem !== null) throw unusable(`${name} ${problem}`);
  return value;
}

/** Together with its name a value can be hidden even if it is an ordinary word. */
function inQuery(name: string, value: string): readonly string[] {
  return [`${name}=${value}`, `${name}=${encodeURIComponent(value)}`];
}

function inBody(at: AnswerPath, value: string): readonly string[] {
  const [name = '', ...inner] = at;
  const json = `${JSON.stringify(at.at(-1) ?? '')}:${JSON.stringify(value)}`;
  return [json, ...inQuery(`${name}${inner.map((part) => `[${part}]`).join('')}`, value)];
}

/**
 * Signs a request. Throws `UpstreamFailure` unauthorized where the credentials lack a value, or have one that no header
 * can contain.
 */
export function signRequest(auth: Authentication | null, { values }: Pick<OpenCredentials, 'values'>) {
  if (auth === null) return noSignature;
  const need = (value: CredentialValue): string => neededValue(value, values);
  switch (auth.kind) {
    case 'none':
      return noSignature;
    case 'basic': {
      const user = need(auth.user);
      if (user.includes(':')) throw unusable('a user name must not hold a colon');
      const encoded = Buffer.from(`${user}:${need(auth.password)}`, 'utf8').toString('base64');
      return { ...noSignature, headers: { authorization: `Basic ${encoded}` }, secrets: [encoded] };
    }
    case 'bearer':
      return inHeader('authorization', `${auth.scheme} ${need(auth.token)}`);
    case 'refresh':
    case 'clientCredentials':
    case 'password':
    case 'login':
    case 'authorizationCode': {
      const token = need({ kind: 'field', field: accessTokenField(auth) });
      const name = auth.kind === 'login' ? auth.header : undefined;
      return inHeader(name ?? 'authorization', name === undefined ? `${auth.scheme} ${token}` : token);
    }
    case 'body': {
      const [at, text] = [auth.at.split('.'), need(auth.value)];
      return { ...noSignature, fill: [{ at, text }], secrets: inBody(at, text) };
    }
    case 'header':
      return inHeader(auth.name, `${auth.prefix}${need(auth.value)}`);
    case 'query': {
      const value = need(auth.value);
      return { ...noSignature, query: [[auth.name, value]], secrets: inQuery(auth.name, value) };
    }
  }
}

function inHeader(name: string, value: string): Signature {
  if (!/^[\x20-\x7e]+$/.test(value)) {
    throw unusable('a value that goes into a header holds characters other than printable ASCII');
  }
  return { ...noSignature, headers: { [name]: value } };
}

const maxHostLength = 253;

/**
 * Builds the address of a template. Each value of a name in its host is checked against its pattern: the definition's
 * file fixes the end of the host, so no credential leads to another service. Throws `UpstreamFailure` unauthorized; its
 * text names the fields and repeats no value.
 */
export function addressOf(
  template: Template,
  { upstream, credentials }: { readonly upstream: Upstream; readonly credentials: OpenCredentials },
): URL {
  const variables = new Map<string, string>();
  for (const [name, variable] of upstream.host) {
    if (!template.some((part) => part.kind === 'name' && part.name === name)) continue;
    const { from, map, pattern } = variable;
    const found = firstValue(variable, credentials);
    if (found === null) {
      const sources = from.map(nameOf).join(' or ');
      throw unusable(`the ${name} of the address is missing; it is read from ${sources}`);
    }
    if (
      found.value === null ||
      found.value.length > maxHostLength ||
      (pattern !== undefined && !linearPattern(pattern).testExact(found.value))
    ) {
      const form =
        map === undefined ? `the form ${pattern}` : `one of the values ${Object.keys(map).join(', ')}`;
      throw unusable(`the ${name} of the address, from ${nameOf(found.source)}, does not have ${form}`);
    }
    variables.set(name, found.value);
  }
  return buildAddress(template, variables);
}

/**
 * Scheme, host and port of each place that receives these credentials, known without a call; the service itself is the
 * first. A host name that comes with the token stays a name. The settings that decide which records are read follow.
 * Null: the credentials cannot be used, so nothing is sent. Throws `TypeError` for a definition without `upstream`.
 */
export function placesOfCredentials(definition: Definition, given: JsonObject): string | null {
  const { upstream } = definition;
  if (upstream === null) throw new TypeError(`the definition ${definition.name} has no upstream`);
  let credentials: OpenCredentials;
  try {
    credentials = readCredentials(definition, upstream, given, '');
  } catch (error) {
    if (error instanceof UpstreamFailure) return null;
    throw error;
  }
  const { auth } = credentials;
  const urls = isIssued(auth) ? [tokenAddress(auth)] : [];
  if (auth?.kind === 'authorizationCode') {
    urls.push(...[auth.authorizeUrl, auth.deviceUrl, auth.revokeUrl].filter((url) => url !== undefined));
  }
  const names = new Map<string, string>();
  for (const [name, variable] of upstream.host) {
    const found = firstValue(variable, credentials);
    if (found !== null) names.set(name, found.value ?? '');
  }
  const [first = '', ...others] = [upstream.baseUrl, ...urls].map((template) =>
    originIn(fillTemplate(template, (name) => names.get(name) ?? `{${name}}`)),
  );
  const settings = upstream.identifying.toSorted().flatMap((name) => {
    const value = credentials.values.get(name);
    return value === undefined ? [] : [`${name}=${encodeURIComponent(value)}`];
  });
  return [first, ...[...new Set(others)].filter((one) => one !== first).toSorted(), ...settings].join(', ');
}

function originIn(url: string): string {
  return URL.canParse(url) ? new URL(url).origin : (/^[^/]*\/\/[^/?#]*/.exec(url)?.[0] ?? url).toLowerCase();
}

function firstValue({ from, map }: HostVariable, { values }: OpenCredentials) {
  for (const source of from) {
    const value = credentialValue(source, values);
    if (value === null) continue;
    const host = hostIn(source, value);
    if (map === undefined || host === null) return { value: host, source };
    return { value: Object.hasOwn(map, host) ? (map[host] ?? null) : null, source };
  }
  return null;
}

/** The host of an origin; null for an address that has more than a host. */
function hostIn({ isOrigin }: HostSource, value: string): string | null {
  if (!isOrigin || !value.includes('/')) return value;
  return /^https:\/\/([^/]+)\/?$/i.exec(value)?.[1] ?? null;
}

function nameOf(source: HostSource): string {
  switch (source.kind) {
    case 'text':
      return 'the definition';
    case 'afterLast':
      return `what follows the last "${source.separator}" of ${source.field}`;
    case 'field':
    case 'suffix':
      return source.field;
  }
}
