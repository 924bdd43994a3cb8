import { userInfo } from 'node:os';
import { expect, it } from 'vitest';
import { openCliWorld } from '../support/cli-world.ts';
import { startRedis } from '../support/redis.ts';

it('lists what people did, by whom and with which run, newest first', async () => {
  await using redis = await startRedis();
  await using world = await openCliWorld({ sink: 'sqlite', redisUrl: redis.url });
  const { stdout } = await world.cli('actions');
  expect(stdout).toContain('Nothing was done by hand yet.');
  await world.json('sync', 'newsletter', '--select', 'lists');
  const [forced] = (await world.json('sync', 'newsletter', '--select', 'lists', '--full')).slice(-1);
  await world.json('reset', 'newsletter/lists', '--yes');
  await world.json('schedule', 'pause', 'newsletter', '--reason', 'moving house');
  await world.json('schedule', 'resume', 'newsletter');
  const [listed] = await world.json('actions', 'newsletter');
  const report = forced?.['report'] as { readonly run: string } | undefined;
  expect(listed).toMatchObject({
    actions: [
      { action: 'resume' },
      { action: 'pause', connector: 'newsletter', detail: { reason: 'moving house' }, run: null },
      { action: 'reset', entity: 'lists', detail: { withData: false } },
      { action: 'read-in-full', run: report?.run },
    ],
  });
  const actions = listed?.['actions'] as readonly { readonly who: string }[];
  expect(actions.every(({ who }) => who.startsWith(`${userInfo().username}@`))).toBe(true);
  const shown = await world.cli('actions', '--limit', '2');
  expect(shown.stdout).toMatch(/pause +newsletter +reason: moving house/);
  expect(shown.stdout).not.toContain('reset');
});
