import { afterEach, describe, expect, it } from 'vitest';
import type { SampleAccount } from '../../src/sample/sample-account.ts';
import { ApiError } from '../../src/service/api-error.ts';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';
import { startRedis } from '../support/redis.ts';
import { jsonLines, startCli } from '../support/run-cli.ts';
import { text } from '../support/service/served-api.ts';

describe('backfills', () => {
  let world: CliWorld;
  let failing: string | null = null;
  const asked: Record<string, unknown>[] = [];

  const wrap = (account: SampleAccount): SampleAccount => ({
    get: (entity, params) => account.get(entity, params),
    list: (entity, params) => {
      if (entity === 'list_members') asked.push({ ...params });
      if (failing !== null && text(params['since_last_changed']).startsWith(failing)) {
        throw new ApiError(400, 'out of order');
      }
      return account.list(entity, params);
    },
  });

  afterEach(async () => {
    failing = null;
    asked.length = 0;
    await world[Symbol.asyncDispose]();
  });

  const members = ['backfill', 'newsletter', '--select', 'list_members'] as const;
  const threeYears = ['--since', '2022-01-01', '--until', '2025-01-01', '--window', '12mo'] as const;

  interface Ended {
    readonly kind: string;
    readonly window: string;
    readonly report: { readonly kind: string; readonly outcome: string };
  }

  function ended(lines: readonly Record<string, unknown>[]): readonly Ended[] {
    return lines.filter(({ kind }) => kind === 'run-report') as unknown as readonly Ended[];
  }

  describe('backfill', () => {
    it('reads the windows newest first, a run for each, and passes over those that are done', async () => {
      world = await openCliWorld({ wrap });
      const lines = await world.json(...members, ...threeYears);
      expect(ended(lines).map(({ window, report }) => [window, report.kind, report.outcome])).toEqual(
        ['2024', '2023', '2022'].map((year) => [
          `${year}-01-01T00:00:00.000Z/${Number(year) + 1}-01-01T00:00:00.000Z`,
          'backfill',
          'ok',
        ]),
      );
      expect(lines.at(-1)).toMatchObject({ kind: 'backfill', isDone: true });
      // Every call for members has both bounds.
      expect(asked.length).toBeGreaterThan(3);
      expect(asked.every((params) => 'since_last_changed' in params && 'before_last_changed' in params)).toBe(
        true,
      );
      asked.length = 0;
      const again = await world.cli(...members, ...threeYears);
      expect(again).toMatchObject({ code: 0, stdout: expect.stringContaining('0 windows') as string });
      expect(asked).toEqual([]);
      const longer = await world.json(
        ...members,
        '--since',
        '2022-01-01',
        '--until',
        '2026-01-01',
        '--window',
        '12mo',
      );
      expect(ended(longer).map(({ window }) => window.slice(0, 4))).toEqual(['2025']);
      expect(ended(await world.json(...members, ...threeYears, '--again'))).toHaveLength(3);
    });

    it('reports each window once, as it ends, and then their sum', async () => {
      world = await openCliWorld();
      const { code, stdout } = await world.cli(...members, ...threeYears);
      expect(code).toBe(0);
      expect(stdout).toMatch(/^newsletter: 3 windows of list_members to read$/m);
      expect(stdout).toMatch(/^2024-01-01 to 2025-01-01: ok in .* read, \d+ written {2}run \d{8}T/m);
      expect(stdout.match(/2024-01-01 to 2025-01-01/g)).toHaveLength(1);
      expect(stdout).toMatch(/^total: 3 windows, \d+ read, \d+ inserted, .* calls$/m);
    });

    it('reads a window that had to leave something out again the next time, and ends with 3', async () => {
      world = await openCliWorld({ wrap, settings: '    include: [lists, list_members]\n' });
      failing = '2022-12-31';
      const first = await world.cli(...members, ...threeYears, '--json');
      expect(first.code).toBe(3);
      const outcomes = ended(jsonLines(first)).map(({ report }) => report.outcome);
      expect(outcomes[0]).toBe('ok');
      expect(outcomes).not.toEqual(['ok', 'ok', 'ok']);
      failing = null;
      const second = await world.cli(...members, ...threeYears, '--json');
      expect(second.code).toBe(0);
      expect(ended(jsonLines(second)).length).toBeGreaterThan(0);
      expect(ended(jsonLines(second)).every(({ report }) => report.outcome === 'ok')).toBe(true);
      expect(ended(jsonLines(second)).map(({ window }) => window.slice(0, 4))).not.toContain('2024');
    }, 60_000);

    it.each([
      [['--since', '2022-01-01'], "'--window <length>' not specified"],
      [['--since', 'yesterday', '--window', '1mo'], '--since: expected a date'],
      [['--since', '2022-01-01', '--window', '1x'], '--window: expected 1mo'],
      [['--since', '2022-01-01', '--until', '2021-01-01', '--window', '1mo'], 'before the end'],
      [['--since', '2022-01-01', '--until', '2023-01-01', '--window', '1s'], 'more than 10000 windows'],
      [['--since', '2022-01-01', '--window', '1mo', '--queue', '--again'], 'use one of the two'],
    ])('refuses %j', async (args, message) => {
      world = await openCliWorld();
      const result = await world.cli(...members, ...args);
      expect(result).toMatchObject({ code: 2, stderr: expect.stringContaining(message) as string });
    });

    it('refuses entities that cannot be bounded, and names those that can', async () => {
      world = await openCliWorld();
      const args = ['--since', '2024-01-01', '--window', '1mo'];
      const wiki = await world.cli('backfill', 'wiki', ...args);
      expect(wiki).toMatchObject({ code: 2, stderr: expect.stringContaining('No entity of this') as string });
      const nothing = await world.cli('backfill', 'newsletter', '--select', 'nothing', ...args);
      expect(nothing).toMatchObject({ code: 2, stderr: expect.stringContaining('list_members') as string });
    });

    it('has examples in its help that it understands', async () => {
      world = await openCliWorld();
      const { stdout } = await world.cli('backfill', '--help');
      const examples = [...stdout.matchAll(/^ {2}\$ connector-sync (backfill .*)$/gm)].map(
        ([, command = '']) => command,
      );
      expect(examples.length).toBeGreaterThan(1);
      const [first = ''] = examples;
      expect((await world.cli(...first.split(' '))).code).toBe(0);
    });
  });
});

describe('backfill --queue', () => {
  it('leaves the windows to a worker, once', async () => {
    await using redis = await startRedis();
    await using world = await openCliWorld({
      redisUrl: redis.url,
      settings: '    include: [lists, list_members]\n',
    });
    const args = ['backfill', 'newsletter', '--select', 'list_members', '--since', '2022-01-01'];
    const span = [...args, '--until', '2025-01-01', '--window', '12mo'];
    const nobody = await world.cli(...span, '--queue');
    expect(nobody).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('no worker would take') as string,
    });
    await world.json('sync', 'newsletter', '--select', 'lists');
    const [queued] = await world.json(...span, '--queue');
    expect(queued).toEqual({
      connector: 'newsletter',
      isNew: true,
      backfill: {
        entities: ['list_members'],
        since: '2022-01-01T00:00:00.000Z',
        until: '2025-01-01T00:00:00.000Z',
        window: '12mo',
      },
    });
    expect((await world.cli(...span, '--queue')).code).toBe(5);

    const worker = startCli(['worker', '--config', world.config], { cwd: world.folder, env: world.env });
    await worker.until('"job":"backfill","end":"done"');
    worker.child.kill('SIGTERM');
    expect((await worker.result).code).toBe(0);
    const kinds = jsonLines(await world.cli('runs', '--json'))[0]?.['runs'] as readonly {
      readonly kind: string;
    }[];
    expect(kinds.filter(({ kind }) => kind === 'backfill')).toHaveLength(3);
    expect(await world.cli(...span)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('0 windows') as string,
    });
  }, 60_000);
});
