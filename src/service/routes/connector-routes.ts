import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { ApiError, notFound } from '../api-error.ts';
import { parseRequest } from '../answer-errors.ts';
import type { LocalConnector } from '../local-connectors.ts';
import { stableUuid } from '../sample/dice.ts';
import { iconUrl } from './definition-routes.ts';

const connectorsPath = '/api/v1/integrations/connectors';

const query = z.object({
  workspace_name: z.string().min(1).optional(),
  workspace_id: z.guid().optional(),
  /** Deprecated names of `workspace_name`. */
  customer_name: z.string().min(1).optional(),
  external_user_id: z.string().min(1).optional(),
  definition_id: z.guid().optional(),
});
const pathParams = z.object({ connectorId: z.string() });

/** `GET …/connectors` (one workspace, not paginated; 404 when it is unknown) and `GET …/connectors/{id}`. */
export function connectorRoutes(
  server: FastifyInstance,
  connectors: readonly LocalConnector[],
  organizationId: string,
): void {
  server.get(connectorsPath, (request, reply) => {
    const wanted = parseRequest(query, request.query, 'query');
    const inWorkspace = connectorsOfWorkspace(connectors, wanted);
    const definitionId = wanted.definition_id?.toLowerCase();
    const found = inWorkspace.filter(
      ({ definition }) => definitionId === undefined || definition.id === definitionId,
    );
    return reply.send({
      data: found.map((connector) => ({
        ...connectorFields(connector),
        summarized_source_template: sourceTemplate(connector, organizationId),
      })),
    });
  });

  server.get(`${connectorsPath}/:connectorId`, (request, reply) => {
    const { connectorId } = parseRequest(pathParams, request.params, 'path');
    const connector = connectorById(connectors, connectorId);
    return reply.send({
      ...connectorFields(connector),
      source_template: sourceTemplate(connector, organizationId),
      replication_config: {},
    });
  });
}

/** Throws 404. */
export function connectorById(connectors: readonly LocalConnector[], id: string): LocalConnector {
  const connector = connectors.find((candidate) => candidate.id === id);
  if (connector === undefined) throw notFound('There is no connector with this id in the organization.');
  return connector;
}

function connectorsOfWorkspace(
  connectors: readonly LocalConnector[],
  wanted: z.output<typeof query>,
): readonly LocalConnector[] {
  const name = wanted.workspace_name ?? wanted.customer_name ?? wanted.external_user_id;
  if (name === undefined && wanted.workspace_id === undefined) {
    throw new ApiError(422, 'Expected workspace_name or workspace_id.', {
      field: 'query.workspace_name',
      errorCode: 'missing',
    });
  }
  const found = connectors.filter(
    ({ workspace, workspaceId }) =>
      (name === undefined || workspace === name) &&
      (wanted.workspace_id === undefined || workspaceId === wanted.workspace_id.toLowerCase()),
  );
  // A workspace of this service exists because a connector is in it, so none found means none known.
  if (found.length === 0) throw notFound('There is no such workspace in the organization.');
  return found;
}

const bornAt = '2024-02-01T09:30:00.000000Z';

function connectorFields({ id, definition, workspace }: LocalConnector): Record<string, unknown> {
  return { id, name: `${definition.title} (${workspace})`, created_at: bornAt, updated_at: bornAt };
}

function sourceTemplate({ definition }: LocalConnector, organizationId: string): Record<string, unknown> {
  return {
    id: stableUuid('template', definition.name),
    name: definition.title,
    icon: iconUrl(definition),
    connector_name: definition.name,
    organization_id: organizationId,
    actor_definition_id: definition.id,
    tags: [],
    customization: null,
    mode: 'DIRECT',
    created_at: bornAt,
    updated_at: bornAt,
  };
}
