import { hash } from 'node:crypto';
import { isJsonObject, type JsonObject } from '../../../../src/core/json.ts';
import type { Params } from '../../../../src/core/records.ts';
import type { SampleAccount } from '../../../../src/sample/sample-account.ts';
import { ApiError } from '../../../../src/service/api-error.ts';
import { type Answer, jsonAnswer } from '../answer.ts';
import { basicOf, type CredentialState, type FakeRequest, tokenOf } from '../fake-request.ts';
import { type FakeServer, startFakeServer } from '../fake-server.ts';
import { matchPath } from '../match-path.ts';
import { allOf, sizeOf, type ToWire, wireAccount } from '../wire-account.ts';
import { chosenFields } from './chosen-fields.ts';
import {
  badRequest,
  invalidResource,
  keyInvalid,
  keyMissing,
  notFound,
  problem,
  tooManyConnections,
  wrongDatacenter,
} from './mailchimp-errors.ts';
import { type MailchimpRoute, mailchimpRoutes } from './mailchimp-routes.ts';

export interface FakeMailchimpOptions {
  readonly account: SampleAccount;
  /** Of the account's key, and of the host names that are its own; others are refused. */
  readonly dataCenter?: string;
  /** Another account has another key and identity. */
  readonly accountName?: string;
  /** Connections at a time before the service says 429. */
  readonly connections?: number;
}

export interface FakeMailchimp extends FakeServer {
  /** Where the API lies: `http://127.0.0.1:PORT/3.0`. */
  readonly baseUrl: string;
  readonly apiKey: string;
  /** What an OAuth app would have been given. */
  readonly accessToken: string;
  readonly accountId: string;
  readonly accountName: string;
  /** The account as the service writes it. */
  readonly account: SampleAccount;
}

/**
 * Mailchimp's Marketing API 3.0 as a reader of its documentation meets it, for the twelve entities of
 * `email-marketing`.
 */
export async function startFakeMailchimp(options: FakeMailchimpOptions): Promise<FakeMailchimp> {
  const { dataCenter = 'us1', accountName = 'Example', connections = 10 } = options;
  const account = wireAccount(options.account, toMailchimpWire);
  const accountId = hash('md5', accountName).slice(0, 25);
  const apiKey = `${hash('md5', `key of ${accountName}`)}-${dataCenter}`;
  const accessToken = hash('md5', `token of ${accountName}`);

  const credentialOf = (request: FakeRequest): CredentialState => {
    const [, password = null] = basicOf(request) ?? [];
    const token = tokenOf(request) ?? tokenOf(request, 'OAuth');
    if (password === null && token === null) return 'none';
    return password === apiKey || token === apiKey || token === accessToken ? 'right' : 'wrong';
  };

  const answer = (request: FakeRequest): Answer => {
    if (request.path === '/oauth2/metadata') return metadata(request);
    const credential = credentialOf(request);
    if (credential === 'none') return keyMissing();
    if (credential === 'wrong') return keyInvalid();
    const asked = /^(us\d+)\./.exec(request.headers['host'] ?? '')?.[1] ?? dataCenter;
    if (asked !== dataCenter) return wrongDatacenter();
    if (!/^\/3\.0(\/|$)/.test(request.path)) throw notFound();
    const path = request.path.slice('/3.0'.length);
    if (request.method !== 'GET') return problem(405, 'Method Not Allowed', 'This fake can only be read.');
    try {
      return jsonAnswer(200, chosenFields(bodyOf(path, request.query), request.query));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      throw error.status === 404 ? notFound() : badRequest(error.message);
    }
  };

  const metadata = (request: FakeRequest): Answer =>
    // Only the body shows that a token was refused.
    tokenOf(request, 'OAuth') === accessToken
      ? jsonAnswer(200, {
          dc: dataCenter,
          role: 'owner',
          accountname: accountName,
          api_endpoint: server.origin,
        })
      : jsonAnswer(200, { error: 'invalid_token' });

  const bodyOf = (path: string, query: URLSearchParams): JsonObject => {
    if (path === '' || path === '/') return rootOf(accountId, accountName);
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
    refuse: ({ inFlight }) => (inFlight > connections ? tooManyConnections() : null),
  });
  return Object.assign(server, {
    baseUrl: `${server.origin}/3.0`,
    apiKey,
    accessToken,
    accountId,
    accountName,
    account,
  });
}

/** The sample account writes records as the service does, but for a number that is only sent where it is asked for. */
export const toMailchimpWire: ToWire = (entity, record, params) => {
  const { stats } = record;
  if (entity !== 'lists' || params['include_total_contacts'] === true || !isJsonObject(stats)) return record;
  const { total_contacts: _asked, ...sent } = stats;
  return { ...record, stats: sent };
};

function rootOf(accountId: string, accountName: string): JsonObject {
  return {
    account_id: accountId,
    login_id: '1001',
    account_name: accountName,
    email: 'owner@example.test',
    first_name: 'Ada',
    last_name: 'Example',
    username: 'ada',
    avatar_url: '',
    role: 'owner',
    member_since: '2022-12-27T07:56:47+00:00',
    pricing_plan_type: 'monthly',
    first_payment: '',
    account_timezone: 'Europe/Berlin',
    account_industry: '',
    contact: {
      company: 'Example',
      addr1: '1 Main St',
      addr2: '',
      city: 'Kyiv',
      state: '30',
      zip: '04200',
      country: 'UA',
    },
    pro_enabled: false,
    last_login: '2023-11-06T20:18:01+00:00',
    total_subscribers: 47,
    industry_stats: { open_rate: 0.2129, bounce_rate: 0.0098, click_rate: 0.0245 },
    _links: [{ rel: 'self', href: 'https://us1.api.example.test/3.0/', method: 'GET' }],
  };
}

function listBody(
  account: SampleAccount,
  route: MailchimpRoute,
  parents: Readonly<Record<string, string>>,
  query: URLSearchParams,
): JsonObject {
  const params = paramsOf(route, query);
  const listing = account.list(route.entity, { ...parents, ...params });
  const size = sizeOf(listing);
  const count = Math.min(1_000, wholeNumber(query, 'count', 10));
  const records = route.isPaged ? listing.slice(wholeNumber(query, 'offset', 0), count) : allOf(listing);
  const repeated = Object.entries(route.repeats).map(([member, name]) => [member, parents[name] ?? '']);
  return {
    [route.array]: records,
    ...Object.fromEntries(repeated),
    total_items: size,
    ...(route.entity === 'lists'
      ? { constraints: { may_create: true, max_instances: 100, current_total_instances: size } }
      : {}),
    ...(route.isPaged ? { _links: listing.metadata?.['links'] ?? [] } : {}),
  };
}

function recordOf(
  account: SampleAccount,
  route: MailchimpRoute,
  ids: Readonly<Record<string, string>>,
  query: URLSearchParams,
): JsonObject {
  const record =
    route.entity === 'automations'
      ? allOf(account.list('automations', {})).find(({ id }) => id === ids['workflow_id'])
      : account.get(route.entity, { ...ids, ...paramsOf(route, query) });
  if (record === undefined || record === null) throw notFound();
  return record;
}

/** The parameters of the query that this route knows. Others change nothing, as with the service. */
function paramsOf(route: MailchimpRoute, query: URLSearchParams): Params {
  if (query.has('since_last_campaign') && !query.has('status')) throw badRequest('Status is required.');
  return Object.fromEntries(
    Object.entries(route.query).flatMap(([name, kind]): readonly (readonly [string, string | boolean])[] => {
      const value = query.get(name);
      if (value === null) return [];
      if (kind === 'flag') return [[name, value === 'true']];
      // With a fraction of a second the service has been seen to filter nothing.
      if (kind === 'time' && /\.\d/.test(value)) return [];
      if (Array.isArray(kind) && !kind.includes(value)) {
        throw invalidResource(name, `Value is not one of: ${kind.join(', ')}`);
      }
      return [[name, value]];
    }),
  );
}

function wholeNumber(query: URLSearchParams, name: string, otherwise: number): number {
  const value = query.get(name);
  if (value === null) return otherwise;
  if (!/^\d+$/.test(value)) throw invalidResource(name, 'Value is no whole number from 0 on.');
  return Number(value);
}
