import type { FastifyInstance } from 'fastify';
import { knownPrincipalOf } from './guard-requests.ts';

/**
 * What a log may hold of a request: no query, no header, no body, and of the path only where a connector's id was
 * expected.
 */
export interface RequestEntry {
  /** UUID; the client finds it in the header `X-Request-Id`. */
  readonly requestId: string;
  readonly method: string;
  /** As it is declared: `/api/v1/integrations/connectors/:id/execute`; null where no endpoint matched. */
  readonly route: string | null;
  /** Of the route; null for one without. */
  readonly connectorId: string | null;
  readonly status: number;
  readonly durationMs: number;
  /** IP address. */
  readonly client: string;
  /** Null: no token, or an unknown one. */
  readonly clientId: string | null;
  /** The start of the token's hash. */
  readonly token: string | null;
}

export type OnRequest = (entry: RequestEntry) => void;

const maxIdChars = 128;

export function logRequests(server: FastifyInstance, onRequest: OnRequest = () => undefined): void {
  server.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id);
    done();
  });
  server.addHook('onResponse', (request, reply, done) => {
    const { url } = request.routeOptions;
    const principal = knownPrincipalOf(request);
    const { id } = (request.params ?? {}) as { readonly id?: unknown };
    onRequest({
      requestId: request.id,
      method: request.method,
      route: url ?? null,
      connectorId:
        url?.includes('/connectors/:id') === true && typeof id === 'string' ? id.slice(0, maxIdChars) : null,
      status: reply.statusCode,
      durationMs: Math.round(reply.elapsedTime),
      client: request.socket.remoteAddress ?? '',
      clientId: principal?.clientId ?? null,
      token: principal?.tokenName ?? null,
    });
    done();
  });
}
