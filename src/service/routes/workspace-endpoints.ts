import * as z from 'zod';
import { notFound } from '../api-error.ts';
import type { Workspace } from '../state/open-service-state.ts';
import { endpoint, givenName, json, shownAs, time } from './endpoint.ts';
import { workspaceById } from '../local-connectors.ts';

const { shape: workspace, show: toWorkspace } = shownAs<Workspace>()('Workspace', {
  id: [z.guid(), ({ id }) => id],
  name: [z.string(), ({ name }) => name],
  organization_id: [z.guid(), ({ organizationId }) => organizationId],
  status: [z.enum(['active', 'inactive']), ({ status }) => status],
  cache_enabled: [z.boolean().nullable(), ({ isCacheEnabled }) => isCacheEnabled],
  created_at: [time, ({ createdAt }) => createdAt],
  updated_at: [time, ({ updatedAt }) => updatedAt],
});

const query = z.object({
  name_contains: z.string().optional().describe('A part of the name, in any case.'),
  status: z.enum(['active', 'inactive']).optional(),
});

export const listWorkspaces = endpoint({
  summary: 'List the workspaces',
  description:
    'In the order of their creation, all on one page. A workspace comes into being with the first connector or scoped token that ' +
    'names it.',
  access: 'application',
  request: { query },
  success: {
    status: 200,
    description: 'The workspaces.',
    body: z.object({ data: z.array(workspace), next: z.null() }).meta({ id: 'WorkspaceList' }),
  },
  example: { query: { status: 'active' } },
  handle({ query: { name_contains: part = '', status } }, { principal }, { state }) {
    const found = state.workspaces
      .list(principal.organizationId)
      .filter((one) => folded(one.name).includes(folded(part)) && (status ?? one.status) === one.status);
    return json({ data: found.map(toWorkspace), next: null });
  },
});

function folded(text: string): string {
  return text.normalize('NFC').toLowerCase();
}

/** Parts that endpoints of one workspace share. */
const ofWorkspace = {
  access: 'application',
  request: { path: z.object({ id: z.string().describe("The workspace's id.") }) },
  refusals: { 404: 'There is no such workspace.' },
  example: { path: { id: '00000000-0000-4000-8000-000000000000' } },
} as const;

const change = z
  .object({
    name: givenName().nullish(),
    status: z.enum(['active', 'inactive']).nullish().describe('inactive disables its connectors.'),
    cache_enabled: z.boolean().nullish().describe('false: its connectors keep no indexed store.'),
  })
  .meta({ id: 'WorkspaceChange' });

export const updateWorkspace = endpoint({
  ...ofWorkspace,
  summary: 'Change a workspace',
  description:
    'Changes what is given and leaves the rest. The connectors of an inactive workspace execute nothing, and their indexed stores are ' +
    'dropped; without `cache_enabled` only the stores go. Set back, the stores are filled again.',
  request: { ...ofWorkspace.request, body: change },
  success: { status: 200, description: 'The workspace as it is now.', body: workspace },
  refusals: { ...ofWorkspace.refusals, 409: 'Another workspace has the name.' },
  example: { ...ofWorkspace.example, body: { cache_enabled: false } },
  async handle({ path, body }, { principal }, { state, connectors }) {
    const before = workspaceById(state, principal, path.id.toLowerCase());
    const after = state.workspaces.update(before, {
      name: body.name ?? before.name,
      status: body.status ?? before.status,
      isCacheEnabled: body.cache_enabled ?? before.isCacheEnabled,
    });
    if (keepsStores(before) !== keepsStores(after)) {
      for (const { stored } of connectors.inWorkspace(after, null)) await connectors.settleStore(stored);
    }
    return json(toWorkspace(after));
  },
});

function keepsStores({ status, isCacheEnabled }: Workspace): boolean {
  return status === 'active' && isCacheEnabled;
}

export const deleteWorkspace = endpoint({
  ...ofWorkspace,
  summary: 'Delete a workspace',
  description: 'With all its connectors, their credentials and indexed stores, and its scoped tokens.',
  success: {
    status: 200,
    description: 'The workspace was deleted.',
    body: z.object({ id: z.guid(), deleted_at: time }).meta({ id: 'WorkspaceDeletion' }),
  },
  refusals: { ...ofWorkspace.refusals, 409: 'A connector was made in it meanwhile: ask again.' },
  async handle({ path }, { principal }, { state, connectors }) {
    const found = workspaceById(state, principal, path.id.toLowerCase());
    for (const { stored } of connectors.inWorkspace(found, null)) {
      await connectors.delete(stored);
    }
    const deletedAt = state.workspaces.delete(found.organizationId, found.id);
    if (deletedAt === null) throw notFound('There is no such workspace in the organization.');
    return json({ id: found.id, deleted_at: deletedAt });
  },
});
