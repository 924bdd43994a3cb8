import * as z from 'zod';
import { ApiError, notFound } from '../api-error.ts';
import type { Workspace } from '../state/open-service-state.ts';
import { endpoint, givenName, givesSomething, json, shownAs, time } from './endpoint.ts';
import { workspaceById } from '../local-connectors.ts';

const { shape: workspace, show: toWorkspace } = shownAs<Workspace>()('Workspace', {
  id: [z.guid(), ({ id }) => id],
  name: [z.string(), ({ name }) => name],
  organization_id: [z.guid(), ({ organizationId }) => organizationId],
  status: [z.enum(['active', 'inactive']), ({ status }) => status],
  cache_enabled: [z.boolean().nullable(), ({ isCacheEnabled }) => isCacheEnabled],
  tombstone: [z.boolean().describe('Always false: deleted workspaces are removed.'), false],
  visibility: [z.enum(['shared', 'private']), 'shared'],
  color: [z.string().nullable(), null],
  created_at: [time, ({ createdAt }) => createdAt],
  updated_at: [time, ({ updatedAt }) => updatedAt],
});

const maxPage = 100;

/** Limit in decimal digits: other spellings of numbers in JavaScript (`0x10`, `1e1`, ` 5 `) are refused. */
const pageLimit = z
  .string()
  .regex(/^(?:[1-9]\d?|100)$/, `Expected a whole number from 1 to ${maxPage}, in decimal digits.`)
  .optional()
  .transform((given = '20') => Number(given))
  // A number has no pattern.
  .meta({ type: 'integer', minimum: 1, maximum: maxPage, pattern: undefined, description: 'Default: 20.' });

const query = z.object({
  name_contains: z.string().optional().describe('A part of the name, in any case.'),
  status: z.enum(['active', 'inactive']).optional(),
  limit: pageLimit,
  cursor: z.string().optional().describe('As it stands in the `next` of the page before.'),
});

export const listWorkspaces = endpoint({
  summary: 'List the workspaces',
  description:
    'In the order of their creation, page by page: `next` is the address of the next page, null on the last. A workspace comes into being ' +
    'with the first connector or scoped token that names it.',
  access: 'application',
  request: { query },
  success: {
    status: 200,
    description: 'One page.',
    body: z.object({ data: z.array(workspace), next: z.url().nullable() }).meta({ id: 'WorkspaceList' }),
  },
  refusals: { 400: 'The cursor is none of this service.' },
  example: { query: { limit: '20' } },
  handle({ query: wanted }, { principal, baseUrl }, { state }) {
    const found = state.workspaces.list(principal.organizationId, {
      nameContains: wanted.name_contains ?? null,
      status: wanted.status ?? null,
      // One more than is shown says whether a next page would hold something.
      limit: wanted.limit + 1,
      after: wanted.cursor === undefined ? 0 : readCursor(wanted.cursor),
    });
    const data = found.slice(0, wanted.limit);
    const last = found.length > wanted.limit ? data.at(-1) : undefined;
    const next = last === undefined ? null : nextUrl(baseUrl, wanted, last.sequence);
    return json({ data: data.map(toWorkspace), next });
  },
});

function nextUrl(baseUrl: string, wanted: z.output<typeof query>, last: number): string {
  const url = new URL('/api/v1/workspaces', baseUrl);
  if (wanted.name_contains !== undefined) url.searchParams.set('name_contains', wanted.name_contains);
  if (wanted.status !== undefined) url.searchParams.set('status', wanted.status);
  url.searchParams.set('limit', String(wanted.limit));
  url.searchParams.set('cursor', Buffer.from(`after ${last}`).toString('base64url'));
  return url.href;
}

/** The place of the last workspace that was shown, which may be deleted by now. */
function readCursor(cursor: string): number {
  const [, place] = /^after (\d{1,15})$/.exec(Buffer.from(cursor, 'base64url').toString()) ?? [];
  if (place !== undefined) return Number(place);
  throw new ApiError(400, 'The cursor is not one that this service gave: begin again without one.', {
    field: 'query.cursor',
    errorCode: 'invalid_cursor',
  });
}

/** Parts that endpoints of one workspace share. */
const ofWorkspace = {
  access: 'application',
  request: { path: z.object({ id: z.string().describe("The workspace's id.") }) },
  refusals: { 404: 'There is no such workspace.' },
  example: { path: { id: '00000000-0000-4000-8000-000000000000' } },
} as const;

export const countWorkspaces = endpoint({
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
    return json({ active_count: active, inactive_count: inactive, total_count: active + inactive });
  },
});

export const showWorkspace = endpoint({
  ...ofWorkspace,
  summary: 'Show a workspace',
  description: 'A scoped token sees its own.',
  access: 'workspace',
  success: { status: 200, description: 'The workspace.', body: workspace },
  handle: ({ path }, { principal }, { state }) =>
    json(toWorkspace(workspaceById(state, principal, path.id.toLowerCase()))),
});

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
    if (!givesSomething(body)) return json(toWorkspace(before));
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
