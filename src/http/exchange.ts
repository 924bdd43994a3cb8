import type { LookupFunction } from 'node:net';
import { Agent, EnvHttpProxyAgent, type Dispatcher } from 'undici';
import { AddressRefusedError } from './guard-address.ts';
import { noteProxy } from './network-fault.ts';
import { orAborted } from './or-aborted.ts';
import { hasProxies, proxyFor, withoutProxy } from './proxies.ts';
import { AttemptTimeoutError, isSuccess, readBody, UnreadableBodyError } from './read-body.ts';
import { startDeadline } from './start-deadline.ts';

export interface ExchangeRequest {
  readonly url: URL;
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
  /** From connecting to the last byte; of a stream to its head. */
  readonly timeoutMs: number;
  /** Of the body, compressed and decompressed each. Not of a stream. */
  readonly maxBodyBytes: number;
}

interface Head {
  readonly status: number;
  /** Lower-case name. */
  readonly header: (name: string) => string | null;
}

export interface WireAnswer extends Head {
  /** UTF-8, for `textOfBody`: the whole body of a 2xx answer; of another one its start, as far as it was read. */
  readonly body: Buffer;
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

/** Times in milliseconds, sizes in bytes. */
export interface WireLimits {
  readonly connectTimeoutMs: number;
  readonly headersTimeoutMs: number;
  /** Between two chunks of a body. */
  readonly bodyTimeoutMs: number;
  /** Of a file in `bodyTimeoutMs` of waiting for it. */
  readonly leastFileBytes: number;
  readonly maxHeaderBytes: number;
  /** Of the body of an answer that is no success. */
  readonly maxErrorBytes: number;
}

type Response = Dispatcher.ResponseData<unknown>;
type HeaderValue = string | string[] | undefined;
type TextOf = (value: HeaderValue) => string | null;

export type Wire = ReturnType<typeof openWire>;

/** Connections of one client. `textOf`: what several headers of one name are. */
export function openWire(limits: WireLimits, lookup: LookupFunction, textOf: TextOf) {
  const options: EnvHttpProxyAgent.Options = {
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
  };
  const agent = hasProxies()
    ? new EnvHttpProxyAgent({
        ...options,
        noProxy: withoutProxy(),
        proxyTls: { timeout: limits.connectTimeoutMs },
      })
    : new Agent(options);
  const judge = judgeOnce(lookup);
  let isOpen = true;
  const answerOf = async (response: Response, { maxBodyBytes }: ExchangeRequest): Promise<WireAnswer> =>
    await readAnswer(response, maxBodyBytes, limits, textOf);
  return {
    /**
     * Sends once: no retry, no redirect, no cookie. Throws undici's and Node's errors, `UnreadableBodyError`,
     * `AttemptTimeoutError`, or the signal's reason.
     */
    send: async (request: ExchangeRequest, signal: AbortSignal): Promise<WireAnswer> =>
      await exchange({ agent, judge }, request, signal, (response) => answerOf(response, request)),
    /** Sends once likewise; a 2xx answer comes as soon as its head has, and its body may be of any length. */
    open: async (request: ExchangeRequest, signal: AbortSignal): Promise<WireAnswer | WireStream> =>
      await exchange({ agent, judge }, request, signal, async (response, begun) => {
        if (!isSuccess(response.statusCode)) return await answerOf(response, request);
        begun();
        return streamOf(response, limits, textOf);
      }),
    async [Symbol.asyncDispose]() {
      // destroy, not close: a pending call must not keep the process alive.
      if (isOpen) await agent.destroy();
      isOpen = false;
    },
  };
}

const judgedMs = 60_000;
const mostJudged = 1_000;

/**
 * For requests through a proxy, which looks names up itself: rejects with `AddressRefusedError` where a name leads to a
 * refused address here. A name that is not found here is the proxy's affair.
 */
function judgeOnce(lookup: LookupFunction): (hostname: string) => Promise<void> {
  const known = new Map<string, { readonly untilMs: number; readonly verdict: Promise<void> }>();
  return async (hostname) => {
    const now = performance.now();
    const judged = known.get(hostname);
    if (judged !== undefined && judged.untilMs > now) return await judged.verdict;
    const verdict = new Promise<void>((resolve, reject) => {
      lookup(hostname.replace(/^\[|\]$/g, ''), { all: true }, (error) => {
        if (error instanceof AddressRefusedError) reject(error);
        else resolve();
      });
    });
    if (known.size >= mostJudged) known.clear();
    known.set(hostname, { untilMs: now + judgedMs, verdict });
    return await verdict;
  };
}

/** `read` gets the answer's head and its unread body; the time limit holds until it calls `begun` or has ended. */
async function exchange<T>(
  { agent, judge }: { readonly agent: Dispatcher; readonly judge: ReturnType<typeof judgeOnce> },
  { url, method, headers, body, timeoutMs }: ExchangeRequest,
  signal: AbortSignal,
  read: (response: Response, begun: () => void) => T | Promise<T>,
): Promise<T> {
  signal.throwIfAborted();
  const late = (): Error => new AttemptTimeoutError(`expected the whole answer within ${timeoutMs} ms`);
  const deadline = startDeadline(timeoutMs, signal, late);
  const proxy = proxyFor(url);
  try {
    if (proxy !== null) await orAborted(judge(url.hostname), deadline.signal);
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
    if (proxy !== null) noteProxy(error, proxy);
    throw deadline.signal.aborted ? deadline.signal.reason : error;
  } finally {
    deadline.end();
  }
}

/** Reads the body to its end or closes the socket: an unread body would keep its connection for ever. */
async function readAnswer(
  response: Response,
  maxBytes: number,
  { maxErrorBytes }: WireLimits,
  textOf: TextOf,
): Promise<WireAnswer> {
  const { statusCode: status, body } = response;
  const header = headerOf(response, textOf);
  const encoding = header('content-encoding');
  if (!isSuccess(status)) {
    const { bytes } = await readUpTo(body, maxErrorBytes, 'start');
    // The status alone says enough when the text of a failure cannot be read.
    const read = await readBody(bytes, encoding, maxErrorBytes).catch(() => Buffer.alloc(0));
    return { status, header, body: read, wireBytes: bytes.byteLength };
  }
  const isTooLong = Number(header('content-length') ?? 0) > maxBytes;
  const { bytes, isWhole } = isTooLong ? noBytes : await readUpTo(body, maxBytes, 'whole');
  if (!isWhole) {
    body.destroy();
    throw new UnreadableBodyError('too-large', `expected at most ${maxBytes} bytes, got more`);
  }
  const read = await readBody(bytes, encoding, maxBytes);
  return { status, header, body: read, wireBytes: bytes.byteLength };
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

function streamOf(response: Response, limits: WireLimits, textOf: TextOf): WireStream {
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
function watchPace({ bodyTimeoutMs, leastFileBytes }: WireLimits): (bytes: number, waitedMs: number) => void {
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

function headerOf({ headers }: Response, textOf: TextOf): Head['header'] {
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
