import { expect, it } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import { accessSink, openExistingHistory, openExistingRecords } from '../../../src/sinks/registry.ts';
import { identity, news, start, type SinkKind } from './fixture.ts';
import { useBench } from './use-bench.ts';

export function opening(kind: SinkKind): void {
  const bench = useBench(kind);

  it('keeps its id and its records when it is opened again, also by two at once', async () => {
    const [first, second] = await Promise.all([bench().open(), bench().open()]);
    expect(first.id).toMatch(/^[0-9a-f-]{36}$/);
    expect(second.id).toBe(first.id);
    await first[Symbol.asyncDispose]();
    expect((await bench().open()).id).toBe(first.id);
  });

  it('gives its history without a lease, while another holds the connector, and cannot write', async () => {
    const sink = await bench().open();
    const { run } = await bench().begin(sink, 'r1');
    await using history = await bench().openHistory();
    expect(await history.runs({ limit: 5 })).toEqual(await sink.history.runs({ connector: news, limit: 5 }));
    expect(await history.run(run)).toMatchObject({ run: 'r1', connector: 'news', state: 'running' });
    expect(await history.connectors()).toMatchObject([
      {
        connector: 'news',
        definition: 'email-marketing',
        connectorId: 'c-1',
        baseUrl: 'https://api.example.test',
        lastHolder: identity().holder,
      },
    ]);
    expect((await history.connectors())[0]?.lastRun).toMatchObject({ run: 'r1' });
  });

  it('says so when there is no sink to read the history of, and makes none', async () => {
    await expect(bench().openHistory()).rejects.toThrow(/There is no sink at .* yet/);
    const access = accessSink(kind.options(bench().folder));
    expect(await access.isThere()).toBe(false);
    expect(await openExistingHistory(kind.options(bench().folder))).toBeNull();
    expect(await openExistingRecords(kind.options(bench().folder))).toBeNull();
    const sink = await bench().open();
    expect(await access.isThere()).toBe(true);
    expect(await sink.isInPlace()).toBe(true);
    await using history = await bench().openHistory();
    expect(history.sinkId).toBe(sink.id);
  });

  it('is served as it is now, and gives the same overview object until it has changed', async () => {
    const sink = await bench().open();
    const served = await accessSink(kind.options(bench().folder)).openServed({
      durability: 'normal',
      clock: bench().clock,
    });
    await using _served = served;
    expect([served.sinkId, await served.lost(), await served.problem()]).toEqual([sink.id, null, null]);
    const before = await served.overview();
    expect(await served.overview()).toBe(before);
    await sink.pause([news], { since: instant(start), reason: 'moving house' });
    expect(await served.pause(news)).toMatchObject({ reason: 'moving house' });
    expect(await served.paused()).toEqual(new Set([news]));
    expect((await served.overview()).get(news)?.paused?.reason).toBe('moving house');
    const { run } = await bench().begin(sink, 'r1');
    expect(await served.lastRun(news)).toMatchObject({ run, state: 'running' });
    expect(await served.freshness(news)).toEqual(await sink.history.freshness(news));
  });
}
