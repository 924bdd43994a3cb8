import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { countArrivals, listen } from '../listen.ts';

export interface Received {
  readonly path: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: string;
}

/** How the receiver answers: a status, or `cut`: it takes the message and closes the connection. */
export type Answer = number | 'cut';

export type Receiver = Awaited<ReturnType<typeof startReceiver>>;

/** A receiver of webhooks on a free port. */
export async function startReceiver() {
  const received: Received[] = [];
  let answerOf: (one: Received, index: number) => Answer = () => 204;
  const { check, arrived } = countArrivals(received);
  const take = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { url = '', method = '', headers } = request;
    const one = { path: url, method, headers, body: await text(request) };
    const answer = answerOf(one, received.push(one) - 1);
    if (answer === 'cut') request.socket.destroy();
    else response.writeHead(answer).end();
    check();
  };
  const server = createServer((request, response) => void take(request, response));
  const { host, origin, close } = await listen(server);
  return {
    url: origin,
    host,
    /** All that came, in the order of arrival. */
    received,
    /** The bodies of one path as JSON. */
    bodies: (path?: string) =>
      received
        .filter((one) => path === undefined || one.path === path)
        .map(({ body }) => JSON.parse(body) as Record<string, unknown>),
    /** From now on; by default 204. */
    answer: (how: (received: Received, index: number) => Answer) => {
      answerOf = how;
    },
    /** Resolves when so many have arrived. */
    arrived,
    [Symbol.asyncDispose]: close,
  };
}
