import type { Clock } from '../core/clock.ts';
import { fillTemplate } from '../definitions/upstream/template.ts';
import type { Upstream } from '../definitions/upstream/upstream.ts';
import type { WireAnswer } from '../http/exchange.ts';
import type { OpenCredentials } from './credentials.ts';
import { failureOfError, readFailure } from './read-failure.ts';
import type { UpstreamTransport, WireRequest } from './upstream-transport.ts';

const maxBodyBytes = 1024 * 1024;

/** What a call needs that asks for no records: one for tokens, or for the host of the account. */
export interface BesideFacts {
  readonly upstream: Upstream;
  readonly credentials: OpenCredentials;
  readonly transport: UpstreamTransport;
  readonly clock: Clock;
}

/**
 * Sends a call once that asks for no records. `read`: what its answer is; null: a failure, by the service's rules.
 * `secrets`: made of the credentials for this call. Rejects with `UpstreamFailure`, and with the signal's reason.
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
  // With an invented host where it has names: for its scheme and its port.
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
