import type { FastifyInstance } from 'fastify';
import { systemClock, type Clock } from '../core/clock.ts';
import type { JobLog } from '../jobs/worker-context.ts';
import { boardRoutes, noBoardRoutes, monitorRoutes, type ShownQueues } from './board-routes.ts';
import { openTokenCheck, type AccessToken } from './check-token.ts';
import type { ListenAddress } from './listen-address.ts';
import {
  isLoopback,
  openHttpServer,
  type HttpServerOptions,
  type ServedContent,
} from './open-http-server.ts';
import { openPageAccess, openSessions, type PageAccess, type Sessions } from './page-access.ts';
import { openReadiness, type HealthSources } from './readiness.ts';

export interface MonitorOptions extends Pick<HttpServerOptions, 'limits'>, MonitorContent {
  readonly listen: ListenAddress;
  readonly health: HealthSources;
  readonly metrics: () => Promise<{ readonly contentType: string; readonly text: string }>;
  /** What people are to know of the whole process, on every page; null: nothing. */
  readonly problem?: () => string | null;
  readonly log: JobLog;
  readonly clock?: Clock;
}

/** What a newer config may change. */
export interface MonitorContent {
  /** Names that the server is reached by, besides those of this machine. */
  readonly hosts?: readonly string[];
  /** Each opens the pages and the board; without any there is no board. */
  readonly tokens?: readonly AccessToken[];
  readonly board: ShownQueues | null;
  readonly pages?: ServedPages;
}

/** Pages for people, of whatever room: the monitor serves them beside its own. */
export interface ServedPages {
  readonly formRoutes: ReadonlySet<string>;
  add(server: FastifyInstance, at: PageServer): void;
}

/** What the server that shows the pages knows. */
export interface PageServer {
  readonly access: PageAccess;
  readonly retryAfterMs: number;
  /** Further pages of the server, such as `metrics`. */
  readonly links: readonly string[];
  /** What people are to know of the whole process; null: nothing. */
  readonly problem: () => string | null;
  readonly log: JobLog;
}

export type Monitor = Awaited<ReturnType<typeof startMonitor>>;

/**
 * Serves what an operator and a supervisor look at: the pages, `/healthz`, `/readyz`, `/metrics`, `/board`. The queues
 * stay the caller's. As `openHttpServer`.
 */
export async function startMonitor(options: MonitorOptions) {
  const { listen, log, limits = {} } = options;
  const sessions = openSessions();
  const server = await openHttpServer({ listen, log, limits }, servedContent(options, options, sessions));
  return {
    url: server.url,
    show: (content: MonitorContent): Promise<void> =>
      server.replace(servedContent(content, options, sessions)),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

function servedContent(
  { hosts = [], tokens = [], board, pages }: MonitorContent,
  options: MonitorOptions,
  sessions: Sessions,
): ServedContent {
  const { listen, log, clock = systemClock, problem = () => null } = options;
  const routes: ServedContent['routes'] = (server, limits) => {
    const readiness = openReadiness(options.health, { withinMs: limits.readyWithinMs, clock, log });
    const checkToken = tokens.length === 0 ? null : openTokenCheck({ tokens, clock, ...limits });
    const retryAfterMs = limits.wrongTriesMs;
    monitorRoutes(server, readiness, options.metrics);
    const access = openPageAccess({ checkToken, sessions, isLoopback: isLoopback(listen), clock });
    if (checkToken === null || board === null) noBoardRoutes(server);
    else boardRoutes(server, { ...board, access, retryAfterMs, log });
    const links = ['healthz', 'readyz', 'metrics', 'board'];
    pages?.add(server, { access, retryAfterMs, links, problem, log });
  };
  return { hosts, formRoutes: pages?.formRoutes ?? new Set<string>(), routes };
}
