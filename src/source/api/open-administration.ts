import * as z from 'zod';
import type { JsonObject } from '../../core/json.ts';
import type { ConnectorId } from '../../core/names.ts';
import type { ApiCall } from './api-caller.ts';
import { stopError, type CallFacts } from './call-failure.ts';
import {
  catalogCall,
  checkConnectorId,
  connectorsPath,
  definitionCall,
  namedConnector,
  unsaid,
} from './catalog-calls.ts';
import { invalidBody } from './classify-failure.ts';
import type { ApiClient } from './open-api-client.ts';
import { stringifyParams } from '../../http/lossless-json.ts';

export type Administration = ReturnType<typeof openAdministration>;

/** Stops on an endless list. */
const mostPages = 10_000;

/**
 * What a person does to an account, as far as a sync has no part in it. Every method rejects with a classified
 * `SyncError`, as the client's do; those that change something are sent once, unless it is certain that nothing was
 * done. The client stays the caller's; `baseUrl` is the client's.
 */
export function openAdministration(client: ApiClient, baseUrl: string) {
  const budget = client.openBudget({ concurrency: 1, requestsPerSecond: 10 });
  const call = async <T>(one: ApiCall<T>, signal: AbortSignal): Promise<T> =>
    await client.call(one, budget, () => undefined, signal);
  return {
    /** A connector type by its id in the API's catalog. Throws NOT_FOUND. */
    definition: async (id: string, signal: AbortSignal) => await call(definitionCall(id), signal),
    /** All of them, whatever the size of the service's pages. */
    async workspaces(filter: WorkspaceFilter, signal: AbortSignal): Promise<readonly WorkspaceSummary[]> {
      const found: WorkspaceSummary[] = [];
      const seen = new Set<string>();
      for (let cursor: string | null = null; ;) {
        const page: WorkspacePage = await call(workspacesCall(filter, cursor, baseUrl), signal);
        found.push(...page.workspaces);
        ({ cursor } = page);
        if (cursor === null) return found;
        if (seen.has(cursor) || seen.size >= mostPages) {
          throw stopError(
            'PAGING_BROKEN',
            'list workspaces: expected each page to lead to a new one, got a cursor again; the service does not page as it says',
          );
        }
        seen.add(cursor);
      }
    },
    /** Sent again only where it cannot have been done. `name` null: chosen by the service. */
    async createConnector({ workspace, definitionId, name, credentials }: NewConnector, signal: AbortSignal) {
      const body = stringifyParams({
        workspace_name: workspace,
        definition_id: definitionId,
        ...(name === null ? {} : { name }),
        ...(credentials === null ? {} : { credentials }),
      });
      const request = { path: connectorsPath, body };
      const how = { isWrite: true };
      const created = catalogCall('create the connector', request, namedConnector, (found) => found, how);
      return await call(created, signal);
    },
    /**
     * Asks the third party about the connector's credentials. Null: it takes them; else why not, as the service says
     * it. Throws NOT_FOUND.
     */
    async checkConnector(id: ConnectorId, signal: AbortSignal): Promise<string | null> {
      const request = { path: `${connectorsPath}/${checkConnectorId(id)}/check`, body: '{}' };
      const check = catalogCall('check the connector', request, checked, (found) => found);
      const { status, error_message: message } = await call(check, signal);
      return status === 'succeeded' ? null : (message ?? 'the API gives no reason');
    },
    /** Resolves when the service has accepted it, with the job that does it where it names one. Throws NOT_FOUND. */
    async deleteConnector(id: ConnectorId, signal: AbortSignal): Promise<string | null> {
      const request = { method: 'DELETE', path: `${connectorsPath}/${checkConnectorId(id)}` } as const;
      // The status says that it was accepted: an empty body is fine.
      const how = { isWrite: true, mayBeEmpty: true };
      const deletion = catalogCall('delete the connector', request, deleted, ({ job_id: job }) => job, how);
      return await call(deletion, signal);
    },
  };
}

interface NewConnector {
  readonly workspace: string;
  readonly definitionId: string;
  readonly name: string | null;
  /** For the third party; they travel in the body and nowhere else. Null: none are sent. */
  readonly credentials: JsonObject | null;
}

const checked = z.object({ status: z.enum(['succeeded', 'failed']), error_message: unsaid });
const deleted = z.object({ job_id: unsaid });

const workspaceSummary = z
  .object({
    id: z.string(),
    name: z.string(),
    /** `active` or `inactive`, and whatever the service may call it one day. */
    status: unsaid,
    created_at: unsaid,
  })
  .transform(({ created_at: createdAt, ...others }) => ({ ...others, createdAt }));
/** A workspace of the organization. */
type WorkspaceSummary = Readonly<z.output<typeof workspaceSummary>>;

interface WorkspaceFilter {
  /** Part of the name, in any case. Null: all of them. */
  readonly nameContains: string | null;
  readonly status: 'active' | 'inactive' | null;
}

interface WorkspacePage {
  readonly workspaces: readonly WorkspaceSummary[];
  /** For the next page; null: this was the last one. */
  readonly cursor: string | null;
}

/** The most that the service gives at once. */
const pageSize = 100;
const longestCursor = 8_192;

const workspaceList = z.object({ data: z.array(workspaceSummary), next: unsaid });

/** One page; `baseUrl` is where the service is, and where its `next` must lead. */
function workspacesCall(
  { nameContains, status }: WorkspaceFilter,
  cursor: string | null,
  baseUrl: string,
): ApiCall<WorkspacePage> {
  const query = {
    limit: String(pageSize),
    ...(nameContains === null ? {} : { name_contains: nameContains }),
    ...(status === null ? {} : { status }),
    ...(cursor === null ? {} : { cursor }),
  };
  const request = { path: '/api/v1/workspaces', query };
  return catalogCall('list workspaces', request, workspaceList, ({ data, next }, facts) => ({
    workspaces: data,
    cursor: next === null ? null : cursorIn(next, baseUrl, facts),
  }));
}

/**
 * The cursor sits in the query of a whole URL. That URL is never called: the cursor goes to the service that is
 * configured. A host that is another one says that the answer was not meant for us.
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
