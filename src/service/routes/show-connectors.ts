import * as z from 'zod';
import { ApiError } from '../api-error.ts';
import { type LocalConnector, workspaceById, workspaceByName } from '../local-connectors.ts';
import type { Principal } from '../state/tokens.ts';
import type { ServiceState } from '../state/open-service-state.ts';
import type { Workspace } from '../state/workspaces.ts';
import { entityReadiness, type EntityStatus, readiness, type StoreStatus } from '../store/context-stores.ts';
import { searchableEntities } from '../store/store-entities.ts';
import { connectorDetail, connectorSummary } from './connector-answers.ts';
import { definitionById, templateId } from './definition-endpoints.ts';
import { endpoint, json, ofConnector, shownAs, time } from './endpoint.ts';

export const showConnector = endpoint({
  ...ofConnector,
  method: 'GET',
  path: '/api/v1/integrations/connectors/{id}',
  operationId: 'getConnector',
  summary: 'Show a connector',
  description: 'All that a connector was made with, but for its credentials.',
  success: { status: 200, description: 'The connector.', body: connectorDetail.shape },
  handle: ({ path }, { principal }, { connectors }) =>
    json(connectorDetail.show(connectors.byId(principal, path.id))),
});

interface Inspected {
  readonly connector: LocalConnector;
  readonly status: StoreStatus;
}

const cachedEntity = shownAs<EntityStatus>()(null, {
  entity: [z.string(), ({ entity }) => entity],
  status: [entityReadiness, ({ status }) => status],
  ready_for_search: [z.boolean(), ({ isSearchable }) => isSearchable],
  supported: [z.boolean(), true],
  entity_count: [z.int().nullable(), ({ records }) => records],
  updated_at: [time.nullable(), ({ updatedAt }) => updatedAt],
  semantic_search_status: [z.array(z.never()), () => []],
});

const storeReadiness = shownAs<Inspected>()(null, {
  connector_id: [z.string(), ({ connector }) => connector.stored.id],
  source_definition_id: [z.guid(), ({ connector }) => connector.definition.id],
  readiness: [
    readiness.describe('Of the whole store. Search works in Preview and Ready.'),
    ({ status }) => status.readiness,
  ],
  supported_context_store_entities: [
    z.array(z.object({ entity: z.string(), suggested: z.boolean() })),
    ({ connector }) =>
      searchableEntities(connector.definition).map(({ name }) => ({ entity: name, suggested: true })),
  ],
  configured_cache_entities: [
    z.array(cachedEntity.shape),
    ({ status }) => status.entities.map(cachedEntity.show),
  ],
});

const inspection = shownAs<Inspected>()('ConnectorInspection', {
  connector_id: [z.string(), ({ connector }) => connector.stored.id],
  name: [z.string(), ({ connector }) => connector.stored.name],
  workspace_id: [z.guid(), ({ connector }) => connector.stored.workspaceId],
  organization_id: [z.guid(), ({ connector }) => connector.stored.organizationId],
  source_definition_id: [z.guid(), ({ connector }) => connector.definition.id],
  source_definition_name: [z.string(), ({ connector }) => connector.definition.title],
  source_config_template_id: [z.guid(), ({ connector }) => templateId(connector.definition)],
  docs_skill_id: [z.string(), ({ connector }) => connector.definition.name],
  context_store_readiness: [storeReadiness.shape, storeReadiness.show],
  warnings: [z.array(z.string()), ({ connector, status }) => warningsOf(connector, status)],
});

export const inspectConnector = endpoint({
  ...ofConnector,
  method: 'GET',
  path: '/api/v1/integrations/connectors/{id}/inspect',
  operationId: 'inspectConnector',
  summary: "Get the status of a connector's index",
  description:
    'Loading, Building Preview, Preview, Ready: in the last two `context_store_search` works. `warnings` says what keeps the store from ' +
    'being complete.',
  success: { status: 200, description: 'The connector and its store.', body: inspection.shape },
  handle({ path }, { principal }, { connectors }) {
    const connector = connectors.byId(principal, path.id);
    return json(inspection.show({ connector, status: connectors.status(connector) }));
  },
});

/** What keeps the connector's store from being complete. */
export function warningsOf({ workspace }: LocalConnector, { problem }: StoreStatus): string[] {
  const ofStore = problem === null ? [] : [problem];
  if (workspace.status === 'inactive') {
    return ['The workspace is inactive: its connectors are disabled.', ...ofStore];
  }
  if (!workspace.isCacheEnabled) {
    return ['cache_enabled is false in the workspace: there is no indexed store.', ...ofStore];
  }
  return ofStore;
}

const oldName = z
  .string()
  .min(1)
  .optional()
  .meta({ deprecated: true, description: 'An old name of workspace_name.' });

const query = z.object({
  workspace_name: z.string().min(1).optional(),
  workspace_id: z.guid().optional(),
  customer_name: oldName,
  external_user_id: oldName,
  definition_id: z.guid().optional().describe('Only connectors of this type.'),
});

export const listConnectors = endpoint({
  method: 'GET',
  path: '/api/v1/integrations/connectors',
  operationId: 'listConnectors',
  tag: 'Connectors',
  summary: 'List the connectors of a workspace',
  description:
    'In the order of their creation, not paginated. The workspace is named by `workspace_name` or `workspace_id`; where both are ' +
    'given, both must be right. A scoped token needs neither.',
  access: 'workspace',
  request: { query },
  success: {
    status: 200,
    description: 'The connectors. Their type stands in `summarized_source_template.actor_definition_id`.',
    body: z.object({ data: z.array(connectorSummary.shape) }).meta({ id: 'ConnectorList' }),
  },
  refusals: { 404: 'There is no such workspace.' },
  example: { query: { workspace_name: 'default' } },
  handle({ query: wanted }, { principal }, { state, definitions, connectors }) {
    const workspace = wantedWorkspace(state, principal, wanted);
    const id = wanted.definition_id;
    const definition = id === undefined ? null : definitionById(definitions, id);
    const found = definition === undefined ? [] : connectors.inWorkspace(workspace, definition);
    return json({ data: found.map(connectorSummary.show) });
  },
});

function wantedWorkspace(
  state: ServiceState,
  principal: Principal,
  wanted: z.output<typeof query>,
): Workspace {
  const id = wanted.workspace_id?.toLowerCase() ?? null;
  const name = wanted.workspace_name ?? wanted.customer_name ?? wanted.external_user_id ?? null;
  if (name !== null) {
    const found = workspaceByName(state, principal, name);
    // By its id it is another one: what both name together is not there.
    return id === null || found.id === id ? found : workspaceById(state, principal, '');
  }
  if (id !== null || principal.workspaceId !== null) {
    return workspaceById(state, principal, id ?? principal.workspaceId ?? '');
  }
  throw new ApiError(422, 'Expected workspace_name or workspace_id.', {
    field: 'query.workspace_name',
    errorCode: 'missing',
  });
}
