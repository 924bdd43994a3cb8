import { describe, expect, it } from 'vitest';
import { openCliWorld } from '../support/cli-world.ts';
import { startRedis } from '../support/redis.ts';
import { jsonLines, startCli } from '../support/run-cli.ts';

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
