import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Clock } from '../core/clock.ts';
import { isJsonObject, memberOf, type JsonObject, type JsonValue } from '../core/json.ts';
import { usage } from '../core/errors.ts';
import type { Definition } from '../definitions/definition.ts';
import { limitConnections } from '../http/connection-limit.ts';
import { isSuccess, type WireAnswer } from '../http/exchange.ts';
import { orAborted } from '../http/or-aborted.ts';
import { redactMessage } from '../http/redact-message.ts';
import type { SignInTokens, IssuedTokens } from '../sign-ins/sign-in-store.ts';
import { control } from './call-address.ts';
import { addressOf, readCredentials, credentialValue } from './credentials.ts';
import {
  askBeside,
  clientForm,
  RefusedGrantError,
  requestTokens,
  type BesideFacts,
  type Grant,
} from './request-tokens.ts';
import { readJsonAnswer } from './answers.ts';
import { isOfApp, tokensOf, type AppCredentials } from './account-session.ts';
import { UpstreamFailure } from './upstream-failure.ts';
import type { UpstreamTransport } from './upstream-transport.ts';

interface AuthorizationOptions {
  readonly definition: Definition;
  /** The credentials of the connector, which identify the app. */
  readonly credentials: JsonObject;
  readonly connector: string;
  readonly transport: UpstreamTransport;
  readonly clock: Clock;
}

export type Authorization = ReturnType<typeof openAuthorization>;

/**
 * The ways in which a person signs in through the app of a connector. Makes no call when it is created. Throws
 * `SyncError` USAGE for a connector that needs no sign-in; its calls reject with `UpstreamFailure`, and with the
 * signal's reason.
 */
export function openAuthorization(options: AuthorizationOptions) {
  const { definition, connector, transport, clock } = options;
  const { upstream, title } = definition;
  const credentials = upstream && readCredentials(definition, upstream, options.credentials, connector);
  if (upstream === null || credentials === null || !isOfApp(credentials)) {
    throw usage(`${connector} (${title}) needs no sign-in: its credentials are all that it is read with.`);
  }
  const facts: AppFacts = { upstream, credentials, transport, clock };
  const { auth } = credentials;

  return {
    /** Null: the service does not offer this way. */
    device: auth.deviceUrl === undefined ? null : (signal: AbortSignal) => beginDevice(facts, signal),
    code: (redirect: string) => beginCode(facts, redirect),
    /** Revokes tokens; false where the service has no address for that. */
    revoke: async ({ refreshToken, accessToken }: SignInTokens, signal: AbortSignal): Promise<boolean> => {
      if (auth.revokeUrl === undefined) return false;
      const url = addressOf(auth.revokeUrl, facts);
      const token = refreshToken ?? accessToken;
      const { headers, body, secrets } = clientForm(auth, { token }, credentials);
      const request = { url, method: 'POST', headers, body, timeoutMs: 30_000 } as const;
      const read = ({ status }: WireAnswer): true | null => (isSuccess(status) ? true : null);
      return await askBeside(facts, request, [...secrets, token], read, signal);
    },
  };
}

/** Facts that all ways to sign in share. */
type AppFacts = BesideFacts & { readonly credentials: AppCredentials };

const maxCodeLength = 4_096;

/**
 * One attempt of a person to sign in (RFC 6749, section 4.1; RFC 7636). `redirect`: the address that the browser is
 * sent back to, as the app is registered with it.
 */
function beginCode(facts: AppFacts, redirect: string) {
  const { auth, values, secrets } = facts.credentials;
  const url = addressOf(auth.authorizeUrl, facts);
  const state = randomBytes(32).toString('base64url');
  const verifier = randomBytes(32).toString('base64url');
  const challenge = { code_challenge: hash('sha256', verifier, 'base64url'), code_challenge_method: 'S256' };
  const query = {
    ...auth.params,
    response_type: 'code',
    client_id: credentialValue(auth.clientId, values) ?? '',
    redirect_uri: redirect,
    ...(auth.scope === undefined ? {} : { scope: auth.scope }),
    state,
    ...(auth.pkce ? challenge : {}),
  };
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  return {
    /** The address to open in the person's browser. */
    url,
    /**
     * The code in the query of the redirect; null where the query does not belong to this attempt. Throws
     * `UpstreamFailure` where the service refused.
     */
    codeIn: (found: URLSearchParams): string | null => {
      if (!isEqual(found.get('state') ?? '', state)) return null;
      const said = [found.get('error'), found.get('error_description')].filter((text) => text !== null);
      if (said.length > 0) {
        const text = `${url.host} does not let the app in (${redactMessage(said.join(': '), secrets)})`;
        throw new UpstreamFailure('unauthorized', text, { reason: 'answer' });
      }
      const code = found.get('code') ?? '';
      if (code !== '' && code.length <= maxCodeLength) return code;
      throw new UpstreamFailure('refused', `${url.host} sent the browser back without a code`, {
        reason: 'brokenBody',
      });
    },
    finish: async (code: string): Promise<IssuedTokens> => {
      const verified = auth.pkce ? { code_verifier: verifier } : {};
      const grant = { grant_type: 'authorization_code', code, redirect_uri: redirect, ...verified };
      return await trade(facts, grant);
    },
  };
}

/** Compares in constant time, wherever the texts differ. */
function isEqual(given: string, expected: string): boolean {
  const [left, right] = [given, expected].map((text) => Buffer.from(hash('sha256', text, 'hex')));
  return left !== undefined && right !== undefined && timingSafeEqual(left, right);
}

const longestMs = 1_800_000;
const slowerMs = 5_000;

/** One attempt of a person to sign in on another device (RFC 8628). */
async function beginDevice(facts: AppFacts, signal: AbortSignal) {
  const { clock, credentials } = facts;
  const { auth } = credentials;
  const address = addressOf(auth.deviceUrl ?? [], facts);
  const scope: Record<string, string> = auth.scope === undefined ? {} : { scope: auth.scope };
  const { headers, body, secrets } = clientForm(auth, scope, credentials);
  const request = { url: address, method: 'POST', headers, body, timeoutMs: 30_000 } as const;
  const read = (answer: WireAnswer) =>
    isSuccess(answer.status)
      ? readDevice(readJsonAnswer(answer, [...credentials.secrets, ...secrets]), address)
      : null;
  const { deviceCode, ...shown } = await askBeside(facts, request, secrets, read, signal);
  const endsAt = clock.now() + shown.endsInMs;
  return {
    ...shown,
    /** Asks until the person has agreed or refused, or the time is over. */
    finish: async (within: AbortSignal): Promise<IssuedTokens> => {
      for (let pauseMs = shown.pauseMs; clock.now() < endsAt;) {
        await clock.sleep(pauseMs, within);
        try {
          const type = 'urn:ietf:params:oauth:grant-type:device_code';
          return await trade(facts, { grant_type: type, device_code: deviceCode });
        } catch (error) {
          if (!isPending(error)) throw error;
          if (!(error instanceof RefusedGrantError) || error.error === 'slow_down') pauseMs += slowerMs;
        }
      }
      throw new UpstreamFailure('unauthorized', `no person entered the code at ${shown.url} in time`, {
        reason: 'answer',
      });
    },
  };
}

/** The person has not decided yet, or the service could not say. */
function isPending(error: unknown): boolean {
  if (error instanceof RefusedGrantError) return ['authorization_pending', 'slow_down'].includes(error.error);
  return error instanceof UpstreamFailure && (error.class === 'unavailable' || error.class === 'throttled');
}

function readDevice(value: JsonValue, asked: URL) {
  const textOf = (...names: readonly string[]): string => {
    const found = names
      .map((name) => (isJsonObject(value) ? memberOf(value, name) : undefined))
      .find((one) => typeof one === 'string' && one !== '' && one.length <= 2_000 && !control.test(one));
    if (typeof found === 'string') return found;
    throw broken(asked, names[0] ?? '');
  };
  const secondsOf = (name: string, standard: number): number => {
    const found = isJsonObject(value) ? memberOf(value, name) : undefined;
    return typeof found === 'number' && found > 0 ? found : standard;
  };
  // `verification_url` is Google's name.
  const url = textOf('verification_uri_complete', 'verification_uri', 'verification_url');
  if (!URL.canParse(url) || !['https:', asked.protocol].includes(new URL(url).protocol)) {
    throw broken(asked, 'verification_uri');
  }
  return {
    deviceCode: textOf('device_code'),
    /** The code that the person enters there. */
    userCode: textOf('user_code'),
    /** The address to open; it may have the code in it. */
    url,
    pauseMs: Math.min(secondsOf('interval', 5) * 1_000, 60_000),
    endsInMs: Math.min(secondsOf('expires_in', 600) * 1_000, longestMs),
  };
}

function broken(asked: URL, name: string): UpstreamFailure {
  return new UpstreamFailure('refused', `the answer of ${asked.host} has no usable ${name}`, {
    reason: 'brokenBody',
    status: 200,
  });
}

const headers = {
  'content-type': 'text/plain; charset=utf-8',
  'content-security-policy': "default-src 'none'",
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'cache-control': 'no-store',
  connection: 'close',
};
/** All connections come from this machine. A browser opens a few, and may keep them open. */
const limits = { maxConnections: 20, maxConnectionsPerClient: 20 };

/**
 * Listens on 127.0.0.1 alone for the redirected browser (RFC 8252, section 7.3), on the port of `wanted`, or on a free
 * one where it names none. Its answers are fixed texts: they contain nothing of a request, and no link.
 */
export async function awaitRedirect(wanted: URL) {
  let settle: (query: URLSearchParams) => boolean = () => false;
  const server = createServer(
    { requestTimeout: 10_000, headersTimeout: 10_000, maxHeaderSize: 16_384 },
    (request, response) => {
      const [status, text] = answerTo(request, host, wanted.pathname, (query) => settle(query));
      response.writeHead(status, headers).end(`${text}\n`);
    },
  );
  limitConnections(server, limits);
  const listening = new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(Number(wanted.port || 0), '127.0.0.1', resolve);
  });
  await listening;
  // `as`: a server on a port has such an address.
  const { port } = server.address() as AddressInfo;
  const host = `${wanted.hostname}:${port}`;
  return {
    /** The address that the service redirects the browser to, with the port. */
    redirect: `http://${host}${wanted.pathname}`,
    /**
     * The first code that `codeIn` finds in a request to that address; rejects with the error that it throws. Other
     * requests change nothing.
     */
    code: async (codeIn: (query: URLSearchParams) => string | null, signal: AbortSignal): Promise<string> => {
      const found = new Promise<string>((resolve, reject) => {
        settle = (query) => {
          try {
            const code = codeIn(query);
            if (code !== null) resolve(code);
            return code !== null;
          } catch (error) {
            reject(error);
            return true;
          }
        };
      });
      return await orAborted(found, signal).finally(() => (settle = () => false));
    },
    [Symbol.asyncDispose]: async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}

/**
 * A page of another site can send a browser here too: it does not know the state, and uses another name for this host.
 */
function answerTo(
  { method, url = '', headers: { host: asked } }: IncomingMessage,
  host: string,
  path: string,
  settle: (query: URLSearchParams) => boolean,
): readonly [status: number, text: string] {
  const [at = '', query = ''] = url.split('?');
  if (asked !== host || at !== path) return [404, 'Nothing is here.'];
  if (method !== 'GET') return [405, 'Expected GET.'];
  return settle(new URLSearchParams(query))
    ? [200, 'Received. Close this page, and read in the terminal how the sign-in ended.']
    : [400, 'This answer does not belong to the sign-in that waits in the terminal. Start it again there.'];
}

/** Exchanges a grant that a service has given to a person for tokens. */
async function trade(facts: AppFacts, grant: Grant): Promise<IssuedTokens> {
  const { credentials } = facts;
  const url = addressOf(credentials.auth.tokenUrl, facts);
  return tokensOf(credentials, await requestTokens(url, credentials.auth, grant, facts), null);
}
