import { readFileSync } from 'node:fs';
import { Redis } from 'ioredis';
import { expect, it, vi } from 'vitest';
import { openScheduledWorld, type ScheduledWorld } from '../support/scheduled-world.ts';
import { callCli } from '../support/run-cli.ts';
import { isRunFinished, startWorkerProcess } from '../support/worker-process.ts';

const world = (): Promise<ScheduledWorld> =>
  openScheduledWorld({
    connectors: [{ name: 'wiki', definition: 'workspace-notes', size: 'tiny', schedule: '{ every: 1h }' }],
  });

/** Gives the user `w` of the world's Redis these rights; what processes of the world get to be that user. */
async function userOf(
  { redis, env }: ScheduledWorld,
  rights: string,
): Promise<Readonly<Record<string, string>>> {
  const admin = new Redis(redis.url);
  await admin.call('ACL', 'SETUSER', 'w', 'on', '>pw', ...rights.split(' '));
  admin.disconnect();
  return { ...env, TEST_REDIS: redis.url.replace(/\/\/[^@]*@/, '//w:pw@') };
}

function documentedRights(): string {
  const line = /ACL SETUSER connector-sync on >\S+ (?<rights>.+)$/m.exec(
    readFileSync('docs/operations/install.md', 'utf8'),
  );
  return line?.groups?.['rights'] ?? '';
}

it('a worker without the right to INFO ends with a sentence, and so does check', async () => {
  await using opened = await world();
  const env = await userOf(opened, '~* &* +@all -@dangerous');
  const sentence = /Redis at 127\.0\.0\.1:\d+ does not let its user "w" run INFO\. Allow them/;
  const worker = startWorkerProcess({ config: opened.config, env });
  await worker.ended;
  expect(worker.stray.join('\n')).toMatch(sentence);
  expect(worker.stray.join('\n')).not.toContain('Skipping the ready check');
  const told = await callCli(['worker', '--config', opened.config], { cwd: opened.folder, env });
  expect(told).toMatchObject({ code: 1, stdout: '' });
  const lines = told.stderr.trim().split('\n');
  expect(lines.map((line) => JSON.parse(line) as object)).toMatchObject([
    { level: 'fatal', msg: expect.stringMatching(sentence) as string, err: { code: 'QUEUE_UNAVAILABLE' } },
  ]);
  expect(told.stderr).not.toContain('"stack"');
  const checked = await callCli(['check', '--config', opened.config], { cwd: opened.folder, env });
  expect(checked.code).toBe(1);
  expect(checked.stdout).toMatch(sentence);
});

// Proves promise 12
it('a worker with the documented rights runs what is scheduled, and waits quietly when they are taken away', async () => {
  await using opened = await world();
  const env = await userOf(opened, documentedRights());
  const worker = startWorkerProcess({ config: opened.config, env });
  await worker.until(isRunFinished);
  await worker.until(({ msg }) => msg === 'job ended');
  const refused = worker.lines.filter(({ level }) => level === 'error');
  expect(refused).toEqual([]);

  const admin = new Redis(opened.redis.url);
  await admin.call('ACL', 'SETUSER', 'w', '-@all');
  await admin.call('CLIENT', 'KILL', 'TYPE', 'NORMAL', 'USER', 'w');
  const from = worker.lines.length;
  await worker.until(({ level }) => level === 'error', from);
  const refusals = async (): Promise<number> =>
    [...(await admin.info('commandstats')).matchAll(/rejected_calls=(\d+)/g)].reduce(
      (sum, [, count]) => sum + Number(count),
      0,
    );
  // It asks again, after a rest: not one time after the other, tens of thousands of times.
  const before = await refusals();
  await vi.waitUntil(async () => (await refusals()) > before, { timeout: 20_000, interval: 100 });
  expect(await refusals()).toBeLessThan(200);
  expect(worker.lines.length - from).toBeLessThan(20);
  expect(JSON.stringify(worker.lines.slice(from))).not.toContain('"stack"');
  expect(worker.stray).toEqual([]);
  worker.child.kill('SIGTERM');
  expect(await worker.ended).toEqual({ code: 0, signal: null });
  admin.disconnect();
});
