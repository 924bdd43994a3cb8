import * as z from 'zod';
import type { ApiCall } from './api-caller.ts';
import type { CallFacts } from './call-failure.ts';
import { catalogFacts, readAnswer } from './read-answer.ts';
import { invalidBody } from './classify-failure.ts';

/** A workspace of the organization; what the service does not say is null. */
export interface WorkspaceSummary {
  readonly id: string;
  readonly name: string;
  /** `active` or `inactive`, and whatever the service may call it one day. */
  readonly status: string | null;
  readonly createdAt: string | null;
}

export interface WorkspaceFilter {
  /** Part of the name, in any case. Null: all of them. */
  readonly nameContains: string | null;
  readonly status: 'active' | 'inactive' | null;
}

export interface WorkspacePage {
  readonly workspaces: readonly WorkspaceSummary[];
  /** For the next page; null: this was the last one. */
  readonly cursor: string | null;
}

/** The most that the service gives at once. */
const pageSize = 100;
const longestCursor = 8_192;

const workspaceList = z.object({
  data: z.array(
    z.object({
      id: z.string(),
      name: z.string(),
      status: z.string().nullish(),
      created_at: z.string().nullish(),
    }),
  ),
  next: z.string().nullish(),
});

/** One page; `baseUrl` is where the service is, and where its `next` must lead. */
export function workspacesCall(
  { nameContains, status }: WorkspaceFilter,
  cursor: string | null,
  baseUrl: string,
): ApiCall<WorkspacePage> {
  const facts = catalogFacts('list workspaces');
  const query = {
    limit: String(pageSize),
    ...(nameContains === null ? {} : { name_contains: nameContains }),
    ...(status === null ? {} : { status }),
    ...(cursor === null ? {} : { cursor }),
  };
  return {
    request: { method: 'GET', path: '/api/v1/workspaces', query, body: null },
    facts,
    read({ text }) {
      const { data, next } = readAnswer(text, workspaceList, facts);
      return {
        workspaces: data.map((one) => ({
          id: one.id,
          name: one.name,
          status: one.status ?? null,
          createdAt: one.created_at ?? null,
        })),
        cursor: next === null || next === undefined ? null : cursorIn(next, baseUrl, facts),
      };
    },
  };
}

/**
 * The cursor sits in the query of a whole URL. That URL is never called: the cursor goes to the service that is configured. A
 * host that is another one says that the answer was not meant for us.
 */
function cursorIn(next: string, baseUrl: string, facts: CallFacts): string {
  const refuse = (why: string): never => {
    throw invalidBody(facts, `expected next to be a URL of the same service, ${why}`, 'stop');
  };
  if (!URL.canParse(next, baseUrl)) return refuse('got no URL');
  const url = new URL(next, baseUrl);
  if (!/^https?:$/.test(url.protocol) || url.host !== new URL(baseUrl).host) {
    return refuse('got another host');
  }
  const cursor = url.searchParams.get('cursor') ?? '';
  if (cursor === '' || cursor.length > longestCursor) return refuse('got one without a usable cursor');
  return cursor;
}
