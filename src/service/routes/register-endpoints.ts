import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { ApiError } from '../api-error.ts';
import { sendFile } from '../execute/send-file.ts';
import { principalOf } from '../guard-requests.ts';
import type { Principal } from '../state/service-state.ts';
import type { ApiParts } from './api-parts.ts';
import type { Access, Answer, Call, Endpoint } from './endpoint.ts';
import type { OpenCalls } from './open-calls.ts';

/**
 * Routes requests to the endpoints. Before one is parsed, its token is held against the endpoint's access: 403 for a token of
 * the wrong kind. What lies in other organizations and workspaces is for the handlers: they find nothing there.
 */
export function registerEndpoints(
  server: FastifyInstance,
  endpoints: readonly Endpoint[],
  parts: { readonly api: ApiParts; readonly calls: OpenCalls },
): void {
  for (const endpoint of endpoints) {
    server.route({
      method: endpoint.method,
      url: endpoint.path.replaceAll(/\{(\w+)\}/g, ':$1'),
      exposeHeadRoute: false,
      handler: async (request, reply) => {
        if (endpoint.access !== 'public') checkAccess(endpoint.access, principalOf(request));
        const call = parts.calls.open(reply);
        const raw = { path: request.params, query: request.query, body: request.body };
        const answer = await endpoint
          .answer(raw, callOf(request, call), parts.api)
          .catch((error: unknown) => {
            // What fails once nobody waits any more, as everything may be closed by then, is told to nobody.
            throw call.aborted ? call.reason : error;
          });
        return await send(reply.code(endpoint.success.status), answer, call);
      },
    });
  }
}

/** Paths that need no token. */
export function publicPaths(endpoints: readonly Endpoint[]): ReadonlySet<string> {
  return new Set(endpoints.filter(({ access }) => access === 'public').map(({ path }) => path));
}

function checkAccess(access: Exclude<Access, 'public'>, { kind }: Principal): void {
  if (access === 'workspace' || access === kind) return;
  throw access === 'application'
    ? new ApiError(403, 'This endpoint needs an application token; the token is scoped to a workspace.', {
        errorCode: 'application_token_required',
      })
    : new ApiError(403, 'This endpoint needs a scoped token; the token is one of the application.', {
        errorCode: 'scoped_token_required',
      });
}

function callOf(request: FastifyRequest, signal: AbortSignal): Call {
  return {
    get principal() {
      return principalOf(request);
    },
    signal,
    baseUrl: `${request.protocol}://${request.host}`,
  };
}

async function send(reply: FastifyReply, answer: Answer, signal: AbortSignal): Promise<FastifyReply> {
  switch (answer.kind) {
    case 'json':
      return reply.headers(answer.headers ?? {}).send(answer.body);
    case 'text':
      return reply.headers(answer.headers).send(answer.text);
    case 'file':
      return await sendFile(reply, answer.file, signal);
  }
}
