import type { FastifyInstance } from 'fastify';
import type { WatchedSinks } from '../app/watch-sinks.ts';
import { slept, type Clock } from '../core/clock.ts';

const lookEveryMs = 2_000;
/** Ages grow, and a proxy closes what is silent for long. */
const atLeastEveryMs = 30_000;
/** From one address. Further pages hear of no change. */
const mostOfClient = 32;
const mostOfAll = 64;

/**
 * Tells a page that it is out of date: an event whenever a sink has changed, and now and then in any case. The page
 * asks for itself again: what it shows is made in one place. Nothing is read while no page listens.
 */
export function liveRoute(pages: FastifyInstance, watched: WatchedSinks, clock: Clock): void {
  const closing = new AbortController();
  pages.addHook('preClose', async () => closing.abort());
  const clients: string[] = [];
  pages.get('/live', async (request, reply) => {
    if (clients.length >= mostOfAll || clients.filter((one) => one === request.ip).length >= mostOfClient) {
      return await reply
        .code(503)
        .send({ message: 'Too many pages are open. Close some, and load this one again.' });
    }
    clients.push(request.ip);
    request.raw.on('close', () => clients.splice(clients.indexOf(request.ip), 1));
    const left = new AbortController();
    request.raw.on('close', () => left.abort());
    const signal = AbortSignal.any([closing.signal, left.signal]);
    const first = (await watched.overviews()).version;
    reply.hijack();
    reply.raw.writeHead(200, {
      ...headersOf(reply.getHeaders()),
      'content-type': 'text/event-stream; charset=utf-8',
      // nginx would collect the events.
      'x-accel-buffering': 'no',
    });
    reply.raw.write('retry: 5000\n\n');
    let [version, toldMs] = [first, clock.now()];
    while (await slept(clock, lookEveryMs, signal)) {
      const now = await watched.overviews();
      if (now.version === version && clock.now() - toldMs < atLeastEveryMs) continue;
      [version, toldMs] = [now.version, clock.now()];
      reply.raw.write('event: change\ndata:\n\n');
    }
    reply.raw.end();
    return reply;
  });
}

function headersOf(headers: Readonly<Record<string, number | string | string[] | undefined>>) {
  return Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) => (value === undefined ? [] : [[name, value] as const])),
  );
}
