import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect } from 'vitest';
import { it } from '../support/it.ts';
import type { Service } from '../../src/service/start-service.ts';
import { cliSecret, startCliService, writeCliConfig } from '../support/cli-world.ts';
import { freePort, startRedis, type PrivateRedis } from '../support/redis.ts';
import { callCli, jsonLines, type CliResult } from '../support/run-cli.ts';

const password = 'redis-password-of-this-test';

let service: Service;
let redis: PrivateRedis;
let folder: string;
let config: string;
let url: string;

beforeAll(async () => {
  service = await startCliService();
});

afterAll(() => service.close());

it.beforeEach(async ({ folder: made }) => {
  redis = await startRedis({ password });
  url = redis.url;
  folder = made;
  config = await writeCliConfig(folder, service.url, {
    usesRedis: true,
    schedules: {
      newsletter: '{ cron: "*/30 * * * *", timezone: Europe/Berlin, jitter: 2m }',
      wiki: '{ every: 1h }',
    },
  });
});

afterEach(() => redis.stop());

async function cli(...args: readonly string[]): Promise<CliResult> {
  const result = await callCli([...args, '--config', config], {
    cwd: folder,
    env: { SECRET: cliSecret, REDIS: url },
  });
  expect(result.stdout + result.stderr).not.toContain(password);
  expect(result.stdout + result.stderr).not.toContain(cliSecret);
  return result;
}

async function redisIsDown(): Promise<void> {
  url = `redis://:${password}@127.0.0.1:${await freePort()}`;
}

async function listed(): Promise<Readonly<Record<string, Readonly<Record<string, unknown>>>>> {
  const [document] = jsonLines(await cli('status', '--json'));
  const connectors = document?.['connectors'] as readonly Readonly<Record<string, unknown>>[];
  return Object.fromEntries(connectors.map((one) => [one['connector'], one]));
}

describe('schedule list', () => {
  it('says when Redis has each connector run next, before any run, and after one by hand', async () => {
    await cli('schedule', 'apply');
    const first = jsonLines(await cli('schedule', 'list', '--json'));
    expect(first).toMatchObject([
      {
        connectors: [
          { connector: 'newsletter', sink: 'main', next: expect.stringMatching(/:[03]0:00/) as string },
          { connector: 'wiki', sink: 'main', schedule: { kind: 'every', everyMs: 3_600_000 } },
        ],
      },
    ]);
    await cli('sync', 'wiki', '--select', 'users');
    expect(jsonLines(await cli('schedule', 'list', '--json'))).toEqual(first);
    const { stdout } = await cli('schedule', 'list');
    const [heading, newsletter, wiki] = stdout.split('\n');
    expect(heading).toMatch(/^connector +schedule +next run$/);
    expect(newsletter).toMatch(/^newsletter +\*\/30 \* \* \* \* Europe\/Berlin +\S+:[03]0:00Z \(in \S+.*\)$/);
    expect(wiki).toMatch(/^wiki +every 1h +\S+Z \(.+\)$/);
    expect((await cli('schedule', 'list', 'wiki')).stdout).not.toContain('newsletter');
  });

  it('says so where Redis has no schedule, and ends with 1 without Redis', async () => {
    expect((await cli('schedule', 'list')).stdout).toMatch(/^wiki +every 1h +paused, or not in Redis yet$/m);
    await cli('schedule', 'apply');
    await cli('schedule', 'pause', 'wiki');
    const [{ connectors } = {}] = jsonLines(await cli('schedule', 'list', 'wiki', '--json'));
    expect(connectors).toMatchObject([{ connector: 'wiki', next: null }]);
    await redisIsDown();
    expect((await cli('schedule', 'list')).code).toBe(1);
  });
});

describe('schedule apply', () => {
  it('writes missing schedules, keeps right ones and removes those that left the config', async () => {
    const first = await cli('schedule', 'apply');
    expect([first.code, first.stdout]).toEqual([0, 'written: newsletter, wiki\n']);
    const text = await readFile(config, 'utf8');
    await writeFile(config, text.replace('    schedule: { every: 1h }\n', ''));
    expect((await cli('schedule', 'apply')).stdout).toBe('unchanged: newsletter\nremoved: wiki\n');
  });

  it('refuses a sink of another file, and takes it over with --take-over', async () => {
    await cli('schedule', 'apply');
    const other = join(folder, 'other');
    await mkdir(other);
    const elsewhere = (await readFile(config, 'utf8')).replace('./main.db', join(other, 'main.db'));
    await writeFile(config, elsewhere);
    // A file of that name with another id, as a second machine would have it.
    await cli('sync', 'wiki');
    const refused = await cli('schedule', 'apply');
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain('schedule apply --take-over main');
    const taken = await cli('schedule', 'apply', '--take-over', 'main');
    expect([taken.code, taken.stdout]).toEqual([0, 'written: newsletter, wiki\n']);
  });

  it('leaves a sink alone whose files are on another machine, unless it is taken over', async () => {
    await cli('schedule', 'apply');
    await rm(join(folder, 'main.db'));
    const left = await cli('schedule', 'apply', '--json');
    expect(jsonLines(left)).toMatchObject([{ written: [], elsewhere: [{ sink: 'main' }] }]);
    expect((await cli('schedule', 'apply')).stderr).toContain('Skipped sink main: its files are on ');
    const paused = await cli('schedule', 'pause', 'wiki');
    expect(paused.code).toBe(2);
    expect(paused.stderr).toContain('Sink main is not on this machine: a worker on ');
    const taken = await cli('schedule', 'apply', '--take-over', 'main', '--json');
    expect(jsonLines(taken)).toMatchObject([{ written: ['newsletter', 'wiki'], elsewhere: [] }]);
  });

  it('ends with 2 for an unknown sink, and with 1 without Redis', async () => {
    const unknown = await cli('schedule', 'apply', '--take-over', 'lake');
    expect(unknown.code).toBe(2);
    expect(unknown.stderr).toContain('expected one of the sinks main, got "lake"');
    await redisIsDown();
    const down = await cli('schedule', 'apply', '--json');
    expect(down.code).toBe(1);
    expect(jsonLines(down)).toMatchObject([{ error: { code: 'QUEUE_UNAVAILABLE' } }]);
  });
});

describe('schedule pause and resume', () => {
  it('keeps a connector from running until it is resumed', async () => {
    await cli('schedule', 'apply');
    const paused = await cli('schedule', 'pause', 'wiki', '--reason', 'the service moves');
    expect([paused.code, paused.stderr]).toEqual([0, '']);
    expect(paused.stdout).toBe('wiki: paused\n');
    expect((await cli('status', 'wiki')).stdout).toMatch(
      /^ {2}schedule paused since .+: the service moves$/m,
    );
    // Redis has forgotten it, and an apply does not bring it back.
    expect(jsonLines(await cli('schedule', 'apply', '--json'))).toMatchObject([
      { kept: ['newsletter'], written: [], removed: [] },
    ]);
    const run = await cli('schedule', 'run', 'wiki');
    expect(run.code).toBe(2);
    expect(run.stderr).toContain('wiki has been paused since ');
    expect(run.stderr).toContain('schedule resume wiki');

    const resumed = await cli('schedule', 'resume', 'wiki', 'newsletter');
    expect(resumed.stdout).toBe('wiki: resumed, runs on its schedule again\nnewsletter: was not paused\n');
    expect(await listed()).toMatchObject({ wiki: { paused: null } });
  });

  it('holds without Redis, and reports that Redis does not answer', async () => {
    await cli('schedule', 'apply');
    await redisIsDown();
    const paused = await cli('schedule', 'pause', 'wiki', 'newsletter');
    expect(paused.code).toBe(0);
    expect(paused.stderr).toContain(
      'is in effect. A worker learns of it within a minute, because Redis could not be told',
    );
    expect(await listed()).toMatchObject({
      newsletter: { paused: { reason: 'paused by hand' } },
      wiki: { paused: { since: expect.any(String) as string } },
    });
    const resumed = await cli('schedule', 'resume', 'wiki', '--json');
    expect(jsonLines(resumed)).toEqual([{ connector: 'wiki', wasPaused: true }]);
    expect(await listed()).toMatchObject({ wiki: { paused: null } });
  });

  it('does not pause if only Redis knows where the sink is, and does not answer', async () => {
    await redisIsDown();
    const { code, stderr } = await cli('schedule', 'pause', 'wiki');
    expect(code).toBe(2);
    expect(stderr).toContain('Redis, which knows where it is, does not answer');
  });

  it.each([
    [['pause', 'wikis'], 'Unknown connector "wikis"; did you mean "wiki"?'],
    [['pause', 'wiki', '--reason', ' '], 'xpected a few words as the reason'],
    [['pause'], "missing required argument 'connector'"],
    [['run', 'wikis'], 'Unknown connector "wikis"; did you mean "wiki"?'],
  ])('%j ends with 2', async (args, why) => {
    const { code, stderr } = await cli('schedule', ...args);
    expect(code).toBe(2);
    expect(stderr).toContain(why);
  });
});

describe('schedule run', () => {
  it('asks for a run once, also from a machine that has not the sink', async () => {
    await cli('schedule', 'apply');
    const first = await cli('schedule', 'run', 'wiki');
    expect([first.code, first.stderr]).toEqual([0, '']);
    expect(first.stdout).toMatch(/^wiki: waiting for a worker to take it$/m);
    await rm(join(folder, 'main.db'));
    const again = await cli('schedule', 'run', 'wiki', 'newsletter', '--json');
    expect(jsonLines(again)).toEqual([
      { connector: 'wiki', isNew: false, state: 'waiting' },
      { connector: 'newsletter', isNew: true, state: 'waiting' },
    ]);
  });

  it('ends with 2 if no machine has that sink, and with 1 without Redis', async () => {
    const nobody = await cli('schedule', 'run', 'wiki');
    expect(nobody.code).toBe(2);
    expect(nobody.stderr).toContain('No worker has ever used sink main');
    await redisIsDown();
    const startedMs = performance.now();
    const down = await cli('schedule', 'run', 'wiki', '--json');
    expect(performance.now() - startedMs).toBeLessThan(4000);
    expect(down.code).toBe(1);
    expect(jsonLines(down)).toMatchObject([{ error: { code: 'QUEUE_UNAVAILABLE' } }]);
  });
});
