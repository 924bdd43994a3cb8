import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { chromium } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { Secret } from '../../src/core/secret.ts';
import { servedPages } from '../../src/page/page-routes.ts';
import { loadSettings } from '../../src/settings/load-settings.ts';
import { cliSecret, writeCliConfig } from '../support/cli-world.ts';
import { findChromium } from '../support/page/find-chromium.ts';
import { openActor } from '../support/page/actor.ts';
import { startRedis, type PrivateRedis } from '../support/redis.ts';
import {
  serveMonitor,
  type Answer,
  type RawRequest,
  type ServedMonitor,
} from '../support/monitor/served-monitor.ts';

const token = 'a-token-of-the-tests';
const tokens = [{ name: 'anna', may: 'read', token: new Secret(token) }] as const;
const progress = {
  starts: 0,
  pages: 3,
  records: 120,
  written: 7,
  entity: 'lists',
  at: '2026-05-01T12:00:00Z',
};
let redis: PrivateRedis;
let connection: Redis;
let queues: readonly Queue[];
let syncs: Queue;
let served: ServedMonitor;
let folder: string;

beforeAll(async () => {
  redis = await startRedis();
  connection = new Redis({ port: redis.port, maxRetriesPerRequest: null });
  connection.on('error', () => undefined);
  const ticks = new Queue('ticks', { connection });
  syncs = new Queue('syncs-0a1b', { connection });
  queues = [ticks, syncs];
  for (const queue of queues) queue.on('error', () => undefined);
  await ticks.upsertJobScheduler(
    '0a1b:newsletter',
    { pattern: '0 3 * * *', tz: 'Europe/Berlin' },
    { name: 'tick', data: { sink: '0a1b', connector: 'newsletter' } },
  );
  await syncs.add('sync', { connector: 'newsletter', kind: 'sync', reason: 'schedule', due: null });
  const worker = new Worker(
    'syncs-0a1b',
    async (job) => {
      await job.updateProgress(progress);
      await job.log('run started');
      await job.log('run finished: ok');
      return { outcome: 'ok' };
    },
    { connection },
  );
  await once(worker, 'completed');
  await worker.close();
  await syncs.add(
    'sync',
    { connector: 'wiki', kind: 'sync', reason: 'manual', due: null },
    { delay: 3_600_000 },
  );
  folder = mkdtempSync(join(tmpdir(), 'board-'));
  const config = await writeCliConfig(folder, 'http://127.0.0.1:1');
  served = await serveMonitor({
    tokens,
    board: { queues, sinks: [{ id: '0a1b', name: 'warehouse' }] },
    pages: servedPages({
      settings: loadSettings({ file: config, env: { SECRET: cliSecret } }),
      program: 'connector-sync',
      clock: systemClock,
    }),
  });
});

afterAll(async () => {
  await served[Symbol.asyncDispose]();
  for (const queue of queues) await queue.close();
  connection.disconnect();
  await redis[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

const basic = { authorization: `Basic ${Buffer.from(`me:${token}`).toString('base64')}` };
const ask = (path: string, request: RawRequest = {}): Promise<Answer> =>
  served.get(path, { headers: basic, ...request });

async function shownJobs(queue: string): Promise<readonly Record<string, unknown>[]> {
  const { body } = await ask(`/board/api/queues?activeQueue=${queue}&status=latest&page=1&jobsPerPage=10`);
  const found = JSON.parse(body) as { queues: { name: string; jobs: Record<string, unknown>[] }[] };
  return found.queues.find(({ name }) => name === queue)?.jobs ?? [];
}

describe('the board', () => {
  // Proves promise 10
  it('requires the token for all its paths, however they are written', async () => {
    for (const path of [
      '/board',
      '/board/',
      '/%62oard',
      '/board/api/queues',
      '/%62oard/api/queues',
      '/board/api/redis/stats',
      '/board/static/favicon.ico',
      '/board/queue/ticks',
      '/board/nowhere',
    ]) {
      for (const headers of [{}, { authorization: 'Basic bm86' }]) {
        const limited = await serveMonitor({ tokens, board: { queues } });
        const answer = await limited.get(path, { headers });
        expect([path, answer.status, answer.headers['www-authenticate']]).toEqual([
          path,
          401,
          'Basic realm="connector-sync", charset="UTF-8"',
        ]);
        expect(answer.body).not.toContain('ticks');
        await limited[Symbol.asyncDispose]();
      }
    }
  });

  it('opens to who has logged in on the pages with a token that may read, and to no forged session', async () => {
    const { cookie } = await openActor(served, token);
    const withCookie = (text: string): RawRequest => ({ headers: { cookie: text } });
    expect((await served.get('/board/api/queues', withCookie(cookie))).status).toBe(200);
    const [name = ''] = cookie.split('=');
    for (const forged of [`${name}=${'A'.repeat(32)}`, `${name}=`]) {
      expect([forged, (await served.get('/board', withCookie(forged))).status]).toEqual([forged, 401]);
    }
  });

  it('tells wrong tokens to wait after ten, and for how long; the right one opens it', async () => {
    await using attacked = await serveMonitor({ tokens, board: { queues } });
    const wrong = { headers: { authorization: 'Bearer wrong' } };
    for (let tries = 0; tries < 10; tries += 1) {
      expect((await attacked.get('/board', wrong)).status).toBe(401);
    }
    const refused = await attacked.get('/board', wrong);
    expect([refused.status, refused.headers['retry-after']]).toEqual([429, '10']);
    expect((await attacked.get('/board', { headers: basic })).status).toBe(200);
    expect((await attacked.get('/healthz')).status).toBe(200);
    expect(JSON.stringify(attacked.logged)).toContain('wrong token');
  });

  it('shows queues, jobs by the name of their connector, their progress and their log lines', async () => {
    const jobs = await shownJobs('syncs-0a1b');
    expect(new Set(jobs.map(({ name }) => name))).toEqual(new Set(['newsletter: sync', 'wiki: sync']));
    const done = jobs.find(({ name }) => name === 'newsletter: sync');
    expect(done).toMatchObject({ progress, returnValue: { outcome: 'ok' } });
    const lines = await ask(`/board/api/queues/syncs-0a1b/${String(done?.['id'])}/logs`);
    expect(JSON.parse(lines.body)).toEqual(['run started', 'run finished: ok']);
    const schedulers = await ask('/board/api/job-schedulers');
    expect(schedulers.body).toContain('0a1b:newsletter');
  });

  it('names a queue after its sink', async () => {
    const { body } = await ask('/board/api/queues');
    const { queues: shown } = JSON.parse(body) as { queues: { name: string; displayName?: string }[] };
    expect(shown.map(({ name, displayName }) => [name, displayName])).toEqual([
      ['ticks', undefined],
      ['syncs-0a1b', 'sink warehouse'],
    ]);
  });

  it('serves its own scripts and styles, and allows no others', async () => {
    const page = await ask('/board');
    const policy = String(page.headers['content-security-policy']);
    expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'");
    expect(policy).toContain(
      "connect-src 'self'; base-uri 'self'; form-action 'none'; frame-ancestors 'none'",
    );
    const files = [...page.body.matchAll(/(?:src|href)="(static\/[^"]+)"/g)].map(([, file = '']) => file);
    expect(files.length).toBeGreaterThan(3);
    for (const file of files) expect([file, (await ask(`/board/${file}`)).status]).toEqual([file, 200]);
  });

  const program = findChromium();
  it.skipIf(program === null)('opens in a browser to who has logged in on the pages', async () => {
    // Tests run as root in containers, where Chromium's sandbox does not start.
    const browser = await chromium.launch({ executablePath: program ?? '', args: ['--no-sandbox'] });
    try {
      const page = await browser.newPage();
      const answered: string[] = [];
      page.on('response', (response) => answered.push(new URL(response.url()).hostname));
      await page.goto(served.monitor.url);
      await page.getByLabel('Token').fill(token);
      await page.getByRole('button', { name: 'Log in' }).click();
      await page.getByRole('link', { name: '/board' }).click();
      await page.getByText('sink warehouse').first().waitFor();
      await page.goto(`${served.monitor.url}/board/queue/syncs-0a1b`);
      await page.getByText('wiki: sync').first().waitFor();
      expect(new Set(answered)).toEqual(new Set(['127.0.0.1']));
    } finally {
      await browser.close();
    }
  });

  it('rejects every change of a queue, even with the token', async () => {
    const [job] = await shownJobs('syncs-0a1b');
    const queue = '/board/api/queues/syncs-0a1b';
    const changes: readonly [string, string][] = [
      ['POST', `${queue}/add`],
      ['PUT', '/board/api/queues/pause'],
      ['PUT', `${queue}/pause`],
      ['PUT', `${queue}/empty`],
      ['PUT', `${queue}/obliterate`],
      ['PUT', `${queue}/promote`],
      ['PUT', `${queue}/clean/completed`],
      ['PUT', `${queue}/${String(job?.['id'])}/clean`],
      ['PATCH', `${queue}/${String(job?.['id'])}/update-data`],
      ['PUT', '/board/api/queues/ticks/job-schedulers/0a1b:newsletter/remove'],
    ];
    const before = await syncs.getJobCounts();
    for (const [method, path] of changes) {
      const headers = { ...basic, 'content-type': 'application/json' };
      const { status } = await ask(path, { method, headers, body: '{}' });
      expect([method, path, status]).toEqual([method, path, 405]);
    }
    expect(await syncs.getJobCounts()).toEqual(before);
    expect(await syncs.isPaused()).toBe(false);
    expect(await queues[0]?.getJobSchedulersCount()).toBe(1);
  });
});
