import * as z from 'zod';
import { notFound } from '../api-error.ts';
import type { Workspace } from '../state/service-state.ts';
import { time } from './answer-shapes.ts';
import { endpoint, type Endpoint } from './endpoint.ts';
import { workspaceById } from './find-workspace.ts';
import { givenName } from './given-text.ts';
import { listWorkspaces } from './list-workspaces.ts';
import { givenFields } from './new-connector.ts';
import { noteChange } from './note-change.ts';
import { toWorkspace, workspace } from './workspace-answer.ts';

const workspacePath = z.object({ id: z.string().describe("The workspace's id.") });

const countWorkspaces = endpoint({
  method: 'GET',
  path: '/api/v1/workspaces/stats',
  operationId: 'getWorkspaceStats',
  tag: 'Workspaces',
  summary: 'Count the workspaces',
  description: 'Those of the organization, by status.',
  access: 'application',
  success: {
    status: 200,
    description: 'The counts.',
    body: z
      .object({ active_count: z.int(), inactive_count: z.int(), total_count: z.int() })
      .meta({ id: 'WorkspaceStats' }),
  },
  handle(_request, { principal }, { state }) {
    const { active, inactive } = state.workspaces.stats(principal.organizationId);
    return {
      kind: 'json',
      body: { active_count: active, inactive_count: inactive, total_count: active + inactive },
    };
  },
});

const showWorkspace = endpoint({
  method: 'GET',
  path: '/api/v1/workspaces/{id}',
  operationId: 'getWorkspace',
  tag: 'Workspaces',
  summary: 'Show a workspace',
  description: 'A scoped token sees its own.',
  access: 'workspace',
  request: { path: workspacePath },
  success: { status: 200, description: 'The workspace.', body: workspace },
  refusals: { 404: 'There is no such workspace.' },
  example: { path: { id: '00000000-0000-4000-8000-000000000000' } },
  handle: ({ path }, { principal }, { state }) => ({
    kind: 'json',
    body: toWorkspace(workspaceById(state, principal, path.id.toLowerCase())),
  }),
});

const change = z
  .object({
    name: givenName().nullish(),
    status: z.enum(['active', 'inactive']).nullish().describe('inactive disables its connectors.'),
    cache_enabled: z.boolean().nullish().describe('false: its connectors keep no indexed store.'),
  })
  .meta({ id: 'WorkspaceChange' });

const updateWorkspace = endpoint({
  method: 'PUT',
  path: '/api/v1/workspaces/{id}',
  operationId: 'updateWorkspace',
  tag: 'Workspaces',
  summary: 'Change a workspace',
  description:
    'Changes what is given and leaves the rest. The connectors of an inactive workspace execute nothing, and their indexed stores are ' +
    'dropped; without `cache_enabled` only the stores go. Set back, the stores fill anew.',
  access: 'application',
  request: { path: workspacePath, body: change },
  success: { status: 200, description: 'The workspace as it is now.', body: workspace },
  refusals: { 404: 'There is no such workspace.', 409: 'Another workspace has the name.' },
  example: { path: { id: '00000000-0000-4000-8000-000000000000' }, body: { cache_enabled: false } },
  async handle({ path, body }, { principal }, { state, connectors }) {
    const before = workspaceById(state, principal, path.id.toLowerCase());
    const fields = givenFields(body);
    if (fields.length === 0) return { kind: 'json', body: toWorkspace(before) };
    const after = state.workspaces.update(before.organizationId, before.id, {
      ...(body.name ? { name: body.name } : {}),
      ...(body.status ? { status: body.status } : {}),
      ...(typeof body.cache_enabled === 'boolean' ? { isCacheEnabled: body.cache_enabled } : {}),
    });
    if (after === null) throw notFound('There is no such workspace in the organization.');
    noteChange(state, principal, 'workspace.updated', after.id, fields);
    if (keepsStores(before) !== keepsStores(after)) {
      for (const { stored } of connectors.inWorkspace(after, null)) await connectors.settleStore(stored);
    }
    return { kind: 'json', body: toWorkspace(after) };
  },
});

function keepsStores({ status, isCacheEnabled }: Workspace): boolean {
  return status === 'active' && isCacheEnabled;
}

const deleteWorkspace = endpoint({
  method: 'DELETE',
  path: '/api/v1/workspaces/{id}',
  operationId: 'deleteWorkspace',
  tag: 'Workspaces',
  summary: 'Delete a workspace',
  description: 'With all its connectors, their credentials and indexed stores, and its scoped tokens.',
  access: 'application',
  request: { path: workspacePath },
  success: {
    status: 200,
    description: 'The workspace is gone.',
    body: z.object({ id: z.guid(), deleted_at: time }).meta({ id: 'WorkspaceDeletion' }),
  },
  refusals: {
    404: 'There is no such workspace.',
    409: 'A connector was made in it meanwhile: ask again.',
  },
  example: { path: { id: '00000000-0000-4000-8000-000000000000' } },
  async handle({ path }, { principal }, { state, connectors }) {
    const found = workspaceById(state, principal, path.id.toLowerCase());
    for (const { stored } of connectors.inWorkspace(found, null)) {
      await connectors.delete(stored);
      noteChange(state, principal, 'connector.deleted', stored.id);
    }
    const deletedAt = state.workspaces.delete(found.organizationId, found.id);
    if (deletedAt === null) throw notFound('There is no such workspace in the organization.');
    noteChange(state, principal, 'workspace.deleted', found.id);
    return { kind: 'json', body: { id: found.id, deleted_at: deletedAt } };
  },
});

export const workspaceEndpoints: readonly Endpoint[] = [
  listWorkspaces,
  countWorkspaces,
  showWorkspace,
  updateWorkspace,
  deleteWorkspace,
];
