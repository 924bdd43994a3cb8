import { createBullBoard } from '@bull-board/api';
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter';
import { FastifyAdapter } from '@bull-board/fastify';
import type { Queue } from 'bullmq';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import * as z from 'zod';
import { publicationsQueue, syncsQueue } from '../jobs/open-queue-set.ts';
import type { JobLog, ServedSink } from '../jobs/worker-context.ts';
import type { PageAccess } from './page-access.ts';

const boardPath = '/board';

interface BoardOptions {
  readonly queues: readonly Queue[];
  /** A queue is called after its sink's random id; where its sink is here, it is shown under the sink's name. */
  readonly sinks?: readonly Pick<ServedSink, 'id' | 'name'>[];
  readonly access: PageAccess;
  readonly retryAfterMs: number;
  readonly log: JobLog;
}

/**
 * Its own scripts and data and nothing from another machine, such as the font that its page asks for; its pages carry
 * styles in attributes.
 */
const boardPolicy =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; " +
  "connect-src 'self'; base-uri 'self'; form-action 'none'; frame-ancestors 'none'";

/**
 * Shows the queues and their jobs, read-only, to visitors with access to the pages. The scope that holds the routes
 * checks access, not their paths, so that an unusual spelling of a path cannot evade it.
 */
export function boardRoutes(server: FastifyInstance, options: BoardOptions): void {
  const adapter = new FastifyAdapter();
  adapter.setBasePath(boardPath);
  createBullBoard({
    queues: options.queues.map((queue) => showQueue(queue, options.sinks)),
    serverAdapter: adapter,
    options: { uiConfig: { boardTitle: 'connector-sync', hideDocsLink: true, sortQueues: true } },
  });
  server.register(
    async (board) => {
      board.addHook('onRequest', async (request, reply) => {
        reply.header('content-security-policy', boardPolicy);
        return await refuseWithoutToken(request, reply, options);
      });
      board.setNotFoundHandler((_request, reply) => reply.code(404).send({ message: 'not found' }));
      await board.register(adapter.registerPlugin());
    },
    { prefix: boardPath },
  );
}

function showQueue(queue: Queue, sinks: BoardOptions['sinks'] = []): BullMQAdapter {
  const sink = sinks.find(({ id }) => syncsQueue(id) === queue.name);
  const source = sinks.find(({ id }) => publicationsQueue(id) === queue.name);
  const adapter = new BullMQAdapter(queue, {
    readOnlyMode: true,
    ...(sink === undefined ? {} : { displayName: `sink ${sink.name}` }),
    ...(source === undefined ? {} : { displayName: `publications of ${source.name}` }),
  });
  adapter.setFormatter('name', titleOf);
  return adapter;
}

const shownJob = z.object({ name: z.string(), data: z.object({ connector: z.string() }) });

/** A list of jobs that are all called `sync` would have to be opened one by one. */
function titleOf(job: unknown): string {
  const parsed = shownJob.safeParse(job);
  return parsed.success ? `${parsed.data.data.connector}: ${parsed.data.name}` : 'job';
}

async function refuseWithoutToken(
  request: FastifyRequest,
  reply: FastifyReply,
  { access, retryAfterMs, log }: BoardOptions,
): Promise<FastifyReply | undefined> {
  const verdict = access.verdict(request);
  switch (verdict) {
    case 'too-many':
      return await reply
        .code(429)
        .header('retry-after', String(Math.ceil(retryAfterMs / 1000)))
        .send({ message: 'Too many wrong tokens. Wait a little.' });
    case 'wrong':
      log.warn({ from: request.ip }, 'the board was asked for with a wrong token');
      return await askForToken(reply);
    case 'missing':
    // There is no board without a token.
    case 'closed':
      return await askForToken(reply);
    case 'right':
      return undefined;
  }
}

async function askForToken(reply: FastifyReply): Promise<FastifyReply> {
  return await reply
    .code(401)
    .header('www-authenticate', 'Basic realm="connector-sync", charset="UTF-8"')
    .send({
      message:
        'Log in at /, or here with any user name; the password is http.token of the config, or one of http.tokens. A bearer token works too.',
    });
}
