import { randomUUID } from 'node:crypto';
import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify';
import { limitConnections } from '../http/connection-limit.ts';
import { answerErrors, fromFramework, type OnFailure } from './answer-errors.ts';
import { answerText } from './answer-errors.ts';
import { ApiError } from './api-error.ts';
import type { ServerLimits } from './server-limits.ts';

/** PEM texts. */
export interface TlsFiles {
  /** The certificate, with those between it and the authority's. */
  readonly cert: string;
  readonly key: string;
}

export interface ServerOptions {
  /** Serve HTTPS. Default null: HTTP. */
  readonly tls?: TlsFiles | null;
  /** Addresses and networks (`10.0.0.0/8`) of proxies whose X-Forwarded-Proto is believed. Default: of none. */
  readonly trustedProxies?: readonly string[];
  readonly onFailure?: OnFailure;
}

/**
 * An HTTP server, or with `tls` an HTTPS server, with the limits, and with the documented body for every failure, also
 * of what is no HTTP request. What X-Forwarded-Proto says counts in requests that come from one of `trustedProxies`.
 * Throws Node's error for a certificate or a key that it cannot read.
 */
export function openServer(
  limits: ServerLimits,
  { tls = null, trustedProxies = [], onFailure }: ServerOptions = {},
): FastifyInstance {
  const http = {
    headersTimeout: Math.min(limits.headersTimeoutMs, limits.requestTimeoutMs),
    connectionsCheckingInterval: limits.timeoutCheckMs,
    maxHeaderSize: limits.maxHeaderBytes,
  };
  const options = {
    trustProxy: trustedProxies.length > 0 && [...trustedProxies],
    bodyLimit: limits.maxBodyBytes,
    requestTimeout: limits.requestTimeoutMs,
    connectionTimeout: limits.idleTimeoutMs,
    maxRequestsPerSocket: limits.maxRequestsPerSocket,
    // A long id is one that is not there: no route matches with an expression that could take long over it.
    routerOptions: { maxParamLength: limits.maxHeaderBytes },
    forceCloseConnections: true,
    // Ours: a client must not choose what the log calls its request.
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

/** Deeper than anything that can be asked for; what looks into such a body by recursion would run out of stack. */
const maxBodyDepth = 128;

/**
 * Clients that name a content type on every request do so where they send no body too. Whether there must be one, its
 * shape says.
 */
function readBodies(server: FastifyInstance): void {
  const parseJson = server.getDefaultJsonParser('error', 'error');
  server.addContentTypeParser('application/json', { parseAs: 'string' }, (request, given, done) => {
    const body = String(given);
    if (body === '') done(null, undefined);
    else if (isDeeper(body, maxBodyDepth)) done(tooDeep());
    else void parseJson(request, body, done);
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

function tooDeep(): ApiError {
  return new ApiError(400, `The request body is nested deeper than ${maxBodyDepth} levels.`, {
    field: 'body',
    errorCode: 'too_deep',
  });
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
