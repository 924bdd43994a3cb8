import { randomUUID } from 'node:crypto';
import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import fastify, { type FastifyInstance, type FastifyRequest, type FastifyServerOptions } from 'fastify';
import type { Clock } from '../core/clock.ts';
import { limitConnections } from '../http/connection-limit.ts';
import { answerErrors, answerText, ApiError, fromFramework, type OnFailure } from './api-error.ts';
import type { ServerLimits } from './server-limits.ts';
import { createRateLimit, type Principal, type ServiceState } from './state/open-service-state.ts';

/** PEM texts. */
export interface TlsFiles {
  /** The certificate, with those between it and the authority's. */
  readonly cert: string;
  readonly key: string;
}

export interface ServerOptions {
  /** Serve HTTPS. Default null: HTTP. */
  readonly tls?: TlsFiles | null;
  readonly onFailure?: OnFailure;
}

/**
 * An HTTP server, or with `tls` an HTTPS server, with the limits, and with the documented body for every failure, also
 * of what is no HTTP request. Throws Node's error for a certificate or a key that it cannot read.
 */
export function openServer(limits: ServerLimits, { tls = null, onFailure }: ServerOptions = {}) {
  const http = {
    headersTimeout: Math.min(limits.headersTimeoutMs, limits.requestTimeoutMs),
    connectionsCheckingInterval: limits.timeoutCheckMs,
    maxHeaderSize: limits.maxHeaderBytes,
  };
  const options = {
    bodyLimit: limits.maxBodyBytes,
    requestTimeout: limits.requestTimeoutMs,
    connectionTimeout: limits.idleTimeoutMs,
    maxRequestsPerSocket: limits.maxRequestsPerSocket,
    // A long id is one that is not there: no route matches with an expression that could take long over it.
    routerOptions: { maxParamLength: limits.maxHeaderBytes },
    forceCloseConnections: true,
    // Made by the service: a client must not choose the id of its request in the log.
    genReqId: () => randomUUID(),
    frameworkErrors: (error, _request, reply) => {
      const answer = fromFramework(error);
      reply.hijack();
      reply.raw.writeHead(answer.status, { 'content-type': 'application/json; charset=utf-8' });
      reply.raw.end(JSON.stringify(answer.body));
    },
    clientErrorHandler: (error, socket) => {
      answerSocket(socket, error.code);
    },
  } satisfies FastifyServerOptions;
  const server =
    tls === null
      ? fastify({ ...options, http })
      : fastify({ ...options, https: { ...http, ...tls, handshakeTimeout: limits.headersTimeoutMs } });
  limitConnections(server.server, limits);
  server.setReplySerializer(answerText);
  readBodies(server);
  answerErrors(server, onFailure);
  return server;
}

/** Deeper than any valid request; a recursive reader of such a body would run out of stack. */
const maxBodyDepth = 128;

/**
 * Clients that name a content type on every request do so where they send no body too. Whether there must be one, its
 * shape says.
 */
function readBodies(server: FastifyInstance): void {
  const parseJson = server.getDefaultJsonParser('error', 'error');
  // A form of a page in a browser could send it.
  server.removeContentTypeParser('text/plain');
  server.addContentTypeParser('application/json', { parseAs: 'string' }, (request, given, done) => {
    const body = String(given);
    if (body === '') done(null, undefined);
    else if (isDeeper(body, maxBodyDepth)) {
      const message = `The request body is nested deeper than ${maxBodyDepth} levels.`;
      done(new ApiError(400, message, { field: 'body', errorCode: 'too_deep' }));
    } else void parseJson(request, body, done);
  });
}

/**
 * Whether brackets are nested deeper in a JSON text; of another text the result means nothing. Each character is read
 * once.
 */
function isDeeper(json: string, max: number): boolean {
  let depth = 0;
  let isText = false;
  for (let place = 0; place < json.length && depth <= max; place += 1) {
    const sign = json[place];
    if (sign === '"') isText = !isText;
    else if (isText) place += sign === '\\' ? 1 : 0;
    else if (sign === '[' || sign === '{') depth += 1;
    else if (sign === ']' || sign === '}') depth -= 1;
  }
  return depth > max;
}

/** Nothing of the request is known, so the answer is written by hand; then the connection ends. */
function answerSocket(socket: Socket, code: string | undefined): void {
  if (code !== 'ECONNRESET' && socket.writable) {
    const { status, body } = fromFramework({ statusCode: statusByCode[code ?? ''] ?? 400 });
    const text = JSON.stringify(body);
    socket.write(
      `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\nContent-Type: application/json; charset=utf-8\r\n` +
        `Content-Length: ${Buffer.byteLength(text)}\r\nConnection: close\r\n\r\n${text}`,
    );
  }
  socket.destroy();
}

const statusByCode: Readonly<Record<string, number>> = {
  ERR_HTTP_REQUEST_TIMEOUT: 408,
  HPE_HEADER_OVERFLOW: 431,
};

interface GuardOptions {
  readonly state: Pick<ServiceState, 'tokens'>;
  /** Host names (without port) that a request may be addressed to, lower case. */
  readonly allowedHosts: ReadonlySet<string>;
  /** Paths that need no token, to the letter. */
  readonly publicPaths: ReadonlySet<string>;
  readonly limits: Pick<ServerLimits, 'requestsPerSecond'>;
  readonly clock: Clock;
}

const principals = new WeakMap<FastifyRequest, Principal>();

/**
 * Checks every request before its body is read, unknown paths included: Host (400 for several, 421), bearer (401),
 * organization (403), rate (429). A page in a browser that was led here by DNS tricks fails the first; without CORS
 * headers it cannot read an answer anyway. Requests without a known token share one rate per address.
 */
export function guardRequests(server: FastifyInstance, options: GuardOptions): void {
  const checkRate = createRateLimit(options.limits.requestsPerSecond, options.clock);
  const { state, publicPaths } = options;
  const policy = `"token";q=${options.limits.requestsPerSecond};w=1`;
  server.addHook('onRequest', (request, reply, done) => {
    // Clients that know it keep to it, and ask no more slowly than that.
    reply.header('ratelimit-policy', policy);
    checkHost(request, options.allowedHosts);
    const isPublic = publicPaths.has(request.url.split('?', 1)[0] ?? '');
    const given = /^Bearer +([\w.~+/=-]+) *$/i.exec(request.headers.authorization ?? '')?.[1] ?? null;
    const token = isPublic ? null : given;
    const principal = token === null ? null : state.tokens.find(token);
    if (principal === null) {
      checkRate(`address ${request.socket.remoteAddress ?? ''}`);
      if (!isPublic) throw unauthorized(whyUnauthorized(token));
    } else {
      checkOrganization(request, principal);
      checkRate(`token ${principal.tokenName}`);
      principals.set(request, principal);
    }
    done();
  });
}

/** Whose request it is. Throws `ApiError` 401 for one that came without a token, to a public path. */
export function principalOf(request: FastifyRequest): Principal {
  const principal = principals.get(request);
  if (principal === undefined) throw unauthorized(whyUnauthorized(null));
  return principal;
}

/** Null: it came without a known token. */
export function knownPrincipalOf(request: FastifyRequest): Principal | null {
  return principals.get(request) ?? null;
}

function checkHost(request: FastifyRequest, allowedHosts: ReadonlySet<string>): void {
  // Node keeps the first of several; a proxy in front may have judged another one (RFC 9112, section 3.2).
  const named = request.raw.rawHeaders.filter((one, at) => at % 2 === 0 && one.toLowerCase() === 'host');
  if (named.length > 1) {
    throw new ApiError(400, `Expected one Host header, got ${named.length}.`, { errorCode: 'repeated_host' });
  }
  const host = (request.headers.host ?? '')
    .toLowerCase()
    .replace(/:(\d{1,5})$/, (whole, port) => (Number(port) <= 65_535 ? '' : whole));
  if (!allowedHosts.has(host)) {
    throw new ApiError(421, 'This server does not answer for the host that the request names.', {
      errorCode: 'wrong_host',
    });
  }
}

function checkOrganization(request: FastifyRequest, { organizationId }: Principal): void {
  const header = request.headers['x-organization-id'];
  if (header !== undefined && String(header).toLowerCase() !== organizationId) {
    throw new ApiError(
      403,
      'The access token does not belong to the organization that X-Organization-Id names.',
      { errorCode: 'wrong_organization' },
    );
  }
}

function whyUnauthorized(token: string | null): string {
  return token === null
    ? 'Expected the header Authorization: Bearer <token>; ask for a token first.'
    : 'The access token is unknown or has expired.';
}

export function unauthorized(message: string): ApiError {
  return new ApiError(401, message, {
    errorCode: 'unauthorized',
    headers: { 'www-authenticate': 'Bearer' },
  });
}
