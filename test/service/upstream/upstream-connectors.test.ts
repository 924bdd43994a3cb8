import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import type { JsonObject } from '../../../src/core/json.ts';
import { tokenFor, apiClient, textIn } from '../../support/service/api-client.ts';
import { type Answer, objects } from '../../support/service/served-api.ts';
import { testCredentials } from '../../support/sync-once.ts';
import { bentBody, onPath } from '../../support/upstream/faults.ts';
import { mailchimpFaults } from '../../support/upstream/mailchimp.ts';
import {
  connectorsPath,
  firstCredentials,
  opened,
  refusalOf,
  serveWorlds,
  type ServedWorld,
} from '../../support/upstream/served-world.ts';
import { deskWorld, mailchimpWorld } from '../../support/upstream/upstream-world.ts';

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

interface Refused {
  readonly title: string;
  readonly arrange?: (world: Awaited<ReturnType<typeof mailchimpWorld>>) => unknown;
  readonly credentials?: JsonObject;
  readonly status: number;
  readonly code: string;
  readonly text: RegExp;
}

const wrongKey = 'f'.repeat(32);
const refused: readonly Refused[] = [
  {
    title: 'a wrong key',
    credentials: { api_key: `${wrongKey}-us1` },
    status: 422,
    code: 'third_party_refused',
    text: /does not take the credentials.*The API key is not valid/,
  },
  {
    title: 'the wrong data center',
    arrange: ({ fake }) => fake.script({ effect: mailchimpFaults.wrongDatacenter }),
    status: 422,
    code: 'third_party_refused',
    text: /does not take the credentials.*another data center/,
  },
  {
    title: 'a disabled user',
    arrange: ({ fake }) => fake.script({ effect: mailchimpFaults.userDisabled }),
    status: 422,
    code: 'third_party_refused',
    text: /does not take the credentials.*has been deactivated/,
  },
  {
    title: 'a role that may not',
    arrange: ({ fake }) => fake.script({ effect: mailchimpFaults.forbidden }),
    status: 422,
    code: 'third_party_refused',
    text: /The role of this user does not allow it/,
  },
  {
    title: 'a key that holds a line break',
    credentials: { api_key: `${wrongKey}\nX-us1` },
    status: 422,
    code: 'third_party_refused',
    text: /api_key holds a control character/,
  },
  {
    title: 'an outage',
    arrange: ({ fake }) => fake.script({ effect: mailchimpFaults.unavailable }),
    status: 502,
    code: 'upstream_unavailable',
    text: /Try again later/,
  },
  {
    title: 'a third party that takes too long',
    arrange: ({ fake }) => fake.script({ effect: mailchimpFaults.gatewayTimeout }),
    status: 504,
    code: 'upstream_timeout',
    text: /HTTP 504/,
  },
  {
    title: 'too many calls',
    arrange: ({ fake }) => fake.script({ effect: mailchimpFaults.tooManyRequestsRetryAfter('7') }),
    status: 429,
    code: 'upstream_throttled',
    text: /Wait a moment/,
  },
  {
    title: 'a network that cannot be reached',
    arrange: ({ fake }) => fake[Symbol.asyncDispose](),
    status: 502,
    code: 'upstream_unavailable',
    text: /cannot reach 127\.0\.0\.1.*connection refused/,
  },
];

// Proves promise 17.1
it.each(refused)('stores nothing for $title, and says so', async ({ arrange, credentials, ...expected }) => {
  const world = await opened(mailchimpWorld());
  const served = await serveWorlds([world]);
  await arrange?.(world);
  const given = credentials ?? firstCredentials(world);
  const answer = await served.create(world, given);
  const { status, code, text } = refusalOf(answer);
  expect([status, code, text]).toEqual([
    expected.status,
    expected.code,
    expect.stringMatching(expected.text),
  ]);
  expect(JSON.stringify(answer.body)).not.toMatch(new RegExp(`${wrongKey}|${world.fake.apiKey}`));
  const { body } = await served.client.get('/api/v1/workspaces');
  expect([await connectorCount(served), body['data']]).toEqual([0, []]);
  expect(served.failures).toEqual([]);
});

it('refuses a third party at a private address unless its name is allowed', async () => {
  const world = await opened(mailchimpWorld());
  const served = await serveWorlds([world], { upstream: { allowHosts: [] } });
  const answer = refusalOf(await served.create(world, firstCredentials(world)));
  expect(answer).toMatchObject({ status: 502, code: 'upstream_unusable' });
  expect(answer.text).toContain('--allow-upstream-host');
  expect(world.fake.requests).toEqual([]);
});

it('checks what a connector would be made of, and keeps nothing', async () => {
  const world = await opened(mailchimpWorld());
  const served = await serveWorlds([world]);
  const check = async (api_key: string): Promise<JsonObject> => {
    const base = { workspace_name: 'default', connector_type: world.definition.name };
    return (await served.client.post(`${connectorsPath}/check`, { ...base, credentials: { api_key } })).body;
  };
  expect(await check(world.fake.apiKey)).toMatchObject({ status: 'succeeded', error_message: null });
  const no = await check(`${wrongKey}-us1`);
  expect(no).toMatchObject({ status: 'failed' });
  expect(no['error_message']).toContain('The API key is not valid');
  expect(await connectorCount(served)).toBe(0);
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
  world.fake.script({ on: onPath('/api/account'), times: 3, effect: account });
  expect(refusalOf(await put('Key in the query', 'Taken over'))).toMatchObject({
    status: 409,
    code: 'identity_changed',
    text: expect.stringContaining('another account') as string,
  });
  const check = async (body: JsonObject): Promise<JsonObject> =>
    (await served.client.post(`${connectorsPath}/${id}/check`, body)).body;
  for (const body of [{}, { credentials: world.credentials.get('Key in the query') ?? {} }]) {
    expect(await check(body)).toMatchObject({
      status: 'failed',
      error_message: expect.stringContaining('another account') as string,
    });
  }
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
  for (const path of [connectorsPath, `${connectorsPath}/check`]) {
    expect((await scoped.post(path, body)).status).toBe(404);
  }
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

it('takes a word such as sample in a field that is no secret for what it is', async () => {
  const world = await opened(deskWorld());
  const served = await serveWorlds([world]);
  const agent = { email: 'sample@example.test', agent_key: world.fake.key };
  // Asked, and refused: the desk knows no such agent.
  expect(refusalOf(await served.create(world, agent)).code).toBe('third_party_refused');
  expect(world.fake.requests).toHaveLength(1);
});

// Proves promise 17.1
it('asks no third party with --samples, and mixes no sample records into a real account', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'served-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
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
it('sends no credentials to another address than they were given for, until they are given again', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'served-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
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
