import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import type { AccessTokens } from '../access-tokens.ts';
import { parseRequest } from '../answer-errors.ts';
import { unauthorized } from '../guard-requests.ts';

export const tokenPath = '/api/v1/account/applications/token';

const credentials = z.object({ client_id: z.string(), client_secret: z.string() });

interface TokenRouteOptions {
  readonly tokens: AccessTokens;
  readonly ttlSeconds: number;
  readonly organizationId: string;
}

/** `POST /api/v1/account/applications/token`: client credentials for a bearer token; 401 when they are wrong. */
export function tokenRoute(server: FastifyInstance, options: TokenRouteOptions): void {
  server.post(tokenPath, (request, reply) => {
    const { client_id, client_secret } = parseRequest(credentials, request.body, 'body');
    const token = options.tokens.issue(client_id, client_secret);
    if (token === null) throw unauthorized('The client id or the client secret is wrong.');
    return reply.header('cache-control', 'no-store').send({
      access_token: token,
      token_type: 'bearer',
      expires_in: options.ttlSeconds,
      organization_id: options.organizationId,
    });
  });
}
