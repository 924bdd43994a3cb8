import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { onPath } from '../../support/upstream/faults.ts';
import { connectorsPath, opened, refusalOf, serveWorlds } from '../../support/upstream/served-world.ts';
import { notionWorld } from '../../support/upstream/upstream-world.ts';

const users = { entity: 'users', action: 'list' };

/** A workspace read with OAuth tokens by a service whose state is in a folder. */
async function oauthWorld() {
  const folder = mkdtempSync(path.join(tmpdir(), 'renewed-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const world = await opened(notionWorld());
  const served = await serveWorlds([world], { data: folder });
  const id = await served.connect(world, world.credentials.get('OAuth'));
  return { folder, world, served, id, serveAgain: () => serveWorlds([world], { data: folder }) };
}

// Proves promise 17.1
it('stores renewed tokens, of which the refresh token serves once, so that they outlive the service', async () => {
  const { world, served, id, serveAgain } = await oauthWorld();
  world.fake.oauth.expireAccessTokens();
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

it('renews tokens once for many calls at a time', async () => {
  const { world, served, id } = await oauthWorld();
  world.fake.oauth.expireAccessTokens();
  const answers = await Promise.all(Array.from({ length: 6 }, () => served.execute(id, users)));
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
  expect(world.fake.oauth.refreshes()).toBe(1);
});

// Proves promise 17.1
it('stores tokens that come while the service ends', async () => {
  const { world, served, id, serveAgain } = await oauthWorld();
  world.fake.oauth.expireAccessTokens();
  let answer = (): void => undefined;
  const told = new Promise<void>((resolve) => (answer = resolve));
  const asked = new Promise<void>((resolve) => {
    world.fake.script({
      on: onPath('/oauth/token'),
      effect: async (right) => {
        // The old refresh token is void from here on.
        const renewed = right();
        resolve();
        await told;
        return renewed;
      },
    });
  });
  const call = served.execute(id, users).catch((error: unknown) => error);
  await asked;
  const closing = served.service.close();
  await call;
  answer();
  await closing;

  const again = await serveAgain();
  expect((await again.execute(id, users)).status).toBe(200);
  expect(world.fake.oauth.refreshes()).toBe(1);
});

it('says that the credentials are no longer taken when the refresh token is not', async () => {
  const { world, served, id } = await oauthWorld();
  world.fake.oauth.expireAccessTokens();
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
it('asks no more with a refresh token that has ended, until the credentials change', async () => {
  const { world, served, id } = await oauthWorld();
  world.fake.oauth.expireAccessTokens();
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
