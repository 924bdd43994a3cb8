import { gzipSync } from 'node:zlib';
import { isJsonObject, type JsonObject, type JsonValue } from '../../../src/core/json.ts';
import type { Reply } from '../hostile/replies.ts';
import { type Answer, type Effect, jsonAnswer, type LoggedRequest } from './fake-server.ts';

/** A reply of `../hostile` in place of the answer: the resets, stalls, endless bodies and so on. */
export function instead(reply: Answer | Reply): Effect {
  return () => reply;
}

/** Requests for this path, as the service's documentation writes it: `/lists/{list_id}/members`. */
export function onPath(template: string): (request: LoggedRequest) => boolean {
  const pattern = new RegExp(`^(/3\\.0|/v1)?${template.replace(/\{[^}]*\}/g, '[^/]+')}/?$`);
  return ({ path }) => pattern.test(path);
}

/** A few kilobytes of the service's own kind of answer that inflate to so many bytes of JSON. */
export function gzipBomb(bytes: number): Effect {
  let body: Buffer | null = null;
  return (right) => {
    const { headers } = right();
    body ??= gzipSync(`{"bomb":"${'a'.repeat(bytes)}"}`, { level: 1 });
    return { status: 200, headers: { ...headers, 'content-encoding': 'gzip' }, body };
  };
}

/** Half of the right body, and then the end of the connection. */
export function cutBody(): Effect {
  return (right) =>
    async ({ request, response }) => {
      const { status, headers, body } = right();
      const bytes = Buffer.from(body);
      response.writeHead(status, { ...headers, 'content-length': String(bytes.length) });
      const half = bytes.subarray(0, bytes.length >> 1);
      await new Promise<void>((resolve) => response.write(half, () => resolve()));
      request.socket.destroy();
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

/** 302 to this address, with a body that a client must not take for the answer. */
export function redirectTo(location: string): Effect {
  return instead({ ...jsonAnswer(302, { moved: true }), headers: { location } });
}

/** 200 and an error in the body. */
export function errorInside200(error: string): Effect {
  return instead(jsonAnswer(200, { error }));
}

/** A page of a network in front of the service: HTML, and none of the service's own headers. */
export function edgePage(status: 403 | 502 | 503, headers: Answer['headers'] = {}): Effect {
  return instead({
    status,
    headers: { 'content-type': 'text/html; charset=UTF-8', server: 'edge', ...headers },
    body: '<html><head><title>Access Denied</title></head><body>Reference #18.2f1c</body></html>',
  });
}
