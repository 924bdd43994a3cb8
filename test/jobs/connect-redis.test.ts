import { expect, test } from 'vitest';
import { Secret } from '../../src/core/secret.ts';
import { connectRedis } from '../../src/jobs/connect-redis.ts';
import { freePort } from '../support/redis.ts';

test('says why there is no Redis, in whole sentences', async () => {
  const port = await freePort();
  const url = new Secret(`redis://127.0.0.1:${port}`);
  await expect(connectRedis(url, {})).rejects.toMatchObject({
    code: 'QUEUE_UNAVAILABLE',
    message: `Redis at 127.0.0.1:${port} should answer within 2 s: it refused the connection (ECONNREFUSED). Start it, or set redis.url to where it runs.`,
  });
});
