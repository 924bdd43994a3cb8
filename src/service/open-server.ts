import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import fastify, { type FastifyInstance } from 'fastify';
import { answerText } from './answer-text.ts';
import { answerErrors, fromFramework, type OnFailure } from './answer-errors.ts';
import type { ApiError } from './api-error.ts';
import type { ServerLimits } from './server-limits.ts';

/** An HTTP server with the limits, and with the documented body for every failure, also of what is no HTTP request. */
export function openServer(limits: ServerLimits, onFailure?: OnFailure): FastifyInstance {
  const server = fastify({
    bodyLimit: limits.maxBodyBytes,
    requestTimeout: limits.requestTimeoutMs,
    connectionTimeout: limits.idleTimeoutMs,
    maxRequestsPerSocket: limits.maxRequestsPerSocket,
    // A long id is one that is not there: no route matches with an expression that could take long over it.
    routerOptions: { maxParamLength: limits.maxHeaderBytes },
    forceCloseConnections: true,
    http: {
      headersTimeout: Math.min(limits.headersTimeoutMs, limits.requestTimeoutMs),
      connectionsCheckingInterval: limits.timeoutCheckMs,
      maxHeaderSize: limits.maxHeaderBytes,
    },
    frameworkErrors: (error, _request, reply) => {
      const answer = fromFramework(error);
      reply.hijack();
      reply.raw.writeHead(answer.status, { 'content-type': 'application/json; charset=utf-8' });
      reply.raw.end(JSON.stringify(answer.body));
    },
    clientErrorHandler: (error, socket) => {
      answerSocket(socket, error.code);
    },
  });
  server.server.maxConnections = limits.maxConnections;
  server.setReplySerializer(answerText);
  acceptEmptyBodies(server);
  answerErrors(server, onFailure);
  return server;
}

/** Clients that name a content type on every request do so on a DELETE too, which has no body. */
function acceptEmptyBodies(server: FastifyInstance): void {
  const parseJson = server.getDefaultJsonParser('error', 'error');
  server.addContentTypeParser('application/json', { parseAs: 'string' }, (request, body, done) => {
    if (body === '' && request.method === 'DELETE') done(null, undefined);
    else void parseJson(request, String(body), done);
  });
}

/** Nothing of the request is known, so the answer is written by hand; then the connection ends. */
function answerSocket(socket: Socket, code: string | undefined): void {
  if (code !== 'ECONNRESET' && socket.writable) {
    const { status, body } = unreadable(code);
    const text = JSON.stringify(body);
    socket.write(
      `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\nContent-Type: application/json; charset=utf-8\r\n` +
        `Content-Length: ${Buffer.byteLength(text)}\r\nConnection: close\r\n\r\n${text}`,
    );
  }
  socket.destroy();
}

function unreadable(code: string | undefined): ApiError {
  switch (code ?? '') {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return fromFramework({ statusCode: 408 });
    case 'HPE_HEADER_OVERFLOW':
      return fromFramework({ statusCode: 431 });
    default:
      return fromFramework({ statusCode: 400 });
  }
}
