import { once } from 'node:events';
import { createServer } from 'node:net';
import { expect, it } from 'vitest';
import { Secret } from '../../src/core/secret.ts';
import { connectRedis } from '../../src/jobs/connect-redis.ts';
import { startRelay } from '../support/forgetful-relay.ts';
import { freePort, startRedis } from '../support/redis.ts';

const prefix = 'test';

it('names the cause and the fix when Redis does not answer', async () => {
  const port = await freePort();
  const url = new Secret(`redis://127.0.0.1:${port}`);
  await expect(connectRedis({ url, prefix }, {})).rejects.toMatchObject({
    code: 'QUEUE_UNAVAILABLE',
    message: `Redis at 127.0.0.1:${port} does not answer: it refused the connection (ECONNREFUSED). Start it, or correct redis.url.`,
  });
});

it('gives up on a server that accepts the connection but does not answer', async () => {
  const server = createServer(() => undefined).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const began = Date.now();
  await expect(
    connectRedis({ url: new Secret(`redis://127.0.0.1:${port}`), prefix }, {}),
  ).rejects.toMatchObject({
    code: 'QUEUE_UNAVAILABLE',
    message: expect.stringContaining('no answer within 2000 ms') as string,
  });
  expect(Date.now() - began).toBeLessThan(2500);
  server.close();
});

it('connects where this process had no time to read the answer within two seconds', async () => {
  await using redis = await startRedis();
  const connecting = connectRedis({ url: new Secret(redis.url), prefix }, {});
  const busyUntilMs = performance.now() + 2_100;
  while (performance.now() < busyUntilMs);
  (await connecting).disconnect();
});

it('connects anew where a firewall has forgotten the connection, and its copy for blocking reads too', async () => {
  await using redis = await startRedis();
  await using relay = await startRelay(redis.port);
  const url = new Secret(`redis://127.0.0.1:${relay.port}`);
  const connection = await connectRedis({ url, prefix }, { maxRetriesPerRequest: null, socketTimeout: 300 });
  const copy = connection.redis.duplicate();
  await copy.ping();
  relay.forget();
  const answers = Promise.all([connection.redis.ping(), copy.blpop('none', 0.1)]);
  expect(await answers).toEqual(['PONG', null]);
  connection.disconnect();
});

it.each([
  ['a wrong password', ':another-password@', 'WRONGPASS'],
  ['a missing password', '', 'NOAUTH'],
])('reports rejected credentials, not an outage, for %s', async (_, userinfo, code) => {
  await using redis = await startRedis({ password: 'the-password' });
  const { host } = new URL(redis.url);
  await expect(
    connectRedis({ url: new Secret(`redis://${userinfo}${host}`), prefix }, {}),
  ).rejects.toMatchObject({
    code: 'QUEUE_UNAVAILABLE',
    message: expect.stringMatching(
      new RegExp(
        `^Redis at ${host} rejects the user name or password of redis.url: ${code} [^]*Correct them`,
      ),
    ) as string,
  });
});

it('detects a server that is not Redis', async () => {
  const server = createServer((socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')).listen(
    0,
    '127.0.0.1',
  );
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  await expect(
    connectRedis({ url: new Secret(`redis://127.0.0.1:${port}`), prefix }, {}),
  ).rejects.toMatchObject({
    message: `Redis at 127.0.0.1:${port} is not a Redis server: another program answers there. Set redis.url to the address of Redis.`,
  });
  server.close();
});

it('fails if the chosen database does not exist, instead of using database 0', async () => {
  await using redis = await startRedis();
  const url = (database: number): Secret => new Secret(`${redis.url}/${database}`);
  (await connectRedis({ url: url(3), prefix }, {})).disconnect();
  await expect(connectRedis({ url: url(99), prefix }, {})).rejects.toMatchObject({
    message: expect.stringContaining('has no database 99 (ERR DB index is out of range)') as string,
  });
});
