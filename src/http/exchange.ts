import { addAbortListener } from 'node:events';
import type { LookupFunction } from 'node:net';
import type { Dispatcher } from 'undici';
import { knownOrMade } from '../core/grouped.ts';
import type { EntityName } from '../core/names.ts';
import { AddressRefusedError } from './guard-address.ts';
import { orAborted, startDeadline } from './or-aborted.ts';
import { proxyFor } from './proxies.ts';
import { isAscii, isUtf8 } from 'node:buffer';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';

export interface ExchangeRequest {
  readonly url: URL;
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
  /** Time limit from connecting to the last byte; for a stream, to the end of its head. */
  readonly timeoutMs: number;
  /** Limit on the body, before and after decompression. It does not apply to a stream. */
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
  /** Size as received, before decompression. */
  readonly wireBytes: number;
}

/** A 2xx answer whose body was not read yet. */
export interface WireStream extends Head {
  /** Must be called only once. Throws the errors of `exchange`, and the signal's reason. */
  read(signal: AbortSignal): AsyncIterable<Uint8Array>;
  /** Closes the connection where the body was not read to its end. Idempotent. */
  close(): void;
}

/** Times in milliseconds, sizes in bytes. */
export interface WireLimits {
  readonly connectTimeoutMs: number;
  readonly headersTimeoutMs: number;
  /** Longest wait between two chunks of a body. */
  readonly bodyTimeoutMs: number;
  /** Fewest bytes of a file that must arrive within `bodyTimeoutMs` of waiting. */
  readonly leastFileBytes: number;
  readonly maxHeaderBytes: number;
  /** Limit on the body of an answer other than 2xx. */
  readonly maxErrorBytes: number;
}

type Response = Dispatcher.ResponseData<unknown>;

export type Wire = ReturnType<typeof openWire>;

/** Connections of one client. */
export function openWire(limits: WireLimits, lookup: LookupFunction) {
  const options = {
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
  let isOpen = true;
  let made: Promise<Dispatcher> | null = null;
  const agent = async (): Promise<Dispatcher> => {
    // Loaded for the first call: it takes longer to load than all else of a process that makes none.
    made ??= import('./connection-pool.ts').then(({ openPool }) => openPool(options));
    const dispatcher = await made;
    if (!isOpen) await dispatcher.destroy();
    return dispatcher;
  };
  /** Judged names, for a minute: where nothing outside can be looked up, a lookup may take longer than a call. */
  const judged = new Map<string, Promise<void>>();
  const judge = (hostname: string): Promise<void> =>
    knownOrMade(judged, hostname, () => {
      setTimeout(() => judged.delete(hostname), judgedMs).unref();
      return judgeName(hostname, lookup);
    });
  return {
    /**
     * Sends once: no retry, no redirect, no cookie. Throws undici's and Node's errors, `UnreadableBodyError`,
     * `AttemptTimeoutError`, or the signal's reason.
     */
    send: async (request: ExchangeRequest, signal: AbortSignal): Promise<WireAnswer> =>
      await exchange(await agent(), judge, request, signal, (response) =>
        readAnswer(response, request, limits),
      ),
    /** Sends once likewise; a 2xx answer comes as soon as its head has, and its body may be of any length. */
    open: async (request: ExchangeRequest, signal: AbortSignal): Promise<WireAnswer | WireStream> =>
      await exchange(await agent(), judge, request, signal, async (response, begun) => {
        if (!isSuccess(response.statusCode)) return await readAnswer(response, request, limits);
        begun();
        return streamOf(response, limits);
      }),
    async [Symbol.asyncDispose]() {
      const mustClose = isOpen;
      isOpen = false;
      // destroy, not close: a pending call must not keep the process alive.
      if (mustClose && made !== null) await (await made).destroy();
    },
  };
}

const judgedMs = 60_000;

/**
 * Checks the name of a request through a proxy, which resolves it itself: rejects with `AddressRefusedError` where it
 * leads to a refused address here. A name that cannot be resolved here is left to the proxy.
 */
function judgeName(hostname: string, lookup: LookupFunction): Promise<void> {
  return new Promise((resolve, reject) => {
    lookup(hostname.replace(/^\[|\]$/g, ''), { all: true }, (error) => {
      if (error instanceof AddressRefusedError) reject(error);
      else resolve();
    });
  });
}

/** `read` gets the answer's head and its unread body; the time limit holds until it calls `begun` or has ended. */
async function exchange<T>(
  agent: Dispatcher,
  judge: (hostname: string) => Promise<void>,
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
    if (proxy !== null && error instanceof Error) proxies.set(error, proxy.host);
    throw deadline.signal.aborted ? deadline.signal.reason : error;
  } finally {
    deadline.end();
  }
}

/** Reads the body to its end or closes the socket: an unread body would keep its connection for ever. */
async function readAnswer(
  response: Response,
  { maxBodyBytes: maxBytes }: ExchangeRequest,
  { maxErrorBytes }: WireLimits,
): Promise<WireAnswer> {
  const { statusCode: status, body } = response;
  const header = headerOf(response);
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
 * Reads at most the first `maxBytes` of a body. Leaving the loop destroys it and with it the socket. `start`: the part
 * received before the body broke off is enough.
 */
async function readUpTo(body: AsyncIterable<unknown>, maxBytes: number, wanted: 'start' | 'whole') {
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

function streamOf(response: Response, limits: WireLimits): WireStream {
  const { statusCode: status, body } = response;
  // A body that is not read to its end is destroyed and emits an error: ignore it.
  body.on('error', () => undefined);
  return {
    status,
    header: headerOf(response),
    close: () => void body.destroy(),
    async *read(signal) {
      using _listener = addAbortListener(signal, () => void body.destroy(new Error('aborted')));
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

/** Several headers of one name are one list. */
function headerOf({ headers }: Response): Head['header'] {
  return (name) => {
    const value = Object.hasOwn(headers, name) ? headers[name] : null;
    return (Array.isArray(value) ? value.join(', ') : value) ?? null;
  };
}

const gunzipBytes = promisify(gunzip);
/** Takes a byte order mark away. */
const utf8 = new TextDecoder('utf-8');

export function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}

/** One attempt took longer than it may take in all, or its body came too slowly. */
export class AttemptTimeoutError extends Error {
  override readonly name = 'AttemptTimeoutError';
}

/** A body that arrived but cannot be read as text. */
export class UnreadableBodyError extends Error {
  override readonly name = 'UnreadableBodyError';
  readonly fault: 'too-large' | 'invalid';

  constructor(fault: 'too-large' | 'invalid', message: string) {
    super(message);
    this.fault = fault;
  }
}

/**
 * The bytes of a whole body, which are UTF-8. gzip is asked for because pages of records shrink 5-10 times on the wire
 * for about 2 us a record; it is inflated here, by one call that stops at `maxBytes` (undici's own decompression has no
 * limit). Throws `UnreadableBodyError`.
 */
export async function readBody(wire: Uint8Array, contentEncoding: string | null, maxBytes: number) {
  const { buffer, byteOffset, byteLength } = await inflate(wire, contentEncoding, maxBytes);
  const bytes = Buffer.from(buffer, byteOffset, byteLength);
  if (!isUtf8(bytes)) throw new UnreadableBodyError('invalid', 'expected UTF-8, got other bytes');
  return bytes;
}

/** Decodes the bytes of `readBody`. ASCII is only copied, which takes a third of the time. */
export function textOfBody(bytes: Buffer): string {
  return isAscii(bytes) ? bytes.toString('latin1') : utf8.decode(bytes);
}

/**
 * A name for a body of HTML or XML in place of JSON, such as the page of a proxy, with the content type that came.
 * Null for another body.
 */
export function pageIn(
  body: Buffer,
  header: (name: string) => string | null,
  redact: (text: string) => string,
): string | null {
  return /^[\uFEFF\s]*</.test(body.toString('utf8', 0, 1_024))
    ? `a page (HTML or XML) ${mediaType(header('content-type'), redact)}; something else may answer at this address`
    : null;
}

/** Names the received content type in a message, without its parameters. */
export function mediaType(contentType: string | null, redact: (text: string) => string): string {
  const type = redact(contentType?.split(';')[0]?.slice(0, 100) ?? '').trim();
  return type === '' ? 'without a content type' : `of the type ${type}`;
}

async function inflate(wire: Uint8Array, contentEncoding: string | null, maxBytes: number) {
  const encoding = contentEncoding?.trim().toLowerCase() ?? '';
  if (encoding === '' || encoding === 'identity') {
    if (wire.byteLength > maxBytes) throw tooLarge(maxBytes);
    return wire;
  }
  if (encoding !== 'gzip' && encoding !== 'x-gzip') {
    throw new UnreadableBodyError('invalid', 'expected gzip or no content encoding, got another one');
  }
  try {
    return await gunzipBytes(wire, { maxOutputLength: maxBytes });
  } catch (error) {
    if (error instanceof RangeError) throw tooLarge(maxBytes);
    throw new UnreadableBodyError('invalid', 'the gzip body is cut or damaged');
  }
}

function tooLarge(maxBytes: number): UnreadableBodyError {
  return new UnreadableBodyError('too-large', `expected at most ${maxBytes} bytes, got more`);
}

/**
 * Faults by error code, the first that fits. An HTTP answer that is cut off has other codes than an answer in another
 * protocol.
 */
const kindByCode = [
  [
    /EXCEEDED_MAX_SIZE|HEADERS_OVERFLOW|HPE_HEADER_OVERFLOW/,
    'tooLarge',
    'expected headers within the size limit, got larger ones',
  ],
  [/^UND_ERR_(DESTROYED|CLOSED)$/, 'closed', 'the client was closed during the call'],
  [/CERT|SELF_SIGNED|ERR_TLS|ERR_SSL|EPROTO|UNABLE_TO_(VERIFY|GET)/, 'tls', 'no trusted TLS connection'],
  [/^Z_/, 'unreadable', 'the gzip body is cut or damaged'],
  [/^ENOTFOUND$/, 'name', 'host name not found'],
  [/^ECONNREFUSED$/, 'other', 'connection refused'],
  [/^EAI_AGAIN$/, 'other', 'host name could not be looked up'],
  [/^E(HOST|NET)UNREACH$/, 'other', 'no route to the host'],
  [/^HPE_INVALID_(CONSTANT|VERSION|STATUS)$/, 'other', 'the answer is not HTTP'],
  [/^(ECONNRESET|EPIPE|UND_ERR_SOCKET)$/, 'cut', 'connection closed without a complete answer'],
  [/^UND_ERR_(CONNECT|HEADERS|BODY)_TIMEOUT$|^ETIMEDOUT$/, 'timeout', 'no answer in time'],
  [
    /^HPE_|^HTTPParserError$|^UND_ERR_(?!INVALID|NOT_SUPPORTED|REQ_)|^E[A-Z]+$|^EAI_|^ERR_STREAM_/,
    'other',
    'not reached, or the answer was cut off',
  ],
] as const;

/** Reason why a request got no readable answer. */
export interface NetworkFault {
  /**
   * `address`: it may not be connected to. `closed`: the client was closed. `name`: no such host. `cut`: the connection
   * was closed, mostly an idle one that the server had closed before the request reached it.
   */
  readonly kind: (typeof kindByCode)[number][1] | 'address';
  /** Code of the system call, of TLS or of undici; otherwise the error's name. */
  readonly code: string;
  /** Text for a message, with the code: it repeats no bytes, headers or addresses of the service. */
  readonly text: string;
}

/** Failed requests that went through a proxy, which may have caused the failure: its host. */
const proxies = new WeakMap<Error, string>();

/** Null unless the error is a failure of a request. The error itself is not kept: it may hold headers. */
export function networkFaultOf(error: unknown): NetworkFault | null {
  if (!(error instanceof Error)) return null;
  const proxy = proxies.get(error);
  const fault = faultOf(error);
  if (fault === null || proxy === undefined || fault.kind === 'address') return fault;
  const [, status] = /^Proxy response \((\d+)\)/.exec(error.message) ?? [];
  return status === undefined
    ? { ...fault, text: `${fault.text}, through the proxy ${proxy}` }
    : { ...fault, kind: 'other', text: `the proxy ${proxy} answered HTTP ${status}` };
}

function faultOf(error: Error): NetworkFault | null {
  const code = 'code' in error && typeof error.code === 'string' ? error.code : error.name;
  const { message } = error;
  if (error instanceof AttemptTimeoutError) return { kind: 'timeout', code, text: message };
  if (code === 'ERR_ADDRESS_REFUSED') return { kind: 'address', code, text: message };
  if (error instanceof UnreadableBodyError) {
    return { kind: error.fault === 'too-large' ? 'tooLarge' : 'unreadable', code, text: message };
  }
  const found = kindByCode.find(([codes]) => codes.test(code));
  return found === undefined ? null : { kind: found[1], code, text: `${found[2]} (${code})` };
}

/** Facts about the file in the body, from the head of an answer. The name is untrusted: fit for no path or terminal. */
export function fileHead({ status, header }: Head) {
  const encoding = header('content-encoding')?.trim().toLowerCase() ?? '';
  const isPlain = encoding === '' || encoding === 'identity';
  const isGzip = encoding === 'gzip' || encoding === 'x-gzip';
  const length = header('content-length')?.trim() ?? '';
  const coded = isPlain || isGzip ? null : 'an unknown content encoding';
  return {
    name: dispositionName(header('content-disposition')),
    contentType: header('content-type'),
    /** Size in bytes; null: not known before the end. */
    size: isPlain && /^\d{1,15}$/.test(length) ? Number(length) : null,
    isGzip,
    /** Why the body is no whole file: 206 is a part that was not requested, 202 a file that does not exist yet. */
    fault: status === 200 ? coded : `HTTP ${status}`,
  };
}

const maxNameChars = 1_000;
const nameParameter = /;\s*(filename\*?)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;\s"]+))/gi;
const strictUtf8 = new TextDecoder('utf-8', { fatal: true });

/**
 * The file name in a `Content-Disposition` header (RFC 6266): `filename*` (RFC 5987) before `filename`. Null where
 * there is none that can be read. Whatever the service wrote comes back, cut to 1000 characters: fit neither for a path
 * nor for a terminal.
 */
export function dispositionName(header: string | null): string | null {
  if (header === null) return null;
  const found = new Map<string, string>();
  for (const [, name = '', quoted, bare = ''] of header.matchAll(nameParameter)) {
    const value = quoted === undefined ? bare : quoted.replaceAll(/\\(.)/g, '$1');
    // Headers are Latin-1, but many services send UTF-8 in them.
    const text = name.endsWith('*')
      ? readExtended(value)
      : (decodeUtf8(Buffer.from(value, 'latin1')) ?? value);
    if (text !== null && text !== '' && !found.has(name.toLowerCase())) found.set(name.toLowerCase(), text);
  }
  const name = found.get('filename*') ?? found.get('filename');
  return name === undefined ? null : name.slice(0, maxNameChars).toWellFormed();
}

/** `UTF-8'en'%e2%82%ac.txt`. */
function readExtended(value: string): string | null {
  const [, charset = '', encoded = ''] = /^([^']*)'[^']*'(.*)$/.exec(value) ?? [];
  const bytes = Buffer.from(
    encoded.replaceAll(/%([0-9a-f]{2})/gi, (_all, digits: string) =>
      String.fromCharCode(Number.parseInt(digits, 16)),
    ),
    'latin1',
  );
  if (/^utf-8$/i.test(charset)) return decodeUtf8(bytes);
  return /^iso-8859-1$/i.test(charset) ? bytes.toString('latin1') : null;
}

function decodeUtf8(bytes: Uint8Array): string | null {
  try {
    return strictUtf8.decode(bytes);
  } catch {
    // Says only that it is no UTF-8.
    return null;
  }
}

/** Cap on a wait that a header asks for. */
const maxWaitMs = 3_600_000;

/**
 * Requests a second that a `RateLimit-Policy` header allows, of several policies the strictest: `"default";q=100;w=60`,
 * or in the earlier form `100;w=60`. Null where it states none.
 */
export function policyRate(header: string | null): number | null {
  const rates = (header ?? '').split(',').flatMap((policy) => {
    const [, quota] = /(?:^\s*|;\s*q\s*=\s*)(\d{1,9})\s*(?:;|$)/.exec(policy) ?? [];
    const [, seconds] = /;\s*w\s*=\s*(\d{1,9})\s*(?:;|$)/.exec(policy) ?? [];
    const rate = Number(quota) / Number(seconds);
    return Number.isFinite(rate) && rate > 0 ? [rate] : [];
  });
  return rates.length === 0 ? null : Math.min(...rates);
}

/**
 * Milliseconds a `Retry-After` header asks for: whole or decimal seconds, or an HTTP date (measured against the
 * server's own `Date`, so that a clock that is off here does not matter). At most one hour; null without a header that
 * can be read.
 */
export function retryAfterMs(header: string | null, serverDate: string | null, now: number): number | null {
  if (header === null) return null;
  const text = header.trim();
  if (/^\d{1,9}(\.\d{1,9})?$/.test(text)) return Math.min(Math.ceil(Number(text) * 1000), maxWaitMs);
  // Date.parse is lenient ("-5" is a year): an HTTP date always names a weekday or month.
  const at = /[a-z]{3}/i.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(at)) return null;
  const serverNow = serverDate === null ? Number.NaN : Date.parse(serverDate);
  return Math.min(Math.max(at - (Number.isNaN(serverNow) ? now : serverNow), 0), maxWaitMs);
}

/** A request and its outcome, for people. Holds no credential. */
export interface SeenExchange {
  readonly method: string;
  readonly url: string;
  readonly body: string | null;
  /** Null: no answer came. */
  readonly status: number | null;
  readonly ms: number;
  /** Size of the answer's body as received, before decompression. */
  readonly wireBytes: number;
  /** Names of the answer's members; null where it was not read as a JSON object. */
  readonly keys: readonly string[] | null;
}

/** An exchange without any value of a record, a parameter or a credential. */
export interface ExchangeFacts {
  /** Null: a check, or a call about the catalog. */
  readonly entity: EntityName | null;
  /** The path with the definition's placeholders, and the names of query parameters. */
  readonly address: string;
  /** Time that the request waited for its account's limits, in addition to the call's own wait. */
  readonly waitedMs: number;
}

export type OnExchange = (seen: SeenExchange, facts: ExchangeFacts) => void;

/** `?limit=…&after=…`. A name that may be a value itself, as in an address that the service has given, is left out. */
export function shownQuery(names: Iterable<string>): string {
  const shown = [...new Set(names)].map((name) =>
    /^[a-z][a-z_.[\]-]{0,31}$/i.test(name) ? `${name}=…` : '…',
  );
  return shown.length === 0 ? '' : `?${shown.join('&')}`;
}
