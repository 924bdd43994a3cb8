import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';
import { askPostgres, startPostgres, type PrivatePostgres } from '../support/postgres.ts';
import { startRedis, type PrivateRedis } from '../support/redis.ts';
import { redisContents } from '../support/redis-contents.ts';
import { callCli, jsonLines, startCli, type CliResult, type RunningCli } from '../support/run-cli.ts';

const password = 'p@ss/word-of-the-warehouse';
/** Part of the password that is written alike in an address and outside it. */
const tellTale = 'word-of-the-warehouse';

let server: PrivatePostgres;
let redis: PrivateRedis;
let world: CliWorld;
let worker: RunningCli | null = null;
/** All that any command has written. */
let said = '';

beforeAll(async () => {
  server = await startPostgres();
  await demandPassword(server);
  redis = await startRedis();
  world = await openCliWorld({
    sinkSettings: '{ type: postgres, url: "${WAREHOUSE}", schema: e2e, connections: 3, durability: normal }',
    settings: '    schedule: { cron: "*/2 * * * * *" }\n',
    redisUrl: redis.url,
  });
});

afterAll(async () => {
  worker?.child.kill('SIGKILL');
  await world[Symbol.asyncDispose]();
  await redis.stop();
  await server.stop();
});

function addressOf(port: number, secret = password): string {
  return `postgresql://sync:${encodeURIComponent(secret)}@127.0.0.1:${port}/postgres`;
}

const cli = async (args: readonly string[], warehouse = addressOf(server.port)): Promise<CliResult> => {
  const result = await callCli([...args, '--config', world.config], {
    cwd: world.folder,
    env: { ...world.env, WAREHOUSE: warehouse },
  });
  said += result.stdout + result.stderr;
  return result;
};

const json = async (...args: readonly string[]): Promise<readonly Record<string, unknown>[]> => {
  const result = await cli([...args, '--json']);
  expect({ args, code: result.code, stderr: result.code === 0 ? '' : result.stderr + result.stdout }).toEqual(
    {
      args,
      code: 0,
      stderr: '',
    },
  );
  return jsonLines(result);
};

const rows = async (target: string): Promise<readonly Record<string, unknown>[]> =>
  jsonLines(await cli(['export', target]));

describe('every command over a PostgreSQL sink that asks for a password', () => {
  it('syncs, shows, repairs and searches, and no output has the password', async () => {
    expect(await json('status')).toMatchObject([{ connectors: [{ status: null }, { status: null }] }]);
    const first = (await json('sync')).at(-1);
    expect(first).toMatchObject({ report: { outcome: 'ok' } });
    expect((await cli(['sync'])).code).toBe(0);

    const [status] = await json('status', 'newsletter');
    expect(status).toMatchObject({ connectors: [{ status: { lastRun: { state: 'ok' } } }] });
    expect((await cli(['status'])).stdout).toContain('newsletter');
    expect((await json('runs', '--limit', '3'))[0]?.['runs']).toMatchObject([
      { state: 'ok' },
      {},
      { state: 'ok' },
    ]);
    const [list] = await rows('newsletter/lists');
    const key = `id=${String(list?.['id'])}`;
    expect(await json('refetch', 'newsletter/lists', '--key', key)).toMatchObject([{ result: 'unchanged' }]);
    expect(await json('audit', 'newsletter/list_members')).toMatchObject([{ isEqual: true, isProven: true }]);
    const kept = (await rows('newsletter/lists')).map(({ id }) => String(id));
    for (const args of [['config', 'show'], ['check'], ['schema', 'newsletter']]) await cli(args);
    const sorted = ['search', 'newsletter/lists', '--sort', 'id', '--fields', 'id', '--limit', '2'];
    const found = jsonLines(await cli([...sorted, '--all'])).map(({ id }) => id);
    expect(found).toEqual(kept.toSorted());
    expect((await cli(['search', 'newsletter/lists', '--index-sql'])).stdout).toMatch(
      /^CREATE EXTENSION pg_trgm SCHEMA public;\nCREATE INDEX CONCURRENTLY ON "e2e"."newsletter__lists" USING gin/,
    );
    expect(said).toContain('127.0.0.1');
    expect(said).not.toContain(tellTale);
  }, 240_000);

  it('is served by a worker whose log, pages and jobs have no password either', async () => {
    worker = startCli(['worker', '--http', '127.0.0.1:0', '--config', world.config], {
      cwd: world.folder,
      env: { ...world.env, WAREHOUSE: addressOf(server.port) },
    });
    await worker.until('"msg":"run ended"');
    const url = /"http":"(http:[^"]+)"/.exec(worker.output().stderr)?.[1] ?? '';
    const pages = await Promise.all(
      ['/healthz', '/readyz', '/metrics'].map(async (page) => {
        const answer = await fetch(`${url}${page}`);
        return { page, status: answer.status, text: await answer.text() };
      }),
    );
    expect(pages).toMatchObject([{ status: 200 }, { status: 200 }, { status: 200 }]);
    const jobs = await redisContents(redis.url);
    worker.child.kill('SIGTERM');
    const result = await worker.result;
    expect(result.code).toBe(0);
    expect(pages[2]?.text).toMatch(
      /^connector_sync_runs_total\{connector="newsletter",outcome="ok"\} [1-9]/m,
    );
    expect(jobs).toContain('newsletter');
    for (const text of [result.stdout, result.stderr, jobs, ...pages.map((page) => page.text)]) {
      expect(text).not.toContain(tellTale);
    }
  }, 120_000);
});

/** From now on every connection over TCP has to prove the password. */
async function demandPassword({ url, data }: PrivatePostgres): Promise<void> {
  writeFileSync(path.join(data, 'pg_hba.conf'), 'host all all 127.0.0.1/32 scram-sha-256\n');
  await askPostgres(url, `ALTER USER sync PASSWORD '${password}'`, 'SELECT pg_reload_conf()');
}
