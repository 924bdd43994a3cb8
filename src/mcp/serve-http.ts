import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import type { McpServer } from '@modelcontextprotocol/server';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Clock } from '../core/clock.ts';
import { usage } from '../core/usage-error.ts';
import type { JobLog } from '../jobs/worker-context.ts';
import { openTokenCheck, tokensOf } from '../monitor/check-token.ts';
import type { ListenAddress } from '../monitor/listen-address.ts';
import { isLoopback, openHttpServer } from '../monitor/open-http-server.ts';
import { isFromHere } from '../monitor/page-access.ts';
import type { HttpSettings } from '../settings/settings.ts';
import type { loadPackage } from './load-package.ts';

const limits = {
  maxConnections: 256,
  /** Of one message. */
  maxBodyBytes: 256 * 1024,
  /** To send it. */
  requestTimeoutMs: 30_000,
};
/** Streams of clients that wait for news, of which there are none. */
const mostSubscriptions = 16;

interface HttpOptions {
  readonly listen: ListenAddress;
  readonly http: HttpSettings;
  readonly open: () => McpServer;
  readonly metrics: () => Promise<{ readonly contentType: string; readonly text: string }>;
  readonly log: JobLog;
  readonly clock: Clock;
}

/**
 * Serves clients at `/mcp`, each call with a token, and metrics at `/metrics`. Throws USAGE for an address that other
 * machines reach, and where the config has no token.
 */
export async function serveHttp(
  { createMcpHandler }: Awaited<ReturnType<typeof loadPackage>>,
  { listen, http, open, metrics, log, clock }: HttpOptions,
) {
  if (!isLoopback(listen)) {
    throw usage(
      '--http: expected an address of this machine alone, such as 9402 or 127.0.0.1:9402. For other machines put a proxy with TLS in front of it, and its name in http.hosts.',
    );
  }
  const tokens = tokensOf(http);
  if (tokens.length === 0) {
    throw usage('mcp --http needs a token that clients send: set http.token or http.tokens in the config.');
  }
  const handler = createMcpHandler(open, {
    onerror: (error) => log.warn({ err: error }, 'a message could not be served'),
    maxSubscriptions: mostSubscriptions,
    maxRequestBodySize: limits.maxBodyBytes,
  });
  const sessions = openSessions();
  const server = await openHttpServer(
    { listen, log, limits },
    {
      hosts: http.hosts,
      formRoutes: new Set(['/mcp']),
      routes: (routed, { wrongTries, wrongTriesMs }) => {
        const { judge } = openTokenCheck({ tokens, clock, wrongTries, wrongTriesMs });
        routed.route({
          method: ['GET', 'POST'],
          url: '/mcp',
          handler: async (request, reply) => {
            if (!isFromHere(request)) return await reply.code(403).send({ message: notFromPages });
            const verdict = judge(request.headers.authorization);
            if (verdict === 'too-many') {
              reply.header('retry-after', String(Math.ceil(wrongTriesMs / 1000)));
              return await reply.code(429).send({ message: 'Too many wrong tokens. Wait, then try again.' });
            }
            if (typeof verdict === 'string') {
              reply.header('www-authenticate', 'Bearer');
              return await reply.code(401).send({ message: needsToken });
            }
            return await passOn(request, reply, sessions, handler.fetch);
          },
        });
        routed.get('/metrics', async (_request, reply) => {
          const { contentType, text } = await metrics();
          return await reply.header('content-type', contentType).send(text);
        });
      },
    },
  );
  return {
    url: `${server.url}/mcp`,
    [Symbol.asyncDispose]: async () => {
      await handler.close();
      await server[Symbol.asyncDispose]();
    },
  };
}

const notFromPages = 'Pages of other sites may not ask.';
const needsToken =
  'Expected the header "Authorization: Bearer <token>", with http.token or one of http.tokens.';

/**
 * Clients of the protocol of 2025 cancel a call by another request, which knows it by their session. The session is a
 * name that they send along, and nothing else: no request needs one.
 */
function openSessions() {
  const running = new Map<string, AbortController>();
  return {
    /** Notes a call while it runs; ends another one where the request cancels that. */
    begin: ({ headers, body }: FastifyRequest, reply: FastifyReply, call: AbortController): void => {
      const { id, method, params } = messageOf(body);
      if (method === 'initialize') reply.header('mcp-session-id', randomUUID());
      const session = headers['mcp-session-id'];
      if (typeof session !== 'string') return;
      const nameOf = (request: unknown): string => JSON.stringify([session, request]);
      if (method === 'notifications/cancelled') running.get(nameOf(params?.requestId))?.abort();
      if (method !== 'tools/call') return;
      running.set(nameOf(id), call);
      reply.raw.once('close', () => running.delete(nameOf(id)));
    },
  };
}

interface Message {
  readonly id?: unknown;
  readonly method?: unknown;
  readonly params?: { readonly requestId?: unknown } | null;
}

/** What is no message is judged by the protocol's handler. */
function messageOf(body: unknown): Message {
  return typeof body === 'object' && body !== null ? body : {};
}

/** To the protocol's handler, which takes and gives what browsers know as requests and responses. */
async function passOn(
  request: FastifyRequest,
  reply: FastifyReply,
  sessions: ReturnType<typeof openSessions>,
  fetch: (request: Request, more: { readonly parsedBody?: unknown }) => Promise<Response>,
): Promise<FastifyReply> {
  const gone = new AbortController();
  reply.raw.once('close', () => gone.abort());
  sessions.begin(request, reply, gone);
  const { method, body } = request;
  const asked = new Request('http://localhost/mcp', {
    method,
    headers: headersOf(request),
    signal: gone.signal,
    ...(method === 'POST' ? { body: JSON.stringify(body) } : {}),
  });
  const response = await fetch(asked, method === 'POST' ? { parsedBody: body } : {});
  reply.code(response.status);
  for (const [name, value] of response.headers) reply.header(name, value);
  return await reply.send(response.body === null ? '' : Readable.fromWeb(response.body));
}

/** What the protocol reads; the token is not passed on. */
function headersOf({ headers }: FastifyRequest): Headers {
  const passed = Object.entries(headers).flatMap(([name, value]) =>
    /^(?:accept|content-type|last-event-id|mcp-.*)$/.test(name) && typeof value === 'string'
      ? [[name, value] as [string, string]]
      : [],
  );
  return new Headers(passed);
}
