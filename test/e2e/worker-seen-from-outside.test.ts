import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { redisContents } from '../support/redis-contents.ts';
import { redisPassword } from '../support/scheduled-world.ts';
import { testCredentials } from '../support/sync-once.ts';
import { useWorkers } from '../support/use-workers.ts';
import { isRunFinished } from '../support/worker-process.ts';

const boardToken = 'board-token-of-this-test';
const basic = `Basic ${Buffer.from(`operator:${boardToken}`).toString('base64')}`;

it('shows no secret in Redis, logs, files, pages or the list of processes', async () => {
  const world = await useWorkers({
    connectors: [
      { name: 'news', definition: 'email-marketing', size: 'tiny', schedule: '{ cron: "*/2 * * * * *" }' },
      { name: 'wiki', definition: 'workspace-notes', size: 'tiny', schedule: '{ cron: "*/2 * * * * *" }' },
    ],
    latencyMs: 30,
    boardToken,
  });
  const worker = world.start({}, { listen: { host: '127.0.0.1', port: 0 } });
  const { http } = await worker.until(({ msg }) => msg === 'ready for scheduled runs');
  const url = String(http);
  for (const name of ['news', 'wiki']) {
    await worker.until((line) => isRunFinished(line) && line['connector'] === name);
  }
  const pages = await Promise.all(
    ['/healthz', '/readyz', '/metrics', '/board/api/queues'].map(async (page) => {
      const answer = await fetch(`${url}${page}`, { headers: { authorization: basic } });
      return `${answer.status} ${await answer.text()}`;
    }),
  );
  expect(pages.map((page) => page.slice(0, 3))).toEqual(['200', '200', '200', '200']);
  const processes = argumentsOf(worker.pid);
  expect(processes).toContain('worker-process');
  const redis = await redisContents(world.redis.url);
  expect(redis).toContain('"connector":"news"');
  worker.child.kill('SIGTERM');
  await worker.ended;
  const seen = {
    redis,
    processes,
    pages: pages.join('\n'),
    log: JSON.stringify([worker.lines, worker.stray]),
    files: readdirSync(world.folder)
      .filter((name) => name !== path.basename(world.config))
      .map((name) => readFileSync(path.join(world.folder, name), 'latin1'))
      .join('\n'),
  };
  for (const [where, text] of Object.entries(seen)) {
    for (const secret of [testCredentials.clientSecret, redisPassword, boardToken]) {
      expect({ where, secret, found: text.includes(secret) }).toEqual({ where, secret, found: false });
    }
    expect({ where, bearers: text.match(/bearer\s+[\w.-]{8,}/i) }).toEqual({ where, bearers: null });
  }
});

/** What `ps` shows to every user of the machine; not every machine has it. */
function argumentsOf(pid: number): string {
  const file = `/proc/${pid}/cmdline`;
  return existsSync(file)
    ? readFileSync(file, 'utf8')
    : execFileSync('ps', ['-ww', '-o', 'args=', '-p', String(pid)], { encoding: 'utf8' });
}
