import { randomBytes } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import fastify from 'fastify';
import { systemClock, type Clock } from '../core/clock.ts';
import type { Definition } from '../definitions/definition.ts';
import { createAccessTokens } from './access-tokens.ts';
import { answerErrors, fromFramework } from './answer-errors.ts';
import { guardRequests } from './guard-requests.ts';
import { createPageTokens } from './execute/page-tokens.ts';
import { openLocalConnectors, type ServedAccount } from './local-connectors.ts';
import { connectorRoutes } from './routes/connector-routes.ts';
import { definitionRoutes } from './routes/definition-routes.ts';
import { executeRoute } from './routes/execute-route.ts';
import { tokenPath, tokenRoute } from './routes/token-route.ts';
import { stableUuid } from './sample/dice.ts';
import { defaultServerLimits, type ServerLimits } from './server-limits.ts';

export interface ServiceOptions {
  /** Address to bind, default 127.0.0.1. */
  readonly host?: string;
  /** 0: any free port. */
  readonly port: number;
  readonly clientId: string;
  readonly clientSecret: string;
  /** By name: the catalog that the service offers, and what parameters are checked against. */
  readonly definitions: ReadonlyMap<string, Definition>;
  readonly accounts: readonly ServedAccount[];
  /** Default 900: public clients keep a token for 14 minutes whatever `expires_in` says. */
  readonly tokenTtlSeconds?: number;
  /** Added to every execute call, as a distant service would. */
  readonly latencyMs?: number;
  /** Host names to answer for besides the loopback names and `host`. */
  readonly allowedHosts?: readonly string[];
  readonly limits?: Partial<ServerLimits>;
  readonly clock?: Clock;
}

export interface Service extends AsyncDisposable {
  /** `http://<host>:<port>`: what a client takes as its base URL. */
  readonly url: string;
  /** The ids of the connectors that are served. */
  readonly connectors: readonly string[];
  readonly organizationId: string;
  /** HTTP requests that reached the server since its start, refused ones included. */
  requestCount(): number;
  /** Cuts open connections and frees the port; may be called again. */
  close(): Promise<void>;
}

/**
 * Serves the Connector Execution API with generated sample accounts. Resolves when the port answers.
 * Throws `SyncError` USAGE for an account whose definition is unknown or has no sample data, and the system's error
 * when the port is taken.
 */
export async function startService(options: ServiceOptions): Promise<Service> {
  const host = options.host ?? '127.0.0.1';
  const clock = options.clock ?? systemClock;
  const limits = { ...defaultServerLimits, ...options.limits };
  const ttlSeconds = options.tokenTtlSeconds ?? 900;
  const organizationId = stableUuid('organization', options.clientId);
  const connectors = openLocalConnectors(options.definitions, options.accounts);
  const tokens = createAccessTokens({
    clientId: options.clientId,
    clientSecret: options.clientSecret,
    ttlSeconds,
    maxTokens: limits.maxTokens,
    clock,
  });

  let requests = 0;
  const closing = new AbortController();
  // Every slow answer that is under way listens: many of them are no leak.
  setMaxListeners(0, closing.signal);
  const server = fastify({
    bodyLimit: limits.maxBodyBytes,
    requestTimeout: limits.requestTimeoutMs,
    maxRequestsPerSocket: limits.maxRequestsPerSocket,
    forceCloseConnections: true,
    http: {
      headersTimeout: Math.min(limits.headersTimeoutMs, limits.requestTimeoutMs),
      connectionsCheckingInterval: limits.timeoutCheckMs,
    },
    frameworkErrors: (error, _request, reply) => {
      const answer = fromFramework(error);
      reply.hijack();
      reply.raw.writeHead(answer.status, { 'content-type': 'application/json; charset=utf-8' });
      reply.raw.end(JSON.stringify(answer.body));
    },
  });
  server.server.maxConnections = limits.maxConnections;
  server.addHook('onRequest', (_request, _reply, done) => {
    requests += 1;
    done();
  });
  guardRequests(server, {
    tokens,
    organizationId,
    allowedHosts: new Set([
      ...loopbackNames,
      hostName(host),
      ...(options.allowedHosts ?? []).map((name) => name.toLowerCase()),
    ]),
    tokenPath,
  });
  answerErrors(server);
  tokenRoute(server, { tokens, ttlSeconds, organizationId });
  definitionRoutes(server, [...options.definitions.values()]);
  connectorRoutes(server, connectors, organizationId);
  executeRoute(server, {
    connectors,
    pageTokens: createPageTokens(randomBytes(32)),
    latencyMs: options.latencyMs ?? 0,
    clock,
    closing: closing.signal,
  });

  const url = await server.listen({ host, port: options.port });
  let closed: Promise<void> | null = null;
  const close = (): Promise<void> => {
    // Connections first: an answer that latency holds back is cut off, not turned into an error.
    closed ??= server.close().finally(() => closing.abort(new Error('The local service is closing.')));
    return closed;
  };
  return {
    url,
    connectors: connectors.map((connector) => connector.id),
    organizationId,
    requestCount: () => requests,
    close,
    [Symbol.asyncDispose]: close,
  };
}

const loopbackNames = ['127.0.0.1', 'localhost', '[::1]'];

/** As it stands in a Host header: IPv6 addresses in brackets. */
function hostName(host: string): string {
  return host.includes(':') ? `[${host}]` : host.toLowerCase();
}
