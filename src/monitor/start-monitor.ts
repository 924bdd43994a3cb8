import type { Queue } from 'bullmq';
import type { FastifyInstance } from 'fastify';
import { answeredWithin, type Clock, systemClock } from '../core/clock.ts';
import { publicationsQueue, syncsQueue } from '../jobs/open-queue-set.ts';
import type { JobLog, ServedSink } from '../jobs/worker-context.ts';
import type { ListenAddress } from './listen-address.ts';
import {
  type HttpServerOptions,
  isLoopback,
  openHttpServer,
  type ServedContent,
} from './open-http-server.ts';
import {
  type AccessToken,
  openPageAccess,
  openSessions,
  openTokenCheck,
  type PageAccess,
  type Sessions,
} from './page-access.ts';

export interface MonitorOptions extends Pick<HttpServerOptions, 'limits'>, MonitorContent {
  readonly listen: ListenAddress;
  /** Absent: only the pages are served. */
  readonly health?: HealthSources;
  readonly metrics?: () => Promise<{ readonly contentType: string; readonly text: string }>;
  /** A warning about the whole process, shown on every page; null: none. */
  readonly problem?: () => string | null;
  readonly log: JobLog;
  readonly clock?: Clock;
}

/** The part that a newer config may change. */
export interface MonitorContent {
  /** Names of the server in addition to those of this machine. */
  readonly hosts?: readonly string[];
  /** Each opens the pages and the board; without any there is no board. */
  readonly tokens?: readonly AccessToken[];
  readonly board?: BoardContent;
  readonly pages?: ServedPages;
}

interface BoardContent {
  readonly queues: readonly Queue[];
  /** A queue is called after its sink's random id, and shown under the sink's name. */
  readonly sinks: readonly Pick<ServedSink, 'id' | 'name'>[];
}

/** Pages for people, of whatever room: the monitor serves them beside its own. */
export interface ServedPages {
  readonly formRoutes: ReadonlySet<string>;
  add(server: FastifyInstance, at: PageServer): void;
}

/** Facts of the server that shows the pages. */
export interface PageServer {
  readonly access: PageAccess;
  readonly retryAfterMs: number;
  /** Further pages of the server, such as `metrics`. */
  readonly links: readonly string[];
  /** The queues in a browser, for who has access to the pages; null: there is no board. */
  readonly board: Awaited<ReturnType<typeof openBoard>> | null;
  /** A warning about the whole process; null: none. */
  readonly problem: () => string | null;
  readonly log: JobLog;
}

export type Monitor = Awaited<ReturnType<typeof startMonitor>>;

/**
 * Serves the pages, the board, `/healthz`, `/readyz` and `/metrics` to operators and supervisors. As `openHttpServer`;
 * visitors stay logged in when `show` serves other content. The queues stay the caller's.
 */
export async function startMonitor(options: MonitorOptions) {
  const { listen, log, limits = {} } = options;
  const sessions = openSessions();
  const served = (content: MonitorContent) => servedContent(content, options, sessions);
  const server = await openHttpServer({ listen, log, limits }, await served(options));
  return {
    url: server.url,
    show: async (content: MonitorContent): Promise<void> => await server.replace(await served(content)),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

async function servedContent(
  { hosts = [], tokens = [], board: queues, pages }: MonitorContent,
  options: MonitorOptions,
  sessions: Sessions,
): Promise<ServedContent> {
  const { listen, log, clock = systemClock, problem = () => null, health, metrics } = options;
  const board = queues === undefined || tokens.length === 0 ? null : await openBoard(queues);
  const routes: ServedContent['routes'] = (server, limits) => {
    const checkToken = tokens.length === 0 ? null : openTokenCheck({ tokens, clock, ...limits });
    const access = openPageAccess({ checkToken, sessions, isLoopback: isLoopback(listen), clock });
    if (health !== undefined) {
      probeRoutes(server, openReadiness(health, { withinMs: limits.readyWithinMs, clock, log }), metrics);
    }
    const probes = health === undefined ? [] : ['healthz', 'readyz', 'metrics'];
    const links = board === null ? probes : [...probes, 'board'];
    pages?.add(server, { access, retryAfterMs: limits.wrongTriesMs, links, board, problem, log });
  };
  return { hosts, formRoutes: pages?.formRoutes ?? new Set<string>(), routes };
}

/** Its own scripts and data, and nothing from another machine; its pages carry styles in attributes. */
const boardPolicy =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; " +
  "connect-src 'self'; base-uri 'self'; form-action 'none'; frame-ancestors 'none'";

/** Routes of bull-board, read-only. Its packages are loaded here alone: most programs have no board. */
async function openBoard({ queues, sinks }: BoardContent) {
  const [{ createBullBoard }, { BullMQAdapter }, { FastifyAdapter }] = await Promise.all([
    import('@bull-board/api'),
    import('@bull-board/api/bullMQAdapter'),
    import('@bull-board/fastify'),
  ]);
  const names = new Map(
    sinks.flatMap(({ id, name }) => [
      [syncsQueue(id), `sink ${name}`],
      [publicationsQueue(id), `publications of ${name}`],
    ]),
  );
  const adapter = new FastifyAdapter();
  adapter.setBasePath('/board');
  createBullBoard({
    queues: queues.map(
      (queue) =>
        new BullMQAdapter(queue, { readOnlyMode: true, displayName: names.get(queue.name) ?? queue.name }),
    ),
    serverAdapter: adapter,
    options: { uiConfig: { boardTitle: 'connector-sync', hideDocsLink: true } },
  });
  return async (board: FastifyInstance): Promise<void> => {
    board.addHook('onRequest', async (_request, reply) => {
      reply.header('content-security-policy', boardPolicy);
    });
    await board.register(adapter.registerPlugin());
  };
}

function probeRoutes(
  server: FastifyInstance,
  readiness: ReturnType<typeof openReadiness>,
  metrics: MonitorOptions['metrics'],
): void {
  server.get('/healthz', () => ({ status: 'ok' }));
  server.get('/readyz', async (_request, reply) => {
    const { isReady, problems } = await readiness();
    return await reply.code(isReady ? 200 : 503).send({ status: isReady ? 'ok' : 'unavailable', problems });
  });
  if (metrics === undefined) return;
  server.get('/metrics', async (_request, reply) => {
    const { contentType, text } = await metrics();
    return await reply.type(contentType).send(text);
  });
}

/** Sources of readiness; see `MonitorOptions.health`. */
export interface HealthSources {
  readonly worker: () => Promise<{ readonly isReady: boolean; readonly problems: readonly string[] }>;
  readonly sinks: () => Promise<readonly { readonly name: string; readonly problem: string | null }[]>;
}

/**
 * Says whether jobs can be taken now. Never rejects, and answers within `withinMs` even if something hangs. Logs each
 * change once, with a sink's problem in full.
 */
function openReadiness(
  health: HealthSources,
  { withinMs, clock, log }: { readonly withinMs: number; readonly clock: Clock; readonly log: JobLog },
) {
  let pending: ReturnType<typeof ask> | null = null;
  let wasReady = true;

  const ask = async () => {
    const within = <Answer>(answer: Promise<Answer>, late: Answer): Promise<Answer> =>
      answeredWithin(answer, late, withinMs, clock);
    const [ofWorker, ofSinks] = await Promise.all([
      within(workerProblems(health.worker), [
        `the worker's state is unknown: no answer within ${withinMs} ms; is Redis running?`,
      ]),
      within(sinkProblems(health.sinks), [unknownState(`no answer within ${withinMs} ms`)]),
    ]);
    // Public, so it shows only the names of sinks.
    const problems = [...ofWorker, ...ofSinks.map(({ shown }) => shown)];
    const isReady = problems.length === 0;
    if (isReady !== wasReady) {
      if (isReady) log.info({}, 'ready again');
      else log.warn({ problems: [...ofWorker, ...ofSinks.map(({ logged }) => logged)] }, 'not ready');
    }
    wasReady = isReady;
    return { isReady, problems };
  };

  // Probes at the same time share one question.
  return async () => await (pending ??= ask().finally(() => (pending = null)));
}

async function workerProblems(worker: HealthSources['worker']): Promise<readonly string[]> {
  try {
    const { isReady, problems } = await worker();
    if (problems.length > 0) return problems;
    return isReady ? [] : ['the worker takes no jobs'];
  } catch {
    return ["the worker's state is unknown; is Redis running?"];
  }
}

async function sinkProblems(sinks: HealthSources['sinks']) {
  try {
    return (await sinks())
      .filter(({ problem }) => problem !== null)
      .map(({ name, problem }) => ({
        shown: `sink ${name} cannot be used; the log says why`,
        logged: `sink ${name}: ${problem}`,
      }));
  } catch (error) {
    return [unknownState(String(error))];
  }
}

function unknownState(why: string) {
  const shown = 'the state of the sinks is unknown; the log says why';
  return { shown, logged: `${shown}: ${why}` };
}
