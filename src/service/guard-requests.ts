import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Clock } from '../core/clock.ts';
import { ApiError } from './api-error.ts';
import { createRateLimit } from './rate-limit.ts';
import type { ServerLimits } from './server-limits.ts';
import type { Principal } from './state/tokens.ts';
import type { ServiceState } from './state/open-service-state.ts';

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
 * Checks every request before its body is read, unknown paths included: Host (400 for several, 421), media type
 * (415), bearer (401), organization (403), rate (429). A page in a browser that was led here by DNS tricks fails the
 * first, a form the second; without CORS headers it cannot read an answer anyway. Requests without a known token share
 * one rate per address.
 */
export function guardRequests(server: FastifyInstance, options: GuardOptions): void {
  const checkRate = createRateLimit(options.limits.requestsPerSecond, options.clock);
  const { state, publicPaths } = options;
  const policy = `"token";q=${options.limits.requestsPerSecond};w=1`;
  server.addHook('onRequest', (request, reply, done) => {
    // Clients that know it keep to it, and ask no more slowly than that.
    reply.header('ratelimit-policy', policy);
    checkHost(request, options.allowedHosts);
    checkMediaType(request);
    const isPublic = publicPaths.has(pathOf(request));
    const token = isPublic ? null : bearerOf(request);
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

function pathOf(request: FastifyRequest): string {
  return request.url.split('?', 1)[0] ?? '';
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

/** A body is JSON and says so; a request that has none need say nothing, and nothing else. */
function checkMediaType({ headers }: FastifyRequest): void {
  const { 'content-type': contentType, 'content-length': length, 'transfer-encoding': coding } = headers;
  const hasBody = coding !== undefined || (length !== undefined && length !== '0');
  if (!hasBody && contentType === undefined) return;
  if (contentType?.split(';', 1)[0]?.trim().toLowerCase() === 'application/json') return;
  throw new ApiError(415, 'Expected a body with Content-Type: application/json.', {
    errorCode: 'unsupported_media_type',
  });
}

/** Null: there is none. */
function bearerOf(request: FastifyRequest): string | null {
  return /^Bearer +([\w.~+/=-]+) *$/i.exec(request.headers.authorization ?? '')?.[1] ?? null;
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
