import { appendFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { expect, it } from 'vitest';
import { makeOld, openNotifyWorld } from '../support/notify/notify-world.ts';
import { jsonLines } from '../support/run-cli.ts';

it('tests each channel by the way that messages take, and says what is wrong', async () => {
  await using notify = await openNotifyWorld(
    '  ops: { type: webhook, url: "URL/ops" }\n  alive: { type: heartbeat, url: "URL/alive" }',
  );
  const { world, receiver } = notify;
  const good = await world.cli('notify', 'test');
  expect([good.code, good.stdout, good.stderr]).toEqual([0, 'ops: delivered\nalive: delivered\n', '']);
  expect(receiver.received.map(({ method, path }) => `${method} ${path}`).toSorted()).toEqual([
    'GET /alive',
    'POST /ops',
  ]);
  expect(receiver.bodies('/ops')[0]).toMatchObject({ kind: 'test', sink: 'main', connector: null });
  receiver.answer(() => 400);
  const bad = await world.cli('notify', 'test', 'ops', '--json');
  expect(bad.code).toBe(1);
  const error = 'the receiver answered with HTTP status 400';
  expect(jsonLines(bad)).toEqual([{ kind: 'notify-test', channel: 'ops', isDelivered: false, error }]);
  const status = await world.cli('notify', 'status');
  expect(status.stdout).toMatch(
    /^ops \(webhook, http:\/\/127\.0\.0\.1:\d+\/\[secret\]\): nothing waits\n {2}! given up: test, \S+ \(\d+s ago\): the receiver answered with HTTP status 400\nalive \(heartbeat, .*\): called after each sync that went well\n$/,
  );
  const [ops] = jsonLines(await world.cli('notify', 'status', '--json'));
  expect(ops).toMatchObject({ channel: 'ops', waiting: [], givenUp: [{ kind: 'test', lastError: error }] });
  expect((await world.cli('notify', 'test', 'opps')).stderr).toContain(
    'Unknown channel "opps"; the config has ops, alive.',
  );
});

it('says once that data is too old, and that it is fresh again', async () => {
  await using notify = await openNotifyWorld('  ops: { type: webhook, url: "URL" }', {
    settings: '    include: [lists]\n    freshWithin: 1d\n',
  });
  const { world, receiver, sync } = notify;
  await sync();
  expect(receiver.received).toEqual([]);
  makeOld(world);
  // A command that reads another connector looks at all of the sink.
  await world.cli('sync', 'wiki', '--select', 'users');
  await sync();
  expect(receiver.bodies().map(({ kind, title }) => [kind, title])).toEqual([
    ['late', 'newsletter: 1 entity is too old'],
    ['recovered', 'newsletter: works again'],
  ]);
});

it('says once that a guard keeps what is too old, and when a check keeps nothing', async () => {
  await using notify = await openNotifyWorld('  ops: { type: webhook, url: "URL" }', {
    settings: '    include: [lists]\n    retention: { deletedRows: 90d }\n',
    more: 'guards: { maxDeleteShare: 0.01, minDeleteRows: 0 }\n',
  });
  const { world, receiver, sync } = notify;
  await sync();
  world.moveTo(3);
  await sync('--full', '--allow-deletes');
  const db = new Database(join(world.folder, 'main.db'));
  for (const update of ['UPDATE newsletter__lists SET _deleted_at', 'UPDATE _sync_retained SET checked_at']) {
    db.exec(`${update} = '2020-01-01T00:00:00.000Z' WHERE ${update.split(' ').at(-1)} IS NOT NULL`);
  }
  db.close();
  await sync();
  await sync();
  await world.cli('prune', 'newsletter', '--allow-deletes');
  await sync();
  expect(receiver.bodies()).toMatchObject([
    {
      kind: 'withheld-retention',
      todo: expect.stringContaining('prune newsletter --allow-deletes') as string,
    },
    { kind: 'recovered', text: expect.stringContaining('What is too old had been kept since') as string },
  ]);
});

it('says once that a purge is not finished after an hour, and when it is', async () => {
  await using notify = await openNotifyWorld('  ops: { type: webhook, url: "URL" }', {
    settings: '    include: [lists]\n',
    more: 'publish: { lake: { type: files, directory: ./lake, format: jsonl, when: by-hand } }\n',
  });
  const { world, receiver, sync } = notify;
  await sync();
  await world.json('publish', 'lake');
  const lake = join(world.folder, 'lake');
  renameSync(lake, `${lake}.kept`);
  writeFileSync(lake, 'a file where a folder is needed');
  const where = '{"like": {"name": "%"}}';
  expect((await world.cli('purge', 'newsletter/lists', '--where', where)).code).toBe(3);
  await sync();
  expect(receiver.bodies()).toEqual([]);
  const db = new Database(join(world.folder, 'main.db'));
  db.exec("UPDATE _sync_purge_work SET since = '2026-01-01T00:00:00.000Z'");
  db.close();
  await sync();
  await sync();
  rmSync(lake);
  renameSync(`${lake}.kept`, lake);
  await world.cli('prune', 'newsletter');
  await sync();
  expect(receiver.bodies()).toMatchObject([
    {
      kind: 'purge-unfinished',
      since: '2026-01-01T00:00:00.000Z',
      text: 'target lake may still hold what was purged.',
      todo: 'Run: connector-sync prune newsletter',
    },
    { kind: 'recovered' },
  ]);
});

it('keeps a sync from starting where a secret of a channel is missing here', async () => {
  await using notify = await openNotifyWorld('  ops: { type: webhook, url: "URL" }');
  appendFileSync(notify.world.config, '  more: { type: webhook, url: "${MISSING_URL}" }\n');
  const { code, stderr } = await notify.sync();
  expect(code).toBe(2);
  expect(stderr).toContain('notify.more.url: the environment variable MISSING_URL is not set');
  expect((await notify.world.cli('status')).code).toBe(0);
});
