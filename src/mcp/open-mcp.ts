import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { Readable, type Writable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { openSearches, type Searches } from '../app/stored-search.ts';
import type { Clock } from '../core/clock.ts';
import { usage } from '../core/errors.ts';
import type { JobLog } from '../jobs/worker-context.ts';
import type { ListenAddress } from '../monitor/listen-address.ts';
import { isLoopback, openHttpServer } from '../monitor/open-http-server.ts';
import { isFromHere, openTokenCheck, tokensOf } from '../monitor/page-access.ts';
import type { HttpSettings, LocalSettings } from '../settings/settings.ts';
import { openMcpMetrics } from '../telemetry/metrics.ts';
import { loadPackage, mcpServer, runCalls, type ToolWorld } from './tools.ts';
import { connectorsOf, shownEntities } from './shown-entities.ts';
import { openSql } from './sql/open-sql.ts';

/** A search is ended after so long. More may wait than there are calls at a time. */
const searchLimits = { deadlineMs: 20_000, processes: 2, maxWaiting: 16 };

interface McpOptions {
  /** The config, which is read once. */
  readonly settings: LocalSettings;
  readonly clock: Clock;
  readonly log: JobLog;
  /** Agents may query by SQL. */
  readonly allowsSql: boolean;
  /** The command that starts this program. */
  readonly program: string;
}

function worldOf({ settings, clock, program, allowsSql }: McpOptions, searches: Searches): ToolWorld {
  const shown = shownEntities(connectorsOf(settings));
  const sql = allowsSql ? openSql(settings.mcp.sqlRole, shown) : null;
  return { shown, searches, sql, clock, program };
}

// --- Standard input and output

/** Longest message. A longer one ends the connection. */
const mostMessageBytes = 1024 * 1024;

interface StdioMcpOptions extends McpOptions {
  readonly input: AsyncIterable<string | Uint8Array>;
  /** Gets the protocol, and nothing else. */
  readonly output: Writable;
  readonly signal: AbortSignal;
}

/**
 * Serves what a config shows to the agent at the other end of input and output, until it closes one of them or the
 * signal is aborted. While it does not read its answers, its requests are not read either, so that memory stays
 * bounded. Throws PACKAGE_MISSING.
 */
export async function mcpOverStdio(options: StdioMcpOptions): Promise<void> {
  const { input, output, log, clock, signal } = options;
  const library = await loadPackage();
  await using searches = openSearches({ clock, ...searchLimits });
  const runCall = runCalls({ clock, log, ready: () => taken(output) });
  const gated = Readable.from(asLongAsRead(input, output), { objectMode: false });
  const onAbort = (): void => void gated.destroy();
  signal.addEventListener('abort', onAbort, { once: true });
  output.once('error', onAbort);
  const ended = new Promise((resolve) => gated.once('close', resolve));
  const served = library.serveStdio(() => mcpServer(library, worldOf(options, searches), runCall), {
    transport: new library.StdioServerTransport(gated, output, { maxBufferSize: mostMessageBytes }),
    onerror: (error) => log.warn({ err: error }, 'a message could not be served'),
  });
  await ended;
  signal.removeEventListener('abort', onAbort);
  await served.close();
}

/** Resolves when the reader of an output takes more. */
export async function taken(output: Writable): Promise<void> {
  if (output.writableNeedDrain) await once(output, 'drain');
}

async function* asLongAsRead(input: AsyncIterable<string | Uint8Array>, output: Writable) {
  for await (const chunk of input) {
    yield chunk;
    await taken(output);
  }
}

// --- HTTP

const limits = {
  maxConnections: 256,
  /** Longest message. */
  maxBodyBytes: 256 * 1024,
  /** To send it. */
  requestTimeoutMs: 30_000,
};
/** Streams of clients that wait for notifications; the server never sends one. */
const mostSubscriptions = 16;

interface HttpMcpOptions extends McpOptions {
  readonly http: HttpSettings;
  readonly listen: ListenAddress;
}

/**
 * Serves many agents at `/mcp`, each call with a token, and metrics at `/metrics`; the caller disposes it. Throws
 * PACKAGE_MISSING, and USAGE for an address that other machines reach, and where the config has no token.
 */
export async function mcpOverHttp(options: HttpMcpOptions) {
  const { http, listen, log, clock } = options;
  const library = await loadPackage();
  if (!isLoopback(listen)) {
    throw usage(
      '--http: expected an address of this machine alone, such as 9402 or 127.0.0.1:9402. For other machines put a proxy with TLS in front of it, and its name in http.hosts.',
    );
  }
  const tokens = tokensOf(http);
  if (tokens.length === 0) {
    throw usage('mcp --http needs a token that clients send: set http.token or http.tokens in the config.');
  }
  const metrics = openMcpMetrics();
  const searches = openSearches({ clock, ...searchLimits });
  const world = worldOf(options, searches);
  const runCall = runCalls({ clock, log, onCall: metrics.onCall });
  const handler = library.createMcpHandler(() => mcpServer(library, world, runCall), {
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
          const { contentType, text } = await metrics.text();
          return await reply.header('content-type', contentType).send(text);
        });
      },
    },
  ).catch(async (error: unknown) => {
    await searches[Symbol.asyncDispose]();
    throw error;
  });
  return {
    url: `${server.url}/mcp`,
    [Symbol.asyncDispose]: async () => {
      await handler.close();
      await server[Symbol.asyncDispose]();
      await searches[Symbol.asyncDispose]();
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
      // Anything else is judged by the protocol's handler.
      const { id, method, params } = Object(body) as Message;
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

/** Headers that the protocol reads; the token is not passed on. */
function headersOf({ headers }: FastifyRequest): Headers {
  const passed = Object.entries(headers).flatMap(([name, value]) =>
    /^(?:accept|content-type|last-event-id|mcp-.*)$/.test(name) && typeof value === 'string'
      ? [[name, value] as [string, string]]
      : [],
  );
  return new Headers(passed);
}
