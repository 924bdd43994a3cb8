import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { redisContents } from '../support/redis-contents.ts';
import { systemClock } from '../../src/core/clock.ts';
import type { JsonObject } from '../../src/core/json.ts';
import { jsonAnswer } from '../support/upstream/fake-server.ts';
import { bentBody, instead, onPath } from '../support/upstream/faults.ts';
import { startRedis } from '../support/redis.ts';
import { startCli } from '../support/run-cli.ts';
import { openDirectWorld, worldRows } from '../support/upstream/direct-world.ts';
import { mailchimpWorld } from '../support/upstream/upstream-world.ts';

describe('with credentials in the config, and no API', () => {
  it('every command that reads a connector works', async () => {
    await using world = await mailchimpWorld({ as: 'my-mail' });
    await using direct = openDirectWorld(world);
    const checked = await direct.cli('check');
    expect(checked.stdout).toContain(`✓ connector mine: account ${world.identity} answers`);
    expect(checked.code).toBe(0);
    expect((await direct.cli('sync')).code).toBe(0);

    const [list] = worldRows(world).get('lists')?.keys() ?? [];
    const id = String((JSON.parse(list ?? '[]') as unknown[])[0]);
    expect(await direct.json('list', 'mine/lists')).toMatchObject([
      { records: [{ name: expect.any(String) }, {}] },
    ]);
    expect(await direct.json('get', 'mine/lists', '--param', `list_id=${id}`)).toMatchObject([
      { record: { id } },
    ]);
    expect(await direct.json('audit', 'mine/list_members')).toMatchObject([
      { isEqual: true, isProven: true },
    ]);
    expect((await direct.cli('refetch', 'mine/lists', '--key', `id=${id}`)).code).toBe(0);
    expect((await direct.cli('explain', 'mine/lists', '--key', `id=${id}`)).code).toBe(0);
    const since = ['--since', '2024-01-01', '--until', '2025-01-01', '--window', '12mo'];
    const filled = await direct.cli('backfill', 'mine', '--select', 'list_members', ...since);
    expect({ code: filled.code, stderr: filled.stderr }).toMatchObject({ code: 0 });
    expect((await direct.cli('status')).stdout).toContain('mine: ok; last run ok');
  });

  // Proves promise 17.3
  it('processes with one key keep the limit of calls at a time together, without a Redis', async () => {
    await using world = await mailchimpWorld({ as: 'my-mail' });
    const most = world.definition.upstream?.limits.concurrency;
    await using first = openDirectWorld(world);
    await using second = openDirectWorld(world);
    await using third = openDirectWorld(world);
    world.fake.script({
      times: Infinity,
      effect: async (right) => {
        await systemClock.sleep(50);
        return right();
      },
    });
    const synced = [first, second, third].map((direct) => direct.cli('sync'));
    expect((await Promise.all(synced)).map(({ code }) => code)).toEqual([0, 0, 0]);
    expect(world.fake.peak()).toBeLessThanOrEqual(most ?? 0);
  });

  it('check asks each root entity for one page, and names those that are not as the definition says', async () => {
    await using world = await mailchimpWorld({ as: 'my-mail' });
    await using direct = openDirectWorld(world);
    const sound = await direct.cli('check');
    expect(sound.code).toBe(0);
    expect(sound.stdout).toMatch(/^✓ pages of mine: (\d+) root entities answered as the definition says$/m);
    const bend = (path: string, body: (right: JsonObject) => JsonObject): void =>
      world.fake.script({ on: onPath(path), times: 100, effect: bentBody(body) });
    bend('/lists', ({ lists, ...rest }) => ({ ...rest, audiences: lists ?? [] }));
    bend('/campaigns', ({ total_items: _total, ...rest }) => rest);
    bend('/automations', (right) => ({ ...right, automations: [], total_items: 70 }));
    const forbidden = jsonAnswer(403, { status: 403, title: 'Forbidden', detail: 'not for your role' });
    world.fake.script({ on: onPath('/reports'), times: 100, effect: instead(forbidden) });
    const before = world.fake.requests.length;
    const { code, stdout } = await direct.cli('check');
    expect(code).toBe(1);
    expect(stdout).toMatch(
      /^✗ page of mine\/lists: list lists: expected an array of records at lists, got nothing there: the answer is an object with .*"audiences" \(an array of 2\), /m,
    );
    expect(stdout).toMatch(
      /^! page of mine\/campaigns: the answer names no total where the definition says/m,
    );
    expect(stdout).toMatch(
      /^! page of mine\/automations: asked for \d+ records by count, got 0 of 70: the service gives shorter pages/m,
    );
    expect(stdout).toMatch(
      /^! page of mine\/reports: list reports was answered with 403 "not for your role"/m,
    );
    // One for each, one more for the wrong path, and the one for the credentials.
    const entities = Number(/pages of mine: (\d+) root/.exec(sound.stdout)?.[1]);
    expect(world.fake.requests.length - before).toBe(entities + 2);
    expect(JSON.parse((await direct.cli('check', '--json')).stdout)).toMatchObject({
      ok: false,
      checks: expect.arrayContaining([
        expect.objectContaining({ what: 'page of mine/lists', state: 'failed', code: 'BODY_INVALID' }),
      ]) as unknown,
    });
  });

  it('commands that need an API say so, and connectors list shows what is read without one', async () => {
    await using world = await mailchimpWorld({ as: 'my-mail' });
    await using direct = openDirectWorld(world);
    for (const args of [
      ['connectors', 'list', '--workspace', 'acme'],
      ['workspaces', 'list'],
      ['definitions'],
      ['search', 'mine/lists', '--remote'],
    ]) {
      const { code, stderr } = await direct.cli(...args);
      expect({ args, code }).toEqual({ args, code: 2 });
      expect(stderr).toMatch(/API/);
    }
    expect(await direct.cli('connectors', 'list')).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('  mine (my-mail)\n'),
    });
    expect(world.fake.requests).toEqual([]);
  });

  // Proves promise 10
  it('a worker runs what is scheduled, and nothing that it says or keeps in Redis holds a credential', async () => {
    await using redis = await startRedis({ password: 'redis-password-1' });
    await using world = await mailchimpWorld({ as: 'my-mail' });
    await using direct = openDirectWorld(world, { settings: '    schedule: { every: 1h }\n' });
    writeFileSync(direct.config, `${readFileSync(direct.config, 'utf8')}redis: { url: "\${REDIS}" }\n`);
    const worker = startCli(['worker', '--config', direct.config], {
      cwd: direct.folder,
      env: { ...direct.env, REDIS: redis.url },
    });
    await worker.until('"msg":"run ended"');
    const stored = await redisContents(redis.url);
    expect(stored).toContain('mine');
    worker.child.kill('SIGTERM');
    const { code, stdout, stderr } = await worker.result;
    expect(code).toBe(0);
    expect(stderr).toContain('"outcome":"ok"');
    for (const secret of Object.values(direct.env)) expect(stdout + stderr + stored).not.toContain(secret);
  });
});
