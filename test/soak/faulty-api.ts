import { Agent, createServer, request, type IncomingMessage, type ServerResponse } from 'node:http';
import { listen } from '../support/listen.ts';

/** What happens to every call: forwarded, answered with 429 or 500, or never answered. */
export type ApiMood = 'pass' | 'throttle' | 'error' | 'hang';

export interface FaultyApi extends AsyncDisposable {
  readonly url: string;
  /** Calls that were not forwarded. */
  readonly refused: () => number;
  /** Closes hanging connections when the mood changes. */
  setMood(mood: ApiMood): void;
  /** Sets the `Date` header of all further responses, in milliseconds since the epoch. */
  setTime(ms: number): void;
}

/** A proxy in front of the service at `target` that fails like a remote service. */
export async function startFaultyApi(target: string, startMs: number): Promise<FaultyApi> {
  const { hostname, port } = new URL(target);
  const agent = new Agent({ keepAlive: true, maxSockets: 64 });
  const hanging = new Set<ServerResponse>();
  let mood: ApiMood = 'pass';
  let refused = 0;
  let date = new Date(startMs).toUTCString();

  const pass = (incoming: IncomingMessage, answer: ServerResponse): void => {
    const { method, url: path, headers } = incoming;
    const passed = request({ agent, hostname, port, method, path, headers }, (from) => {
      answer.writeHead(from.statusCode ?? 502, { ...from.headers, date });
      from.on('error', () => answer.destroy());
      from.pipe(answer);
    });
    passed.on('error', () => answer.destroy());
    // The client may have been killed.
    answer.on('close', () => passed.destroy());
    incoming.pipe(passed);
  };
  const refuse = (
    answer: ServerResponse,
    status: number,
    headers: Readonly<Record<string, string>>,
  ): void => {
    answer.writeHead(status, { 'content-type': 'application/json', ...headers });
    answer.end(JSON.stringify({ detail: 'refused on purpose' }));
  };
  const server = createServer((incoming, answer) => {
    if (mood === 'pass') {
      pass(incoming, answer);
      return;
    }
    refused += 1;
    incoming.resume();
    switch (mood) {
      case 'throttle':
        refuse(answer, 429, { 'retry-after': '1' });
        break;
      case 'error':
        refuse(answer, 500, {});
        break;
      case 'hang':
        hanging.add(answer);
        answer.on('close', () => hanging.delete(answer));
        break;
    }
  });
  // Longer than a worker keeps an idle connection, so that none is closed while it sends.
  server.keepAliveTimeout = 60_000;
  const { origin, close } = await listen(server);
  return {
    url: origin,
    refused: () => refused,
    setMood: (next) => {
      mood = next;
      for (const answer of hanging) answer.destroy();
    },
    setTime: (ms) => {
      date = new Date(ms).toUTCString();
    },
    [Symbol.asyncDispose]: async () => {
      await close();
      agent.destroy();
    },
  };
}
