import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { isJsonObject, type JsonObject, type JsonValue } from '../../../src/core/json.ts';
import type { Reply } from '../hostile/replies.ts';
import { listen } from '../listen.ts';
import type { Params } from '../../../src/core/records.ts';
import type { Listing, SampleAccount } from '../../../src/sample/sample-account.ts';

/** What a service says to one request, before anything goes wrong with it. Header names are lower-case. */
export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array;
}

export function jsonAnswer(status: number, body: JsonValue, headers: Answer['headers'] = {}): Answer {
  return {
    status,
    headers: { 'content-type': 'application/json; charset=utf-8', ...headers },
    body: JSON.stringify(body),
  };
}

/** Thrown anywhere while a request is worked on: the answer as it stands. */
export class AnswerInstead extends Error {
  readonly answer: Answer;

  constructor(answer: Answer) {
    super(`the answer is ${answer.status}`);
    this.answer = answer;
  }
}

/** Whether a request brought a credential that the service takes. */
export type CredentialState = 'right' | 'wrong' | 'none';

/** One request, as a fake service works on it. */
export interface FakeRequest {
  readonly method: string;
  /** As it was sent: still encoded. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: Readonly<Record<string, string>>;
  /** Null: there was no body. Undefined: it is neither JSON nor a form. */
  readonly body: JsonValue | undefined;
}

export type LoggedRequest = ReturnType<typeof loggedRequest>;

/** Something that goes wrong with a request. */
interface Fault {
  /** Which requests it is for; left out: every request. */
  readonly on?: (request: LoggedRequest) => boolean;
  /** How many of these it happens to; left out: one. */
  readonly times?: number;
  readonly effect: Effect;
}

/**
 * Makes what is sent out of the right answer, or in its place: another answer, or a reply that writes to the socket
 * itself.
 */
export type Effect = (
  right: () => Answer,
  request: LoggedRequest,
) => Answer | Reply | Promise<Answer | Reply>;

interface FakeServerOptions {
  /** The right answer; may throw `AnswerInstead`. */
  readonly answer: (request: FakeRequest) => Answer;
  readonly credentialOf: (request: FakeRequest) => CredentialState;
  /** Says no to a request before it is worked on, by the number of those that are being answered, this one included. */
  readonly refuse?: (inFlight: number) => Answer | null;
}

export type FakeServer = Awaited<ReturnType<typeof startFakeServer>>;

/** A service on port 0 of this machine. A client that breaks off, or is killed, does it no harm. */
export async function startFakeServer({ answer, credentialOf, refuse = () => null }: FakeServerOptions) {
  const requests: LoggedRequest[] = [];
  let faults: { readonly fault: Fault; done: number }[] = [];
  let taken = 0;
  let inFlight = 0;
  let peak = 0;

  /** The effect of the first fault that is for this request. */
  const takeEffect = (logged: LoggedRequest): Fault['effect'] | null => {
    for (const entry of faults) {
      const { on = () => true, times = 1, effect } = entry.fault;
      if (entry.done >= times || !on(logged)) continue;
      entry.done += 1;
      return effect;
    }
    return null;
  };

  const rightAnswer = (request: FakeRequest): Answer => {
    try {
      return answer(request);
    } catch (error) {
      if (error instanceof AnswerInstead) return error.answer;
      // A fault of the fake itself: a test should see what it is.
      return jsonAnswer(500, {
        fake: error instanceof Error ? (error.stack ?? error.message) : String(error),
      });
    }
  };

  const respond = async (message: IncomingMessage, response: ServerResponse): Promise<void> => {
    const request = await readRequest(message);
    const logged = loggedRequest(request, credentialOf(request));
    const index = requests.push(logged) - 1;
    response.once('finish', () => {
      requests[index] = { ...logged, status: response.statusCode };
    });
    const effect = takeEffect(logged);
    const refused = refuse(inFlight);
    const right = (): Answer => refused ?? rightAnswer(request);
    const given = effect === null ? right() : await effect(right, logged);
    if (typeof given === 'function') await given({ request: message, response, connectorId: '' });
    else {
      const { status, headers, body } = given;
      response.writeHead(status, { ...headers, 'content-length': String(Buffer.byteLength(body)) });
      response.end(body);
    }
  };

  const server = createServer((message, response) => {
    inFlight += 1;
    peak = Math.max(peak, inFlight);
    response.once('close', () => (inFlight -= 1));
    // A client that goes away while it is answered is no failure of the service.
    respond(message, response).catch(() => message.socket.destroy());
  });
  const { origin, close } = await listen(server);
  return {
    /** `http://127.0.0.1:PORT` */
    origin,
    /** Every request so far, in order of arrival. */
    requests: requests as readonly LoggedRequest[],
    /** Those since the last time this was asked. */
    takeRequests(): readonly LoggedRequest[] {
      const since = requests.slice(taken);
      taken = requests.length;
      return since;
    },
    /** The most requests that were in flight at once. */
    peak: () => peak,
    /** Lets a fault happen. Of several that fit a request the one scripted first does, until it is used up. */
    script: (fault: Fault) => void faults.push({ fault, done: 0 }),
    /** Ends all faults. */
    heal() {
      faults = [];
    },
    [Symbol.asyncDispose]: close,
  };
}

async function readRequest(message: IncomingMessage): Promise<FakeRequest> {
  const url = new URL(message.url ?? '/', 'http://localhost');
  const sent = await text(message);
  const headers = Object.fromEntries(
    Object.entries(message.headers).map(([name, value]) => [name, String(value ?? '')]),
  );
  return {
    method: message.method ?? '',
    // Not `url.pathname`, which has resolved `..` already.
    path: (message.url ?? '/').split(/[?#]/)[0] ?? '',
    query: url.searchParams,
    headers,
    body: parsedBody(sent, headers['content-type'] ?? ''),
  };
}

function parsedBody(text: string, contentType: string): JsonValue | undefined {
  if (text === '') return null;
  if (contentType.startsWith('application/x-www-form-urlencoded')) {
    return Object.fromEntries(new URLSearchParams(text));
  }
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    return undefined;
  }
}

const secretNames =
  'authorization proxy-authorization cookie x-desk-key apikey api_key access_token refresh_token client_secret code';

/** What a fake keeps of a request: values of secrets are hidden, so that a test may print it. */
function loggedRequest({ method, path, query, headers, body }: FakeRequest, credential: CredentialState) {
  const hideIn = <Value>(members: Iterable<readonly [string, Value]>): [string, Value | string][] =>
    Array.from(members, ([name, value]) => [
      name,
      secretNames.split(' ').includes(name) ? '(hidden)' : value,
    ]);
  return {
    method,
    path,
    credential,
    query: hideIn(query) as readonly (readonly [string, string])[],
    headers: Object.fromEntries(hideIn(Object.entries(headers))),
    body: isJsonObject(body) ? Object.fromEntries(hideIn(Object.entries(body))) : body,
    /** As it was answered; null: not yet, or not by HTTP. */
    status: null as number | null,
  };
}

/** User and password of basic authentication; null: there is none. */
export function basicOf({ headers }: FakeRequest): readonly [string, string] | null {
  const encoded = /^Basic (.+)$/.exec(headers['authorization'] ?? '')?.[1];
  if (encoded === undefined) return null;
  const [, user = '', password = ''] =
    /^([^:]*):(.*)$/s.exec(Buffer.from(encoded, 'base64').toString()) ?? [];
  return [user, password];
}

/** The token that a request brings; null: there is none. */
export function tokenOf({ headers }: FakeRequest): string | null {
  return /^Bearer (.+)$/.exec(headers['authorization'] ?? '')?.[1] ?? null;
}

/**
 * The values of a path's names, decoded; null: another path. A name takes one segment, whatever is in it: `..` and an
 * encoded slash are values, which no record has.
 */
export function matchPath(template: string, path: string): Readonly<Record<string, string>> | null {
  const wanted = template.split('/');
  const segments = path.split('/');
  if (wanted.length !== segments.length) return null;
  const values: Record<string, string> = {};
  for (const [at, part] of wanted.entries()) {
    const segment = segments[at] ?? '';
    const name = /^\{(.+)\}$/.exec(part)?.[1];
    if (name === undefined ? part !== segment : segment === '') return null;
    if (name !== undefined) values[name] = decodeURIComponent(segment);
  }
  return values;
}

/**
 * OAuth 2.0's token endpoint for refresh tokens (RFC 6749, section 6), whose refresh tokens serve once. `more`: what
 * its answer says besides.
 */
export function openOAuthServer(more: JsonObject = {}) {
  const clientId = 'app-1';
  const clientSecret = 'app-1-secret-5d0f2a';
  let number = 1;
  const accessToken = (): string => `access-${number}-9c1a7e`;
  const refreshToken = (): string => `refresh-${number}-44b7d2`;
  let isExpired = false;

  /** How the app identified itself: by basic authentication, or in the body. */
  const clientOf = (request: FakeRequest): CredentialState => {
    const body = isJsonObject(request.body) ? request.body : {};
    const [id, secret] = basicOf(request) ?? [body['client_id'], body['client_secret']];
    if (id === undefined && secret === undefined) return 'none';
    return id === clientId && secret === clientSecret ? 'right' : 'wrong';
  };
  const refused = (status: number, error: string): Answer => jsonAnswer(status, { error });

  return {
    clientId,
    clientSecret,
    /** The pair that an app was given last. */
    tokens: () => ({ accessToken: accessToken(), refreshToken: refreshToken() }),
    /** Whether an access token is one that still holds. */
    takes: (token: string): boolean => !isExpired && token === accessToken(),
    clientOf,
    answer(request: FakeRequest): Answer {
      const body = isJsonObject(request.body) ? request.body : {};
      if (request.method !== 'POST') return refused(405, 'invalid_request');
      if (clientOf(request) !== 'right') return refused(401, 'invalid_client');
      if (body['grant_type'] !== 'refresh_token') return refused(400, 'unsupported_grant_type');
      // A refresh token that was used once is worth nothing: using it twice loses the connector.
      if (body['refresh_token'] !== refreshToken()) return refused(400, 'invalid_grant');
      number += 1;
      isExpired = false;
      return jsonAnswer(200, {
        access_token: accessToken(),
        refresh_token: refreshToken(),
        token_type: 'bearer',
        expires_in: 3_600,
        ...more,
      });
    },
    /** Ends the access tokens of all apps; a refresh token brings a new one. */
    expireAccessTokens() {
      isExpired = true;
    },
    /** Refreshes that succeeded. */
    refreshes: () => number - 1,
  };
}

/** The same account, its records as the service writes them: what a client sees, so what a test compares it with. */
export function wireAccount(
  account: SampleAccount,
  toWire: (entity: string, record: JsonObject, params: Params) => JsonObject,
): SampleAccount {
  return {
    list(entity, params) {
      const listing = account.list(entity, params);
      return {
        slice: (offset, limit) =>
          listing.slice(offset, limit).map((record) => toWire(entity, record, params)),
        metadata: listing.metadata,
      };
    },
    get(entity, params) {
      const record = account.get(entity, params);
      return record === null ? null : toWire(entity, record, params);
    },
    file: (entity, params) => account.file?.(entity, params) ?? null,
  };
}

export function allOf(listing: Listing): readonly JsonObject[] {
  return listing.slice(0, Number.MAX_SAFE_INTEGER);
}
