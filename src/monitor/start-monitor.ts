import fastify, { type FastifyError, type FastifyInstance, type FastifyReply } from 'fastify';
import { systemClock, type Clock } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import type { Secret } from '../core/secret.ts';
import type { JobLog } from '../jobs/worker-context.ts';
import { boardRoutes, noBoardRoutes, monitorRoutes, type ShownQueues } from './board-routes.ts';
import { openTokenCheck } from './check-token.ts';
import type { ListenAddress } from './listen-address.ts';
import { openReadiness, type HealthSources } from './readiness.ts';

export interface MonitorOptions {
  readonly listen: ListenAddress;
  readonly health: HealthSources;
  readonly metrics: () => Promise<{ readonly contentType: string; readonly text: string }>;
  /** Queues to show to who has the token; null: no board. */
  readonly board: (ShownQueues & { readonly token: Secret }) | null;
  readonly log: JobLog;
  readonly clock?: Clock;
  readonly limits?: Partial<typeof defaultMonitorLimits>;
}

export type Monitor = Awaited<ReturnType<typeof startMonitor>>;

/**
 * Serves what an operator and a supervisor look at: `/healthz`, `/readyz`, `/metrics`, `/board`. Resolves when the port
 * answers; disposing cuts open connections and frees it. `url`: `http://<host>:<port>`, as this machine reaches it. The
 * queues stay the caller's.
 * Throws `SyncError` USAGE when the address cannot be listened on.
 */
export async function startMonitor(options: MonitorOptions) {
  const { listen, log, clock = systemClock } = options;
  const limits = { ...defaultMonitorLimits, ...options.limits };
  const server = fastify({
    bodyLimit: limits.maxBodyBytes,
    requestTimeout: limits.requestTimeoutMs,
    maxRequestsPerSocket: limits.maxRequestsPerSocket,
    forceCloseConnections: true,
    http: {
      headersTimeout: Math.min(limits.headersTimeoutMs, limits.requestTimeoutMs),
      connectionsCheckingInterval: limits.timeoutCheckMs,
    },
    frameworkErrors: (_error, _request, reply) => {
      reply.hijack();
      reply.raw.writeHead(400, { 'content-type': 'application/json; charset=utf-8' });
      reply.raw.end(JSON.stringify({ message: 'The request cannot be read.' }));
    },
  });
  server.server.maxConnections = limits.maxConnections;
  guardMonitor(server, listen.host);
  answerFailures(server, log);
  const readiness = openReadiness(options.health, { withinMs: limits.readyWithinMs, clock, log });
  monitorRoutes(server, readiness, options.metrics, options.board !== null);
  if (options.board === null) noBoardRoutes(server);
  else {
    boardRoutes(server, {
      ...options.board,
      checkToken: openTokenCheck({ token: options.board.token, clock, ...limits }),
      retryAfterMs: limits.wrongTriesMs,
      log,
    });
  }
  const url = await listenOn(server, listen);
  return { url, [Symbol.asyncDispose]: () => server.close() };
}

/** Anything unforeseen is a 500 that says nothing of the inside. */
function answerFailures(server: FastifyInstance, log: JobLog): void {
  server.setNotFoundHandler((_request, reply) =>
    reply.code(404).send({ message: 'There is no such page; / lists all pages.' }),
  );
  server.setErrorHandler((error: FastifyError, request, reply) => {
    const status = error.statusCode ?? 500;
    if (status < 500) return reply.code(status).send({ message: 'The request cannot be read.' });
    log.error({ err: error, page: request.routeOptions.url }, 'the monitor failed to answer');
    return reply.code(500).send({ message: 'The monitor failed to answer; the log says why.' });
  });
}

async function listenOn(server: FastifyInstance, { host, port }: ListenAddress): Promise<string> {
  try {
    if (host !== null) return await server.listen({ host, port });
    const url = await server.listen({ host: '::', port }).catch(async (error: unknown) => {
      if (!hasNoIpv6(error)) throw error;
      return await server.listen({ host: '0.0.0.0', port });
    });
    return url.replace('[::]', 'localhost');
  } catch (error) {
    await server.close();
    const reason = error instanceof Error ? error.message : String(error);
    throw new SyncError(
      `expected to be able to listen on ${host ?? 'every interface'}, port ${port}: ${reason}. Is another worker using it? Choose another with --http.`,
      { code: 'USAGE', recovery: 'stop', context: { host, port }, cause: error },
    );
  }
}

function hasNoIpv6(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? error.code : null;
  return code === 'EAFNOSUPPORT' || code === 'EADDRNOTAVAIL';
}

/** What clients may take of the monitor. Times in milliseconds. */
const defaultMonitorLimits = {
  headersTimeoutMs: 5000,
  requestTimeoutMs: 10_000,
  /** How often the two timeouts are checked. */
  timeoutCheckMs: 2000,
  /** Further connections are closed as soon as they are accepted. */
  maxConnections: 64,
  maxRequestsPerSocket: 1000,
  /** Request bodies are not read. */
  maxBodyBytes: 1024,
  /** Time after which `/readyz` answers "unknown"; the promise is two seconds. */
  readyWithinMs: 1500,
  /** Wrong tokens that are compared within `wrongTriesMs`, of all clients together. */
  wrongTries: 10,
  wrongTriesMs: 10_000,
};

const loopbackNames = ['127.0.0.1', 'localhost', '[::1]'];

/** No page of another origin may frame, read or be led to what is served here; no CORS header is ever sent. */
const headers: Readonly<Record<string, string>> = {
  'content-security-policy':
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
};

/**
 * Looks at every request first, unknown paths included: GET and HEAD alone (405), and where only this machine can reach
 * the server, only loopback names (421), so that a page in a browser cannot be led here by DNS tricks. Elsewhere the
 * names that lead here are not known.
 */
function guardMonitor(server: FastifyInstance, host: string | null): void {
  const isLoopback = host !== null && loopbackNames.includes(host.includes(':') ? `[${host}]` : host);
  server.addHook('onRequest', async (request, reply) => {
    reply.headers(headers);
    reply.header('cache-control', 'no-store');
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      reply.header('allow', 'GET, HEAD');
      return await refuse(reply, 405, 'This server is read-only: use GET or HEAD.');
    }
    if (isLoopback && !loopbackNames.includes(nameIn(request.headers.host))) {
      return await refuse(reply, 421, 'This server does not answer for the host that the request names.');
    }
    return undefined;
  });
}

async function refuse(reply: FastifyReply, status: number, message: string): Promise<FastifyReply> {
  return await reply.code(status).send({ message });
}

function nameIn(host: string | undefined): string {
  return (host ?? '').toLowerCase().replace(/:\d+$/, '');
}
