import type { Clock } from '../../core/clock.ts';
import { orAborted } from '../../http/or-aborted.ts';

export interface IssuedToken {
  readonly token: string;
  readonly lifetimeMs: number;
}

export type TokenCache = ReturnType<typeof openTokenCache>;

const renewBeforeMs = 60_000;

interface HeldToken {
  readonly token: string;
  readonly renewAt: number;
  readonly isReplacement: boolean;
  isAccepted: boolean;
}

/**
 * The application token of one client, shared by all its calls. `request` fetches a token; it is not given a caller's
 * signal, because many callers wait for one request.
 */
export function openTokenCache(request: () => Promise<IssuedToken>, clock: Clock) {
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
    /** The token to send. Concurrent callers share one request. Rejects on the caller's abort. */
    async current(signal: AbortSignal): Promise<string> {
      signal.throwIfAborted();
      if (held !== null && clock.now() < held.renewAt) return held.token;
      pending ??= renew().finally(() => {
        pending = null;
      });
      return await orAborted(pending, signal);
    },
    /** The API accepted this token: if it is refused later, it has expired, and a new one may be requested. */
    accepted(token: string): void {
      if (held?.token === token) held.isAccepted = true;
    },
    /**
     * The service answered 401 to this token. True when another attempt makes sense; false when the token came to
     * replace a refused one and was never taken itself: then the credentials are at fault.
     */
    refused(token: string): boolean {
      // Another caller was first: the current or requested token is newer.
      if (held?.token !== token) return true;
      if (held.isReplacement && !held.isAccepted) return false;
      held = null;
      wasRefused = true;
      return true;
    },
    /** For redaction: every token that may still be echoed. */
    known: (): readonly string[] => seen,
  };
}
