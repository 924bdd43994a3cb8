import { gzipSync } from 'node:zlib';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { JsonObject } from '../../../src/core/json.ts';

/** Any status with a JSON body. */
export function json(status: number, body: unknown, headers: Record<string, string> = {}): Reply {
  return text(status, JSON.stringify(body), { 'content-type': 'application/json', ...headers });
}

/** Any status with any body. */
export function text(status: number, body: string | Uint8Array, headers: Record<string, string> = {}): Reply {
  return ({ response }) => {
    response.writeHead(status, { 'content-type': 'text/plain', ...headers });
    response.end(body);
  };
}

/** The API's own error shape. */
export function apiError(status: number, message: string, headers: Record<string, string> = {}): Reply {
  return json(status, { message, errors: [] }, headers);
}

export function html(status: number, headers: Record<string, string> = {}): Reply {
  return text(status, '<html><body>Access Denied</body></html>', { 'content-type': 'text/html', ...headers });
}

/** A good execute envelope. */
export function success(result: unknown, metadata: unknown = null): Reply {
  return (exchange) => json(200, envelope(exchange.connectorId, result, metadata))(exchange);
}

export function envelope(connectorId: string, result: unknown, metadata: unknown = null): object {
  return {
    status: 'success',
    result,
    connector_metadata: metadata,
    execution_metadata: { connector_instance_id: `source_id:${connectorId}`, execution_time_ms: 1 },
  };
}

/** A good envelope whose `result` is JSON text as it stands: for numbers and depths that JavaScript cannot write. */
export function successText(result: string): Reply {
  return (exchange) => {
    const [head, tail] = JSON.stringify(envelope(exchange.connectorId, '@')).split('"@"');
    return text(200, `${head}${result}${tail}`, { 'content-type': 'application/json' })(exchange);
  };
}

export function gzipped(result: unknown): Reply {
  return (exchange) =>
    text(200, gzipSync(JSON.stringify(envelope(exchange.connectorId, result))), {
      'content-encoding': 'gzip',
    })(exchange);
}

/** A few kilobytes that inflate to `bytes` of valid JSON. */
export function gzipBomb(bytes: number): Reply {
  return text(200, gzipSync(`["${'a'.repeat(bytes)}"]`), { 'content-encoding': 'gzip' });
}

/** `retryAfter` in seconds, as an HTTP date so many seconds ahead, or absent. */
export function throttled(retryAfter: { seconds: number } | { dateIn: number } | null, status = 429): Reply {
  if (retryAfter === null) return apiError(status, 'Too many requests');
  const value =
    'seconds' in retryAfter
      ? String(retryAfter.seconds)
      : new Date(Date.now() + retryAfter.dateIn * 1_000).toUTCString();
  return apiError(status, 'Too many requests', { 'retry-after': value });
}

/** The reply, but not before `until` has come. */
export function held(until: Promise<unknown>, reply: Reply): Reply {
  return async (exchange) => {
    await until;
    await reply(exchange);
  };
}

export function redirect(status: number, location: string): Reply {
  return text(status, '', { location });
}

/** One execute call as the server got it. */
export interface HostileCall {
  /** Counts from 0 over the server's life. */
  readonly index: number;
  readonly at: number;
  readonly connectorId: string;
  readonly entity: string;
  readonly action: string;
  readonly params: JsonObject;
  /** The whole body: entity, action, params and whatever else was sent. */
  readonly body: JsonObject;
  readonly token: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** The connector the call was for; empty for a call that is no execute. */
  readonly connectorId: string;
}

/** Answers one request, well or badly. */
export type Reply = (exchange: Exchange) => void | Promise<void>;

// Faults below HTTP: the reply writes to the socket itself.

/** RST instead of an answer. */
export const resetBeforeHeaders: Reply = ({ request }) => {
  request.socket.resetAndDestroy();
};

/** Headers and the beginning of a body, then RST. */
export const resetAfterHeaders: Reply = async ({ request, response }) => {
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' });
  await written(response, '{"status":"succ');
  request.socket.resetAndDestroy();
};

/** FIN instead of an answer. */
export const closeBeforeHeaders: Reply = ({ request }) => {
  request.socket.destroy();
};

/** Promises more bytes than it sends. */
export const cutByLength: Reply = async ({ request, response }) => {
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' });
  await written(response, '{"status":"success","result":[');
  request.socket.destroy();
};

/** A chunked body without its last chunk. */
export const cutInChunks: Reply = async ({ request, response }) => {
  response.writeHead(200, { 'content-type': 'application/json' });
  await written(response, '{"status":"success","result":[');
  request.socket.destroy();
};

/** No length at all: the end of the connection is the end of the body, so only the JSON tells that it was cut. */
export const cutByClose: Reply = (exchange) => {
  const body = JSON.stringify(envelope(exchange.connectorId, [{ id: 'a' }, { id: 'b' }]));
  raw(
    exchange,
    `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n${body.slice(0, -20)}`,
  );
};

/** Accepts the request and never answers. */
export const stallBeforeHeaders: Reply = () => undefined;

/** Headers, some of the body, then nothing. */
export const stallInBody: Reply = async ({ response }) => {
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' });
  await written(response, '{"status":');
};

/** So many bytes of a longer body, then nothing. */
export function stallAfter(status: number, bytes: number): Reply {
  return async ({ response }) => {
    response.writeHead(status, { 'content-type': 'text/plain', 'content-length': String(bytes * 2) });
    await written(response, ' '.repeat(bytes));
  };
}

/** One byte every `everyMs`, for ever: no gap is long enough for a body timeout. */
export function drip(everyMs: number): Reply {
  return ({ response }) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    const timer = setInterval(() => response.write(' '), everyMs);
    response.on('close', () => clearInterval(timer));
  };
}

/** A body without end: the client has to close the connection. */
export const endless: Reply = ({ response }) => {
  response.writeHead(200, { 'content-type': 'application/json' });
  const chunk = ' '.repeat(65_536);
  const more = (): void => {
    while (!response.destroyed && response.write(chunk));
  };
  response.on('drain', more);
  more();
};

export function hugeHeaders(bytes: number): Reply {
  return (exchange) =>
    raw(exchange, `HTTP/1.1 200 OK\r\nx-filler: ${'a'.repeat(bytes)}\r\ncontent-length: 2\r\n\r\n{}`);
}

/** Not HTTP. */
export const garbage: Reply = (exchange) => raw(exchange, 'SSH-2.0-OpenSSH_9.6\r\n');

/** A failure whose body never ends properly. */
export function cutFailure(status: number): Reply {
  return async ({ request, response }) => {
    response.writeHead(status, { 'content-type': 'application/json', 'content-length': '1000' });
    await written(response, '{"message":"half');
    request.socket.destroy();
  };
}

function raw({ request }: Exchange, bytes: string): void {
  request.socket.end(bytes, 'latin1');
}

function written(response: Exchange['response'], chunk: string): Promise<void> {
  return new Promise((resolve) => response.write(chunk, () => resolve()));
}
