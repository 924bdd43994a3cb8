import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import * as z from 'zod';
import { ApiError, notFound } from '../api-error.ts';
import { executeAction, executeBody, sendFile } from '../execution.ts';
import { principalOf } from '../open-server.ts';
import * as catalog from './catalog-endpoints.ts';
import * as connector from './connector-endpoints.ts';
import { endpoint, json, jsonObject, ofConnector } from './endpoint.ts';
import type { ApiParts, Call, Endpoint, Operation, Tag } from './endpoint.ts';
import * as workspace from './workspace-endpoints.ts';

const search = z
  .object({
    data: z.array(jsonObject),
    meta: z.object({
      has_more: z.boolean(),
      cursor: z.string().nullable().describe('`params.cursor` of the next page.'),
      took_ms: z.number().nullable(),
    }),
  })
  .meta({ id: 'SearchResult' });

const envelope = z
  .object({
    status: z.literal('success'),
    result: z
      .union([z.array(z.unknown()).readonly(), search, jsonObject])
      .describe(
        'list: an array of records: objects, and what else the third party has among them. get: the record. ' +
          'context_store_search: data and meta.',
      ),
    connector_metadata: jsonObject
      .nullable()
      .describe(
        "The connector's paging state; its keys depend on the connector type. Null where there is none.",
      ),
    execution_metadata: z.object({
      connector_instance_id: z.string().describe('`source_id:` and the connector id.'),
      execution_time_ms: z.int(),
    }),
  })
  .meta({ id: 'ExecuteAnswer' });

export const execute = endpoint({
  summary: 'Run an action of an entity',
  description:
    '`list` and `get` ask the third party. `context_store_search` (or `search`) asks the indexed store, with `params`: query {filter, ' +
    'sort}, limit, cursor, fields. `download` answers with the bytes of a file.\n\n' +
    'Which entities, actions and parameters there are depends on the connector type. A parameter that the type does not know is ignored, ' +
    'but for `cursor`: a connector that pages otherwise would start from the beginning forever.',
  access: 'workspace',
  request: { ...ofConnector.request, body: executeBody.meta({ id: 'ExecuteRequest' }) },
  success: {
    description: 'The envelope.',
    body: envelope,
    others: {
      '*/*':
        'download: the bytes, with Content-Type and Content-Disposition. No bytes: there is no such file.',
    },
  },
  refusals: {
    400:
      'The entity, the action or a parameter is not what the connector type offers; the indexed store is not ready ' +
      '(`context_store_not_ready`); the search cannot be asked (`search_invalid`) or takes too long (`search_too_slow`); the third party ' +
      'refuses the request (`upstream_refused`) or its page token (`upstream_stale_token`).',
    401: 'The third party does not take the credentials of the connector (`upstream_unauthorized`; of a sample account `third_party_unauthorized`).',
    402: 'The plan of the account at the third party allows no more calls (`upstream_quota`).',
    403: 'The credentials may not read this at the third party (`upstream_forbidden`).',
    404: 'There is no such connector, no such record, or nothing to list at the third party (`upstream_not_found`).',
    429: 'The third party wants fewer calls (`upstream_throttled`).',
    502:
      'The third party failed (`upstream_unavailable`), its answer is too large (`upstream_too_large`), or it cannot be reached or ' +
      'understood, which another attempt would not change (`upstream_unusable`).',
    504: 'The third party did not answer in time (`upstream_timeout`, `third_party_timeout`); a smaller page may take less.',
  },
  example: {
    ...ofConnector.example,
    body: { entity: 'campaigns', action: 'list', params: { count: 10 } },
  },
  async handle({ path, body }, { principal, signal }, { connectors, clock }) {
    const startedAt = clock.now();
    const connector = connectors.byId(principal, path.id);
    const answer = await executeAction({
      connectorId: connector.stored.id,
      definition: connector.definition,
      provider: connectors.provider(connector),
      stores: connectors.stores,
      body,
      signal,
    });
    if (answer.kind === 'file') return answer;
    return json({
      status: 'success',
      result: answer.result,
      connector_metadata: answer.connectorMetadata,
      execution_metadata: {
        connector_instance_id: `source_id:${connector.stored.id}`,
        execution_time_ms: Math.max(0, Math.round(clock.now() - startedAt)),
      },
    });
  },
});

const showDocument = endpoint({
  summary: 'Get the OpenAPI document',
  description: 'All endpoints with their shapes, for tools.',
  access: 'public',
  success: { description: 'An OpenAPI 3.1 document.', body: jsonObject },
  handle: (_request, _call, { openApi }) => json(openApi, { 'cache-control': 'no-cache' }),
});

const accounts = '/api/v1/account/applications';
const definitions = '/api/v1/integrations/definitions/sources';
const connectors = '/api/v1/integrations/connectors';
const workspaces = '/api/v1/workspaces';

/** Routes and names of the operations by tag, in the order of the document. */
const routes: Readonly<Record<Tag, readonly (readonly [route: string, name: string, Operation])[]>> = {
  Authentication: [
    [`POST ${accounts}/token`, 'createApplicationToken', catalog.createToken],
    [`POST ${accounts}/scoped-token`, 'createScopedToken', catalog.createScopedToken],
  ],
  Definitions: [
    [`GET ${definitions}`, 'listSourceDefinitions', catalog.listDefinitions],
    [`GET ${definitions}/{id}`, 'getSourceDefinition', catalog.showDefinition],
  ],
  Connectors: [
    [`GET ${connectors}`, 'listConnectors', connector.listConnectors],
    [`POST ${connectors}`, 'createConnector', connector.createConnector],
    [`GET ${connectors}/{id}`, 'getConnector', connector.showConnector],
    [`PUT ${connectors}/{id}`, 'updateConnector', connector.updateConnector],
    [`DELETE ${connectors}/{id}`, 'deleteConnector', connector.deleteConnector],
    [`POST ${connectors}/{id}/check`, 'checkConnector', connector.checkConnector],
  ],
  Execute: [[`POST ${connectors}/{id}/execute`, 'execute', execute]],
  Workspaces: [
    [`GET ${workspaces}`, 'listWorkspaces', workspace.listWorkspaces],
    [`PUT ${workspaces}/{id}`, 'updateWorkspace', workspace.updateWorkspace],
    [`DELETE ${workspaces}/{id}`, 'deleteWorkspace', workspace.deleteWorkspace],
  ],
  Reference: [['GET /openapi.json', 'getOpenApiDocument', showDocument]],
};

/** Every endpoint of the service, in the order of the document. */
export const apiEndpoints: readonly Endpoint[] = Object.entries(routes).flatMap(([tag, operations]) =>
  operations.map(([route, operationId, operation]) => {
    const [method = '', path = ''] = route.split(' ');
    return { ...operation, method, path, operationId, tag };
  }),
);

/**
 * Routes requests to the endpoints. Before one is parsed, its token is held against the endpoint's access: 403 for a
 * token of the wrong kind. What lies in other organizations and workspaces is for the handlers: they find nothing
 * there. HEAD is answered wherever GET is.
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
      handler: async (request, reply) => {
        if (endpoint.access === 'application' && principalOf(request).kind !== 'application') {
          const message = 'This endpoint needs an application token; the token is scoped to a workspace.';
          throw new ApiError(403, message, { errorCode: 'application_token_required' });
        }
        const call = parts.calls.open(reply);
        const raw = { path: request.params, query: request.query, body: request.body };
        const answer = await endpoint
          .answer(raw, callOf(request, call), parts.api)
          .catch((error: unknown) => {
            // A failure after the client has disconnected is not reported: everything may be closed by then.
            throw call.aborted ? call.reason : error;
          });
        reply.code(endpoint.success.status);
        return answer.kind === 'json'
          ? reply.headers(answer.headers).send(answer.body)
          : await sendFile(reply, answer.file, call);
      },
    });
  }
  // For a browser that opens the address of the service; no endpoint of the API.
  server.get('/', (_request, reply) =>
    reply
      .headers({ 'content-security-policy': "default-src 'none'", 'x-content-type-options': 'nosniff' })
      .type('text/html; charset=utf-8')
      .send(startPage),
  );
  server.setNotFoundHandler(() => {
    throw notFound('There is no such endpoint.');
  });
}

const startPage =
  '<!doctype html><html lang="en"><title>Connector Execution API</title><p><a href="/openapi.json">/openapi.json</a> describes this API.';

/** Paths that need no token. */
export function publicPathsOf(endpoints: readonly Endpoint[]): ReadonlySet<string> {
  return new Set(['/', ...endpoints.filter(({ access }) => access === 'public').map(({ path }) => path)]);
}

function callOf(request: FastifyRequest, signal: AbortSignal): Call {
  return {
    get principal() {
      return principalOf(request);
    },
    signal,
  };
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
