import { createServer, type Server } from 'node:http';
import { once } from 'node:events';
import fastify, { type FastifyError, type FastifyInstance } from 'fastify';
import { SyncError } from '../core/errors.ts';
import type { JobLog } from '../jobs/worker-context.ts';
import { limitConnections } from '../http/connection-limit.ts';
import type { ListenAddress } from './listen-address.ts';

export interface HttpServerOptions {
  readonly listen: ListenAddress;
  readonly log: JobLog;
  readonly limits?: Partial<HttpLimits>;
}

/** Content of a server. */
export interface ServedContent {
  /** Names of the server in addition to those of this machine; empty: any name, if other machines can reach it. */
  readonly hosts: readonly string[];
  /** Routes that take POST. */
  readonly formRoutes?: ReadonlySet<string>;
  readonly routes: (server: FastifyInstance, limits: HttpLimits) => void;
}

/**
 * A server for operators: bounded, read-only except for the named forms, closed to pages of other origins. Resolves
 * when the port answers; disposing cuts open connections and frees it. `url`: `http://<host>:<port>`, as this machine
 * reaches it. Throws `SyncError` USAGE if it cannot listen on the address.
 */
export async function openHttpServer(options: HttpServerOptions, content: ServedContent) {
  const limits = { ...defaultHttpLimits, ...options.limits };
  let routed = await routedContent(content, options, limits);
  const server = createServer(
    {
      requestTimeout: limits.requestTimeoutMs,
      headersTimeout: Math.min(limits.headersTimeoutMs, limits.requestTimeoutMs),
      connectionsCheckingInterval: limits.timeoutCheckMs,
    },
    (request, response) => routed.routing(request, response),
  );
  server.maxRequestsPerSocket = limits.maxRequestsPerSocket;
  limitConnections(server, { ...limits, cutsBusy: true });
  const close = async (): Promise<void> => {
    server.close();
    await routed.close();
    server.closeAllConnections();
  };
  try {
    const url = await listenOn(server, options.listen);
    return {
      url,
      /** Serves this from now on. The port answers all the time. */
      replace: async (next: ServedContent): Promise<void> => {
        const old = routed;
        routed = await routedContent(next, options, limits);
        await old.close();
      },
      [Symbol.asyncDispose]: close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

async function routedContent(content: ServedContent, { listen, log }: HttpServerOptions, limits: HttpLimits) {
  const server = fastify({
    bodyLimit: limits.maxBodyBytes,
    frameworkErrors: (_error, _request, reply) => {
      reply.hijack();
      reply.raw.writeHead(400, { 'content-type': 'application/json; charset=utf-8' });
      reply.raw.end(JSON.stringify({ message: 'The request cannot be read.' }));
    },
  });
  guardRequests(server, listen, content);
  answerFailures(server, log);
  content.routes(server, limits);
  await server.ready();
  return server;
}

/** Anything unforeseen is a 500 that says nothing of the inside. */
function answerFailures(server: FastifyInstance, log: JobLog): void {
  server.setNotFoundHandler((_request, reply) =>
    reply.code(404).send({ message: 'There is no such page; / lists all pages.' }),
  );
  server.setErrorHandler((error: FastifyError, request, reply) => {
    const status = error.statusCode ?? 500;
    if (status < 500) return reply.code(status).send({ message: 'The request cannot be read.' });
    log.error({ err: error, page: request.routeOptions.url }, 'the server failed to answer');
    return reply.code(500).send({ message: 'The server failed to answer; the log says why.' });
  });
}

async function listenOn(server: Server, { host, port }: ListenAddress): Promise<string> {
  const listenAt = async (at: string): Promise<void> => {
    server.listen(port, at);
    await once(server, 'listening');
  };
  try {
    await listenAt(host ?? '::').catch(async (error: unknown) => {
      const code = error instanceof Error && 'code' in error ? error.code : null;
      const hasNoIpv6 = code === 'EAFNOSUPPORT' || code === 'EADDRNOTAVAIL';
      if (host !== null || !hasNoIpv6) throw error;
      await listenAt('0.0.0.0');
    });
    const address = server.address();
    const bound = typeof address === 'object' && address !== null ? address.port : port;
    const name = host ?? 'localhost';
    return `http://${name.includes(':') ? `[${name}]` : name}:${bound}`;
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new SyncError(
      `expected to be able to listen on ${host ?? 'every interface'}, port ${port}: ${reason}. Is another program using it? Choose another with --http.`,
      { code: 'USAGE', recovery: 'stop', context: { host, port }, cause: error },
    );
  }
}

type HttpLimits = typeof defaultHttpLimits;

/** Limits for clients. Times in milliseconds. */
const defaultHttpLimits = {
  headersTimeoutMs: 5000,
  requestTimeoutMs: 10_000,
  /** How often the two timeouts are checked. */
  timeoutCheckMs: 2000,
  maxConnections: 256,
  /** The same from one address. */
  maxConnectionsPerClient: 192,
  maxRequestsPerSocket: 1000,
  /** Request bodies are not read. */
  maxBodyBytes: 1024,
  /** Time after which `/readyz` answers "unknown"; the promise is two seconds. */
  readyWithinMs: 1500,
  /** Wrong tokens within `wrongTriesMs`, of all clients together, before they must wait. */
  wrongTries: 10,
  wrongTriesMs: 10_000,
};

const loopbackNames = ['127.0.0.1', 'localhost', '[::1]'];

/** No page of another origin may frame, read or redirect to this server; no CORS header is ever sent. */
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
 * Checks every request first, including unknown paths. Allows only GET and HEAD, except for forms (405), and only names
 * of this server (421), so that DNS rebinding cannot lead a browser page here. If other machines can reach the server
 * and no names are set, the names are unknown and all are allowed.
 */
function guardRequests(server: FastifyInstance, listen: ListenAddress, content: ServedContent): void {
  const { formRoutes = new Set<string>() } = content;
  const hosts = content.hosts.map((host) => host.toLowerCase());
  const known = isLoopback(listen) || hosts.length > 0 ? new Set([...loopbackNames, ...hosts]) : null;
  server.addHook('onRequest', async (request, reply) => {
    reply.headers(headers);
    reply.header('cache-control', 'no-store');
    const isForm = request.method === 'POST' && formRoutes.has(request.routeOptions.url ?? '');
    if (request.method !== 'GET' && request.method !== 'HEAD' && !isForm) {
      reply.code(405).header('allow', 'GET, HEAD');
      return await reply.send({ message: 'This server is read-only: use GET or HEAD.' });
    }
    const host = (request.headers.host ?? '').toLowerCase().replace(/:\d+$/, '');
    if (known !== null && !known.has(host)) {
      const message = 'This server does not answer for the host that the request names.';
      return await reply.code(421).send({ message });
    }
    return undefined;
  });
}

/** Only this machine can reach it. */
export function isLoopback({ host }: ListenAddress): boolean {
  return host !== null && loopbackNames.includes(host.includes(':') ? `[${host}]` : host);
}
