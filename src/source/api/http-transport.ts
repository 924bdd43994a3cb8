import { Agent } from 'undici';
import type { ApiLimits } from './api-limits.ts';
import { readBody, readStart } from '../../http/read-body.ts';
import { startDeadline } from '../../http/deadline.ts';
import { guardedLookup } from '../../http/guard-address.ts';
import { guardAddress } from './check-base-url.ts';
import { receiveBody, type ReceiveBody, type Received } from '../../http/stream-body.ts';

export interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** Below the base URL, beginning with `/api/`; already encoded. */
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
}

export interface HttpAnswer {
  readonly status: number;
  /** The whole body of a 2xx answer; at most `maxErrorBytes` of another, as far as it could be read. */
  readonly text: string;
  readonly retryAfter: string | null;
  readonly date: string | null;
  readonly link: string | null;
  /** As received, before decompression. */
  readonly wireBytes: number;
}

export interface HttpTransport extends AsyncDisposable {
  /**
   * Sends once: no retry, no redirect. Always reads the body to its end or closes the socket, because an unread body
   * would keep its connection for ever. Throws undici's and Node's errors, `UnreadableBodyError`,
   * `AttemptTimeoutError`, or the signal's reason.
   */
  send(request: HttpRequest, signal: AbortSignal): Promise<HttpAnswer>;
  /**
   * Sends once likewise, and hands the body of a 2xx answer over as it comes in, however long it is and takes: only
   * silence between two chunks ends it, or hardly more than that. Any other answer is read as `send` reads it. What
   * `receive` throws by itself comes as `ReceiverError`.
   */
  stream<T>(
    request: HttpRequest,
    receive: ReceiveBody<T>,
    signal: AbortSignal,
  ): Promise<HttpAnswer | Received<T>>;
}

type Response = Awaited<ReturnType<Agent['request']>>;

export function openHttpTransport(baseUrl: URL, limits: ApiLimits): HttpTransport {
  const agent = openAgent(baseUrl, limits, limits.maxWireBytes);
  // Sockets of their own: an agent's size limit holds for all that it sends. Without a request it opens none.
  const streams = openAgent(baseUrl, limits, -1);
  const prefix = baseUrl.pathname.replace(/\/+$/, '');

  /** `read` is given the answer's head and body; the time limit holds until it calls `begun` or has ended. */
  const exchange = async <T>(
    via: Agent,
    request: HttpRequest,
    signal: AbortSignal,
    read: (response: Response, attempt: { readonly signal: AbortSignal; begun(): void }) => Promise<T>,
  ): Promise<T> => {
    signal.throwIfAborted();
    const url = pinnedUrl(baseUrl.origin, `${prefix}${request.path}`, request.query);
    const deadline = startDeadline(limits.attemptTimeoutMs, signal);
    try {
      const response = await via.request({
        origin: baseUrl.origin,
        path: `${url.pathname}${url.search}`,
        method: request.method,
        headers: { accept: 'application/json', 'accept-encoding': 'gzip', ...request.headers },
        body: request.body,
        signal: deadline.signal,
      });
      return await read(response, { signal: deadline.signal, begun: deadline.lift });
    } catch (error) {
      signal.throwIfAborted();
      throw deadline.signal.aborted ? deadline.signal.reason : error;
    } finally {
      deadline.end();
    }
  };

  return {
    send: (request, signal) =>
      exchange(agent, request, signal, (response, attempt) =>
        receiveAnswer(response, limits, attempt.signal),
      ),
    stream: (request, receive, signal) =>
      exchange(streams, request, signal, async (response, attempt) => {
        if (response.statusCode < 200 || response.statusCode >= 300) {
          return await receiveAnswer(response, limits, attempt.signal);
        }
        attempt.begun();
        return await receiveBody(response, receive, { limits, signal });
      }),
    async [Symbol.asyncDispose]() {
      // destroy, not close: a pending call must not keep the process alive.
      await Promise.all(
        [agent, streams].map(async (one) => (one.destroyed ? undefined : await one.destroy())),
      );
    },
  };
}

function openAgent(baseUrl: URL, limits: ApiLimits, maxResponseSize: number): Agent {
  return new Agent({
    // Every call has a place in its account's budget, so there are never more sockets than those budgets have places. A
    // limit here would let the slow calls of one connector keep those of all others waiting.
    connections: null,
    pipelining: 1,
    connect: {
      timeout: limits.connectTimeoutMs,
      lookup: guardedLookup((address) => guardAddress(address, baseUrl.protocol === 'http:')),
    },
    headersTimeout: limits.headersTimeoutMs,
    bodyTimeout: limits.bodyTimeoutMs,
    // Many servers close idle sockets after 5 s; stay below, or a request may be sent on a closed socket.
    keepAliveTimeout: 4_000,
    keepAliveMaxTimeout: 10_000,
    maxResponseSize,
    maxHeaderSize: limits.maxHeaderBytes,
  });
}

/** The URL that is really sent must be the one that was meant: `..`, `%2e%2e` and NUL change the path on the way. */
function pinnedUrl(origin: string, pathname: string, query: Readonly<Record<string, string>>): URL {
  const url = new URL(`${origin}${pathname}`);
  if (url.pathname !== pathname || url.origin !== origin) {
    throw new TypeError('a request path changed its meaning when it was read as a URL');
  }
  url.search = new URLSearchParams(query).toString();
  return url;
}

async function receiveAnswer(
  response: Response,
  limits: ApiLimits,
  signal: AbortSignal,
): Promise<HttpAnswer> {
  const { statusCode: status, headers, body } = response;
  const encoding = single(headers['content-encoding']);
  const head = {
    status,
    retryAfter: single(headers['retry-after']),
    date: single(headers['date']),
    link: single(headers['link']),
  };
  if (status >= 200 && status < 300) {
    const wire = new Uint8Array(await body.arrayBuffer());
    const text = await readBody(wire, encoding, limits.maxBodyBytes);
    return { ...head, text, wireBytes: wire.byteLength };
  }
  const wire = await readStart(body, limits.maxErrorBytes);
  signal.throwIfAborted();
  // The status alone says enough when the text of a failure cannot be read.
  const text = await readBody(wire, encoding, limits.maxErrorBytes).catch(() => '');
  return { ...head, text, wireBytes: wire.byteLength };
}

function single(header: string | string[] | undefined): string | null {
  return (typeof header === 'string' ? header : header?.[0]) ?? null;
}
