import { expect, it as everywhere } from 'vitest';
import type { PreparedRecord } from '../../../src/core/records.ts';
import type { Absence, Partition } from '../../../src/sinks/partition.ts';
import type { RunPlan } from '../../../src/sinks/sink.ts';
import { dayMs, identity, member, members, news, partition, type SinkKind } from './fixture.ts';
import { instant } from '../../../src/core/clock.ts';
import { param, useRuns, type RunInHand, type Shown } from './run-in-hand.ts';
import { rulesOf, useBench } from './use-bench.ts';

const one = partition(members, { variant: 'one' });
const two = partition(members, { variant: 'two' });
const both: Partial<RunPlan> = { roots: [one, two] };

const variant = (partition: Partition): string => param(partition, 'variant');

/** What each of the two partitions shows, by the members' ids. */
function shows(
  first: readonly string[],
  second: readonly string[] = [],
  absences: { readonly one?: Absence; readonly two?: Absence } = {},
): (partition: Partition) => Shown {
  const records = (ids: readonly string[]): readonly PreparedRecord[] => ids.map((id) => member(id));
  return (partition) =>
    variant(partition) === 'two'
      ? { records: records(second), absence: absenceOf(absences.two) }
      : { records: records(first), absence: absenceOf(absences.one) };
}

const absenceOf = (given: Absence | undefined): Absence => (given === undefined ? 'nothing' : given);

const ids = (rows: readonly { readonly id?: unknown }[]): readonly unknown[] => rows.map(({ id }) => id);

export function sweeping(kind: SinkKind): void {
  const bench = useBench(kind);
  const it = rulesOf(kind);
  const missingKeys = async (sink: RunInHand['sink']): Promise<readonly string[]> =>
    (await sink.history.missing(news, 100)).map(({ keyText }) => keyText);
  // Proves promise 4
  everywhere('notes what a full walk did not meet, and nothing else', async () => {
    const { sink, sweep } = await useRuns(bench(), {});
    await (await sweep('r1', shows(['1', '2', '3', '4', '5']))).finish();
    const hand = await sweep('r2', shows(['1', '4']));
    expect(await hand.missing(members)).toEqual({
      entity: members,
      live: 5,
      missing: 3,
      allowed: 0,
      missedTwice: 0,
      vouchedFor: 0,
      toConfirm: 0,
      orphans: 0,
      dayAgo: 5,
      deletedInDay: 0,
      hasSurvivor: true,
      along: [],
      isAdopted: false,
    });
    expect(await sink.history.missing(news, 2)).toEqual([
      {
        entity: members,
        keyText: '["a","2"]',
        missingSince: instant(bench().clock.now()),
        needs: 'nothing',
        missedWalks: 1,
      },
      {
        entity: members,
        keyText: '["a","3"]',
        missingSince: instant(bench().clock.now()),
        needs: 'nothing',
        missedWalks: 1,
      },
    ]);
    expect(await bench().rows(), 'nothing is deleted by noting').toHaveLength(5);
  });

  it('marks the partition as fully read only when it is swept', async () => {
    const { begin } = await useRuns(bench(), {});
    const hand = await begin('r1');
    const began = instant(bench().clock.now());
    bench().clock.advance(1_000);
    await hand.walk(shows(['1', '2', '3']));
    const fullAt = (): Promise<readonly unknown[]> =>
      bench().ledger('SELECT full_at AS "fullAt", sweep_origin AS origin FROM _sync_partitions');
    expect(await fullAt()).toEqual([{ fullAt: null, origin: 1 }]);
    await hand.sweep();
    expect(await fullAt()).toEqual([{ fullAt: began, origin: null }]);
  });

  it('forgets that a row was missing as soon as any walk meets it, an incremental one too', async () => {
    const { sink, sweep } = await useRuns(bench(), {});
    await (await sweep('r1', shows(['1', '2', '3']))).finish();
    await (await sweep('r2', shows(['1']))).finish('degraded');
    expect(await missingKeys(sink)).toEqual(['["a","2"]', '["a","3"]']);
    const hand = await sweep('r3', (walked) => ({ ...shows(['2'])(walked), absence: null }));
    expect(await missingKeys(sink)).toEqual(['["a","3"]']);
    expect(await hand.missing(members)).toMatchObject({ missing: 1 });
  });

  it('sweeps nothing after walks that say nothing of what they did not meet', async () => {
    const { sink, sweep } = await useRuns(bench(), {});
    await (await sweep('r1', shows(['1', '2']))).finish();
    const hand = await sweep('r2', (walked) => ({ ...shows([])(walked), absence: null }));
    expect(await hand.missing(members)).toBeUndefined();
    expect(await missingKeys(sink)).toEqual([]);
  });

  // Proves promise 4
  it('knows where a row lives that has moved, and misses it there when it goes', async () => {
    const { sink, sweep, begin } = await useRuns(bench(), both);
    await (await sweep('r1', shows(['1', '2'], ['3']))).finish();
    await (await sweep('r2', shows(['2'], ['1', '3']))).finish();
    expect(await missingKeys(sink)).toEqual([]);
    const hand = await begin('r3');
    const next = await sink.nextPartitions(hand.started.lease, 5);
    const second = next.find((walked) => variant(walked) === 'two');
    if (second === undefined) throw new Error('No partition two');
    await hand.walkOne(second, { records: [member('3')] });
    await hand.sweep();
    expect(await missingKeys(sink)).toEqual(['["a","1"]']);
  });

  // Proves promise 6
  it('leaves a row that two partitions show in its owner, and writes nothing of it', async () => {
    const { sweep } = await useRuns(bench(), both);
    const owners = (): Promise<readonly unknown[]> =>
      bench().ledger('SELECT row, partition, origin FROM _sync_also ORDER BY row, partition');
    await (await sweep('r1', shows(['1', '2'], ['2', '3']))).finish();
    const noted = (await owners()) as readonly { readonly partition: number; readonly row: number }[];
    expect(noted).toHaveLength(1);
    await (await sweep('r2', shows(['1', '2'], ['2', '3']))).finish();
    expect(await owners()).toMatchObject(
      noted.map(({ row, partition: place }) => ({ row, partition: place })),
    );
  });

  // Proves promise 4
  it('leaves rows of a partition alone that was not walked', async () => {
    const { sink, sweep, begin } = await useRuns(bench(), both);
    await (await sweep('r1', shows(['1'], ['2']))).finish();
    const hand = await begin('r2');
    const next = await sink.nextPartitions(hand.started.lease, 5);
    const first = next.find((walked) => variant(walked) === 'one');
    if (first === undefined) throw new Error('No partition one');
    await hand.walkOne(first, { records: [] });
    await hand.sweep();
    expect(await missingKeys(sink)).toEqual(['["a","1"]']);
  });

  it('takes a row that another partition still shows for moved, not for gone', async () => {
    const { sink, sweep } = await useRuns(bench(), both);
    await (await sweep('r1', shows(['1', '2'], ['2', '3']))).finish();
    await (await sweep('r2', shows(['1'], ['2', '3']))).finish();
    expect(await missingKeys(sink)).toEqual([]);
    await (await sweep('r3', shows(['1'], ['2', '3']))).finish();
    const hand = await sweep('r4', shows(['1'], ['3']));
    expect(await missingKeys(sink)).toEqual(['["a","2"]']);
    expect(await hand.missing(members)).toMatchObject({ live: 3, missing: 1 });
  });

  it('takes a row for missing when every partition that showed it has been walked and shows it no more', async () => {
    const { sink, sweep } = await useRuns(bench(), both);
    await (await sweep('r1', shows(['1', '2'], ['2', '3']))).finish();
    await sweep('r2', shows(['1'], ['3']));
    expect(await missingKeys(sink)).toEqual(['["a","2"]']);
    expect(await bench().ledger('SELECT * FROM _sync_also')).toEqual([]);
  });

  it('gives a row to another partition that showed it and was not walked in full, whichever comes first', async () => {
    const { sink, sweep } = await useRuns(bench(), both);
    await (await sweep('r1', shows(['1', '2'], ['2', '3']))).finish();
    await (await sweep('r2', shows(['1'], ['3'], { two: null }))).finish();
    expect(await missingKeys(sink), 'partition two may still have it').toEqual([]);
    await sweep('r3', shows(['1'], ['3']));
    expect(await missingKeys(sink)).toEqual(['["a","2"]']);
  });

  it('forgets that a partition has shown a row when it shows it no more', async () => {
    const { sink, sweep } = await useRuns(bench(), both);
    await (await sweep('r1', shows(['1', '2'], ['2', '3']))).finish();
    await (await sweep('r2', shows(['1'], ['3'], { one: null }))).finish();
    expect(await missingKeys(sink), 'its owner has not been walked').toEqual([]);
    await sweep('r3', shows(['1'], ['3'], { two: null }));
    expect(await missingKeys(sink)).toEqual(['["a","2"]']);
  });

  it('gives a row that returns elsewhere its owner there', async () => {
    const { sink, sweep } = await useRuns(bench(), both);
    await (await sweep('r1', shows(['1', '2'], ['3']))).finish();
    const hand = await sweep('r2', shows(['1'], ['3']));
    expect(await hand.tombstone([members])).toEqual({ members: 1 });
    await hand.finish();
    await (await sweep('r3', shows(['1'], ['2', '3']))).finish();
    await sweep('r4', shows(['1'], ['3'], { one: null }));
    expect(await missingKeys(sink)).toEqual(['["a","2"]']);
  });

  it('gives a row whose owner is forgotten to the partition that still shows it', async () => {
    const { sink, sweep } = await useRuns(bench(), both);
    await (await sweep('r1', shows(['1', '2'], ['2', '3']))).finish();
    await bench().ledger('DELETE FROM _sync_partitions WHERE params = \'{"variant":"one"}\'');
    await (await sweep('r2', shows([], ['2', '3']), { roots: [two] })).finish();
    await sweep('r3', shows([], ['3']), { roots: [two] });
    expect(await missingKeys(sink)).toEqual(['["a","2"]']);
  });

  it('knows no other place that the settings no longer include', async () => {
    const { sink, sweep } = await useRuns(bench(), both);
    await (await sweep('r1', shows(['1', '2'], ['2', '3']))).finish();
    await sweep('r2', shows(['1']), { roots: [one] });
    expect(await missingKeys(sink)).toEqual(['["a","2"]']);
  });

  it('gives the rows of a partition that the settings no longer include to the one that shows them', async () => {
    const { sink, sweep } = await useRuns(bench(), both);
    await (await sweep('r1', shows(['1', '2', '3']), { roots: [one] })).finish();
    await (await sweep('r2', shows([], ['1', '2']), { roots: [two] })).finish();
    await sweep('r3', shows([], ['1']), { roots: [two] });
    expect(await missingKeys(sink), 'what it never showed stays as it is').toEqual(['["a","2"]']);
  });

  // Proves promise 4
  it('passes over a row that another kind of run has written while the chain lasted', async () => {
    const { sink, sweep, begin, lease } = await useRuns(bench(), {});
    await (await sweep('r1', shows(['1', '2', '3']))).finish();
    const half = await begin('r2');
    await half.finish('partial');
    const refetch = { kind: 'refetch', window: 'refetch', entities: [], roots: [] } as const;
    const other = await begin('r3', refetch);
    const counts = await sink.repair.storeRecord(lease, other.started.run, members, member('2', 'Grace'));
    expect(counts).toMatchObject({ fetched: 1, updated: 1 });
    other.count(members, counts);
    await other.finish();
    const hand = await begin('r4');
    await hand.walk(shows(['1']));
    await hand.sweep();
    expect(await missingKeys(sink)).toEqual(['["a","3"]']);
  });

  it('takes a row for missing though a clock that was ahead has dated it years from now', async () => {
    const { sink, sweep } = await useRuns(bench(), {});
    const nowMs = bench().clock.now();
    bench().clock.advance(3 * 365 * dayMs);
    await (await sweep('r1', shows(['1', '2']))).finish();
    bench().clock.advance(nowMs - bench().clock.now());
    await sweep('r2', shows(['1']));
    expect(await missingKeys(sink)).toEqual(['["a","2"]']);
  });

  it('counts the walks of different chains that have missed a row', async () => {
    const { sink, sweep } = await useRuns(bench(), {});
    await (await sweep('r1', shows(['1', '2', '3']))).finish();
    const once = await sweep('r2', shows(['1'], [], { one: 'walk' }));
    await once.sweep();
    expect(await once.missing(members)).toMatchObject({ missing: 2, missedTwice: 0 });
    await once.finish('degraded');
    await (await sweep('r3', shows(['1', '2'], [], { one: 'walk' }))).finish();
    const twice = await sweep('r4', shows(['1'], [], { one: 'walk' }));
    expect(await twice.missing(members), 'one that was met between is missed once').toMatchObject({
      missing: 2,
      missedTwice: 1,
    });
    expect(await sink.history.missing(news, 5)).toMatchObject([
      { keyText: '["a","2"]', needs: 'walk', missedWalks: 1 },
      { keyText: '["a","3"]', needs: 'walk', missedWalks: 3 },
    ]);
  });

  it('says when nothing survived: only when all that is stored is missing', async () => {
    const { sweep } = await useRuns(bench(), both);
    await (await sweep('r1', shows(['1', '2'], ['3']))).finish();
    const part = await sweep('r2', shows([], ['3']));
    expect(await part.missing(members)).toMatchObject({ missing: 2, live: 3, hasSurvivor: true });
    await part.finish();
    const half = await sweep('r2b', shows([], [], { two: null }));
    expect(await half.missing(members), 'what is not walked may be there').toMatchObject({
      hasSurvivor: true,
    });
    await half.finish();
    const all = await sweep('r3', shows([], []));
    expect(await all.missing(members)).toMatchObject({ missing: 3, live: 3, hasSurvivor: false });
  });

  // Proves promise 4
  everywhere('resumes a sweep that a kill has cut short, from another sink object', async () => {
    const { begin, sweep, lease } = await useRuns(bench(), both);
    await (await sweep('r1', shows(['1', '2', '3', '4', '5'], ['6', '7', '8', '1', '2', '3']))).finish();
    const hand = await begin('r2');
    await hand.walk(shows(['5'], ['8', '3']));
    expect(await hand.sink.deletes.sweep(lease, hand.started.run, 2)).toEqual({ isDone: false });
    await bench().closeSinks();
    let runs = 2;
    for (let isDone = false; !isDone; runs += 1) {
      const sink = await bench().open();
      const next = await sink.acquire(identity());
      const started = await sink.startRun(next, bench().plan(`r${runs + 1}`, both));
      expect(started).toMatchObject({ continues: `r${runs}` });
      expect(await sink.nextPartitions(next, 5), 'nothing is walked again').toEqual([]);
      ({ isDone } = await sink.deletes.sweep(next, started.run, 2));
      await bench().closeSinks();
    }
    expect(runs, 'it took several').toBeGreaterThan(5);
    const sink = await bench().open();
    expect(await missingKeys(sink)).toEqual(
      ['["a","1"]', '["a","2"]', '["a","4"]', '["a","6"]', '["a","7"]'].map(String),
    );
    expect(ids(await bench().rows())).toHaveLength(8);
  });
}
