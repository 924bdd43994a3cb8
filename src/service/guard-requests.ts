import type { FastifyInstance, FastifyRequest } from 'fastify';
import { ApiError } from './api-error.ts';
import type { AccessTokens } from './access-tokens.ts';

export interface GuardOptions {
  readonly tokens: AccessTokens;
  readonly organizationId: string;
  /** Host names (without port) that a request may be addressed to, lower case. */
  readonly allowedHosts: ReadonlySet<string>;
  /** The one path that needs no token. */
  readonly tokenPath: string;
}

/**
 * Looks at every request before its body is read, unknown paths included: Host (421), media type (415), bearer (401),
 * organization (403). A page in a browser that was led here by DNS tricks fails the first, a form the second; without
 * CORS headers it cannot read an answer anyway.
 */
export function guardRequests(server: FastifyInstance, options: GuardOptions): void {
  server.addHook('onRequest', (request, _reply, done) => {
    checkHost(request, options.allowedHosts);
    checkMediaType(request);
    if (pathOf(request) !== options.tokenPath) {
      checkBearer(request, options.tokens);
      checkOrganization(request, options.organizationId);
    }
    done();
  });
}

function pathOf(request: FastifyRequest): string {
  return request.url.split('?', 1)[0] ?? '';
}

function checkHost(request: FastifyRequest, allowedHosts: ReadonlySet<string>): void {
  const host = (request.headers.host ?? '').toLowerCase().replace(/:\d+$/, '');
  if (!allowedHosts.has(host)) {
    throw new ApiError(421, 'This server does not answer for the host that the request names.');
  }
}

function checkMediaType(request: FastifyRequest): void {
  if (request.method === 'GET' || request.method === 'HEAD') return;
  const mediaType = (request.headers['content-type'] ?? '').split(';', 1)[0]?.trim().toLowerCase();
  if (mediaType !== 'application/json') {
    throw new ApiError(415, 'Expected a body with Content-Type: application/json.');
  }
}

function checkBearer(request: FastifyRequest, tokens: AccessTokens): void {
  const bearer = /^Bearer +([\w.~+/=-]+) *$/i.exec(request.headers.authorization ?? '')?.[1];
  if (bearer === undefined) {
    throw unauthorized('Expected the header Authorization: Bearer <token>; ask for a token first.');
  }
  if (!tokens.isValid(bearer)) throw unauthorized('The access token is unknown or has expired.');
}

function checkOrganization(request: FastifyRequest, organizationId: string): void {
  const header = request.headers['x-organization-id'];
  if (header !== undefined && header !== organizationId) {
    throw new ApiError(
      403,
      'The access token does not belong to the organization that X-Organization-Id names.',
    );
  }
}

export function unauthorized(message: string): ApiError {
  return new ApiError(401, message, {
    errorCode: 'unauthorized',
    headers: { 'www-authenticate': 'Bearer' },
  });
}
