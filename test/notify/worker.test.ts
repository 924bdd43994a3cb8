import { appendFileSync } from 'node:fs';
import { expect } from 'vitest';
import { it } from '../support/it.ts';
import { makeOld, openNotifyWorld } from '../support/notify/notify-world.ts';
import { startRedis } from '../support/redis.ts';
import { startCli } from '../support/run-cli.ts';

/** No run ends here: what is found is found by looking. */
it('finds in a worker without a run that data is too old', async () => {
  await using redis = await startRedis();
  await using notify = await openNotifyWorld('  ops: { type: webhook, url: "URL" }', {
    settings: '    include: [lists]\n    freshWithin: 1d\n',
    redisUrl: redis.url,
  });
  const { world, receiver } = notify;
  await notify.sync();
  expect(receiver.received).toEqual([]);
  makeOld(world);
  const worker = startCli(['worker', '--config', world.config], { cwd: world.folder, env: world.env });
  await receiver.arrived(1);
  worker.child.kill('SIGTERM');
  expect((await worker.result).code).toBe(0);
  expect(receiver.bodies().map(({ kind, connector }) => [kind, connector])).toEqual([['late', 'newsletter']]);
});

it('calls no heartbeat where the sink is not there, and says that notifications wait', async () => {
  await using notify = await openNotifyWorld(
    '  ops: { type: webhook, url: "URL" }\n  alive: { type: heartbeat, url: "URL/alive" }',
    { sinkSettings: '{ type: sqlite, path: ./nowhere/main.db }' },
  );
  appendFileSync(`${notify.world.folder}/nowhere`, 'a file where a folder is needed');
  const { stderr, code } = await notify.sync();
  expect(code).toBe(2);
  expect(notify.receiver.received).toEqual([]);
  expect(stderr).toContain('Notifications about newsletter wait: ');
});
