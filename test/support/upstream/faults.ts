import { gzipSync } from 'node:zlib';
import { isJsonObject, type JsonObject, type JsonValue } from '../../../src/core/json.ts';
import type { Reply } from '../hostile/exchange.ts';
import { type Answer, jsonAnswer } from './answer.ts';
import type { LoggedRequest } from './fake-request.ts';

/** Something that goes wrong with a request. */
export interface Fault {
  /** Which requests it is for; left out: every request. */
  readonly on?: (request: LoggedRequest) => boolean;
  /** How many of these pass unharmed first; left out: none. */
  readonly after?: number;
  /** How many of these it happens to; left out: one. */
  readonly times?: number;
  readonly effect: Effect;
}

/**
 * Makes what is sent out of the right answer, or in its place: another answer, or a reply that writes to the socket
 * itself.
 */
export type Effect = (
  right: () => Answer,
  request: LoggedRequest,
) => Answer | Reply | Promise<Answer | Reply>;

/** A reply of `../hostile` in place of the answer: the resets, stalls, endless bodies and so on. */
export function instead(reply: Answer | Reply): Effect {
  return () => reply;
}

/** Requests for this path, as the service's documentation writes it: `/lists/{list_id}/members`. */
export function onPath(template: string): (request: LoggedRequest) => boolean {
  const pattern = new RegExp(`^(/3\\.0|/v1)?${template.replace(/\{[^}]*\}/g, '[^/]+')}/?$`);
  return ({ path }) => pattern.test(path);
}

/** The right answer, compressed though the client need not have asked for it. */
export const gzippedUnasked: Effect = (right) => {
  const { status, headers, body } = right();
  return { status, headers: { ...headers, 'content-encoding': 'gzip' }, body: gzipSync(body) };
};

/** A few kilobytes of the service's own kind of answer that inflate to so many bytes of JSON. */
export function gzipBomb(bytes: number): Effect {
  return (right) => {
    const { headers } = right();
    const body = gzipSync(`{"bomb":"${'a'.repeat(bytes)}"}`);
    return { status: 200, headers: { ...headers, 'content-encoding': 'gzip' }, body };
  };
}

/** Arrays within arrays: valid JSON, a few kilobytes. */
export function nested(depth: number): Effect {
  return (right) => ({ ...right(), status: 200, body: '['.repeat(depth) + ']'.repeat(depth) });
}

/** Half of the right body, and then the end of the connection. `says`: how the length was announced. */
export function cutBody(says: 'length' | 'chunks'): Effect {
  return (right) =>
    async ({ request, response }) => {
      const { status, headers, body } = right();
      const bytes = Buffer.from(body);
      response.writeHead(status, {
        ...headers,
        ...(says === 'length' ? { 'content-length': String(bytes.length) } : {}),
      });
      const half = bytes.subarray(0, bytes.length >> 1);
      await new Promise<void>((resolve) => response.write(half, () => resolve()));
      request.socket.destroy();
    };
}

/** The right body in pieces of so many bytes, a pause after each. */
export function slowBody(pieceBytes: number, pauseMs: number): Effect {
  return (right) =>
    ({ response }) => {
      const { status, headers, body } = right();
      const bytes = Buffer.from(body);
      response.writeHead(status, { ...headers, 'content-length': String(bytes.length) });
      let sent = 0;
      const timer = setInterval(() => {
        response.write(bytes.subarray(sent, sent + pieceBytes));
        sent += pieceBytes;
        if (sent < bytes.length) return;
        clearInterval(timer);
        response.end();
      }, pauseMs);
      response.once('close', () => clearInterval(timer));
    };
}

/** The right answer with another body: a field more or less, a record of another kind. */
export function bentBody(bend: (body: JsonObject) => JsonValue): Effect {
  return (right) => {
    const answer = right();
    const body = JSON.parse(Buffer.from(answer.body).toString('utf8')) as JsonValue;
    return isJsonObject(body) ? { ...answer, body: JSON.stringify(bend(body)) } : answer;
  };
}

/** The right answer with these headers besides: a limit that is nearly used up, a cookie. */
export function withHeaders(headers: Readonly<Record<string, string>>): Effect {
  return (right) => {
    const answer = right();
    return { ...answer, headers: { ...answer.headers, ...headers } };
  };
}

/** 302 (or another status) to this address, with a body that a client must not take for the answer. */
export function redirectTo(location: string, status = 302): Effect {
  return instead({ ...jsonAnswer(status, { moved: true }), headers: { location } });
}

/** 200 and an error in the body. */
export function errorInside200(error: string): Effect {
  return instead(jsonAnswer(200, { error }));
}

/** A page of a network in front of the service: HTML, and none of the service's own headers. */
export function edgePage(status: 403 | 502 | 503, headers: Readonly<Record<string, string>> = {}): Effect {
  return instead({
    status,
    headers: { 'content-type': 'text/html; charset=UTF-8', server: 'edge', ...headers },
    body: '<html><head><title>Access Denied</title></head><body>Reference #18.2f1c</body></html>',
  });
}
