import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { fromFramework } from '../answer-errors.ts';
import { ApiError, notFound } from '../api-error.ts';
import { sendFile } from '../execute/send-file.ts';
import { principalOf } from '../guard-requests.ts';
import type { Principal } from '../state/tokens.ts';
import type { Access, Answer, ApiParts, Call, Endpoint } from './endpoint.ts';

/**
 * Routes requests to the endpoints. Before one is parsed, its token is held against the endpoint's access: 403 for a
 * token of the wrong kind. What lies in other organizations and workspaces is for the handlers: they find nothing
 * there. HEAD is answered wherever GET is; another method of a path that is there with 405, which names those it has.
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
      exposeHeadRoute: endpoint.method === 'GET',
      handler: async (request, reply) => {
        if (endpoint.access !== 'public') checkAccess(endpoint.access, principalOf(request));
        if (lacksBody(endpoint, request)) throw fromFramework({ statusCode: 400 });
        const call = parts.calls.open(reply);
        const raw = { path: request.params, query: request.query, body: request.body };
        const answer = await endpoint
          .answer(raw, callOf(request, call), parts.api)
          .catch((error: unknown) => {
            // A failure after the client has disconnected is not reported: everything may be closed by then.
            throw call.aborted ? call.reason : error;
          });
        return await send(reply.code(endpoint.success.status), answer, call);
      },
    });
  }
  server.setNotFoundHandler((request) => {
    const allowed = methodsOf(endpoints, request.url.split('?', 1)[0] ?? '');
    if (allowed === '') throw notFound('There is no such endpoint.');
    throw new ApiError(405, `This path does not take ${request.method}; it takes ${allowed}.`, {
      errorCode: 'method_not_allowed',
      headers: { allow: allowed },
    });
  });
}

/** It says what its body is and sends none, where there must be one. */
function lacksBody({ request: { body } }: Endpoint, request: FastifyRequest): boolean {
  const isGiven = request.body !== undefined || request.headers['content-type'] === undefined;
  return !isGiven && body?.safeParse(undefined).success === false;
}

/** As the header Allow has them; empty where there is no such path. */
function methodsOf(endpoints: readonly Endpoint[], path: string): string {
  const parts = path.split('/');
  const methods = endpoints
    .filter((endpoint) => {
      const declared = endpoint.path.split('/');
      return (
        declared.length === parts.length &&
        declared.every((part, index) => (part.startsWith('{') ? parts[index] !== '' : part === parts[index]))
      );
    })
    .flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method]));
  return [...new Set(methods)].join(', ');
}

/** Paths that need no token. */
export function publicPathsOf(endpoints: readonly Endpoint[]): ReadonlySet<string> {
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
    baseUrl: `${request.protocol === 'https' ? 'https' : 'http'}://${request.headers.host ?? ''}`,
  };
}

async function send(reply: FastifyReply, answer: Answer, signal: AbortSignal): Promise<FastifyReply> {
  switch (answer.kind) {
    case 'json':
      return reply.headers(answer.headers).send(answer.body);
    case 'text':
      return reply.headers(answer.headers).send(answer.text);
    case 'file':
      return await sendFile(reply, answer.file, signal);
  }
}

type OpenCalls = ReturnType<typeof trackCalls>;

/** The calls that are being answered, each with its own signal. */
export function trackCalls() {
  const controllers = new Set<AbortController>();
  let closed: ApiError | null = null;
  return {
    /**
     * The signal is aborted when the client goes away before it has the whole answer, or by `abortAll`: no failure of
     * the service.
     */
    open(reply: FastifyReply): AbortSignal {
      const controller = new AbortController();
      if (closed !== null) controller.abort(closed);
      controllers.add(controller);
      // 'close' comes after every answer, sent or cut off; only the second is worth a signal.
      reply.raw.once('close', () => {
        controllers.delete(controller);
        if (!reply.raw.writableFinished) controller.abort(new ApiError(499, 'The client has disconnected.'));
      });
      return controller.signal;
    },
    /** Ends every call that is open, and every later one at once: the service is closing. */
    abortAll(): void {
      closed = new ApiError(503, 'The local service is closing.');
      for (const controller of controllers) controller.abort(closed);
    },
  };
}
