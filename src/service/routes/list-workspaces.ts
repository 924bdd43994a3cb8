import * as z from 'zod';
import { ApiError } from '../api-error.ts';
import { endpoint } from './endpoint.ts';
import { toWorkspace, workspace } from './workspace-answer.ts';

const path = '/api/v1/workspaces';
const pageSize = { default: 20, max: 100 };

const query = z.object({
  name_contains: z.string().optional().describe('A part of the name, in any case.'),
  status: z.enum(['active', 'inactive']).optional(),
  limit: wholeNumber({ min: 1, max: pageSize.max, preset: pageSize.default }),
  cursor: z.string().optional().describe('As it stands in the `next` of the page before.'),
});

export const listWorkspaces = endpoint({
  method: 'GET',
  path,
  operationId: 'listWorkspaces',
  tag: 'Workspaces',
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
      after: wanted.cursor === undefined ? null : readCursor(wanted.cursor),
    });
    const data = found.slice(0, wanted.limit);
    const last = found.length > wanted.limit ? data.at(-1) : undefined;
    const next = last === undefined ? null : nextUrl(baseUrl, wanted, last.id);
    return { kind: 'json', body: { data: data.map(toWorkspace), next } };
  },
});

function nextUrl(baseUrl: string, wanted: z.output<typeof query>, lastId: string): string {
  const url = new URL(path, baseUrl);
  if (wanted.name_contains !== undefined) url.searchParams.set('name_contains', wanted.name_contains);
  if (wanted.status !== undefined) url.searchParams.set('status', wanted.status);
  url.searchParams.set('limit', String(wanted.limit));
  url.searchParams.set('cursor', Buffer.from(lastId).toString('base64url'));
  return url.href;
}

/** An id, wrapped so that it is not mistaken for a plain one. */
function readCursor(cursor: string): string {
  const id = Buffer.from(cursor, 'base64url').toString();
  if (z.guid().safeParse(id).success) return id;
  throw new ApiError(400, 'The cursor is not one that this service gave: begin again without one.', {
    field: 'query.cursor',
    errorCode: 'invalid_cursor',
  });
}

/** A number in a query string, in decimal digits: what else JavaScript takes for a number (`0x10`, `1e1`, ` 5 `) is refused. */
function wholeNumber({
  min,
  max,
  preset,
}: {
  readonly min: number;
  readonly max: number;
  readonly preset: number;
}): z.ZodType<number> {
  return z
    .unknown()
    .optional()
    .transform((given, context) => {
      if (given === undefined) return preset;
      const number = typeof given === 'string' && /^\d{1,15}$/.test(given) ? Number(given) : NaN;
      if (number >= min && number <= max) return number;
      context.addIssue({
        code: 'custom',
        message: `Expected a whole number from ${min} to ${max}, in decimal digits.`,
      });
      return z.NEVER;
    })
    .meta({ type: 'integer', minimum: min, maximum: max, default: preset });
}
