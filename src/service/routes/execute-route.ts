import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import type { Clock } from '../../core/clock.ts';
import type { JsonObject } from '../../core/json.ts';
import { ApiError, notFound } from '../api-error.ts';
import { parseRequest } from '../answer-errors.ts';
import { checkParams } from '../execute/check-params.ts';
import { findAction } from '../execute/find-action.ts';
import { listPage } from '../execute/list-page.ts';
import type { PageTokens } from '../execute/page-tokens.ts';
import { shapeResult } from '../execute/shape-result.ts';
import type { LocalConnector } from '../local-connectors.ts';
import { connectorById } from './connector-routes.ts';

const pathParams = z.object({ connectorId: z.string() });
const executeBody = z.object({
  entity: z.string(),
  action: z.string(),
  params: z.record(z.string(), z.unknown()).nullish(),
  select_fields: z.array(z.string()).nullish(),
  exclude_fields: z.array(z.string()).nullish(),
  skip_truncation: z.boolean().nullish(),
  /** For the hosted service's own statistics; accepted and not used. */
  intent: z.string().max(512).nullish(),
});
type ExecuteBody = z.output<typeof executeBody>;

interface ExecuteRouteOptions {
  readonly connectors: readonly LocalConnector[];
  readonly pageTokens: PageTokens;
  readonly latencyMs: number;
  readonly clock: Clock;
  /** Aborted when the service closes, so that no slow answer holds it open. */
  readonly closing: AbortSignal;
}

/** `POST …/connectors/{id}/execute`: runs one action of one entity and answers with the envelope. */
export function executeRoute(server: FastifyInstance, options: ExecuteRouteOptions): void {
  server.post('/api/v1/integrations/connectors/:connectorId/execute', async (request) => {
    const startedAt = options.clock.now();
    const { connectorId } = parseRequest(pathParams, request.params, 'path');
    const connector = connectorById(options.connectors, connectorId);
    const body = parseRequest(executeBody, request.body, 'body');
    if (options.latencyMs > 0) await options.clock.sleep(options.latencyMs, options.closing);
    const answer = execute(connector, body, options.pageTokens);
    return {
      status: 'success',
      ...answer,
      execution_metadata: {
        connector_instance_id: `source_id:${connector.id}`,
        execution_time_ms: Math.max(0, Math.round(options.clock.now() - startedAt)),
      },
    };
  });
}

interface Answer {
  readonly result: JsonObject | readonly JsonObject[];
  readonly connector_metadata: JsonObject | null;
}

function execute(connector: LocalConnector, body: ExecuteBody, pageTokens: PageTokens): Answer {
  const { definition, account } = connector;
  const { entity, action, actionName } = findAction(definition, body.entity, body.action);
  const shape = {
    select: body.select_fields ?? [],
    exclude: body.exclude_fields ?? [],
    isTruncated: actionName === 'list' && body.skip_truncation === false,
  };
  switch (actionName) {
    case 'list': {
      const params = checkParams(entity, actionName, action, body.params ?? {});
      const page = listPage({ entity, params, account, pageTokens, connectorId: connector.id });
      return {
        result: page.records.map((record) => shapeResult(record, shape)),
        connector_metadata: page.metadata,
      };
    }
    case 'get': {
      const params = checkParams(entity, actionName, action, body.params ?? {});
      const record = account.get(entity.name, params);
      if (record === null) throw notFound(`There is no such record in '${entity.name}'.`);
      return { result: shapeResult(record, shape), connector_metadata: null };
    }
    case 'context_store_search':
      // No indexed store is kept for the sample accounts: it stays in the documented state Loading, in which search
      // answers with an error while list and get work. The hosted service's status code is not known; 400 is ours.
      throw new ApiError(400, 'The context store of this connector is not ready', {
        errorCode: 'context_store_not_ready',
      });
    case 'download':
      // No sample account holds files; a definition that declares downloads gets the answer for an unknown file.
      throw notFound(`There is no such file in '${entity.name}'.`);
  }
}
