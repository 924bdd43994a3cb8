import { appendFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { openCliWorld } from '../support/cli-world.ts';
import { fakeBucket, fakeKey, startFakeS3 } from '../support/publish/fake-s3.ts';
import { isLong } from '../support/trials.ts';

it.runIf(isLong)('publishes into a bucket, reads it back, and shows no secret', async () => {
  await using fake = await startFakeS3();
  await using world = await openCliWorld({ settings: '    include: [lists, campaigns]\n' });
  const { accessKeyId, secretAccessKey } = fakeKey;
  const target = {
    type: 's3',
    bucket: fakeBucket,
    prefix: 'raw',
    endpoint: fake.endpoint,
    accessKeyId,
    secretAccessKey,
  };
  appendFileSync(world.config, `publish: ${JSON.stringify({ bucket: { ...target, when: 'by-hand' } })}\n`);
  await world.json('sync', 'newsletter');
  expect(await world.json('publish', 'bucket')).toMatchObject([{ result: 'published', publication: 1 }]);
  expect((await world.cli('publish', 'check', 'bucket')).stdout).toMatch(/all as published\n$/);
  fake.fault = () => ({ status: 403, code: 'AccessDenied' });
  const refused = await world.cli('publish', 'bucket');
  expect(refused.code).toBe(1);
  expect(refused.stdout + refused.stderr).toContain('403 AccessDenied');
  expect(refused.stdout + refused.stderr).not.toContain(secretAccessKey);
});
