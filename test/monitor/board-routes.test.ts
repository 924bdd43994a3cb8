import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Queue } from 'bullmq';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { Secret } from '../../src/core/secret.ts';
import type { MonitorOptions } from '../../src/monitor/start-monitor.ts';
import { servedPages } from '../../src/page/page-routes.ts';
import { loadSettings } from '../../src/settings/load-settings.ts';
import { cliSecret, writeCliConfig } from '../support/cli-world.ts';
import { openActor } from '../support/page/actor.ts';
import { startRedis, type PrivateRedis } from '../support/redis.ts';
import {
  serveMonitor,
  type Answer,
  type RawRequest,
  type ServedMonitor,
} from '../support/monitor/served-monitor.ts';

const token = 'a-token-of-the-tests';
const bearer = { authorization: `Bearer ${token}` };
let redis: PrivateRedis;
let connection: Redis;
let syncs: Queue;
let content: Partial<MonitorOptions>;
let served: ServedMonitor;
let folder: string;

beforeAll(async () => {
  redis = await startRedis();
  connection = new Redis({ port: redis.port, maxRetriesPerRequest: null });
  connection.on('error', () => undefined);
  syncs = new Queue('syncs-0a1b', { connection });
  const queues = [new Queue('ticks', { connection }), syncs];
  for (const queue of queues) queue.on('error', () => undefined);
  await syncs.add('sync', { connector: 'wiki' }, { delay: 3_600_000 });
  folder = mkdtempSync(join(tmpdir(), 'board-'));
  const config = await writeCliConfig(folder, 'http://127.0.0.1:1');
  const settings = loadSettings({ file: config, env: { SECRET: cliSecret } });
  content = {
    board: { queues, sinks: [{ id: '0a1b', name: 'warehouse' }] },
    pages: servedPages({ settings, program: 'connector-sync', clock: systemClock }),
  };
  served = await serveMonitor({
    ...content,
    tokens: [{ name: 'anna', may: ['pages'], token: new Secret(token) }],
  });
});

afterAll(async () => {
  await served[Symbol.asyncDispose]();
  for (const queue of content.board?.queues ?? []) await queue.close();
  connection.disconnect();
  await redis[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

const ask = (path: string, request: RawRequest = {}): Promise<Answer> =>
  served.get(path, { headers: bearer, ...request });

describe('the board', () => {
  // Proves promise 10
  it('requires access to the pages for all its paths, however they are written', async () => {
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
      const { status, body } = await served.get(path);
      expect([path, status, body.includes('syncs')]).toEqual([path, 401, false]);
    }
    const basic = { authorization: `Basic ${Buffer.from(`me:${token}`).toString('base64')}` };
    expect((await served.get('/board/api/queues', { headers: basic })).status).toBe(401);
  });

  it('is not there without a token, also on this machine', async () => {
    await using open = await serveMonitor(content);
    const { status, body } = await open.get('/');
    expect([status, body.includes('href="./board"')]).toEqual([200, false]);
    for (const path of ['/board', '/board/', '/board/api/queues', '/board/static/favicon.ico']) {
      expect([path, (await open.get(path)).status]).not.toEqual([path, 200]);
    }
  });

  it('shows queues and jobs under the names of their sinks', async () => {
    const { status, body } = await ask('/board/api/queues?activeQueue=syncs-0a1b&status=latest&page=1');
    const { queues } = JSON.parse(body) as {
      queues: { name: string; displayName?: string; readOnlyMode: boolean; jobs: object[] }[];
    };
    expect([
      status,
      queues.map(({ name, displayName, readOnlyMode }) => [name, displayName, readOnlyMode]),
    ]).toEqual([
      200,
      [
        ['ticks', 'ticks', true],
        ['syncs-0a1b', 'sink warehouse', true],
      ],
    ]);
    expect(queues[1]?.jobs).toMatchObject([{ data: { connector: 'wiki' } }]);
  });

  it('opens to who has logged in on the pages, which lead to it, and to no forged session', async () => {
    const { cookie } = await openActor(served, token);
    const withCookie = (text: string): RawRequest => ({ headers: { cookie: text } });
    expect((await served.get('/', withCookie(cookie))).body).toContain('href="./board"');
    expect((await served.get('/board/api/queues', withCookie(cookie))).status).toBe(200);
    const [name = ''] = cookie.split('=');
    expect((await served.get('/board', withCookie(`${name}=${'A'.repeat(32)}`))).status).toBe(401);
  });

  it('serves its own scripts and styles, and allows no others', async () => {
    const page = await ask('/board');
    expect(page.status).toBe(200);
    const policy = String(page.headers['content-security-policy']);
    expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'");
    expect(policy).toContain("form-action 'none'; frame-ancestors 'none'");
    const files = [...page.body.matchAll(/(?:src|href)="(static\/[^"]+)"/g)].map(([, file = '']) => file);
    expect(files.length).toBeGreaterThan(3);
    for (const file of files) expect([file, (await ask(`/board/${file}`)).status]).toEqual([file, 200]);
    expect(String((await ask('/')).headers['content-security-policy'])).not.toContain('unsafe-inline');
  });

  it('rejects every change of a queue, even with the token', async () => {
    const [job] = await syncs.getDelayed();
    const queue = '/board/api/queues/syncs-0a1b';
    const before = await syncs.getJobCounts();
    for (const [method, path] of [
      ['POST', `${queue}/add`],
      ['PUT', '/board/api/queues/pause'],
      ['PUT', `${queue}/pause`],
      ['PUT', `${queue}/obliterate`],
      ['PUT', `${queue}/promote`],
      ['PUT', `${queue}/${job?.id}/clean`],
      ['PATCH', `${queue}/${job?.id}/update-data`],
    ] as const) {
      const headers = { ...bearer, 'content-type': 'application/json' };
      const { status } = await ask(path, { method, headers, body: '{}' });
      expect([method, path, status]).toEqual([method, path, 405]);
    }
    expect([await syncs.getJobCounts(), await syncs.isPaused()]).toEqual([before, false]);
  });
});
