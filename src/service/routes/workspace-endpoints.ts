import * as z from 'zod';
import { notFound } from '../api-error.ts';
import type { Workspace } from '../state/open-service-state.ts';
import { endpoint, givenName, json, shownAs, time } from './endpoint.ts';
import { workspaceById } from '../local-connectors.ts';

const { shape: workspace, show: toWorkspace } = shownAs<Workspace>()('Workspace', {
  id: [z.guid(), ({ id }) => id],
  name: [z.string(), ({ name }) => name],
  organization_id: [z.guid(), ({ organizationId }) => organizationId],
  status: [z.literal('active'), 'active'],
  created_at: [time, ({ createdAt }) => createdAt],
  updated_at: [time, ({ updatedAt }) => updatedAt],
});

const query = z.object({
  name_contains: z.string().optional().describe('A part of the name, in any case.'),
  status: z.enum(['active', 'inactive']).optional().describe('All are active.'),
});

export const listWorkspaces = endpoint({
  summary: 'List the workspaces',
  description:
    'In the order of their creation, all on one page. A workspace comes into being with the first connector or scoped token that ' +
    'names it.',
  access: 'application',
  request: { query },
  success: {
    description: 'The workspaces.',
    body: z.object({ data: z.array(workspace), next: z.null() }).meta({ id: 'WorkspaceList' }),
  },
  example: { query: { status: 'active' } },
  handle({ query: { name_contains: part = '', status } }, { principal }, { state }) {
    const found = state.workspaces
      .list(principal.organizationId)
      .filter((one) => folded(one.name).includes(folded(part)) && status !== 'inactive');
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

export const updateWorkspace = endpoint({
  ...ofWorkspace,
  summary: 'Rename a workspace',
  description: 'Its connectors stay in it.',
  request: {
    ...ofWorkspace.request,
    body: z.object({ name: givenName() }).meta({ id: 'WorkspaceChange' }),
  },
  success: { description: 'The workspace as it is now.', body: workspace },
  refusals: { ...ofWorkspace.refusals, 409: 'Another workspace has the name.' },
  example: { ...ofWorkspace.example, body: { name: 'default' } },
  handle: ({ path, body }, { principal }, { state }) =>
    json(
      toWorkspace(state.workspaces.rename(workspaceById(state, principal, path.id.toLowerCase()), body.name)),
    ),
});

export const deleteWorkspace = endpoint({
  ...ofWorkspace,
  summary: 'Delete a workspace',
  description: 'With all its connectors, their credentials and indexed stores, and its scoped tokens.',
  success: {
    description: 'The workspace was deleted.',
    body: z.object({ id: z.guid(), deleted_at: time }).meta({ id: 'WorkspaceDeletion' }),
  },
  refusals: { ...ofWorkspace.refusals, 409: 'A connector was made in it meanwhile: ask again.' },
  async handle({ path }, { principal }, { state, connectors }) {
    const found = workspaceById(state, principal, path.id.toLowerCase());
    for (const { stored } of connectors.inWorkspace(found, null)) await connectors.delete(stored);
    const deletedAt = state.workspaces.delete(found.organizationId, found.id);
    if (deletedAt === null) throw notFound('There is no such workspace in the organization.');
    return json({ id: found.id, deleted_at: deletedAt });
  },
});
