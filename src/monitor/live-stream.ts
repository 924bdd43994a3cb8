import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { type Clock, slept } from '../core/clock.ts';

interface LiveOptions<Looked> {
  readonly clock: Clock;
  /** Looks at the sinks, for all streams together. */
  readonly look: () => Promise<Looked>;
  /** Text that changes with everything that the page of this request may show. */
  readonly stateOf: (request: FastifyRequest, looked: Looked) => Promise<string>;
  /** Whether the visitor may still read. */
  readonly mayRead: (request: FastifyRequest) => boolean;
}

const mostStreams = 64;
const lookMs = 2_000;
/** The longest life of a stream. A page that stays open then reconnects, which checks its rights again. */
const mostAgeMs = 3_600_000;
/** A proxy cuts a connection on which nothing comes; a visitor who has left is noticed by it. */
const heartbeatMs = 20_000;
/** A client that reads this little is cut: it connects again when it reads. */
const mostUnsentBytes = 16_384;

/**
 * Serves `live` as a stream of events: `change` whenever something has changed since the page of the visitor was read.
 * The sinks are read for all streams together, and only while there are any. Streams end with the server, whose
 * successor tells pages that connect again.
 */
export function liveRoute<Looked>(
  pages: FastifyInstance,
  { clock, look, stateOf, mayRead }: LiveOptions<Looked>,
): void {
  /** Open streams, the state that the page of each shows, or that was sent last, and when each ends. */
  const streams = new Map<FastifyReply, { readonly shown: string; readonly endsMs: number }>();
  const closing = new AbortController();
  pages.addHook('preClose', async () => {
    closing.abort();
    for (const stream of streams.keys()) end(stream);
  });
  const end = (stream: FastifyReply): void => {
    streams.delete(stream);
    stream.raw.end();
  };
  const send = ({ raw }: FastifyReply, text: string): void => {
    if (raw.writableLength > mostUnsentBytes) raw.destroy();
    else raw.write(text);
  };
  const tell = async (): Promise<void> => {
    const looked = await look();
    for (const [stream, { shown, endsMs }] of streams) {
      if (clock.now() >= endsMs) end(stream);
      const now = await stateOf(stream.request, looked);
      // It may have ended meanwhile.
      if (now === shown || !streams.has(stream)) continue;
      streams.set(stream, { shown: now, endsMs });
      send(stream, 'event: change\ndata:\n\n');
    }
  };
  let isLooking = false;
  const keepLooking = async (): Promise<void> => {
    if (isLooking) return;
    isLooking = true;
    let beatAtMs = clock.now() + heartbeatMs;
    do {
      await tell();
      if (clock.now() < beatAtMs) continue;
      beatAtMs = clock.now() + heartbeatMs;
      for (const stream of streams.keys()) {
        if (mayRead(stream.request)) send(stream, ':\n\n');
        else end(stream);
      }
    } while (streams.size > 0 && (await slept(clock, lookMs, closing.signal)));
    isLooking = false;
  };
  pages.get('/live', async (request, reply) => {
    if (streams.size >= mostStreams || closing.signal.aborted) {
      return await reply.code(503).type('text/plain').send('Too many pages are open. This one still works.');
    }
    reply.hijack();
    reply.header('content-type', 'text/event-stream; charset=utf-8').header('x-accel-buffering', 'no');
    for (const [name, value = ''] of Object.entries(reply.getHeaders())) reply.raw.setHeader(name, value);
    for (const event of ['close', 'error']) reply.raw.on(event, () => streams.delete(reply));
    const shown = new URL(`http://here${request.url}`).searchParams.get('at') ?? '';
    streams.set(reply, { shown, endsMs: clock.now() + mostAgeMs });
    send(reply, `retry: ${lookMs}\n\n`);
    void keepLooking();
    return reply;
  });
}
