import type { Clock } from '../core/clock.ts';
import { withValueAt, type JsonObject, type JsonValue } from '../core/json.ts';
import type {
  CredentialValue,
  GrantAuthentication,
  LoginAuthentication,
  SignInAuthentication,
} from '../definitions/upstream/upstream-file.ts';
import { fillTemplate, type AnswerPath } from '../definitions/upstream/service-texts.ts';
import type { Upstream } from '../definitions/upstream/upstream.ts';
import { isSuccess, textOfBody, type WireAnswer } from '../http/exchange.ts';
import { tryJsonText } from '../http/lossless-json.ts';
import { redactMessage } from '../http/redact-message.ts';
import type { IssuedTokens } from '../sign-ins/sign-in-store.ts';
import { control, formType, queryText } from './call-address.ts';
import { credentialValue, neededValue, signRequest, type OpenCredentials } from './credentials.ts';
import { failureOfError, isFailed, readFailure, readJsonAnswer, valueAt } from './answers.ts';
import { UpstreamFailure } from './upstream-failure.ts';
import type { UpstreamTransport, WireRequest } from './upstream-transport.ts';

/** Issued tokens; without a refresh token the old one stays valid. */
export type NewTokens = Omit<IssuedTokens, 'app'>;

/** The token endpoint refused the grant (RFC 6749, section 5.2). */
export class RefusedGrantError extends UpstreamFailure {
  /** The error code of the answer, such as `invalid_grant`; empty: it has none. */
  readonly error: string;
  /** The service's error text without secrets, in brackets; empty: none. */
  readonly words: string;

  constructor(text: string, status: number, { error, words }: { error: string; words: string }) {
    super('unauthorized', text, { reason: 'answer', status });
    this.error = error;
    this.words = words;
  }

  /** Whether the service will refuse this grant permanently. */
  get isEnded(): boolean {
    return endedGrants.has(this.error);
  }
}

/** The code of the standard, and those of GitHub and Slack. */
const endedGrants: ReadonlySet<string> = new Set([
  'invalid_grant',
  'bad_refresh_token',
  'invalid_refresh_token',
]);

/** The body fields of a token request, without the client's credentials. */
export type Grant = Readonly<Record<string, string>> & { readonly grant_type: string };

/** The grant for another access token. */
export function renewalGrant(
  auth: Exclude<GrantAuthentication, SignInAuthentication>,
  values: ReadonlyMap<string, string>,
): Grant {
  const params = Object.fromEntries(textsOf(auth.params, values));
  if (auth.kind === 'refresh') return { ...params, ...refreshGrant(values.get(auth.refreshToken) ?? '') };
  const scope = auth.scope === undefined ? {} : { scope: auth.scope };
  if (auth.kind === 'clientCredentials') return { ...params, grant_type: 'client_credentials', ...scope };
  const [username, password] = [neededValue(auth.user, values), neededValue(auth.password, values)];
  return { ...params, grant_type: 'password', username, password, ...scope };
}

/** Texts by name, of which those without a value are left out. */
function textsOf(
  given: Readonly<Record<string, string | CredentialValue>>,
  values: ReadonlyMap<string, string>,
): readonly (readonly [string, string])[] {
  return Object.entries(given).flatMap(([name, value]) => {
    const text = typeof value === 'string' ? value : credentialValue(value, values);
    return text === null ? [] : [[name, text] as const];
  });
}

export function refreshGrant(token: string): Grant {
  return { grant_type: 'refresh_token', refresh_token: token };
}

const timeoutMs = 60_000;

/**
 * Calls the token endpoint once (RFC 6749, sections 4.1.3, 4.4 and 6). The call is never repeated: a refresh token or a
 * code may work only once. Throws `UpstreamFailure`.
 */
export async function requestTokens(url: URL, auth: GrantAuthentication, grant: Grant, facts: BesideFacts) {
  const { credentials } = facts;
  const secrets = [...credentials.secrets, ...secretsOf(grant)];
  const form = clientForm(auth, grant, credentials);
  const hidden = [...secrets, ...form.secrets];
  const read = (answer: WireAnswer): NewTokens | null => {
    if (isSuccess(answer.status)) return readTokens(readJsonAnswer(answer, hidden), auth, url.host, hidden);
    const value = tryJsonText(textOfBody(answer.body));
    if (![400, 401, 403].includes(answer.status) || value === undefined) return null;
    throw refusedGrant(answer.status, value, hidden, auth, url.host);
  };
  const request = { url, method: 'POST', headers: form.headers, body: form.body, timeoutMs } as const;
  // The call does not use the caller's signal: a caller that leaves must not lose a new refresh token in flight.
  return await askBeside(
    facts,
    request,
    [...secretsOf(grant), ...form.secrets],
    read,
    new AbortController().signal,
  );
}

function secretsOf(grant: Grant): readonly string[] {
  const names = ['refresh_token', 'code', 'code_verifier', 'device_code', 'password'];
  return names.flatMap((name) => grant[name] ?? []);
}

/** Calls the service once for the token of a login. Throws `UpstreamFailure`. */
export async function logIn(url: URL, auth: LoginAuthentication, facts: BesideFacts): Promise<NewTokens> {
  const { values, secrets } = facts.credentials;
  const form = queryText(textsOf(auth.form ?? {}, values));
  let json: JsonObject = {};
  for (const [at, text] of textsOf(auth.body ?? {}, values)) json = withValueAt(json, at.split('.'), text);
  const signature = signRequest(auth.sign ?? null, facts.credentials);
  const hidden = [...secrets, ...signature.secrets];
  const asked = new URL(url);
  if (auth.method === 'GET') asked.search = form;
  for (const [name, value] of signature.query) asked.searchParams.append(name, value);
  const sent =
    auth.form === undefined
      ? { type: 'application/json', body: JSON.stringify(json) }
      : { type: formType, body: form };
  const request = {
    url: asked,
    method: auth.method,
    headers: { ...signature.headers, ...(auth.method === 'GET' ? {} : { 'content-type': sent.type }) },
    body: auth.method === 'GET' ? null : sent.body,
    timeoutMs,
  };
  const read = (answer: WireAnswer): NewTokens | null => {
    if (!isSuccess(answer.status)) return null;
    const value = readJsonAnswer(answer, hidden);
    if (isFailed(facts.upstream, value)) return null;
    const token = valueAt(value, auth.token);
    if ((typeof token !== 'string' && typeof token !== 'number') || String(token).trim() === '') {
      throw missingIn(url.host, auth.token);
    }
    const stated = auth.expiresIn === undefined ? null : firstSeconds([valueAt(value, auth.expiresIn)]);
    return {
      accessToken: String(token).trim(),
      refreshToken: null,
      kept: keptIn(value, auth, url.host),
      accessSeconds: auth.lifetimeMs === undefined ? stated : auth.lifetimeMs / 1000,
      refreshSeconds: null,
    };
  };
  return await askBeside(facts, request, signature.secrets, read, new AbortController().signal);
}

/** Makes a body with these fields from the client: as a form or as JSON, with its secret where the definition says. */
export function clientForm(
  auth: GrantAuthentication,
  given: Readonly<Record<string, string>>,
  { values }: Pick<OpenCredentials, 'values'>,
) {
  const id = auth.clientId === undefined ? null : neededValue(auth.clientId, values);
  const secret = auth.clientSecret === undefined ? null : neededValue(auth.clientSecret, values);
  const basic =
    auth.style === 'basic' ? Buffer.from(`${id ?? ''}:${secret ?? ''}`, 'utf8').toString('base64') : null;
  const client = {
    ...(id === null ? {} : { client_id: id }),
    ...(secret === null ? {} : { client_secret: secret }),
  };
  const fields = { ...given, ...(basic === null ? client : {}) };
  const isJson = auth.format === 'json';
  return {
    headers: {
      'content-type': isJson ? 'application/json' : formType,
      ...(basic === null ? {} : { authorization: `Basic ${basic}` }),
    },
    body: isJson ? JSON.stringify(fields) : new URLSearchParams(fields).toString(),
    /** Values derived from the credentials. */
    secrets: basic === null ? [] : [basic],
  };
}

function readTokens(value: JsonValue, auth: GrantAuthentication, host: string, secrets: readonly string[]) {
  const accessToken = valueAt(value, ['access_token']);
  const refreshToken = valueAt(value, ['refresh_token']);
  // Some services refuse with status 200.
  if (typeof accessToken !== 'string' || accessToken.trim() === '') {
    throw refusedGrant(200, value, secrets, auth, host);
  }
  return {
    accessToken: accessToken.trim(),
    refreshToken: typeof refreshToken === 'string' && refreshToken.trim() !== '' ? refreshToken.trim() : null,
    kept: keptIn(value, auth, host),
    accessSeconds: firstSeconds([valueAt(value, ['expires_in'])]),
    refreshSeconds: firstSeconds(refreshEnds.map((name) => valueAt(value, [name]))),
  };
}

/** No standard names this value: names of Google and GitHub, Keycloak, Intuit. */
const refreshEnds = ['refresh_token_expires_in', 'refresh_expires_in', 'x_refresh_token_expires_in'];
const longestSeconds = 100 * 366 * 86_400;

/** Some services send numbers as text, and 0 for tokens that never end. */
function firstSeconds(stated: readonly (JsonValue | undefined)[]): number | null {
  const seconds = stated.map((one) => (typeof one === 'string' ? Number(one) : one));
  return (
    seconds.find((one): one is number => typeof one === 'number' && one > 0 && one <= longestSeconds) ?? null
  );
}

function keptIn(value: JsonValue, { keeps }: Pick<GrantAuthentication, 'keeps'>, host: string) {
  return Object.fromEntries(
    Object.entries(keeps).map(([field, path]) => [field, keptText(valueAt(value, path), path, host)]),
  );
}

function keptText(value: JsonValue | undefined, path: AnswerPath, host: string): string {
  const text = typeof value === 'number' || typeof value === 'string' ? String(value).trim() : '';
  if (text !== '' && text.length <= 1_000 && !control.test(text)) return text;
  throw missingIn(host, path);
}

function missingIn(host: string, path: AnswerPath): UpstreamFailure {
  const text = `the answer of ${host} with the access token has no ${path.join('.')}`;
  return new UpstreamFailure('refused', text, { reason: 'brokenBody', status: 200 });
}

function refusedGrant(
  status: number,
  value: JsonValue,
  secrets: readonly string[],
  { kind }: GrantAuthentication,
  host: string,
): RefusedGrantError {
  const [error = '', description = ''] = ['error', 'error_description'].map((name) => {
    const text = valueAt(value, [name]);
    return typeof text === 'string' ? text : '';
  });
  const said = redactMessage([error, description].filter((text) => text !== '').join(': '), secrets);
  const words = said === '' ? '' : ` (${said})`;
  const isRenewal = kind === 'refresh' && status !== 200;
  const ended = ` and give the connector its new credentials; until they change, ${host} is not asked`;
  const advice = `: connect the account again${endedGrants.has(error) ? ended : ''}`;
  const text = `${host} gives no access token${words}${isRenewal ? advice : ''}`;
  return new RefusedGrantError(text, status, { error, words });
}

const maxBodyBytes = 1024 * 1024;

/** The context of a call that reads no records: it requests tokens or a device code, or revokes tokens. */
export interface BesideFacts {
  readonly upstream: Upstream;
  readonly credentials: OpenCredentials;
  readonly transport: UpstreamTransport;
  readonly clock: Clock;
}

/**
 * Sends a call that reads no records, once. `read` interprets the answer; null: it is a failure, classified by the
 * service's rules. `secrets`: derived from the credentials for this call. Rejects with `UpstreamFailure`, and with the
 * signal's reason.
 */
export async function askBeside<T>(
  { upstream, credentials, transport, clock }: BesideFacts,
  request: Pick<WireRequest, 'url' | 'method' | 'headers' | 'body' | 'timeoutMs'>,
  secrets: readonly string[],
  read: (answer: WireAnswer) => T | null,
  signal: AbortSignal,
): Promise<T> {
  const { host } = request.url;
  const headers = { accept: 'application/json', 'user-agent': 'connector-sync', ...request.headers };
  // Names in the host are replaced by a placeholder: only the scheme and the port are used.
  const base = new URL(fillTemplate(upstream.baseUrl, () => 'x'));
  try {
    const wire = { ...request, headers, base, namedBy: 'definition', maxBodyBytes } as const;
    const answer = await transport.send(wire, signal);
    const found = read(answer);
    if (found !== null) return found;
    const facts = { entity: null, host, secrets: [...credentials.secrets, ...secrets], now: clock.now() };
    throw readFailure(upstream, answer, facts);
  } catch (error) {
    signal.throwIfAborted();
    throw failureOfError(error, host) ?? error;
  }
}
