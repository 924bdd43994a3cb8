import type { Exchange, Reply } from './exchange.ts';
import { envelope } from './replies.ts';

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
