import { hash, randomUUID } from 'node:crypto';
import { isJsonObject, type JsonObject, type JsonValue } from '../../../src/core/json.ts';
import type { Params } from '../../../src/core/records.ts';
import type { Listing, SampleAccount } from '../../../src/sample/sample-account.ts';
import { ApiError } from '../../../src/service/api-error.ts';
import {
  type Answer,
  AnswerInstead,
  basicOf,
  type CredentialState,
  type Effect,
  type FakeRequest,
  jsonAnswer,
  matchPath,
  startFakeServer,
  allOf,
  wireAccount,
} from './fake-server.ts';
import { instead } from './faults.ts';

export type FakeMailchimp = Awaited<ReturnType<typeof startFakeMailchimp>>;

/**
 * Mailchimp's Marketing API 3.0 as a reader of its documentation meets it, for the twelve entities of
 * `email-marketing`. Another account name has another key and identity.
 */
export async function startFakeMailchimp(sample: SampleAccount, accountName = 'Example') {
  // A number that the service only sends where it is asked for.
  const account = wireAccount(sample, (entity, record, params) => {
    const { stats } = record;
    const isAsked = params['include_total_contacts'] === true;
    if (entity !== 'lists' || isAsked || !isJsonObject(stats)) return record;
    const { total_contacts: _asked, ...sent } = stats;
    return { ...record, stats: sent };
  });
  const accountId = hash('md5', accountName).slice(0, 25);
  const apiKey = `${hash('md5', `key of ${accountName}`)}-us1`;

  const credentialOf = (request: FakeRequest): CredentialState => {
    const [, password = null] = basicOf(request) ?? [];
    if (password === null) return 'none';
    return password === apiKey ? 'right' : 'wrong';
  };

  const answer = (request: FakeRequest): Answer => {
    const credential = credentialOf(request);
    if (credential === 'none') return problem(401, 'API Key Missing', 'The request has no API key.');
    if (credential === 'wrong') return keyInvalid();
    if (!/^\/3\.0(\/|$)/.test(request.path)) throw notFound();
    if (request.method !== 'GET') return problem(405, 'Method Not Allowed', 'This fake can only be read.');
    try {
      return jsonAnswer(200, bodyOf(request.path.slice('/3.0'.length), request.query));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      throw error.status === 404 ? notFound() : new AnswerInstead(problem(400, 'Bad Request', error.message));
    }
  };

  const bodyOf = (path: string, query: URLSearchParams): JsonObject => {
    if (path === '' || path === '/') return { account_id: accountId, account_name: accountName };
    if (path === '/ping') return { health_status: "Everything's Chimpy!" };
    for (const route of mailchimpRoutes) {
      const parents = matchPath(route.list, path);
      if (parents !== null) return listBody(account, route, parents, query);
      const ids = route.get === null ? null : matchPath(route.get, path);
      if (ids !== null) return recordOf(account, route, ids, query);
    }
    throw notFound();
  };

  const server = await startFakeServer({
    answer,
    credentialOf,
    refuse: (inFlight) => (inFlight > 10 ? tooManyConnections() : null),
  });
  /** `http://127.0.0.1:PORT/3.0`, and the account as the service writes it. */
  return Object.assign(server, { baseUrl: `${server.origin}/3.0`, apiKey, accountId, account });
}

// --- Routes

type MailchimpRoute = (typeof mailchimpRoutes)[number];

/**
 * Where one kind of record is listed, the member of the answer that holds the records, and where a single one is, whose
 * id is the last name of the path. `repeats`: members of a list's answer that repeat what is in its path.
 */
function route(
  entity: string,
  list: string,
  array: string,
  get: string | null = null,
  repeats: Readonly<Record<string, string>> = {},
) {
  return { entity, list, array, get: get === null ? null : `${list}/{${get}}`, repeats };
}

const ofList = { list_id: 'list_id' };
const ofCampaign = { campaign_id: 'campaign_id' };
const categories = '/lists/{list_id}/interest-categories';

/** Every address of the API that tells what one of the twelve entities holds. */
export const mailchimpRoutes = [
  route('lists', '/lists', 'lists', 'list_id'),
  route('campaigns', '/campaigns', 'campaigns', 'campaign_id'),
  route('automations', '/automations', 'automations', 'workflow_id'),
  route('reports', '/reports', 'reports', 'campaign_id'),
  route('list_members', '/lists/{list_id}/members', 'members', 'subscriber_hash', ofList),
  route('tags', '/lists/{list_id}/tag-search', 'tags'),
  route('interest_categories', categories, 'categories', 'interest_category_id', ofList),
  route('interests', `${categories}/{interest_category_id}/interests`, 'interests', 'interest_id', {
    ...ofList,
    category_id: 'interest_category_id',
  }),
  route('segments', '/lists/{list_id}/segments', 'segments', 'segment_id', ofList),
  route('segment_members', '/lists/{list_id}/segments/{segment_id}/members', 'members'),
  route('email_activity', '/reports/{campaign_id}/email-activity', 'emails', null, ofCampaign),
  route('unsubscribes', '/reports/{campaign_id}/unsubscribed', 'unsubscribes', null, ofCampaign),
] as const;

function listBody(
  account: SampleAccount,
  { entity, array, repeats }: MailchimpRoute,
  parents: Readonly<Record<string, string>>,
  query: URLSearchParams,
): JsonObject {
  const listing = account.list(entity, { ...parents, ...paramsOf(query) });
  const size = sizeOf(listing);
  const count = Math.min(1_000, wholeNumber(query, 'count', 10));
  // Tags come all at once, and with no `_links` beside them.
  const isPaged = entity !== 'tags';
  const records = isPaged ? listing.slice(wholeNumber(query, 'offset', 0), count) : allOf(listing);
  const repeated = Object.entries(repeats).map(([member, name]) => [member, parents[name] ?? '']);
  return {
    [array]: records,
    ...Object.fromEntries(repeated),
    total_items: size,
    ...(entity === 'lists'
      ? { constraints: { may_create: true, max_instances: 100, current_total_instances: size } }
      : {}),
    ...(isPaged ? { _links: listing.metadata?.['links'] ?? [] } : {}),
  };
}

function recordOf(
  account: SampleAccount,
  { entity }: MailchimpRoute,
  ids: Readonly<Record<string, string>>,
  query: URLSearchParams,
): JsonObject {
  const record =
    entity === 'automations'
      ? allOf(account.list(entity, {})).find(({ id }) => id === ids['workflow_id'])
      : account.get(entity, { ...ids, ...paramsOf(query) });
  if (record === undefined || record === null) throw notFound();
  return record;
}

/** The filters of a query. Others change nothing, as with the service. */
function paramsOf(query: URLSearchParams): Params {
  if (query.has('since_last_campaign') && !query.has('status')) {
    throw new AnswerInstead(problem(400, 'Bad Request', 'Status is required.'));
  }
  return Object.fromEntries(
    [...query].flatMap(([name, value]): readonly (readonly [string, JsonValue])[] => {
      if (name === 'count' || name === 'offset') return [];
      // With a fraction of a second the service has been seen to filter nothing.
      if (/^(since|before)_?/.test(name) && /\.\d/.test(value)) return [];
      return [[name, value === 'true' || value === 'false' ? value === 'true' : value]];
    }),
  );
}

function wholeNumber(query: URLSearchParams, name: string, otherwise: number): number {
  const value = query.get(name) ?? String(otherwise);
  if (/^\d+$/.test(value)) return Number(value);
  throw new AnswerInstead(invalidResource(`${name} is no whole number from 0 on.`));
}

/** How many records a listing has, found out with few records made: those of a page are, and the rest need not be. */
function sizeOf(listing: Listing): number {
  const has = (position: number): boolean => listing.slice(position, 1).length > 0;
  let beyond = 1;
  while (has(beyond - 1)) beyond *= 2;
  let below = beyond >> 1;
  // There are at least `below` records and fewer than `beyond`.
  while (below + 1 < beyond) {
    const middle = (below + beyond) >> 1;
    if (has(middle - 1)) below = middle;
    else beyond = middle;
  }
  return below;
}

// --- Errors

/** Titles are the service's own; a client may go by them. */
function problem(status: number, title: string, detail: string, more: JsonObject = {}): Answer {
  const instance = randomUUID();
  return jsonAnswer(
    status,
    {
      type: 'https://mailchimp.com/developer/marketing/docs/errors/',
      title,
      status,
      detail,
      instance,
      ...more,
    },
    { 'content-type': 'application/problem+json; charset=utf-8', 'x-request-id': instance },
  );
}

function notFound(): AnswerInstead {
  return new AnswerInstead(problem(404, 'Resource Not Found', 'The requested resource could not be found.'));
}

function invalidResource(detail: string): Answer {
  const errors = [{ field: 'id', message: 'b79e1a05afb84190ec55310c5ee3f27e is not known' }];
  return problem(400, 'Invalid Resource', detail, { errors });
}

function keyInvalid(): Answer {
  return problem(401, 'API Key Invalid', 'The API key is not valid, or it belongs to another data center.');
}

function tooManyConnections(): Answer {
  return problem(429, 'Too Many Requests', 'The account has more than 10 simultaneous connections open.');
}

const refused = (status: number, title: string, detail: string): Effect =>
  instead(problem(status, title, detail));
const plain = (status: number, type: string, body: string): Effect =>
  instead({ status, headers: { 'content-type': type }, body });

/** Faults of this service, each as its documentation or its users describe it. */
export const mailchimpFaults = {
  /** As it comes: without Retry-After. */
  tooManyRequests: instead(tooManyConnections()),
  /** With the header that the service has never been seen to send. */
  tooManyRequestsRetryAfter: (value: string): Effect => {
    const answer = problem(429, 'Too Many Requests', 'Wait a moment.');
    return instead({ ...answer, headers: { ...answer.headers, 'retry-after': value } });
  },
  /** At very high rates the answer is bare text. */
  tooManyRequestsText: plain(429, 'text/plain', 'Too Many Requests'),
  /** From the network in front of the service. */
  edgeMalformed: plain(
    400,
    'text/html',
    '<html><body><h1>Bad request</h1>This is a malformed or illegal request.</body></html>',
  ),
  simultaneousConnections: refused(
    403,
    'Forbidden',
    'There are too many simultaneous connections for this user.',
  ),
  wrongDatacenter: refused(
    403,
    'Wrong Datacenter',
    'The API key belongs to an account in another data center.',
  ),
  keyInvalid: instead(keyInvalid()),
  userDisabled: refused(403, 'User Disabled', 'This account has been deactivated.'),
  forbidden: refused(
    403,
    'Forbidden',
    'The role of this user does not allow it. A subscription with billing would.',
  ),
  notFound: instead(notFound().answer),
  /** A detail as they come: with an address and a hash of it. */
  invalidResource: instead(invalidResource('member@example.test is no member of this list.')),
  methodNotAllowed: refused(405, 'Method Not Allowed', 'This resource cannot be read.'),
  nestingTooDeep: refused(414, 'Resource Nesting Too Deep', 'The path has too many levels.'),
  requestedFieldsInvalid: refused(422, 'Requested Fields Invalid', 'No such field.'),
  upgradeRequired: refused(426, 'Upgrade Required', 'The connection needs a newer TLS.'),
  internalError: refused(500, 'Internal Server Error', 'Something went wrong.'),
  compliance: refused(
    503,
    'Compliance Related',
    'This method is switched off for the account. Write to compliance.',
  ),
  unavailable: refused(503, 'Service Unavailable', 'Try again later.'),
  gatewayTimeout: plain(504, 'text/html', '<h1>504</h1>'),
} as const;
