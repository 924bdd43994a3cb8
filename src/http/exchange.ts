import type { LookupFunction } from 'node:net';
import { Agent, type Dispatcher } from 'undici';
import { AttemptTimeoutError, readBody, UnreadableBodyError } from './read-body.ts';

export interface ExchangeRequest {
  readonly url: URL;
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
}

interface Head {
  readonly status: number;
  /** Lower-case name. */
  readonly header: (name: string) => string | null;
}

export interface WireAnswer extends Head {
  /** The whole body of a 2xx answer; of another one its start, as far as that could be read. */
  readonly text: string;
  /** As received, before decompression. */
  readonly wireBytes: number;
}

/** A 2xx answer whose body was not read yet. */
export interface WireStream extends Head {
  /** To be called once. Throws what `exchange` throws, and the signal's reason. */
  read(signal: AbortSignal): AsyncIterable<Uint8Array>;
  /** Closes the connection where the body was not read to its end. Idempotent. */
  close(): void;
}

/** In bytes. */
interface BodyLimits {
  readonly maxWireBytes: number;
  /** After decompression. */
  readonly maxBodyBytes: number;
  readonly maxErrorBytes: number;
}

/** How slowly a file may be received. */
export interface PaceLimits {
  readonly bodyTimeoutMs: number;
  /** Of a file in `bodyTimeoutMs` of waiting for it. */
  readonly leastFileBytes: number;
}

interface AgentLimits {
  readonly connectTimeoutMs: number;
  readonly headersTimeoutMs: number;
  readonly bodyTimeoutMs: number;
  readonly maxHeaderBytes: number;
}

type Response = Dispatcher.ResponseData<unknown>;
type HeaderValue = string | string[] | undefined;

export function openAgent(limits: AgentLimits, lookup: LookupFunction): Agent {
  return new Agent({
    // Every call has a place in its account's budget or lane, so there are never more sockets than those have places. A
    // limit here would let the slow calls of one account keep those of all others waiting.
    connections: null,
    pipelining: 1,
    connect: { timeout: limits.connectTimeoutMs, lookup },
    headersTimeout: limits.headersTimeoutMs,
    bodyTimeout: limits.bodyTimeoutMs,
    // Many servers close idle sockets after 5 s; stay below, or a request may be sent on a closed socket.
    keepAliveTimeout: 4_000,
    keepAliveMaxTimeout: 10_000,
    maxHeaderSize: limits.maxHeaderBytes,
  });
}

/**
 * Sends once: no retry, no redirect, no cookie. `read` gets the answer's head and its unread body; the time limit holds
 * until it calls `begun` or has ended. Throws undici's and Node's errors, what `read` throws, `AttemptTimeoutError`, or
 * the signal's reason.
 */
export async function exchange<T>(
  agent: Agent,
  { url, method, headers, body }: ExchangeRequest,
  timeoutMs: number,
  signal: AbortSignal,
  read: (response: Response, begun: () => void) => T | Promise<T>,
): Promise<T> {
  signal.throwIfAborted();
  const deadline = startDeadline(timeoutMs, signal);
  try {
    const response = await agent.request({
      origin: url.origin,
      path: `${url.pathname}${url.search}`,
      method,
      headers: { 'accept-encoding': 'gzip', ...headers },
      body,
      signal: deadline.signal,
    });
    const result = await read(response, deadline.lift);
    deadline.signal.throwIfAborted();
    return result;
  } catch (error) {
    signal.throwIfAborted();
    throw deadline.signal.aborted ? deadline.signal.reason : error;
  } finally {
    deadline.end();
  }
}

interface Deadline {
  readonly signal: AbortSignal;
  /** Removes the time limit; the outer signal still applies. */
  readonly lift: () => void;
  end(): void;
}

/** A new controller for each attempt: `AbortSignal.any` on a signal that lives for hours keeps memory per attempt. */
export function startDeadline(ms: number, outer: AbortSignal): Deadline {
  const controller = new AbortController();
  const onAbort = (): void => controller.abort(outer.reason);
  const timer = setTimeout(() => {
    controller.abort(new AttemptTimeoutError(`expected the whole answer within ${ms} ms`));
  }, ms);
  outer.addEventListener('abort', onAbort, { once: true });
  return {
    signal: controller.signal,
    lift: () => clearTimeout(timer),
    end() {
      clearTimeout(timer);
      outer.removeEventListener('abort', onAbort);
    },
  };
}

export function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}

/** Reads the body to its end or closes the socket: an unread body would keep its connection for ever. */
export async function readAnswer(
  response: Response,
  limits: BodyLimits,
  textOf: (value: HeaderValue) => string | null,
): Promise<WireAnswer> {
  const { statusCode: status, body } = response;
  const header = headerOf(response, textOf);
  const encoding = header('content-encoding');
  if (!isSuccess(status)) {
    const { bytes } = await readUpTo(body, limits.maxErrorBytes, 'start');
    // The status alone says enough when the text of a failure cannot be read.
    const text = await readBody(bytes, encoding, limits.maxErrorBytes).catch(() => '');
    return { status, header, text, wireBytes: bytes.byteLength };
  }
  const { maxWireBytes, maxBodyBytes } = limits;
  const isTooLong = Number(header('content-length') ?? 0) > maxWireBytes;
  const { bytes, isWhole } = isTooLong ? noBytes : await readUpTo(body, maxWireBytes, 'whole');
  if (!isWhole) {
    body.destroy();
    throw new UnreadableBodyError('too-large', `expected at most ${maxWireBytes} bytes, got more`);
  }
  const text = await readBody(bytes, encoding, maxBodyBytes);
  return { status, header, text, wireBytes: bytes.byteLength };
}

const noBytes = { bytes: new Uint8Array(), isWhole: false };

/**
 * At most the first `maxBytes` of a body. Leaving the loop destroys it and with it the socket. `start`: what was
 * received before the body broke off is enough.
 */
async function readUpTo(
  body: AsyncIterable<unknown>,
  maxBytes: number,
  wanted: 'start' | 'whole',
): Promise<{ readonly bytes: Uint8Array; readonly isWhole: boolean }> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  try {
    for await (const chunk of body) {
      // `as`: a body without an encoding set yields Buffers.
      const bytes = chunk as Uint8Array;
      chunks.push(bytes);
      length += bytes.byteLength;
      if (length > maxBytes) break;
    }
  } catch (error) {
    if (wanted === 'whole') throw error;
  }
  return { bytes: Buffer.concat(chunks).subarray(0, maxBytes), isWhole: length <= maxBytes };
}

export function streamOf(
  response: Response,
  limits: PaceLimits,
  textOf: (value: HeaderValue) => string | null,
): WireStream {
  const { statusCode: status, body } = response;
  // A body that is not read to its end is destroyed and emits an error: ignore it.
  body.on('error', () => undefined);
  return {
    status,
    header: headerOf(response, textOf),
    close: () => void body.destroy(),
    async *read(signal) {
      const onAbort = (): void => void body.destroy(new Error('aborted'));
      signal.addEventListener('abort', onAbort, { once: true });
      const noteChunk = watchPace(limits);
      try {
        signal.throwIfAborted();
        let askedAt = performance.now();
        for await (const chunk of body) {
          // `as`: a body without an encoding set yields Buffers.
          const bytes = chunk as Uint8Array;
          noteChunk(bytes.byteLength, performance.now() - askedAt);
          yield bytes;
          askedAt = performance.now();
        }
      } catch (error) {
        signal.throwIfAborted();
        throw error;
      } finally {
        signal.removeEventListener('abort', onAbort);
        body.destroy();
      }
    },
  };
}

/**
 * Notes each chunk, and how long it was waited for; the time that the reader takes does not count. Throws
 * `AttemptTimeoutError`.
 */
function watchPace({ bodyTimeoutMs, leastFileBytes }: PaceLimits): (bytes: number, waitedMs: number) => void {
  let waited = 0;
  let came = 0;
  return (bytes, waitedMs) => {
    waited += waitedMs;
    came += bytes;
    if (waited < bodyTimeoutMs) return;
    if (came < leastFileBytes) {
      throw new AttemptTimeoutError(
        `expected at least ${leastFileBytes} bytes of the file in ${bodyTimeoutMs} ms, got ${came}`,
      );
    }
    waited = 0;
    came = 0;
  };
}

function headerOf({ headers }: Response, textOf: (value: HeaderValue) => string | null): Head['header'] {
  return (name) => textOf(Object.hasOwn(headers, name) ? headers[name] : undefined);
}

/** Several headers of one name: the first. */
export function firstOf(value: HeaderValue): string | null {
  return (typeof value === 'string' ? value : value?.[0]) ?? null;
}

/** Several headers of one name: one list. */
export function listOf(value: HeaderValue): string | null {
  return (Array.isArray(value) ? value.join(', ') : value) ?? null;
}
