import type { IncomingMessage } from 'node:http';
import { isJsonObject, type JsonObject, type JsonValue } from '../../../src/core/json.ts';

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

/** What a fake keeps of a request. It holds no secret: a test may print it. */
export interface LoggedRequest {
  /** Counts from 0 over the server's life. */
  readonly index: number;
  readonly method: string;
  /** As it was sent: still encoded. */
  readonly path: string;
  /** Name and value, in the order of the query; a secret's value is `hidden`. */
  readonly query: readonly (readonly [string, string])[];
  readonly body: JsonValue | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly credential: CredentialState;
  /** As it was answered; null: not yet, or not by HTTP. */
  readonly status: number | null;
}

export const hidden = '(hidden)';

const secretNames = new Set([
  'authorization',
  'proxy-authorization',
  'cookie',
  'x-desk-key',
  'apikey',
  'api_key',
  'access_token',
  'refresh_token',
  'client_secret',
  'code',
]);

export function withoutSecrets(request: FakeRequest): Pick<LoggedRequest, 'query' | 'body' | 'headers'> {
  const safe = <Value>(name: string, value: Value): Value | string =>
    secretNames.has(name) ? hidden : value;
  const hideIn = (members: JsonObject): JsonObject =>
    Object.fromEntries(Object.entries(members).map(([name, value]) => [name, safe(name, value)]));
  return {
    query: [...request.query].map(([name, value]) => [name, safe(name, value)]),
    headers: Object.fromEntries(
      Object.entries(request.headers).map(([name, value]) => [name, safe(name, value)]),
    ),
    body: isJsonObject(request.body) ? hideIn(request.body) : request.body,
  };
}

export async function readRequest(message: IncomingMessage): Promise<FakeRequest> {
  const url = new URL(message.url ?? '/', 'http://localhost');
  const chunks: Buffer[] = [];
  // `as`: a request without an encoding set yields Buffers.
  for await (const chunk of message) chunks.push(chunk as Buffer);
  const headers = Object.fromEntries(
    Object.entries(message.headers).map(([name, value]) => [
      name,
      Array.isArray(value) ? value.join(', ') : (value ?? ''),
    ]),
  );
  return {
    method: message.method ?? '',
    // Not `url.pathname`, which has resolved `..` already.
    path: (message.url ?? '/').split(/[?#]/)[0] ?? '',
    query: url.searchParams,
    headers,
    body: parsedBody(Buffer.concat(chunks).toString('utf8'), headers['content-type'] ?? ''),
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

/** User and password of basic authentication; null: there is none. */
export function basicOf({ headers }: FakeRequest): readonly [string, string] | null {
  const encoded = /^Basic (.+)$/.exec(headers['authorization'] ?? '')?.[1];
  if (encoded === undefined) return null;
  const [, user = '', password = ''] =
    /^([^:]*):(.*)$/s.exec(Buffer.from(encoded, 'base64').toString()) ?? [];
  return [user, password];
}

/** The token of the given scheme; null: there is none. */
export function tokenOf({ headers }: FakeRequest, scheme = 'Bearer'): string | null {
  const [, found, token = null] = /^(\S+) (.+)$/.exec(headers['authorization'] ?? '') ?? [];
  return found === scheme ? token : null;
}
