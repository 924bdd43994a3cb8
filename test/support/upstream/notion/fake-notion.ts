import { hash, randomUUID } from 'node:crypto';
import { isJsonObject, type JsonObject, type JsonValue } from '../../../../src/core/json.ts';
import type { SampleAccount } from '../../../../src/sample/sample-account.ts';
import { textOf } from '../../../../src/sample/sample-values.ts';
import { ApiError } from '../../../../src/service/api-error.ts';
import { type Answer, AnswerInstead, jsonAnswer } from '../answer.ts';
import { type CredentialState, type FakeRequest, tokenOf } from '../fake-request.ts';
import { type FakeServer, startFakeServer } from '../fake-server.ts';
import { matchPath } from '../match-path.ts';
import { type OAuthServer, openOAuthServer } from '../oauth-server.ts';
import { allOf, wireAccount } from '../wire-account.ts';
import { expected, refuseOthers, sizeIn, uuidIn } from './notion-checks.ts';
import { invalid, notionError, objectNotFound, rateLimited, unauthorized } from './notion-errors.ts';
import { type NotionListing, type NotionPage, type NotionPages, openNotionPages } from './notion-pages.ts';
import { searchListing } from './notion-search.ts';
import { notionWire } from './notion-wire.ts';

export interface FakeNotionOptions {
  readonly account: SampleAccount;
  /** Another workspace has another token and identity. */
  readonly workspaceName?: string;
  /** So many requests in any span of this length; further ones have to wait as long. Left out: no limit. */
  readonly limit?: { readonly requests: number; readonly perMs: number };
}

export interface FakeNotion extends FakeServer, Omit<NotionPages, 'cut'> {
  /** Where the API lies: `http://127.0.0.1:PORT/v1`. The official client adds `/v1` itself. */
  readonly baseUrl: string;
  /** Of an internal integration. */
  readonly token: string;
  readonly oauth: OAuthServer;
  readonly workspaceId: string;
  /** The account as the service writes it. */
  readonly account: SampleAccount;
  /** Every page and data source has another `url` from now on, and is not edited. */
  moveUrls(): void;
}

export const notionVersion = '2025-09-03';
const knownVersions = ['2022-06-28', notionVersion, '2026-03-11'];

/**
 * Notion's API at version 2025-09-03 as a reader of its documentation meets it, for the five entities of
 * `workspace-notes`.
 */
export async function startFakeNotion(options: FakeNotionOptions): Promise<FakeNotion> {
  const { workspaceName = 'Example workspace' } = options;
  const workspaceId = uuidOf(workspaceName);
  const token = `ntn_${hash('sha256', `token of ${workspaceName}`).slice(0, 46)}`;
  const oauth = openOAuthServer({ workspace_id: workspaceId, workspace_name: workspaceName });
  const pages = openNotionPages();
  let urlBase = 'https://notes.example.test';
  const account = wireAccount(options.account, notionWire({ workspaceId, urlBase: () => urlBase }));

  const credentialOf = (request: FakeRequest): CredentialState => {
    if (request.path === '/v1/oauth/token') return oauth.clientOf(request);
    const sent = tokenOf(request);
    if (sent === null) return 'none';
    return sent === token || oauth.takes(sent) ? 'right' : 'wrong';
  };

  const answer = (request: FakeRequest): Answer => {
    if (request.path === '/v1/oauth/token') return oauth.answer(request);
    if (credentialOf(request) !== 'right') return unauthorized();
    const version = request.headers['notion-version'];
    if (version === undefined) {
      return notionError(
        400,
        'missing_version',
        'Notion-Version header should be defined, instead was `undefined`.',
      );
    }
    if (!knownVersions.includes(version)) {
      throw invalid(
        `Notion-Version header should be one of the known versions, instead was \`"${version}"\`.`,
      );
    }
    const body = bodyOf(request, version);
    const request_id = randomUUID();
    return jsonAnswer(200, { ...body, request_id }, { 'x-notion-request-id': request_id });
  };

  const bodyOf = ({ method, path, query, body }: FakeRequest, version: string): JsonObject => {
    const below = path.replace(/^\/v1/, '');
    const at = (template: string): string | null => {
      const values = matchPath(template, below);
      return values === null ? null : (Object.values(values)[0] ?? '');
    };
    // The first version with data sources is 2025-09-03.
    const isKnown = version !== '2022-06-28' || !below.startsWith('/data_sources');
    if (method === 'POST' && below === '/search') return search(body);
    if (method !== 'GET' || !path.startsWith('/v1/') || !isKnown) throw invalidUrl();
    if (below === '/users') return paged('user', query, [], () => whole('users', account.list('users', {})));
    if (below === '/users/me') return ownUser();
    if (below === '/comments') {
      return paged('comment', query, ['block_id'], () => {
        const id = uuidIn('query.block_id', query.get('block_id'));
        return whole(
          `comments ${id}`,
          below404('block', id, () => account.list('comments', { block_id: id })),
        );
      });
    }
    const parent = at('/blocks/{block_id}/children');
    if (parent !== null) {
      return paged('block', query, [], () => {
        const id = uuidIn('path.block_id', parent);
        return whole(
          `children ${id}`,
          below404('block', id, () => account.list('blocks', { block_id: id })),
        );
      });
    }
    for (const [template, entity, what] of singles) {
      const id = at(template);
      if (id !== null) return single(entity, what, /\{(.+)\}/.exec(template)?.[1] ?? '', id, query);
    }
    throw invalidUrl();
  };

  const paged = (
    type: string,
    query: URLSearchParams,
    others: readonly string[],
    listing: () => NotionListing,
  ): JsonObject => {
    const { start_cursor, page_size, ...rest } = Object.fromEntries(query);
    refuseOthers(
      'query',
      Object.fromEntries(Object.entries(rest).filter(([name]) => !others.includes(name))),
    );
    const size = page_size === undefined ? undefined : Number(page_size);
    return listOf(type, pages.cut(listing(), start_cursor ?? null, sizeIn('query', size)));
  };

  const search = (body: JsonValue | undefined): JsonObject => {
    if (body === undefined) {
      throw new AnswerInstead(notionError(400, 'invalid_json', 'Error parsing JSON body.'));
    }
    const { start_cursor, page_size, query, filter, sort, ...rest } = isJsonObject(body) ? body : {};
    refuseOthers('body', rest);
    if (start_cursor !== undefined && typeof start_cursor !== 'string') {
      throw expected('body.start_cursor', 'a string` or `not present', start_cursor);
    }
    const asked = Object.entries({ query, filter, sort }).filter(
      (entry): entry is [string, JsonValue] => entry[1] !== undefined,
    );
    const listing = searchListing(account, Object.fromEntries(asked));
    return listOf('page_or_data_source', pages.cut(listing, start_cursor ?? null, sizeIn('body', page_size)));
  };

  const single = (
    entity: string,
    what: string,
    param: string,
    id: string,
    query: URLSearchParams,
  ): JsonObject => {
    const uuid = uuidIn(`path.${param}`, id);
    const { request_id: _own, ...record } = account.get(entity, { [param]: uuid }) ?? {};
    if (record.id === undefined) throw objectNotFound(what, uuid);
    const asked = query.getAll('filter_properties');
    const { properties } = record;
    if (entity !== 'pages' || asked.length === 0 || !isJsonObject(properties)) return record;
    const kept = Object.entries(properties).filter(
      ([, property]) => isJsonObject(property) && asked.includes(textOf(property['id'])),
    );
    return { ...record, properties: Object.fromEntries(kept) };
  };

  /** The bot that the token belongs to. */
  const ownUser = (): JsonObject =>
    allOf(account.list('users', {})).find(({ type }) => type === 'bot') ?? {
      object: 'user',
      id: uuidOf(`bot of ${workspaceName}`),
      name: 'Example integration',
      avatar_url: null,
      type: 'bot',
      bot: {
        owner: { type: 'workspace', workspace: true },
        workspace_name: workspaceName,
        workspace_id: workspaceId,
        workspace_limits: { max_file_upload_size_in_bytes: 5_242_880 },
      },
    };

  const taken: number[] = [];
  const refuse = (): Answer | null => {
    const { requests, perMs } = options.limit ?? { requests: Number.POSITIVE_INFINITY, perMs: 0 };
    const now = Date.now();
    while (taken[0] !== undefined && taken[0] <= now - perMs) taken.shift();
    if (taken.length >= requests) return rateLimited(String(Math.ceil(perMs / 1_000)));
    taken.push(now);
    return null;
  };
  const server = await startFakeServer({ answer, credentialOf, refuse });
  return Object.assign(server, {
    baseUrl: `${server.origin}/v1`,
    token,
    oauth,
    workspaceId,
    account,
    expireCursors: () => pages.expireCursors(),
    shorten: (how: Parameters<NotionPages['shorten']>[0]) => pages.shorten(how),
    moveUrls: () => {
      urlBase = 'https://app.notes.example.test/p';
    },
  });
}

/** Address of a single record, entity, and what its error calls it. */
const singles = [
  ['/users/{user_id}', 'users', 'user'],
  ['/pages/{page_id}', 'pages', 'page'],
  ['/data_sources/{data_source_id}', 'data_sources', 'data source'],
  ['/blocks/{block_id}', 'blocks', 'block'],
  ['/comments/{comment_id}', 'comments', 'comment'],
] as const;

function listOf(type: string, page: NotionPage): JsonObject {
  return { object: 'list', ...page, type, [type]: {} };
}

function whole(name: string, listing: Parameters<typeof allOf>[0]): NotionListing {
  return { name, records: allOf(listing), sortedBy: null };
}

function below404<Value>(what: string, id: string, list: () => Value): Value {
  try {
    return list();
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) throw objectNotFound(what, id);
    throw error;
  }
}

function uuidOf(name: string): string {
  const hex = hash('md5', name);
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `4${hex.slice(13, 16)}`,
    `a${hex.slice(17, 20)}`,
    hex.slice(20),
  ].join('-');
}

function invalidUrl(): AnswerInstead {
  return new AnswerInstead(notionError(400, 'invalid_request_url', 'Invalid request URL.'));
}
