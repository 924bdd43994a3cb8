import { describe, expect, it } from 'vitest';
import { readConnectorHistory, watchSinks } from '../../src/app/watch-sinks.ts';
import { systemClock } from '../../src/core/clock.ts';
import { loadSettings } from '../../src/settings/load-settings.ts';
import { openCliWorld } from '../support/cli-world.ts';

describe.each(['sqlite', 'jsonl', 'postgres'] as const)('the watched sinks of a config (%s)', (sink) => {
  it('show what was stored since, make nothing themselves, and say whether anything changed', async () => {
    await using world = await openCliWorld({ sink });
    const settings = loadSettings({ file: world.config, env: world.env });
    const connectors = [...settings.connectors.values()];
    const [first] = connectors;
    if (first === undefined) throw new Error('no connector');
    await using watched = watchSinks(connectors, systemClock);
    const none = await watched.overviews();
    expect(none.unreadable).toEqual([]);
    expect(none.overviews.get('main')).toMatchObject({ id: null });
    expect((await watched.overviews()).version).toBe((await watched.overviews()).version);

    await world.cli('sync', 'newsletter', '--select', 'lists');
    const second = await watched.overviews();
    expect(second.version).not.toBe(none.version);
    const newsletter = second.overviews.get('main')?.connectors.get(first.name);
    expect(newsletter).toMatchObject({
      rows: 2,
      error: null,
      failures: [],
      quarantined: 0,
      lastRun: { state: 'ok' },
    });
    expect(newsletter?.lastEnded).toEqual(newsletter?.lastRun);
    expect((await watched.overviews()).version).toBe(second.version);

    await world.cli('sync', 'newsletter', '--select', 'lists');
    const third = await watched.overviews();
    expect(third.version).not.toBe(second.version);
    await world.cli('schedule', 'pause', 'newsletter', '--reason', 'moving');
    const fourth = await watched.overviews();
    expect(fourth.version).not.toBe(third.version);
    expect(fourth.overviews.get('main')?.connectors.get(first.name)?.paused).toMatchObject({
      reason: 'moving',
    });
    const nowMs = Date.now();
    const recent = (await watched.recentHistory(connectors, 1, nowMs)).get(first.name);
    const newest = await readConnectorHistory(first, { limit: 9, nowMs });
    expect(recent?.today).toEqual({ added: 2, changed: 0, deleted: 0, revived: 0 });
    expect(recent?.runs.map(({ run }) => run)).toEqual([newest.runs[0]?.run]);
    expect(newest.counts).toMatchObject([{ entity: 'lists', fetched: 3 }]);
  });
});
