import * as z from 'zod';
import type { Clock } from '../../core/clock.ts';
import type { ApiCall } from './api-caller.ts';
import type { ApiSettings } from './api-settings.ts';
import { callFacts } from './call-failure.ts';
import { parseJsonText } from '../../http/lossless-json.ts';
import { orAborted } from '../../http/or-aborted.ts';
import { catalogCall } from './catalog-calls.ts';
import { invalidBody } from './classify-failure.ts';

export interface IssuedToken {
  readonly token: string;
  readonly lifetimeMs: number;
}

/** RFC 6750's b64token: what may stand behind "Bearer " in a header. */
const bearerToken = z.string().regex(/^[A-Za-z0-9._~+/=-]{1,16384}$/);

const tokenAnswer = z.object({
  access_token: bearerToken,
  // Seconds. Absent: as the hosted service has it.
  expires_in: z.number().positive().default(900),
});

const facts = callFacts('token', 'get an application token');

/**
 * `POST account/applications/token` with the client credentials; there is no refresh token, so this is also the
 * renewal.
 */
export function tokenCall(api: ApiSettings): ApiCall<IssuedToken> {
  return {
    request: {
      method: 'POST',
      path: '/api/v1/account/applications/token',
      query: {},
      body: JSON.stringify({ client_id: api.clientId, client_secret: api.clientSecret.reveal() }),
    },
    facts,
    read(answer) {
      const parsed = tokenAnswer.safeParse(readJson(answer.text));
      if (!parsed.success) {
        throw invalidBody(
          facts,
          'expected {access_token, expires_in} with a token that fits a header; where this is no token endpoint, check the path in api.baseUrl',
        );
      }
      return { token: parsed.data.access_token, lifetimeMs: parsed.data.expires_in * 1_000 };
    },
  };
}

function readJson(text: string): unknown {
  try {
    return parseJsonText(text);
  } catch {
    return null;
  }
}

/** The service says 20 minutes in its documentation and nothing in its answer. */
const lifetimeMs = 15 * 60_000;

const scopedTokenAnswer = z.object({ token: bearerToken });

/**
 * `POST account/applications/scoped-token`, with the application token: a token that sees one workspace alone. The
 * service may make a workspace that it does not know.
 */
export function scopedTokenCall(workspace: string): ApiCall<IssuedToken> {
  const request = {
    path: '/api/v1/account/applications/scoped-token',
    body: JSON.stringify({ workspace_name: workspace }),
  };
  const label = 'get a token for the workspace of api.scopedToWorkspace';
  return catalogCall(label, request, scopedTokenAnswer, ({ token }) => ({ token, lifetimeMs }));
}

/** The application token of one client, shared by all its calls. */
export interface TokenCache {
  /** The token to send. Concurrent callers share one request. Rejects on the caller's abort. */
  current(signal: AbortSignal): Promise<string>;
  /** The API accepted this token: if it is refused later, it has expired, and a new one may be requested. */
  accepted(token: string): void;
  /**
   * The service answered 401 to this token. True when another attempt makes sense; false when the token came to
   * replace a refused one and was never taken itself: then the credentials are at fault.
   */
  refused(token: string): boolean;
  /** For redaction: every token that may still be echoed. */
  known(): readonly string[];
}

const renewBeforeMs = 60_000;

interface HeldToken {
  readonly token: string;
  readonly renewAt: number;
  readonly isReplacement: boolean;
  isAccepted: boolean;
}

/** `request` fetches a token; it is not given a caller's signal, because many callers wait for one request. */
export function openTokenCache(request: () => Promise<IssuedToken>, clock: Clock): TokenCache {
  let held: HeldToken | null = null;
  let pending: Promise<string> | null = null;
  let wasRefused = false;
  const seen: string[] = [];

  const renew = async (): Promise<string> => {
    const askedAt = clock.now();
    const { token, lifetimeMs } = await request();
    // A lifetime at or below the margin: half of it, so that a token is used at all.
    const useMs = Math.max(lifetimeMs - renewBeforeMs, lifetimeMs / 2);
    held = { token, renewAt: askedAt + useMs, isReplacement: wasRefused, isAccepted: false };
    wasRefused = false;
    seen.push(token);
    if (seen.length > 4) seen.shift();
    return token;
  };

  return {
    async current(signal) {
      signal.throwIfAborted();
      if (held !== null && clock.now() < held.renewAt) return held.token;
      pending ??= renew().finally(() => {
        pending = null;
      });
      return await orAborted(pending, signal);
    },
    accepted(token) {
      if (held?.token === token) held.isAccepted = true;
    },
    refused(token) {
      // Another caller was first: the current or requested token is newer.
      if (held?.token !== token) return true;
      if (held.isReplacement && !held.isAccepted) return false;
      held = null;
      wasRefused = true;
      return true;
    },
    known: () => seen,
  };
}
