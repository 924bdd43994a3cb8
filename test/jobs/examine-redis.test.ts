import { expect, it } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { Secret } from '../../src/core/secret.ts';
import { examineRedis } from '../../src/jobs/connect-redis.ts';
import { instantClock } from '../support/instant-clock.ts';
import { freePort, startRedis } from '../support/redis.ts';

it('reports no problem for a correctly configured Redis', async () => {
  await using redis = await startRedis({ password: 'the-password', appendOnly: true });
  const findings = await examineRedis({ url: new Secret(redis.url), prefix: 'test' }, systemClock);
  expect(findings.map(({ what, state }) => [what, state])).toEqual([
    ['redis', 'ok'],
    ['redis memory', 'ok'],
    ['redis persistence', 'ok'],
    ['redis clock', 'ok'],
  ]);
  expect(findings[0]?.detail).toMatch(/^version \d+\.\d+/);
});

it('warns of settings that may lose jobs', async () => {
  await using redis = await startRedis({ config: { 'maxmemory-policy': 'allkeys-lru' } });
  const findings = await examineRedis({ url: new Secret(redis.url), prefix: 'test' }, systemClock);
  expect(findings.filter(({ state }) => state !== 'ok')).toMatchObject([
    { what: 'redis memory', state: 'warning', detail: expect.stringContaining('allkeys-lru') as string },
    { what: 'redis persistence', state: 'warning', detail: expect.stringContaining('appendonly') as string },
  ]);
});

it.each([
  [3600, 'behind'],
  [-3600, 'ahead of'],
])('warns of a clock that differs by %i s', async (seconds, word) => {
  await using redis = await startRedis({ appendOnly: true });
  const findings = await examineRedis(
    { url: new Secret(redis.url), prefix: 'test' },
    instantClock(Date.now() + seconds * 1000),
  );
  expect(findings.filter(({ state }) => state !== 'ok')).toMatchObject([
    { what: 'redis clock', state: 'warning', detail: expect.stringMatching(/ (3599|3600)\.\d s /) as string },
  ]);
  expect(findings.at(-1)?.detail).toContain(word);
});

it('reports a wrong password without showing it', async () => {
  await using redis = await startRedis({ password: 'the-password' });
  const url = `redis://:wrong-one@127.0.0.1:${redis.port}`;
  const [finding, ...others] = await examineRedis({ url: new Secret(url), prefix: 'test' }, systemClock);
  expect(finding).toMatchObject({ what: 'redis', state: 'failed' });
  expect(finding?.detail).toMatch(/password/i);
  expect(finding?.detail).not.toContain('wrong-one');
  expect(others).toEqual([]);
});

it('reports a refused connection', async () => {
  const url = new Secret(`redis://127.0.0.1:${await freePort()}`);
  expect(await examineRedis({ url: url, prefix: 'test' }, systemClock)).toMatchObject([
    { what: 'redis', state: 'failed', detail: expect.stringContaining('ECONNREFUSED') as string },
  ]);
});
