import * as z from 'zod';
import { ApiError } from '../api-error.ts';
import { executeAction, executeBody } from '../execute/execute-action.ts';
import type { Workspace } from '../state/workspaces.ts';
import { endpoint, json, jsonObject, ofConnector } from './endpoint.ts';

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
  method: 'POST',
  path: '/api/v1/integrations/connectors/{id}/execute',
  operationId: 'execute',
  tag: 'Execute',
  summary: 'Run an action of an entity',
  description:
    '`list` and `get` ask the third party. `context_store_search` (or `search`) asks the indexed store, with `params`: query {filter, ' +
    'sort}, limit, cursor, fields. `download` answers with the bytes of a file.\n\n' +
    'Which entities, actions and parameters there are depends on the connector type. A parameter that the type does not know is ignored, ' +
    'but for `cursor`: a connector that pages otherwise would start from the beginning forever.',
  access: 'workspace',
  request: { ...ofConnector.request, body: executeBody.meta({ id: 'ExecuteRequest' }) },
  success: {
    status: 200,
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
    403:
      'The workspace of the connector is inactive (`workspace_inactive`); the credentials may not read this at the third party ' +
      '(`upstream_forbidden`).',
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
  async handle({ path, body }, { principal, signal }, { connectors, clock, latencyMs }) {
    const startedAt = clock.now();
    const connector = connectors.byId(principal, path.id);
    checkActive(connector.workspace);
    if (latencyMs > 0) await clock.sleep(latencyMs, signal);
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

function checkActive({ status }: Workspace): void {
  if (status === 'active') return;
  throw new ApiError(403, 'The workspace of this connector is inactive; its connectors are disabled.', {
    errorCode: 'workspace_inactive',
  });
}
