import { expect, describe } from 'vitest';
import type { Effect } from '../support/upstream/fake-server.ts';
import type { JsonObject } from '../../src/core/json.ts';
import { text as replyText } from '../support/hostile/replies.ts';
import { it } from '../support/it.ts';
import { openPromise } from '../support/open-promise.ts';
import {
  type Answer,
  apiClient,
  objects,
  object,
  text,
  textIn,
  tokenFor,
  jsonRequest,
} from '../support/service/served-api.ts';
import { testCredentials, syncOnce } from '../support/sync-once.ts';
import {
  bentBody,
  onPath,
  cutBody,
  errorInside200,
  gzipBomb,
  edgePage,
  instead,
  redirectTo,
} from '../support/upstream/faults.ts';
import { mailchimpFaults } from '../support/upstream/mailchimp.ts';
import {
  connectorsPath,
  firstCredentials,
  opened,
  refusalOf,
  serveWorlds,
  type ServedWorld,
} from '../support/upstream/served-world.ts';
import {
  deskWorld,
  mailchimpWorld,
  notionWorld,
  type UpstreamWorld,
} from '../support/upstream/upstream-world.ts';
import { instant } from '../../src/core/clock.ts';
import type { Params } from '../../src/core/records.ts';
import type { Entity } from '../../src/definitions/definition.ts';
import type { SampleAccount } from '../../src/sample/sample-account.ts';
import { textOf } from '../../src/sample/sample-values.ts';
import type { UpstreamAccount } from '../../src/upstream/open-upstream.ts';
import { type Row, expectedRows } from '../support/expected-rows.ts';
import { sampleSinks } from '../support/sample-sinks.ts';
import { asTexts, expectedRecords } from '../support/service/expected-search.ts';
import { searchable } from '../support/service/store-world.ts';
import { isLong } from '../support/trials.ts';
import { walkAccount } from '../support/upstream/walk-account.ts';

const list = { entity: 'lists', action: 'list' };

async function connectorCount({ client }: ServedWorld): Promise<number> {
  const { body } = await client.get(`${connectorsPath}?workspace_name=default`);
  return Array.isArray(body['data']) ? body['data'].length : 0;
}

it('asks the third party once before a connector is stored, and pins the account that it names', async () => {
  const world = await opened(mailchimpWorld());
  const served = await serveWorlds([world]);
  const { status, body } = await served.create(world, firstCredentials(world));
  expect([status, body['account_id']]).toEqual([200, world.identity]);
  expect(world.fake.takeRequests().map(({ path, credential }) => [path, credential])).toEqual([
    ['/3.0/', 'right'],
  ]);
  const shown = await served.client.get(`${connectorsPath}/${textIn(body, 'id')}`);
  expect(shown.body['account_id']).toBe(world.identity);
  expect(JSON.stringify([body, shown.body])).not.toContain(world.fake.apiKey);
});

/** Of the error codes of an answer, the status that each comes with. */
const statusOf: Readonly<Record<string, number>> = {
  third_party_refused: 422,
  upstream_forbidden: 403,
  upstream_not_found: 404,
  upstream_refused: 400,
  upstream_throttled: 429,
  upstream_timeout: 504,
  upstream_too_large: 502,
  upstream_unauthorized: 401,
  upstream_unavailable: 502,
  upstream_unusable: 502,
};

const wrongKey = 'f'.repeat(32);
const refused: Readonly<Record<string, readonly [Effect | string | null, keyof typeof statusOf, RegExp]>> = {
  'a wrong key': [
    `${wrongKey}-us1`,
    'third_party_refused',
    /does not take the credentials.*The API key is not/,
  ],
  'the wrong data center': [mailchimpFaults.wrongDatacenter, 'third_party_refused', /another data center/],
  'a disabled user': [mailchimpFaults.userDisabled, 'third_party_refused', /has been deactivated/],
  'a role that may not': [mailchimpFaults.forbidden, 'third_party_refused', /The role of this user does not/],
  'a key that holds a line break': [`${wrongKey}\nX-us1`, 'third_party_refused', /a control character/],
  'an outage': [mailchimpFaults.unavailable, 'upstream_unavailable', /Try again later/],
  'a third party that takes too long': [mailchimpFaults.gatewayTimeout, 'upstream_timeout', /HTTP 504/],
  'too many calls': [mailchimpFaults.tooManyRequestsRetryAfter('7'), 'upstream_throttled', /Wait a moment/],
  'a network that cannot be reached': [null, 'upstream_unavailable', /: connection refused/],
};

// Proves promise 17.1
it.each(Object.entries(refused))(
  'stores nothing for %s, and says so',
  async (_title, [fault, code, words]) => {
    const world = await opened(mailchimpWorld());
    const served = await serveWorlds([world]);
    if (fault === null) await world.fake[Symbol.asyncDispose]();
    if (typeof fault === 'function') world.fake.script({ effect: fault });
    const given = typeof fault === 'string' ? { api_key: fault } : firstCredentials(world);
    const answer = await served.create(world, given);
    expect(refusalOf(answer)).toMatchObject({
      status: statusOf[code],
      code,
      text: expect.stringMatching(words) as string,
    });
    expect(JSON.stringify(answer.body)).not.toMatch(new RegExp(`${wrongKey}|${world.fake.apiKey}`));
    const { body } = await served.client.get('/api/v1/workspaces');
    expect([await connectorCount(served), body['data']]).toEqual([0, []]);
    expect(served.failures).toEqual([]);
  },
);

it('refuses a third party at a private address unless its name is allowed', async () => {
  const world = await opened(mailchimpWorld());
  const served = await serveWorlds([world], { upstream: { allowHosts: [] } });
  const answer = refusalOf(await served.create(world, firstCredentials(world)));
  expect(answer).toMatchObject({ status: 502, code: 'upstream_unusable' });
  expect(answer.text).toContain('--allow-upstream-host');
  expect(world.fake.requests).toEqual([]);
});

it('asks the third party about the stored credentials when a connector is checked', async () => {
  const world = await opened(mailchimpWorld());
  const served = await serveWorlds([world]);
  const id = await served.connect(world);
  const check = async (): Promise<JsonObject> =>
    (await served.client.post(`${connectorsPath}/${id}/check`, {})).body;
  expect(await check()).toMatchObject({ status: 'succeeded' });
  world.fake.script({ effect: mailchimpFaults.keyInvalid });
  const failed = await check();
  expect(failed).toMatchObject({ status: 'failed' });
  expect(failed['error_message']).toContain('does not take the credentials of this connector');
  world.fake.script({ effect: mailchimpFaults.unavailable });
  const down = refusalOf(await served.client.post(`${connectorsPath}/${id}/check`, {}));
  expect(down).toMatchObject({ status: 502, code: 'upstream_unavailable' });
});

// Proves promise 17.1
it('takes new credentials of the same account, and refuses those of another one', async () => {
  const world = await opened(deskWorld());
  const served = await serveWorlds([world]);
  const id = await served.connect(world, world.credentials.get('Key in a header'));
  const put = async (title: string, name: string): Promise<Answer> => {
    const credentials = world.credentials.get(title) ?? {};
    return await served.client.put(`${connectorsPath}/${id}`, { credentials, name });
  };
  const same = await put('Token', 'Renamed');
  expect([same.status, same.body['account_id'], same.body['name']]).toEqual([200, world.identity, 'Renamed']);

  const account = bentBody(() => ({ ok: true, account: { id: 'another', name: 'Another' } }));
  world.fake.script({ on: onPath('/api/account'), times: 2, effect: account });
  expect(refusalOf(await put('Key in the query', 'Taken over'))).toMatchObject({
    status: 409,
    code: 'identity_changed',
    text: expect.stringContaining('another account') as string,
  });
  expect((await served.client.post(`${connectorsPath}/${id}/check`, {})).body).toMatchObject({
    status: 'failed',
    error_message: expect.stringContaining('another account') as string,
  });
  // Nothing of it was stored: neither the name nor the credentials.
  const { body } = await served.client.get(`${connectorsPath}/${id}`);
  expect([body['name'], body['account_id']]).toEqual(['Renamed', world.identity]);
  world.fake.takeRequests();
  await served.execute(id, { entity: 'agents', action: 'list' });
  expect(world.fake.takeRequests().map(({ query }) => 'apikey' in query)).toEqual([false]);
});

it('keeps what a connector has when its new credentials are refused', async () => {
  const world = await opened(mailchimpWorld());
  const served = await serveWorlds([world]);
  const id = await served.connect(world);
  const credentials = { api_key: `${wrongKey}-us1` };
  const answer = await served.client.put(`${connectorsPath}/${id}`, { credentials });
  expect(refusalOf(answer)).toMatchObject({ status: 422, code: 'third_party_refused' });
  expect((await served.execute(id, list)).status).toBe(200);
});

it('lets no token of another workspace ask a third party', async () => {
  const world = await opened(mailchimpWorld());
  const served = await serveWorlds([world]);
  await served.connect(world);
  world.fake.takeRequests();
  const scoped = apiClient(
    served.service.url,
    await tokenFor(served.service.url, testCredentials, 'default'),
  );
  const body = {
    workspace_name: 'elsewhere',
    connector_type: world.definition.name,
    credentials: firstCredentials(world),
  };
  expect((await scoped.post(connectorsPath, body)).status).toBe(404);
  expect(world.fake.requests).toHaveLength(1);
});

it.each<[string, JsonObject]>([
  ['with a secret that begins with sample', { api_key: 'sample-key', data_center: 'us1' }],
  ['whose secret stands behind other fields', { data_center: 'us1', api_key: 'sample-key' }],
])('gives a connector %s a sample account', async (_title, given) => {
  const world = await opened(mailchimpWorld());
  const served = await serveWorlds([world]);
  const { status, body } = await served.create(world, given);
  expect([status, body['account_id']]).toEqual([200, null]);
  const answer = await served.execute(textIn(body, 'id'), list);
  expect([answer.status, objects(answer.body['result']).length > 0]).toEqual([200, true]);
  const real = await served.client.put(`${connectorsPath}/${textIn(body, 'id')}`, {
    credentials: firstCredentials(world),
  });
  expect(refusalOf(real)).toMatchObject({ status: 409, code: 'identity_changed' });
  // The one question is whose the real credentials are.
  expect(world.fake.requests.map(({ path }) => path)).toEqual(['/3.0/']);
});

// Proves promise 17.1
it('asks no third party with --samples, and mixes no sample records into a real account', async ({
  folder,
}) => {
  const world = await opened(mailchimpWorld());
  const real = await serveWorlds([world], { data: folder });
  const id = await real.connect(world);
  await real.service.close();
  world.fake.takeRequests();

  const served = await serveWorlds([world], { data: folder, upstream: null });
  expect(refusalOf(await served.execute(id, list))).toMatchObject({ status: 400, code: 'samples_only' });
  const sample = await served.create(world, firstCredentials(world));
  expect([sample.status, sample.body['account_id']]).toEqual([200, null]);
  expect((await served.execute(textIn(sample.body, 'id'), list)).status).toBe(200);
  expect(world.fake.takeRequests()).toEqual([]);
  await served.service.close();

  // What was made as a sample stays one.
  const again = await serveWorlds([world], { data: folder });
  expect((await again.execute(textIn(sample.body, 'id'), list)).status).toBe(200);
  expect(world.fake.takeRequests()).toEqual([]);
  expect((await again.execute(id, list)).status).toBe(200);
  expect(world.fake.takeRequests()).toHaveLength(1);
});

// Proves promise 17.1
it('sends no credentials to another address than they were given for, until they are given again', async ({
  folder,
}) => {
  const [world, elsewhere] = [await opened(mailchimpWorld()), await opened(mailchimpWorld())];
  const before = await serveWorlds([world], { data: folder });
  const id = await before.connect(world);
  await before.service.close();

  const served = await serveWorlds([elsewhere], { data: folder, isIndexed: true });
  const refused = await served.execute(id, list);
  expect(refusalOf(refused)).toMatchObject({ status: 401, code: 'upstream_unauthorized' });
  const [was, now] = [world, elsewhere].map(({ fake }) => fake.origin);
  for (const origin of [was, now]) expect(JSON.stringify(refused.body)).toContain(origin);
  const check = await served.client.post(`${connectorsPath}/${id}/check`, {});
  expect(check.body).toMatchObject({ status: 'failed' });
  expect(elsewhere.fake.takeRequests()).toEqual([]);

  const credentials = firstCredentials(elsewhere);
  expect((await served.client.put(`${connectorsPath}/${id}`, { credentials })).status).toBe(200);
  expect((await served.execute(id, list)).status).toBe(200);
});

const users = { entity: 'users', action: 'list' };

/** A workspace read with OAuth tokens by a service whose state is in the folder, and the tokens used up. */
async function oauthWorld(folder: string) {
  const world = await opened(notionWorld());
  const served = await serveWorlds([world], { data: folder });
  const id = await served.connect(world, world.credentials.get('OAuth'));
  world.fake.oauth.expireAccessTokens();
  return { world, served, id, serveAgain: () => serveWorlds([world], { data: folder }) };
}

// Proves promise 17.1
it('stores renewed tokens, of which the refresh token serves once, so that they outlive the service', async ({
  folder,
}) => {
  const { world, served, id, serveAgain } = await oauthWorld(folder);
  expect((await served.execute(id, users)).status).toBe(200);
  await served.service.close();

  const again = await serveAgain();
  expect((await again.execute(id, users)).status).toBe(200);
  expect(world.fake.oauth.refreshes()).toBe(1);
  world.fake.oauth.expireAccessTokens();
  expect((await again.execute(id, users)).status).toBe(200);
  expect(world.fake.oauth.refreshes()).toBe(2);
  const shown = await again.client.get(`${connectorsPath}/${id}`);
  expect(JSON.stringify(shown.body)).not.toMatch(/access-|refresh-/);
});

it('renews tokens once for many calls at a time', async ({ folder }) => {
  const { world, served, id } = await oauthWorld(folder);
  const answers = await Promise.all(Array.from({ length: 6 }, () => served.execute(id, users)));
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
  expect(world.fake.oauth.refreshes()).toBe(1);
});

// Proves promise 17.1
it('stores tokens that come while the service ends', async ({ folder }) => {
  const { world, served, id, serveAgain } = await oauthWorld(folder);
  const told = openPromise();
  const asked = openPromise();
  world.fake.script({
    on: onPath('/oauth/token'),
    effect: async (right) => {
      // The old refresh token is void from here on.
      const renewed = right();
      asked.resolve();
      await told.promise;
      return renewed;
    },
  });
  const call = served.execute(id, users).catch((error: unknown) => error);
  await asked.promise;
  const closing = served.service.close();
  await call;
  told.resolve();
  await closing;

  const again = await serveAgain();
  expect((await again.execute(id, users)).status).toBe(200);
  expect(world.fake.oauth.refreshes()).toBe(1);
});

it('says that the credentials are no longer taken when the refresh token is not', async ({ folder }) => {
  const { world, served, id } = await oauthWorld(folder);
  const { clientId, clientSecret } = world.fake.oauth;
  // Another program has used the refresh token.
  const basic = Buffer.from(`${clientId}:${clientSecret}`).toString('base64');
  await fetch(`${world.fake.baseUrl}/oauth/token`, {
    method: 'POST',
    headers: { authorization: `Basic ${basic}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      grant_type: 'refresh_token',
      refresh_token: world.fake.oauth.tokens().refreshToken,
    }),
  });
  const answer = await served.execute(id, users);
  expect(refusalOf(answer)).toMatchObject({ status: 401, code: 'upstream_unauthorized' });
  expect(JSON.stringify(answer.body)).not.toMatch(/access-|refresh-\d|app-1-secret/);
});

// Proves promise 17.1
it('asks no more with a refresh token that has ended, until the credentials change', async ({ folder }) => {
  const { world, served, id } = await oauthWorld(folder);
  const given = world.credentials.get('OAuth') ?? {};
  const { refreshToken } = world.fake.oauth.tokens();
  await fetch(`${world.fake.baseUrl}/oauth/token`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ...given, grant_type: 'refresh_token', refresh_token: refreshToken }),
  });
  world.fake.takeRequests();
  const refused = { status: 401, code: 'upstream_unauthorized' };
  expect(refusalOf(await served.execute(id, users))).toMatchObject(refused);
  expect(world.fake.takeRequests().map(({ path: asked }) => asked)).toEqual(['/v1/users', '/v1/oauth/token']);
  const answer = refusalOf(await served.execute(id, users));
  expect(answer).toMatchObject(refused);
  expect(answer.text).toContain('connect the account again and give the connector its new credentials');
  expect(world.fake.takeRequests()).toEqual([]);

  const { accessToken, refreshToken: renewed } = world.fake.oauth.tokens();
  const credentials = { ...given, access_token: accessToken, refresh_token: renewed };
  expect((await served.client.put(`${connectorsPath}/${id}`, { credentials })).status).toBe(200);
  expect((await served.execute(id, users)).status).toBe(200);
});

it('refuses a new connector whose refresh token would serve once before it could be stored', async () => {
  const world = await opened(notionWorld());
  const served = await serveWorlds([world]);
  const given = world.credentials.get('OAuth') ?? {};
  world.fake.oauth.expireAccessTokens();
  const answer = refusalOf(await served.create(world, given));
  expect(answer).toMatchObject({ status: 422, code: 'third_party_refused' });
  expect(answer.text).toContain('there is no place here to store the new refresh token');
  expect(world.fake.oauth.refreshes()).toBe(0);
});

it('takes a token of any parameters only as it was given out, and for the listing that it belongs to', async () => {
  const world = await opened(deskWorld());
  const served = await serveWorlds([world]);
  const id = await served.connect(world, { query_key: world.fake.key });
  const other = await served.connect(world, { header_key: world.fake.key });
  const list = async (connector: string, entity: string, params: JsonObject) =>
    await served.execute(connector, { entity, action: 'list', params });
  const first = await list(id, 'reviews', { limit: 20 });
  const cursor = text(object(first.body['connector_metadata'])['next_cursor']);
  expect(cursor).not.toContain(world.fake.key);
  const second = await list(id, 'reviews', { limit: 20, cursor });
  expect(objects(second.body['result'])).toEqual(world.fake.rows('reviews').slice(20, 40));

  world.fake.takeRequests();
  const changed = [
    [id, 'reviews', `${cursor}&_method=DELETE`],
    [id, 'reviews', '?_method=DELETE'],
    [id, 'reviews', cursor.slice(0, 20)],
    [id, 'parcels', cursor],
    [other, 'reviews', cursor],
  ] as const;
  for (const [connector, entity, token] of changed) {
    const refusal = refusalOf(await list(connector, entity, { cursor: token }));
    expect(refusal).toMatchObject({ status: 400, code: 'upstream_stale_token' });
  }
  expect(world.fake.takeRequests()).toEqual([]);
});

/** What comes, error code, words of the text, Retry-After. */
type Failing = readonly [Effect, keyof typeof statusOf, RegExp, (string | null)?];

const faults = mailchimpFaults;
const byNetwork = /^refused by the network in front of 127.0.0.1:\d+ \(HTTP 403\)$/;
const noJson = instead(replyText(200, '<html>secret-of-the-page</html>'));
const away = redirectTo('http://127.0.0.2/elsewhere');
const mailing: Readonly<Record<string, Failing>> = {
  '400 of the network': [faults.edgeMalformed, 'upstream_throttled', /network in front of/, '60'],
  '400 Invalid Resource': [faults.invalidResource, 'upstream_refused', /is no member of this list/],
  '401': [faults.keyInvalid, 'upstream_unauthorized', /does not take the credentials of.*: The API key/],
  '403 Wrong Datacenter': [faults.wrongDatacenter, 'upstream_unauthorized', /another data center/],
  '403 User Disabled': [faults.userDisabled, 'upstream_unauthorized', /deactivated/],
  '403 Forbidden': [faults.forbidden, 'upstream_forbidden', /role of this user.*billing would/],
  '403 about connections': [faults.simultaneousConnections, 'upstream_throttled', /simultaneous connections/],
  '403 in HTML': [edgePage(403), 'upstream_throttled', byNetwork, '60'],
  '404': [faults.notFound, 'upstream_not_found', /could not be found/],
  '405': [faults.methodNotAllowed, 'upstream_refused', /cannot be read/],
  '414': [faults.nestingTooDeep, 'upstream_refused', /too many levels/],
  '422': [faults.requestedFieldsInvalid, 'upstream_refused', /No such field/],
  '426': [faults.upgradeRequired, 'upstream_refused', /newer TLS/],
  '429 without Retry-After': [faults.tooManyRequests, 'upstream_throttled', /10 simultaneous/],
  '429 with Retry-After': [faults.tooManyRequestsRetryAfter('1.2'), 'upstream_throttled', /Wait/, '2'],
  '429 for a day': [faults.tooManyRequestsRetryAfter('86400'), 'upstream_throttled', /Wait/, '3600'],
  '429 in bare text': [faults.tooManyRequestsText, 'upstream_throttled', /HTTP 429/],
  '500': [faults.internalError, 'upstream_unavailable', /Something went wrong/],
  '503 Compliance Related': [faults.compliance, 'upstream_forbidden', /switched off for the account/],
  '503': [faults.unavailable, 'upstream_unavailable', /Try again later/],
  '503 in HTML': [edgePage(503), 'upstream_throttled', /network in front of/, '60'],
  '504': [faults.gatewayTimeout, 'upstream_timeout', /HTTP 504/],
  'a redirect': [away, 'upstream_unusable', /redirects to another address/],
  'an answer that is no JSON': [noJson, 'upstream_unavailable', /JSON/],
  'a cut body': [cutBody(), 'upstream_unavailable', /without a complete answer/],
  'a body without end': [gzipBomb(80_000_000), 'upstream_too_large', /expected/],
  'no array of records': [errorInside200('invalid_token'), 'upstream_unavailable', /an array of records/],
};

// Proves promise 17.1
it('answers for each failure of a mailing service with its own status, code and text, and no secret', async () => {
  const world = await opened(mailchimpWorld());
  for (const [title, [effect, code, words, retryAfter = null]] of Object.entries(mailing)) {
    // One service for each: what one failure slows down does not hold up the next.
    const served = await serveWorlds([world]);
    const id = await served.connect(world);
    world.fake.takeRequests();
    world.fake.script({ effect, times: 9 });
    const answer = await served.execute(id, { entity: 'lists', action: 'list', params: { count: 5 } });
    world.fake.heal();
    expect({ title, ...refusalOf(answer) }).toEqual({
      title,
      status: statusOf[code],
      code,
      text: expect.stringMatching(words),
      retryAfter,
    });
    // The client tries again, and no layer below; but for a connection that breaks, once.
    expect([title, world.fake.takeRequests().length]).toEqual([title, title === 'a cut body' ? 2 : 1]);
    const shown = JSON.stringify([answer.body, [...answer.headers]]);
    expect([title, shown]).toEqual([
      title,
      expect.not.stringMatching(
        `${world.fake.apiKey}|secret-of-the-page|member@example|b79e1a05afb8|127.0.0.2`,
      ),
    ]);
    expect(served.failures).toEqual([]);
    await served.service.close();
  }
});

it('answers 404 to a get of what is not there', async () => {
  const world = await opened(notionWorld());
  const served = await serveWorlds([world]);
  const id = await served.connect(world);
  const user_id = '11111111-2222-4333-8444-555555555555';
  const answer = await served.execute(id, { entity: 'users', action: 'get', params: { user_id } });
  expect(refusalOf(answer)).toMatchObject({ status: 404, code: 'not_found' });
});

/** The listings of a connector, as a client of the service reads them. */
function listings(served: ServedWorld, id: string): Pick<UpstreamAccount, 'list'> {
  return {
    async list({ entity, params }) {
      const { status, body } = await served.execute(id, { entity, action: 'list', params });
      if (status !== 200) throw new Error(`${entity}: ${status} ${JSON.stringify(body)}`);
      const metadata = body['connector_metadata'] ?? null;
      return {
        records: objects(body['result']),
        metadata: metadata === null ? null : object(metadata),
        serverTime: instant(0),
        bytes: 0,
        bodyBytes: 0,
      };
    },
  };
}

function valuesFor(key: ReadonlyMap<string, string>, record: JsonObject, params: Params): JsonObject {
  const whole = { ...params, ...record };
  return Object.fromEntries([...key].map(([param, field]) => [param, whole[field] ?? null]));
}

/** What the service shows may have more: fields that the definition fills from others or from parameters. */
function withoutMore(shown: JsonObject, truth: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(shown).filter(([name]) => Object.hasOwn(truth, name)));
}

describe.each<[string, () => Promise<UpstreamWorld>]>([
  ['mailing', mailchimpWorld],
  ['notes', notionWorld],
  ['help desk', deskWorld],
])('serve in front of a made-up %s service', (_name, openWorld) => {
  it('lists and gets every record of every entity as the service has it', async () => {
    const world = await opened(openWorld());
    const served = await serveWorlds([world]);
    const id = await served.connect(world);
    for (const entity of world.definition.entities.values()) {
      const truth = [...world.truth(entity.name)];
      const listed = await walkAccount(listings(served, id), entity, truth);
      const shown = listed.filter(({ record, params }) => isOwn(entity, record, params));
      const keyOf = ({ record, params }: { record: JsonObject; params: Params }): string =>
        JSON.stringify([entity.name, entity.key.map((field) => ({ ...params, ...record })[field] ?? null)]);
      const byKey = new Map(truth.map((one) => [keyOf(one), one.record]));
      expect(new Set(shown.map(keyOf))).toEqual(new Set(byKey.keys()));
      for (const one of shown) {
        const expected = byKey.get(keyOf(one)) ?? {};
        expect(withoutMore(one.record, expected)).toEqual(expected);
      }

      const get = entity.actions.get('get');
      if (get === undefined || get.isDirectOnly) continue;
      for (const { record, params } of truth.slice(0, 5)) {
        const asked = { entity: entity.name, action: 'get', params: valuesFor(get.key, record, params) };
        const { status, body } = await served.execute(id, asked);
        expect([entity.name, status]).toEqual([entity.name, 200]);
        expect(object(body['result'])).toMatchObject(record);
      }
    }
  });
});

/** A synced copy lists the blocks of its original, which the truth has once. */
function isOwn({ name }: Entity, record: JsonObject, params: Params): boolean {
  return (
    name !== 'blocks' || Object.values(object(record['parent'] ?? {})).includes(params['block_id'] ?? null)
  );
}

it('downloads files, and follows to them without the credentials', async () => {
  const world = await opened(deskWorld());
  const served = await serveWorlds([world]);
  const id = await served.connect(world);
  for (const { record } of world.truth('attachments')) {
    const params = { attachment_id: record['id'] ?? null };
    const asked = jsonRequest('POST', served.token, { entity: 'attachments', action: 'download', params });
    const response = await fetch(`${served.service.url}${connectorsPath}/${id}/execute`, asked);
    const bytes = Buffer.from(await response.arrayBuffer());
    expect(bytes.equals(Buffer.from(world.fake.fileOf(textOf(record['id'])) ?? 'none'))).toBe(true);
  }
  expect(world.fake.fileRequests().length).toBeGreaterThan(0);
  expect(world.fake.fileRequests().map(({ credential }) => credential)).not.toContain('right');
});

// Proves promise 17.2
it('fetches no file from another port or by another scheme of an allowed host, and says so', async () => {
  const world = await opened(deskWorld());
  const other = await opened(deskWorld());
  const served = await serveWorlds([world]);
  const id = await served.connect(world);
  const port = new URL(world.fake.origin).port;
  for (const address of [`${other.fake.origin}/hop/a1`, `gopher://127.0.0.1:${port}/a1`]) {
    world.fake.script({ effect: redirectTo(address), on: ({ path }) => path.endsWith('/content') });
    const [attachment] = world.truth('attachments');
    const params = { attachment_id: attachment?.record['id'] ?? null };
    const answer = await served.execute(id, { entity: 'attachments', action: 'download', params });
    expect(refusalOf(answer)).toMatchObject({
      status: 502,
      code: 'upstream_unusable',
      text: expect.stringContaining("the address of a file must be public, or the service's own"),
    });
  }
  expect([other.fake.requests, served.failures]).toEqual([[], []]);
});

describe.each<
  [string, () => Promise<UpstreamWorld & { readonly fake: { readonly account: SampleAccount } }>]
>([
  ['mailing', mailchimpWorld],
  ['notes', notionWorld],
])('a real account of a %s service', (_name, openWorld) => {
  it('fills an indexed store in which every record is found', async ({ folder }) => {
    const world = await opened(openWorld());
    const served = await serveWorlds([world], { data: folder, isIndexed: true, refreshEveryMs: 86_400_000 });
    const id = await served.connect(world);
    await searchable(served.service.stores, id);
    const { account } = world.fake;
    if (account === undefined) throw new Error('the world has no account');
    const differences: unknown[] = [];
    for (const entity of world.definition.entities.values()) {
      if (!entity.actions.has('context_store_search') || entity.name === 'comments') continue;
      const found: JsonObject[] = [];
      for (let cursor: string | null = null; ;) {
        const params: JsonObject = { query: {}, ...(cursor === null ? {} : { cursor }) };
        const { body } = await served.execute(id, { entity: entity.name, action: 'search', params });
        const result = object(body['result']);
        found.push(...objects(result['data']));
        const meta = object(result['meta']);
        if (meta['has_more'] !== true) break;
        cursor = text(meta['cursor']);
      }
      const expected = asTexts(expectedRecords(entity, account));
      if (JSON.stringify(asTexts(found)) !== JSON.stringify(expected)) {
        differences.push([entity.name, found.length, expected.length]);
      }
    }
    expect(differences).toEqual([]);
    const { body } = await served.client.get(`${connectorsPath}/${id}`);
    expect(body).toMatchObject({ context_store: { readiness: 'Ready' } });
  });

  // In `npm test` test/e2e/accounts.test.ts shows it.
  it.runIf(isLong)(
    'is synced through serve to rows that equal the truth, and a second run writes none',
    async ({ folder }) => {
      const world = await opened(openWorld());
      const served = await serveWorlds([world]);
      const connectorId = await served.connect(world);
      const { definition } = world;
      const sink = sampleSinks.sqlite;
      const run = { baseUrl: served.service.url, definition, connectorId, sink: sink.options(folder) };
      expect(await syncOnce(run)).toMatchObject({ outcome: 'ok', failures: [] });
      for (const entity of definition.entities.values()) {
        const { rows, exploded } = expectedRows(entity, world.truth(entity.name));
        const tables = [
          [entity.table, rows],
          [entity.explodedTable, exploded],
        ] as const;
        for (const [table, all] of tables) {
          if (table === null) continue;
          const expected = entity.name === 'comments' ? ofPages(all) : all;
          const stored = sink.rows(folder, definition.name, table);
          expect([table.entity, [...stored.keys()].toSorted()]).toEqual([
            table.entity,
            [...expected.keys()].toSorted(),
          ]);
          for (const [key, row] of expected) expect(stored.get(key), `${table.entity} ${key}`).toEqual(row);
        }
      }
      const second = await syncOnce(run);
      expect(second.entities.map(({ counts }) => counts.inserted + counts.updated)).toEqual(
        second.entities.map(() => 0),
      );
    },
  );
});

it('serves of a real account the entities that its definition has requests for, and indexes these', async ({
  folder,
}) => {
  const world = await opened(mailchimpWorld());
  const { definition } = world;
  if (definition.upstream === null) throw new Error('the definition has no requests');
  const entities = new Map([...definition.upstream.entities].filter(([name]) => name !== 'campaigns'));
  const partial = { ...definition, upstream: { ...definition.upstream, entities } };
  const served = await serveWorlds([{ ...world, definition: partial }], { data: folder, isIndexed: true });
  const id = await served.connect(world);
  await searchable(served.service.stores, id);
  const { body } = await served.client.get(`${connectorsPath}/${id}`);
  expect(body).toMatchObject({ context_store: { readiness: 'Ready' } });
  for (const action of ['list', 'search']) {
    const answer = await served.execute(id, { entity: 'campaigns', action, params: {} });
    expect(refusalOf(answer)).toMatchObject({ status: 400, text: expect.stringContaining('campaigns') });
  }
  expect((await served.execute(id, { entity: 'lists', action: 'list' })).status).toBe(200);
});

/** Those below single blocks are not asked for by default. */
function ofPages(rows: ReadonlyMap<string, Row>): ReadonlyMap<string, Row> {
  return new Map([...rows].filter(([, { columns }]) => 'page_id' in object(columns['parent'] ?? {})));
}
