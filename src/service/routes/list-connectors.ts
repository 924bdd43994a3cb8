import * as z from 'zod';
import { ApiError } from '../api-error.ts';
import type { Principal, ServiceState, Workspace } from '../state/service-state.ts';
import { connectorSummary, toSummary } from './connector-answers.ts';
import { endpoint } from './endpoint.ts';
import { workspaceById, workspaceByName } from './find-workspace.ts';

const query = z.object({
  workspace_name: z.string().min(1).optional(),
  workspace_id: z.guid().optional(),
  customer_name: z
    .string()
    .min(1)
    .optional()
    .meta({ deprecated: true, description: 'An old name of workspace_name.' }),
  external_user_id: z
    .string()
    .min(1)
    .optional()
    .meta({ deprecated: true, description: 'An old name of workspace_name.' }),
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
    body: z.object({ data: z.array(connectorSummary) }).meta({ id: 'ConnectorList' }),
  },
  refusals: { 404: 'There is no such workspace.' },
  example: { query: { workspace_name: 'default' } },
  handle({ query: wanted }, { principal }, { state, definitions, connectors }) {
    const workspace = wantedWorkspace(state, principal, wanted);
    const wantedId = wanted.definition_id?.toLowerCase();
    const definition =
      wantedId === undefined
        ? null
        : [...definitions.values()].find(({ id }) => id.toLowerCase() === wantedId);
    const found = definition === undefined ? [] : connectors.inWorkspace(workspace, definition);
    return { kind: 'json', body: { data: found.map(toSummary) } };
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
