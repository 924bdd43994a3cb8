import { hash, randomUUID } from 'node:crypto';
import { isJsonObject, type JsonObject, type JsonValue } from '../../../src/core/json.ts';
import type { Listing, SampleAccount } from '../../../src/sample/sample-account.ts';
import { textOf } from '../../../src/sample/sample-values.ts';
import { ApiError } from '../../../src/service/api-error.ts';
import {
  type Answer,
  AnswerInstead,
  type CredentialState,
  type FakeRequest,
  jsonAnswer,
  matchPath,
  openOAuthServer,
  startFakeServer,
  tokenOf,
  allOf,
  wireAccount,
} from './fake-server.ts';

export type FakeNotion = Awaited<ReturnType<typeof startFakeNotion>>;

export const notionVersion = '2025-09-03';

/** Records to cut a page out of. */
interface NotionListing {
  /** Tells one listing from all others, whatever its pages' size: a cursor is good for its listing alone. */
  readonly name: string;
  readonly records: readonly JsonObject[];
  /** A listing in the order of this field; null: in the owner's order. */
  readonly sortedBy: { readonly field: string; readonly isAscending: boolean } | null;
}

/** Address of a single record, entity, and what its error calls it. */
const singles = [
  ['/users/{user_id}', 'users', 'user'],
  ['/pages/{page_id}', 'pages', 'page'],
  ['/data_sources/{data_source_id}', 'data_sources', 'data source'],
  ['/blocks/{block_id}', 'blocks', 'block'],
  ['/comments/{comment_id}', 'comments', 'comment'],
] as const;

/**
 * Notion's API at version 2025-09-03 as a reader of its documentation meets it, for the five entities of
 * `workspace-notes`. Another workspace has another token and identity.
 */
export async function startFakeNotion(sample: SampleAccount, workspaceName = 'Example workspace') {
  const workspaceId = uuidOf(workspaceName);
  const token = `ntn_${hash('sha256', `token of ${workspaceName}`).slice(0, 46)}`;
  const oauth = openOAuthServer({ workspace_id: workspaceId, workspace_name: workspaceName });
  const cut = openNotionPages();
  const account = wireAccount(sample, (entity, record) => toWire(entity, record, workspaceId));

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
    if (version !== notionVersion) {
      throw invalid(`Notion-Version header should be "${notionVersion}", instead was "${version}".`);
    }
    const body = bodyOf(request);
    const request_id = randomUUID();
    return jsonAnswer(200, { ...body, request_id }, { 'x-notion-request-id': request_id });
  };

  const bodyOf = ({ method, path, query, body }: FakeRequest): JsonObject => {
    const below = path.replace(/^\/v1/, '');
    const at = (template: string): string | undefined => Object.values(matchPath(template, below) ?? {})[0];
    if (method === 'POST' && below === '/search') return search(body);
    if (method !== 'GET' || !path.startsWith('/v1/')) throw invalidUrl();
    if (below === '/users') return paged('user', query, whole('users', account.list('users', {})));
    if (below === '/users/me') return ownUser();
    if (below === '/comments') {
      const { block_id, ...rest } = Object.fromEntries(query);
      return paged('comment', new URLSearchParams(rest), ofBlock('comments', 'query.block_id', block_id));
    }
    const parent = at('/blocks/{block_id}/children');
    if (parent !== undefined) return paged('block', query, ofBlock('blocks', 'path.block_id', parent));
    for (const [template, entity, what] of singles) {
      const id = at(template);
      if (id !== undefined) return single(entity, what, /\{(.+)\}/.exec(template)?.[1] ?? '', id);
    }
    throw invalidUrl();
  };

  const ofBlock = (entity: string, place: string, value: string | undefined): NotionListing => {
    const id = uuidIn(place, value);
    try {
      return whole(`${entity} ${id}`, account.list(entity, { block_id: id }));
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) throw objectNotFound('block', id);
      throw error;
    }
  };

  const paged = (type: string, query: URLSearchParams, listing: NotionListing): JsonObject => {
    const { start_cursor, page_size, ...rest } = Object.fromEntries(query);
    refuseOthers('query', rest);
    const size = sizeIn('query', page_size === undefined ? undefined : Number(page_size));
    return { object: 'list', ...cut(listing, start_cursor, size), type, [type]: {} };
  };

  const search = (body: JsonValue | undefined): JsonObject => {
    if (body === undefined) {
      throw new AnswerInstead(notionError(400, 'invalid_json', 'Error parsing JSON body.'));
    }
    const { start_cursor, page_size, filter, sort, ...rest } = isJsonObject(body) ? body : {};
    refuseOthers('body', rest);
    if (start_cursor !== undefined && typeof start_cursor !== 'string') {
      throw expected('body.start_cursor', 'a string` or `not present', start_cursor);
    }
    const page = cut(searchListing(account, filter, sort), start_cursor, sizeIn('body', page_size));
    return { object: 'list', ...page, type: 'page_or_data_source', page_or_data_source: {} };
  };

  const single = (entity: string, what: string, param: string, id: string): JsonObject => {
    const uuid = uuidIn(`path.${param}`, id);
    const { request_id: _own, ...record } = account.get(entity, { [param]: uuid }) ?? {};
    if (record.id === undefined) throw objectNotFound(what, uuid);
    return record;
  };

  /** The bot that the token belongs to. */
  const ownUser = (): JsonObject => {
    const bot = allOf(account.list('users', {})).find(({ type }) => type === 'bot');
    if (bot === undefined) throw new Error('the account has no bot');
    return bot;
  };

  const server = await startFakeServer({ answer, credentialOf });
  /** `http://127.0.0.1:PORT/v1`, the token of an internal integration, and the account as the service writes it. */
  return Object.assign(server, { baseUrl: `${server.origin}/v1`, token, oauth, workspaceId, account });
}

function whole(name: string, listing: Listing): NotionListing {
  return { name, records: allOf(listing), sortedBy: null };
}

function uuidOf(name: string): string {
  const hex = hash('md5', name);
  return hex.replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12})$/, '$1-$2-4$3-a$4-$5');
}

// --- Records: what API version 2025-09-03 sends and the sample account does not, and the other way round

function toWire(entity: string, record: JsonObject, workspaceId: string): JsonObject {
  const { bot, person } = record;
  if (entity === 'data_sources') {
    const { is_archived: _archived, is_locked: _locked, properties, ...rest } = record;
    return { ...rest, properties: described(properties) };
  }
  if (entity !== 'users') return record;
  if (isJsonObject(person) && 'email' in person) {
    return { ...record, person: { ...person, email_verified: true } };
  }
  if (!isJsonObject(bot)) return record;
  const workspace_limits = { max_file_upload_size_in_bytes: 5_242_880 };
  return { ...record, bot: { ...bot, workspace_id: workspaceId, workspace_limits } };
}

/** Every property of a data source has a description, which is mostly null. */
function described(properties: JsonValue | undefined): JsonValue {
  if (!isJsonObject(properties)) return properties ?? null;
  return Object.fromEntries(
    Object.entries(properties).map(([name, property]) => [
      name,
      isJsonObject(property) ? { ...property, description: null } : property,
    ]),
  );
}

// --- Pages

/** The place before the next record, such that records which come, go and move elsewhere do not shift it. */
interface Place {
  readonly listing: string;
  readonly lastId: string;
  readonly lastValue: string;
  readonly nextId: string;
}

function openNotionPages() {
  const places = new Map<string, Place>();
  const startOf = (listing: NotionListing, cursor: string | undefined): number => {
    if (cursor === undefined) return 0;
    const place = places.get(cursor);
    if (place === undefined || place.listing !== listing.name) throw staleCursor();
    return positionOf(listing, place);
  };

  const cursorAt = (listing: NotionListing, start: number): string => {
    const cursor = randomUUID();
    const last = listing.records[start - 1];
    places.set(cursor, {
      listing: listing.name,
      lastId: textOf(last?.['id']),
      lastValue: textOf(last?.[listing.sortedBy?.field ?? 'id']),
      nextId: textOf(listing.records[start]?.['id']),
    });
    return cursor;
  };

  return (listing: NotionListing, cursor: string | undefined, size: number) => {
    const start = startOf(listing, cursor);
    const end = Math.min(start + size, listing.records.length);
    const has_more = end < listing.records.length;
    const results = listing.records.slice(start, end);
    return { results, next_cursor: has_more ? cursorAt(listing, end) : null, has_more };
  };
}

function positionOf({ records, sortedBy }: NotionListing, { lastId, lastValue, nextId }: Place): number {
  const valueOf = (record: JsonObject): string => textOf(record[sortedBy?.field ?? 'id']);
  const last = records.findIndex((record) => record['id'] === lastId);
  if (last !== -1 && (sortedBy === null || valueOf(records[last] ?? {}) === lastValue)) return last + 1;
  if (sortedBy === null) {
    const next = records.findIndex(({ id }) => id === nextId);
    if (next === -1) throw staleCursor();
    return next;
  }
  // From the last record's own value on: what shares it comes again rather than not at all.
  const next = records.findIndex((record) =>
    sortedBy.isAscending ? valueOf(record) >= lastValue : valueOf(record) <= lastValue,
  );
  return next === -1 ? records.length : next;
}

/** The listing that a body of `POST /search` asks for. Throws 400 for what the service does not know. */
function searchListing(
  account: SampleAccount,
  filter: JsonValue | undefined,
  sort: JsonValue | undefined,
): NotionListing {
  const wanted = wantedKind(filter);
  const isAscending = directionOf(sort) === 'ascending';
  const found = (['page', 'data_source'] as const)
    .filter((kind) => wanted === null || wanted === kind)
    .flatMap((value) => allOf(account.list(`${value}s`, { filter: { property: 'object', value } })));
  const editedAt = (record: JsonObject): number => Date.parse(textOf(record['last_edited_time']));
  return {
    name: JSON.stringify(['search', filter, sort]),
    records: found.toSorted((left, right) => (isAscending ? 1 : -1) * (editedAt(left) - editedAt(right))),
    sortedBy: { field: 'last_edited_time', isAscending },
  };
}

function wantedKind(filter: JsonValue | undefined): string | null {
  if (filter === undefined) return null;
  const { property, value, ...rest } = isJsonObject(filter) ? filter : {};
  refuseOthers('body.filter', rest);
  if (property !== 'object') throw expected('body.filter.property', '"object"', property);
  if (value !== 'page' && value !== 'data_source') {
    throw expected('body.filter.value', '"page"` or `"data_source"', value);
  }
  return value;
}

function directionOf(sort: JsonValue | undefined): string {
  if (sort === undefined) return 'descending';
  const { timestamp, direction, ...rest } = isJsonObject(sort) ? sort : {};
  refuseOthers('body.sort', rest);
  if (timestamp !== 'last_edited_time') {
    throw expected('body.sort.timestamp', '"last_edited_time"', timestamp);
  }
  if (direction !== 'ascending' && direction !== 'descending') {
    throw expected('body.sort.direction', '"ascending"` or `"descending"', direction);
  }
  return direction;
}

/** Unknown names are refused, not ignored. */
function refuseOthers(place: string, others: Readonly<Record<string, JsonValue>>): void {
  const [name] = Object.keys(others);
  if (name !== undefined) throw expected(`${place}.${name}`, 'not present', others[name]);
}

function sizeIn(place: string, value: JsonValue | undefined): number {
  if (value === undefined) return 100;
  if (typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= 100) return value;
  throw expected(`${place}.page_size`, 'a whole number from 1 to 100', value);
}

function uuidIn(place: string, value: string | undefined): string {
  if (value !== undefined && /^[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}$/i.test(value)) return value;
  throw expected(place, 'a valid uuid', value);
}

// --- Errors

/** Codes are the service's own, and messages where clients go by their words. */
export function notionError(status: number, code: string, message: string, more: JsonObject = {}): Answer {
  const request_id = randomUUID();
  const body = { object: 'error', status, code, message, ...more, request_id };
  return jsonAnswer(status, body, { 'x-notion-request-id': request_id });
}

function invalid(message: string): AnswerInstead {
  return new AnswerInstead(notionError(400, 'validation_error', message));
}

function expected(place: string, what: string, came: JsonValue | undefined): AnswerInstead {
  const part = place.split('.')[0];
  return invalid(
    `${part} failed validation: ${place} should be \`${what}\`, instead was \`${JSON.stringify(came)}\`.`,
  );
}

function invalidUrl(): AnswerInstead {
  return new AnswerInstead(notionError(400, 'invalid_request_url', 'Invalid request URL.'));
}

function staleCursor(): AnswerInstead {
  return invalid('The start_cursor provided is invalid: it does not belong to this query, or has ended.');
}

function unauthorized(): Answer {
  return notionError(401, 'unauthorized', 'API token is invalid.');
}

/** The same for what does not exist and for what is not shared. */
function objectNotFound(what: string, id: string): AnswerInstead {
  const message =
    `Could not find ${what} with ID: ${id.slice(0, 60)}. Make sure the relevant pages and databases are shared with ` +
    'your integration "Example integration".';
  const additional_data = { integration_id: '5c2f6f8e-4d43-4be0-9c3c-0d9f3c2a7b11' };
  return new AnswerInstead(notionError(404, 'object_not_found', message, { additional_data }));
}
