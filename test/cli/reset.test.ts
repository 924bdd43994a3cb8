import { afterEach, describe, expect, it } from 'vitest';
import { readFileSync, writeFileSync } from 'node:fs';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';
import { jsonLines } from '../support/run-cli.ts';
import { triedSinks } from '../support/trials.ts';

let world: CliWorld;

afterEach(async () => {
  await world[Symbol.asyncDispose]();
});

describe.each(triedSinks)('reset in a %s sink', (sink) => {
  it('without --yes only shows what would go, and ends with 0', async () => {
    world = await openCliWorld({ sink, isWhole: true });
    await world.cli('sync', 'newsletter');
    const before = await world.cli('status', 'newsletter', '--json');
    const shown = await world.cli('reset', 'newsletter/list_members', '--data');
    expect(shown.code).toBe(0);
    expect(shown.stdout).toMatch(/list_members +\d+ +\d+/);
    expect(shown.stdout).toContain('reset newsletter/list_members --data --yes');
    const whole = await world.cli('reset', 'newsletter', '--json');
    expect(jsonLines(whole)[0]).toMatchObject({ isDone: false, withData: false });
    expect(await world.cli('status', 'newsletter', '--json')).toEqual(before);
  });

  it('makes the next sync read the entity in full, and keeps its rows', async () => {
    world = await openCliWorld({ sink, isWhole: true });
    await world.cli('sync', 'newsletter');
    const rows = (await world.cli('export', 'newsletter/list_members')).stdout;
    const [done] = await world.json('reset', 'newsletter/list_members', '--yes');
    expect(done).toMatchObject({ isDone: true, rows: 0, partitions: expect.any(Number) as number });
    const report = (await world.json('sync', 'newsletter')).at(-1)?.['report'] as Report;
    const members = report.entities.find(({ entity }) => entity === 'list_members');
    expect(members).toMatchObject({ incremental: 0, counts: { inserted: 0, updated: 0 } });
    expect(members?.counts.unchanged).toBeGreaterThan(10);
    expect((await world.cli('export', 'newsletter/list_members')).stdout).toBe(rows);
  });

  it('with --data drops the rows of the entity, which come again as new ones', async () => {
    world = await openCliWorld({ sink, isWhole: true });
    await world.cli('sync', 'newsletter');
    const others = (await world.cli('export', 'newsletter/lists')).stdout;
    const [done] = await world.json('reset', 'newsletter/email_activity', '--data', '--yes');
    expect(Number(done?.['rows'])).toBeGreaterThan(0);
    for (const entity of ['email_activity', 'email_activity_events']) {
      expect((await world.cli('export', `newsletter/${entity}`)).stdout).toBe('');
    }
    expect((await world.cli('export', 'newsletter/lists')).stdout).toBe(others);
    const report = (await world.json('sync', 'newsletter')).at(-1)?.['report'] as Report;
    const counts = report.entities.find(({ entity }) => entity === 'email_activity')?.counts;
    expect(counts?.inserted).toBeGreaterThan(10);
    expect(counts?.unchanged).toBe(0);
  });

  it('lets the name of a connector stand for another account after a reset, which no refusal advises', async () => {
    world = await openCliWorld({ sink, isWhole: true });
    await world.cli('sync', 'newsletter');
    await world.cli('sync', 'wiki', '--select', 'users');
    // What the same name stood for before: another connector of the API.
    const config = readFileSync(world.config, 'utf8');
    writeFileSync(
      world.config,
      config.replace('id: c-wiki', 'id: c-news').replace('workspace-notes', 'email-marketing'),
    );
    const refused = await world.cli('sync', 'wiki', '--select', 'lists');
    expect(refused.code).toBe(2);
    expect(refused.stderr).not.toContain('reset');
    expect((await world.cli('reset', 'wiki', '--data', '--yes')).code).toBe(0);
    expect((await world.cli('sync', 'wiki', '--select', 'lists')).code).toBe(0);
    expect((await world.cli('export', 'wiki/lists')).stdout).not.toBe('');
  });
});

describe('reset', () => {
  it('counts deleted rows among those that --data would drop', async () => {
    world = await openCliWorld({ isWhole: true });
    await world.cli('sync', 'newsletter');
    world.moveTo(1);
    await world.cli('sync', 'newsletter');
    const asked = ['reset', 'newsletter/segment_members', '--data'] as const;
    const [told] = await world.json(...asked);
    const entities = told?.['entities'] as readonly { rows: number; deleted: number }[] | undefined;
    const { rows = 0, deleted = 0 } = entities?.[0] ?? {};
    expect(deleted).toBeGreaterThan(0);
    const { stdout } = await world.cli(...asked);
    expect(stdout).toMatch(new RegExp(`segment_members +\\d+ +${rows + deleted}\\n`));
  });

  it('names the entity whose records have the elements, and says when there is nothing', async () => {
    world = await openCliWorld({ isWhole: true });
    const nothing = await world.cli('reset', 'newsletter', '--yes');
    expect(nothing).toMatchObject({ code: 2, stderr: expect.stringContaining('nothing to reset') as string });
    await world.cli('sync', 'newsletter', '--select', 'lists');
    const events = await world.cli('reset', 'newsletter/email_activity_events', '--yes');
    expect(events).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('reset newsletter/email_activity') as string,
    });
    const never = await world.cli('reset', 'newsletter/campaigns', '--yes');
    expect(never.code).toBe(2);
    const unknown = await world.cli('reset', 'nobody', '--yes');
    expect(unknown.code).toBe(2);
  });
});

interface Report {
  readonly entities: readonly {
    readonly entity: string;
    readonly counts: { readonly inserted: number; readonly unchanged: number };
  }[];
}
