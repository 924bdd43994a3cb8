import { describe, expect, it as everywhere } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import type { JsonObject } from '../../../src/core/json.ts';
import type { EntityName } from '../../../src/core/names.ts';
import { type PreparedRecord, noCounts, type EntityTable } from '../../../src/core/records.ts';
import type { Candidate, Judgement } from '../../../src/sinks/deletes.ts';
import type { Absence, Partition, FoundPartition } from '../../../src/sinks/partition.ts';
import type { RunPlan } from '../../../src/sinks/sink.ts';
import { missingRows } from '../../support/missing-rows.ts';
import { seededRandom } from '../../support/seeded-random.ts';
import { isLong } from '../../support/trials.ts';
import {
  dayMs,
  identity,
  member,
  members,
  news,
  onlyPartition,
  partition,
  type SinkKind,
  counts,
  membersTable,
  reading,
  refetch,
  resetScope,
  start,
  record,
  rootOf,
} from './fixture.ts';
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
  const { one: ofFirst = 'nothing', two: ofSecond = 'nothing' } = absences;
  return (partition) =>
    variant(partition) === 'two'
      ? { records: second.map((id) => member(id)), absence: ofSecond }
      : { records: first.map((id) => member(id)), absence: ofFirst };
}

/** Get has returned the record of a row; null: one that is not to be stored. */
function there(asked: Candidate | undefined, record: PreparedRecord | null = null) {
  return { row: asked?.row ?? 0, verdict: 'there' as const, record, isUnlisted: false, isRefused: false };
}

const key = (id: string): string => JSON.stringify(['a', id]);

const ids = (rows: readonly { readonly id?: unknown }[]): readonly unknown[] => rows.map(({ id }) => id);

const missingMembers = async ({ history }: RunInHand['sink']) =>
  await missingRows(history, news, membersTable, ['1', '2', '3', '4', '5', '6', '7', '8'].map(key));

export function sweeping(kind: SinkKind): void {
  const bench = useBench(kind);
  const it = rulesOf(kind);
  const missingKeys = async (sink: RunInHand['sink']): Promise<readonly string[]> =>
    (await missingMembers(sink)).map(({ keyText }) => keyText);
  const partitionOf = async (hand: RunInHand, of: string): Promise<Partition> => {
    const found = (await hand.ready()).find((walked) => variant(walked) === of);
    if (found === undefined) throw new Error(`No partition ${of}`);
    return found;
  };

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
    const noted = {
      entity: members,
      missingSince: instant(bench().clock.now()),
      needs: 'nothing',
      missedWalks: 1,
    };
    expect(await missingMembers(sink)).toEqual([
      { ...noted, keyText: key('2') },
      { ...noted, keyText: key('3') },
      { ...noted, keyText: key('5') },
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
    await hand.walkOne(await partitionOf(hand, 'two'), { records: [member('3')] });
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
    await hand.walkOne(await partitionOf(hand, 'one'), { records: [] });
    await hand.sweep();
    expect(await missingKeys(sink)).toEqual(['["a","1"]']);
  });

  const gone = (absences = {}) => shows(['1'], ['3'], absences);
  it.each<[string, readonly [(partition: Partition) => Shown, readonly string[]][]]>([
    [
      'moved while the other one shows it',
      [
        [shows(['1'], ['2', '3']), []],
        [gone(), ['2']],
      ],
    ],
    ['missing when neither shows it', [[gone(), ['2']]]],
    [
      'in the other one while that is not walked in full',
      [
        [gone({ two: null }), []],
        [gone(), ['2']],
      ],
    ],
    [
      'in its owner until that is walked in full',
      [
        [gone({ one: null }), []],
        [gone({ two: null }), ['2']],
      ],
    ],
  ])('takes a row that two partitions showed for %s', async (_what, later) => {
    const { sink, sweep } = await useRuns(bench(), both);
    await (await sweep('r1', shows(['1', '2'], ['2', '3']))).finish();
    for (const [index, [shown, missing]] of later.entries()) {
      const hand = await sweep(`r${index + 2}`, shown);
      expect(await missingKeys(sink), `run ${index + 2}`).toEqual(missing.map(key));
      await hand.finish();
    }
    expect(await bench().ledger('SELECT * FROM _sync_also')).toEqual([]);
  });

  describe.each([1, 2, 1_000])('decides the same with a limit of %i rows for a call, when a row', (limit) => {
    const three = partition(members, { variant: 'three' });
    const where = async (): Promise<readonly unknown[]> => [
      await bench().ledger(
        `SELECT p.params FROM news__members AS m JOIN _sync_partitions AS p ON p.id = m._partition WHERE m.id = '2'`,
      ),
      await bench().ledger(
        'SELECT p.params FROM _sync_also AS also JOIN _sync_partitions AS p ON p.id = also.partition',
      ),
    ];

    // Proves promise 4
    it('was missed by two walks: the weaker proof is what its delete needs', async () => {
      const { sink, sweep, begin } = await useRuns(bench(), both);
      await (await sweep('r1', shows(['1'], ['2', '3']))).finish();
      await (await sweep('r2', shows(['1', '2'], ['2', '3']))).finish();
      const hand = await begin('r3');
      await hand.walk(gone({ one: 'walk' }));
      await hand.sweep(limit);
      expect(await missingMembers(sink)).toMatchObject([{ keyText: key('2'), needs: 'walk' }]);
    });

    it('has moved to two partitions: the first one owns it', async () => {
      const { sink, begin } = await useRuns(bench(), { roots: [one, two, three] });
      const showing = (of: Readonly<Record<string, readonly string[]>>) => (partition: Partition) => ({
        records: (of[variant(partition)] ?? []).map((id) => member(id)),
      });
      const first = await begin('r1');
      await first.walk(showing({ one: ['1', '2'], two: ['3'], three: ['4'] }));
      await first.sweep(limit);
      await first.finish();
      const hand = await begin('r2');
      await hand.walk(showing({ one: ['1'], two: ['2', '3'], three: ['2', '4'] }));
      await hand.sweep(limit);
      expect(await where()).toEqual([[{ params: '{"variant":"two"}' }], [{ params: '{"variant":"three"}' }]]);
      expect(await missingKeys(sink)).toEqual([]);
    });

    it('was shown elsewhere before a reset, and by no walk after it', async () => {
      const { sink, lease, sweep, begin } = await useRuns(bench(), both);
      await (await sweep('r1', shows(['1', '2'], ['3']))).finish();
      const half = await begin('r2');
      await half.walkOne(await partitionOf(half, 'two'), { records: [member('2'), member('3')] });
      await half.finish('partial');
      await lease[Symbol.asyncDispose]();
      await sink.repair.reset(news, resetScope({ entity: members, tables: [membersTable], withData: false }));
      const { begin: resume } = await useRuns(bench(), both, { sink });
      const hand = await resume('r3');
      expect(hand.started).toMatchObject({ continues: 'r2' });
      await hand.walk(shows(['1'], ['3']));
      await hand.sweep(limit);
      expect(await missingKeys(sink)).toEqual([key('2')]);
    });
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
    await all.finish();
    const replaced = await sweep('r4', shows(['4'], []));
    expect(await replaced.missing(members), 'another row is none of those').toMatchObject({
      missing: 3,
      live: 4,
      hasSurvivor: false,
    });
  });

  // Proves promise 4
  everywhere('resumes a sweep that a kill has cut short, from another sink object', async () => {
    const { begin, sweep, lease } = await useRuns(bench(), both);
    await (await sweep('r1', shows(['1', '2', '3', '4', '5'], ['6', '7', '8', '1', '2', '3']))).finish();
    const hand = await begin('r2');
    await hand.walk(shows(['5'], ['8', '3']));
    expect(await hand.sink.deletes.sweep(lease, hand.run, 2)).toEqual({ isDone: false });
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

const showsAll =
  (ids: readonly string[], absence: Absence = 'nothing') =>
  (): Shown => ({ records: ids.map((id) => member(id)), absence });

const all = ['1', '2', '3', '4', '5'];

export function deleting(kind: SinkKind): void {
  const bench = useBench(kind);
  const it = rulesOf(kind);
  const ids = async (): Promise<readonly unknown[]> =>
    (await bench().rows()).map((row: JsonObject) => row['id']);
  const status = async (sink: RunInHand['sink']) =>
    (await sink.history.connectors())[0]?.entities.find(({ entity }) => entity === members);
  const changes = (): Promise<readonly JsonObject[]> => kind.readChanges(bench().folder, news, membersTable);

  /** Five rows, of which a full walk of a later run has met the first only. */
  async function fourMissing(absence: Absence) {
    const runs = await useRuns(bench(), {});
    await (await runs.sweep('r1', showsAll(all))).finish();
    const hand = await runs.sweep('r2', showsAll(['1'], absence));
    const { sink, lease } = runs;
    const { run } = hand.started;
    const asked = async (limit: number, which = run): Promise<readonly Candidate[]> =>
      sink.deletes.toConfirm(lease, which, members, limit);
    const judge = async (judgements: readonly Judgement[]) =>
      sink.deletes.judge(lease, run, members, judgements);
    return { ...runs, hand, run, asked, judge };
  }

  everywhere('tombstones what nothing more is needed for, in batches, as changes of the rows', async () => {
    const { sink, lease, run, hand } = await fourMissing('nothing');
    expect(await sink.deletes.tombstone(lease, run, members, 'all', 3)).toBe(3);
    expect(await status(sink)).toMatchObject({ rows: 2, deleted: 3, missing: 1 });
    expect(await sink.deletes.tombstone(lease, run, members, 'all', 3)).toBe(1);
    expect(await sink.deletes.tombstone(lease, run, members, 'all', 3)).toBe(0);
    await hand.finish();
    expect(await ids()).toEqual(['1']);
    expect(await status(sink)).toMatchObject({ rows: 1, deleted: 4, missing: 0 });
    const at = (await changes()).filter((change) => change['_op'] === 'delete');
    expect(at).toMatchObject(
      ['2', '3', '4', '5'].map((id, index) => ({ list_id: 'a', id, _run_id: 'r2', _seq: 6 + index })),
    );
    expect(await missingMembers(sink)).toEqual([]);
  });

  it.each(['walk', 'get'] as const)('tombstones nothing that still needs a %s', async (absence) => {
    const { hand } = await fourMissing(absence);
    expect(await hand.tombstone([members])).toEqual({ members: 0 });
    expect(await ids()).toEqual(all);
  });

  // Proves promise 4
  it('tombstones a row that two full walks have missed, where that is what it takes', async () => {
    const { hand, sweep } = await fourMissing('walk');
    await hand.finish('degraded');
    const second = await sweep('r3', showsAll(['1', '2'], 'walk'));
    expect(await second.tombstone([members])).toEqual({ members: 3 });
    expect(await ids()).toEqual(['1', '2']);
  });

  it('tombstones nothing for two walks of which the second missed more, but for four', async () => {
    const { hand, sweep } = await fourMissing('walk');
    await hand.finish('degraded');
    for (const [run, met] of [
      ['r3', ['2']],
      ['r4', ['1']],
    ] as const) {
      const next = await sweep(run, showsAll(met, 'walk'));
      expect(await next.tombstone([members])).toEqual({ members: 0 });
      await next.finish('degraded');
    }
    const fourth = await sweep('r5', showsAll(['2'], 'walk'));
    expect(await fourth.tombstone([members])).toEqual({ members: 3 });
    expect(await ids()).toEqual(['1', '2']);
  });

  it('tombstones only what is allowed where that is asked for, and stays allowed in later runs', async () => {
    const { sink, lease, run, hand, sweep } = await fourMissing('nothing');
    expect(await sink.deletes.tombstone(lease, run, members, 'allowed', 9)).toBe(0);
    await sink.deletes.allow(lease, run, members);
    expect(await hand.missing(members)).toMatchObject({ missing: 4, allowed: 4 });
    await hand.finish('degraded');
    const next = await sweep('r3', showsAll([]));
    expect(await next.missing(members)).toMatchObject({ missing: 5, allowed: 4, hasSurvivor: false });
    expect(await sink.deletes.tombstone(lease, next.started.run, members, 'allowed', 9)).toBe(4);
    expect(await ids()).toEqual(['1']);
  });

  it('leaves a row alone that was written since it was missed', async () => {
    const { sink, lease, hand, begin } = await fourMissing('nothing');
    await hand.finish('degraded');
    const other = await begin('r3', refetch);
    await sink.repair.storeRecord(lease, other.started.run, members, member('2'));
    other.count(members, counts({ fetched: 1, unchanged: 1 }));
    await other.finish();
    const next = await begin('r4');
    await next.sweep();
    await next.tombstone([members]);
    expect(await ids()).toEqual(['1', '2']);
  });

  it('hands out what a get must judge with the parameters of its partition, each row once a run', async () => {
    const runs = await useRuns(bench(), {
      roots: [partition(members, { list_id: 'a' }, { inject: { list_id: 'a' } })],
    });
    const { sink, lease, sweep } = runs;
    await (await sweep('r1', showsAll(all))).finish();
    const { started } = await sweep('r2', showsAll(['1'], 'get'));
    const first = await sink.deletes.toConfirm(lease, started.run, members, 3);
    expect(first).toEqual(
      ['2', '3', '4'].map((id, index) => ({
        entity: members,
        row: 2 + index,
        keyText: key(id),
        params: { list_id: 'a' },
        inject: { list_id: 'a' },
        wasVouchedFor: false,
        missingSince: '2026-03-01T12:00:00.000Z',
      })),
    );
    const more = await sink.deletes.toConfirm(lease, started.run, members, 3);
    expect(more).toMatchObject([{ keyText: key('5') }]);
    expect(await sink.deletes.toConfirm(lease, started.run, members, 3)).toEqual([]);
  });

  it('asks first for what was never asked for, then for what was asked for longest ago', async () => {
    const { asked, hand, sweep } = await fourMissing('get');
    await asked(1);
    await hand.finish('degraded');
    const third = await sweep('r3', showsAll(['1'], 'get'));
    expect((await asked(1, third.started.run)).map(({ keyText }) => keyText)).toEqual([key('3')]);
    await third.finish('degraded');
    const fourth = await sweep('r4', showsAll(['1'], 'get'));
    expect((await asked(9, fourth.started.run)).map(({ keyText }) => keyText)).toEqual(
      ['4', '5', '2', '3'].map(key),
    );
  });

  it('notes what get does not find, and tombstones it in the same run only', async () => {
    const { asked, judge, hand, sink, lease, run, sweep } = await fourMissing('get');
    const gone = (await asked(2)).map(({ row }) => ({ row, verdict: 'gone' }) as const);
    expect(await judge(gone)).toEqual(noCounts);
    expect(await judge(gone), 'said again').toEqual(noCounts);
    expect(await ids(), 'the guards have not been asked').toEqual(all);
    expect(await sink.deletes.tombstone(lease, run, members, 'all', 1)).toBe(1);
    expect(await ids()).toEqual(['1', '3', '4', '5']);
    expect(await status(sink)).toMatchObject({ rows: 4, deleted: 1 });
    await hand.finish();
    const next = await sweep('r3', showsAll(['1'], 'get'));
    expect(await next.tombstone([members]), 'asked for again first').toEqual({ members: 0 });
    expect(await next.missing(members)).toMatchObject({ missing: 3, toConfirm: 3, deletedInDay: 1 });
  });

  it('stores what get returns, counts it, and does not take the row for missing', async () => {
    const { asked, judge, hand } = await fourMissing('get');
    const [second, third, fourth] = await asked(3);
    const counted = await judge([
      there(second, member('2', 'Grace')),
      there(third, member('3')),
      there(fourth),
    ]);
    expect(counted).toEqual(counts({ fetched: 2, updated: 1, unchanged: 1 }));
    expect((await bench().rows())[1]).toMatchObject({ id: '2', name: 'Grace', _run_id: 'r2' });
    expect(await hand.missing(members)).toMatchObject({ missing: 1 });
    hand.count(members, counted);
    await hand.finish();
  });

  it('keeps a returned record of another key out of the row that was asked for', async () => {
    const { asked, judge, hand } = await fourMissing('get');
    const [second] = await asked(1);
    const record = member('9', 'Other');
    const counted = await judge([there(second, record)]);
    expect(counted).toEqual(noCounts);
    expect(await ids()).toEqual(all);
    await hand.finish();
  });

  it('refuses all of it for a run that the lease is not in', async () => {
    const { sink, lease } = await fourMissing('nothing');
    const stray = 'r1' as Parameters<typeof sink.deletes.sweep>[1];
    for (const call of [
      () => sink.deletes.sweep(lease, stray, 1),
      () => sink.deletes.missing(lease, stray),
      () => sink.deletes.allow(lease, stray, members),
      () => sink.deletes.toConfirm(lease, stray, members, 1),
      () => sink.deletes.judge(lease, stray, members, []),
      () => sink.deletes.tombstone(lease, stray, members, 'all', 1),
      () => sink.deletes.tombstoneBelow(lease, stray, 1),
    ]) {
      await expect(call()).rejects.toMatchObject({ code: 'FENCED' });
    }
  });

  it.each<[string, Partial<Extract<Judgement, { verdict: 'there' }>>, boolean]>([
    ['takes back the proof of a walk that missed what get returns', { isUnlisted: false }, true],
    ['lets the proof stand where listings leave the record out', { isUnlisted: true }, false],
    ['lets the proof stand where the walk put the record in quarantine', { isRefused: true }, false],
  ])('%s', async (_what, judgement, isWithdrawn) => {
    const { asked, judge, sink, hand } = await fourMissing('get');
    const [second] = await asked(1);
    await judge([{ ...there(second), ...judgement }]);
    const { partition: owner } = (await sink.history.explain(news, membersTable, key('1'))) ?? {};
    expect(owner?.fullAt === null).toBe(isWithdrawn);
    await hand.finish('degraded');
  });

  it('reads a partition in full whose walk missed what get returns, until a full walk has a watermark again', async () => {
    const { sink, lease, sweep, begin } = await useRuns(bench(), {
      reading: new Map([[members, reading({ isIncremental: true })]]),
    });
    const watermark = instant(start);
    await (await sweep('r1', () => ({ ...showsAll(all)(), watermark }))).finish();
    const hand = await sweep('r2', () => ({ ...showsAll(['1'], 'get')(), watermark }), { isFull: true });
    const { run } = hand.started;
    const [second] = await sink.deletes.toConfirm(lease, run, members, 1);
    await sink.deletes.judge(lease, run, members, [there(second)]);
    await hand.finish('degraded');
    await (await sweep('r3', showsAll(all))).finish();
    await begin('r4');
    expect(await sink.nextPartitions(lease, 1)).toMatchObject([{ mode: 'full', watermark: null }]);
  });

  it('asks again for a record that get vouched for when a later walk misses it, and withdraws nothing then', async () => {
    const { asked, judge, hand, sink, lease, sweep, begin } = await fourMissing('get');
    const [second] = await asked(1);
    await judge([there(second)]);
    expect((await missingMembers(sink)).map(({ keyText }) => keyText)).toEqual(['3', '4', '5'].map(key));
    await hand.finish('degraded');
    const quiet = await begin('r3');
    await quiet.walk(() => ({ records: [], absence: null }));
    await quiet.sweep();
    expect(await quiet.missing(members), 'no walk has missed it since').toMatchObject({ missing: 3 });
    await quiet.finish();
    const next = await sweep('r4', showsAll(['1', '3', '4', '5'], 'get'));
    expect(await next.missing(members)).toMatchObject({ missing: 1, missedTwice: 0, toConfirm: 1 });
    expect(await next.missing(members), 'a guard need not count it').toMatchObject({ vouchedFor: 1 });
    const { run } = next.started;
    expect(await sink.deletes.toConfirm(lease, run, members, 9)).toMatchObject([
      { keyText: key('2'), wasVouchedFor: true },
    ]);
    await sink.deletes.judge(lease, run, members, [there(second)]);
    const { partition: owner } = (await sink.history.explain(news, membersTable, key('1'))) ?? {};
    expect(owner?.fullAt).not.toBeNull();
    await next.finish();
    // However sure a later walk is: listings are known to leave it out.
    const sure = await sweep('r5', showsAll(['1', '3', '4', '5'], 'nothing'));
    expect(await sure.tombstone([members])).toEqual({ members: 0 });
    expect(await sure.missing(members)).toMatchObject({ missing: 1, toConfirm: 1 });
  });

  it.each(isLong ? [1, 2, 3] : [1])(
    'keeps count of live and deleted rows through anything (seed %i)',
    async (seed) => {
      const random = seededRandom(seed);
      const { sink, lease, sweep } = await useRuns(bench(), {
        roots: ['one', 'two'].map((name) => partition(members, { name })),
      });
      const some = (): readonly string[] => all.filter(() => random() < 0.6);
      for (let run = 1; run <= 12; run += 1) {
        const absence = (['nothing', 'walk', 'get'] as const)[Math.floor(random() * 3)] ?? 'get';
        const hand = await sweep(`r${run}`, () => showsAll(some(), absence)());
        const asked = await sink.deletes.toConfirm(lease, hand.run, members, 2);
        const judged = asked.map(({ row }): Judgement =>
          random() < 0.5
            ? { row, verdict: 'gone' }
            : { row, verdict: 'there', record: null, isUnlisted: random() < 0.5, isRefused: false },
        );
        await sink.deletes.judge(lease, hand.run, members, judged);
        if (random() < 0.7) await hand.tombstone([members]);
        if (random() < 0.2) {
          await sink.repair.tombstoneRecord(lease, hand.run, members, key(all[run % 5] ?? '1'));
        }
        await hand.finish(random() < 0.5 ? 'ok' : 'degraded');
        const live = (await ids()).length;
        const rows = new Set((await changes()).map((change) => change['id'])).size;
        expect(await status(sink), `seed ${seed}, run ${run}`).toMatchObject({
          rows: live,
          deleted: rows - live,
        });
      }
    },
  );
}

const pages = 'pages' as EntityName;
const blocks = 'blocks' as EntityName;
const comments = 'comments' as EntityName;
const entities = [pages, blocks, comments];

const tableOf = (entity: EntityName): EntityTable => ({
  entity,
  columns: [{ name: 'id', type: 'string' }],
  key: ['id'],
});
const row = (entity: EntityName, id: string): PreparedRecord => record(tableOf(entity), { id });

const below = (entity: EntityName, parent: EntityName, id: string, rank: number): FoundPartition =>
  partition(entity, { of: id }, { rank, parent: { entity: parent, keyText: JSON.stringify([id]) } });

/** Page -> its blocks -> the comments of each. */
type World = Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>;

const full: World = {
  p1: { b1: ['c1', 'c2'], b2: ['c3'] },
  p2: { b3: ['c4'], b4: [] },
  p3: {},
};

const showing =
  (world: World) =>
  (walked: Partition): Shown => {
    const { entity } = walked;
    const of = param(walked, 'of');
    if (entity === pages) {
      const ids = Object.keys(world);
      return {
        records: ids.map((id) => row(pages, id)),
        children: ids.map((id) => below(blocks, pages, id, 1)),
      };
    }
    if (entity === blocks) {
      const ids = Object.keys(world[of] ?? {});
      return {
        records: ids.map((id) => row(blocks, id)),
        children: ids.map((id) => below(comments, blocks, id, 2)),
      };
    }
    const ids = Object.values(world).flatMap((inPage) => inPage[of] ?? []);
    return { records: ids.map((id) => row(comments, id)) };
  };

function without(world: World, page: string): World {
  return Object.fromEntries(Object.entries(world).filter(([id]) => id !== page));
}

const wholePlan: Partial<RunPlan> = {
  tables: entities.map(tableOf),
  entities,
  roots: [rootOf(pages)],
};
/** A block that its page does not show may be on another one. */
const moving: Partial<RunPlan> = {
  ...wholePlan,
  reading: new Map(entities.map((one) => [one, reading({ mayMove: one === blocks })])),
};

export function orphans(kind: SinkKind): void {
  const bench = useBench(kind);
  const it = rulesOf(kind);
  const ids = async (): Promise<Readonly<Record<string, readonly unknown[]>>> => {
    const found: Record<string, readonly unknown[]> = {};
    for (const entity of entities) {
      found[entity] = (await bench().rows(tableOf(entity))).map(({ id }) => id);
    }
    return found;
  };
  const partitions = async (sql: string): Promise<readonly unknown[]> =>
    (await bench().ledger(`SELECT ${sql}`)).flatMap((row) => Object.values(row));

  // Proves promise 4
  it('tombstones what lies below a vanished record, at any depth, though nothing of it was read', async () => {
    const { sink, sweep } = await useRuns(bench(), wholePlan);
    await (await sweep('r1', showing(full))).finish();
    const walked: string[] = [];
    const hand = await sweep('r2', (one) => {
      walked.push(`${one.entity} of ${param(one, 'of')}`);
      return showing(without(full, 'p1'))(one);
    });
    expect(
      walked.filter((one) => /p1|b1|b2/.test(one)),
      'a parent that seems to be gone leads nowhere',
    ).toEqual([]);
    expect(await hand.missing(blocks), 'children of a vanished parent are not missing').toMatchObject({
      missing: 0,
    });
    expect(await hand.tombstone(entities, 1)).toEqual({ pages: 1, blocks: 2, comments: 3 });
    expect(await ids()).toEqual({ pages: ['p2', 'p3'], blocks: ['b3', 'b4'], comments: ['c4'] });
    await hand.finish();
    expect((await sink.history.connectors())[0]?.entities).toMatchObject([
      { entity: blocks, rows: 2, deleted: 2 },
      { entity: comments, rows: 1, deleted: 3 },
      { entity: pages, rows: 2, deleted: 1 },
    ]);
    expect(await partitions('params FROM _sync_partitions WHERE gone = 2 ORDER BY id')).toEqual(
      ['p1', 'b1', 'b2'].map((of) => `{"of":"${of}"}`),
    );
  });

  // Proves promise 4
  everywhere(
    'asks for what lay below a vanished record and may have moved, and knows where it lives when that shows it',
    async () => {
      const { sink, lease, sweep } = await useRuns(bench(), moving);
      await (await sweep('r1', showing(full))).finish();
      const hand = await sweep('r2', showing(without(full, 'p1')));
      expect(await hand.tombstone(entities, 1)).toMatchObject({ pages: 1, blocks: 0 });
      expect((await ids())['blocks'], 'b1 may be on another page by now').toEqual(['b1', 'b2', 'b3', 'b4']);
      expect(await hand.missing(blocks)).toMatchObject({
        missing: 0,
        orphans: 2,
        toConfirm: 2,
        live: 2,
      });
      const { run } = hand.started;
      const asked = await sink.deletes.toConfirm(lease, run, blocks, 9);
      expect(asked.map(({ keyText }) => keyText)).toEqual(['["b1"]', '["b2"]']);
      await sink.deletes.judge(lease, run, blocks, [
        there(asked[0]),
        { row: asked[1]?.row ?? 0, verdict: 'gone' },
      ]);
      expect(await hand.tombstone(entities, 1)).toMatchObject({ comments: 1 });
      expect(await hand.missing(blocks)).toBeUndefined();
      await hand.finish();
      // It has moved to a page that is read by now, and goes with that page's next full walk.
      const later: World = { p2: { b3: ['c4'], b4: [] }, p3: { b1: ['c1', 'c2'] } };
      await (await sweep('r3', showing(later))).finish();
      expect((await ids())['blocks']).toEqual(['b1', 'b3', 'b4']);
      const last = await sweep('r4', showing({ ...later, p3: {} }));
      expect(await last.missing(blocks)).toMatchObject({ missing: 1, orphans: 0 });
    },
  );

  it('resumes after a kill with the remaining rows below a vanished record', async () => {
    const { sink, lease, sweep, begin } = await useRuns(bench(), wholePlan);
    await (await sweep('r1', showing(full))).finish();
    const hand = await sweep('r2', showing(without(full, 'p1')));
    expect(await sink.deletes.tombstone(lease, hand.run, pages, 'all', 9)).toBe(1);
    expect(await sink.deletes.tombstoneBelow(lease, hand.run, 1)).toEqual([{ entity: blocks, rows: 1 }]);
    const next = await begin('r3');
    await next.walk(showing(without(full, 'p1')));
    await next.sweep();
    expect(await next.missing(blocks), 'what is being deleted is neither missing nor live').toBeUndefined();
    await next.tombstone([]);
    expect(await ids()).toEqual({ pages: ['p2', 'p3'], blocks: ['b3', 'b4'], comments: ['c4'] });
  });

  it('sweeps and deletes no more rows in a call than it is given, however many entities they are of', async () => {
    const many: World = { p1: { b1: ['c1', 'c2'], b2: ['c3'], b3: [], b4: [] }, p2: {}, p3: {}, p4: {} };
    const { sink, lease, begin, sweep } = await useRuns(bench(), wholePlan);
    await (await sweep('r1', showing(many))).finish();
    const hand = await begin('r2');
    await hand.walk(showing({ p1: {} }));
    await sink.deletes.sweep(lease, hand.run, 4);
    expect(await bench().count('_sync_missing')).toBeLessThanOrEqual(4);
    await hand.finish();
    const last = await sweep('r3', showing(without(many, 'p1')));
    expect(await sink.deletes.tombstone(lease, last.run, pages, 'all', 9)).toBe(1);
    const deleted: number[] = [];
    for (let isDone = false; !isDone;) {
      const batch = await sink.deletes.tombstoneBelow(lease, last.run, 2);
      deleted.push(batch.reduce((sum, { rows }) => sum + rows, 0));
      isDone = batch.length === 0;
    }
    expect(deleted.reduce((sum, rows) => sum + rows)).toBe(7);
    expect(Math.max(...deleted)).toBe(2);
  });

  // Proves promise 4
  it('leaves a row alone that this chain has met, though get does not find it once its record is back', async () => {
    const { sink, lease, sweep } = await useRuns(bench(), moving);
    const hand = await sweep('r1', showing(full));
    const { run } = hand.started;
    await sink.repair.tombstoneRecord(lease, run, pages, '["p1"]');
    await hand.tombstone([]);
    await sink.repair.storeRecord(lease, run, pages, row(pages, 'p1'));
    const asked = await sink.deletes.toConfirm(lease, run, blocks, 9);
    expect(asked.map(({ keyText }) => keyText)).toEqual(['["b1"]', '["b2"]']);
    const judgements = asked.map((one): Judgement => ({ row: one.row, verdict: 'gone' }));
    await sink.deletes.judge(lease, run, blocks, judgements);
    expect(await hand.tombstone([blocks])).toEqual({ blocks: 0 });
    expect(await ids()).toMatchObject({ blocks: ['b1', 'b2', 'b3', 'b4'] });
    expect(await hand.missing(blocks), 'they are missing no longer').toBeUndefined();
  });

  // Proves promise 4
  it('weighs all that would go along, of entities that the run does not read too, and notes it with the first delete', async () => {
    const { sink, lease, sweep } = await useRuns(bench(), { ...wholePlan, keeps: [] });
    await (await sweep('r1', showing(full))).finish();
    const few = { entities: [pages], tables: [tableOf(pages)] };
    const hand = await sweep('r2', showing(without(full, 'p1')), few);
    const along = [
      { entity: blocks, rows: 2 },
      { entity: comments, rows: 3 },
    ];
    expect(await hand.missing(pages)).toMatchObject({ missing: 1, dayAgo: 3, deletedInDay: 0, along });
    expect(await hand.missing(comments)).toMatchObject({ missing: 0, live: 4, dayAgo: 4, deletedInDay: 0 });
    await sink.deletes.tombstone(lease, hand.run, pages, 'all', 9);
    await hand.finish();
    const next = await sweep('r3', showing({ p3: {} }));
    expect(await next.missing(pages)).toMatchObject({ missing: 1, dayAgo: 3, deletedInDay: 1 });
    expect(await next.missing(blocks), 'nothing of it is deleted yet').toMatchObject({
      live: 2,
      dayAgo: 4,
      deletedInDay: 2,
    });
    await next.finish();
    const kept = await sweep('r4', showing({ p3: {} }), { keeps: [comments] });
    expect((await kept.missing(pages))?.along, 'rows that are kept do not go').toEqual([
      { entity: blocks, rows: 2 },
    ]);
  });

  // Proves promise 4
  it('neither counts what a person let go nor what lies below it', async () => {
    const { sink, lease, sweep } = await useRuns(bench(), wholePlan);
    await (await sweep('r1', showing(full))).finish();
    const hand = await sweep('r2', showing(without(full, 'p1')));
    await sink.deletes.allow(lease, hand.run, pages);
    expect(await hand.missing(pages)).toMatchObject({ missing: 1, allowed: 1, along: [] });
    expect(await hand.tombstone(entities)).toEqual({ pages: 1, blocks: 2, comments: 3 });
    await hand.finish();
    const next = await sweep('r3', showing({ p3: {} }));
    expect(await next.missing(pages)).toMatchObject({ live: 2, dayAgo: 2, deletedInDay: 0 });
    expect((await next.missing(pages))?.along).toEqual([
      { entity: blocks, rows: 2 },
      { entity: comments, rows: 1 },
    ]);
  });

  it('forgets how far the partitions of a vanished record were read, and restarts them when it returns', async () => {
    const { sink, sweep, begin } = await useRuns(bench(), wholePlan);
    await (await sweep('r1', showing(full))).finish();
    const hand = await sweep('r2', showing(without(full, 'p1')));
    await hand.tombstone(entities);
    await hand.finish();
    const known = 'coalesce(full_at, CAST(full_origin AS TEXT), watermark, marker, position, due_since)';
    expect(await partitions(`${known} FROM _sync_partitions WHERE gone = 2`)).toEqual([null, null, null]);
    const back = await begin('r3');
    await back.walk(showing(full));
    await back.sweep();
    await back.tombstone(entities);
    await back.finish();
    expect(await ids()).toEqual({
      pages: ['p1', 'p2', 'p3'],
      blocks: ['b1', 'b2', 'b3', 'b4'],
      comments: ['c1', 'c2', 'c3', 'c4'],
    });
    expect((await sink.history.connectors())[0]?.entities.map(({ deleted }) => deleted)).toEqual([0, 0, 0]);
    expect(await partitions('count(*) FROM _sync_partitions WHERE gone > 0')).toEqual([0]);
  });

  it('keeps a row that another partition shows too, and makes that one its owner', async () => {
    const { sweep } = await useRuns(bench(), wholePlan);
    const shared: World = { p1: { b1: [], b2: [] }, p2: { b2: [], b3: [] }, p3: {} };
    await (await sweep('r1', showing(shared))).finish();
    const hand = await sweep('r2', showing(without(shared, 'p1')));
    expect(await hand.tombstone(entities)).toMatchObject({ blocks: 1 });
    await hand.finish();
    expect(await ids()).toMatchObject({ pages: ['p2', 'p3'], blocks: ['b2', 'b3'] });
    const next = await sweep('r3', showing({ p3: {} }));
    await next.tombstone(entities);
    expect(await ids(), 'and from there it goes').toMatchObject({ pages: ['p3'], blocks: [] });
  });

  it('deletes a row whose other partition lies below a deleted record too', async () => {
    const { sweep } = await useRuns(bench(), wholePlan);
    const shared: World = { p1: { b1: [], b2: [] }, p2: { b2: [], b3: [] }, p3: {} };
    await (await sweep('r1', showing(shared))).finish();
    const hand = await sweep('r2', showing({ p3: {} }));
    expect(await hand.tombstone(entities, 100), 'both partitions are emptied at once').toMatchObject({
      pages: 2,
      blocks: 3,
    });
    expect(await ids()).toMatchObject({ pages: ['p3'], blocks: [] });
  });

  it('leaves rows of an entity that keeps its rows', async () => {
    const { sweep } = await useRuns(bench(), { ...wholePlan, keeps: [comments] });
    await (await sweep('r1', showing(full))).finish();
    const hand = await sweep('r2', showing(without(full, 'p1')));
    expect(await hand.tombstone(entities)).toEqual({ pages: 1, blocks: 2, comments: 0 });
    expect(await ids()).toMatchObject({ blocks: ['b3', 'b4'], comments: ['c1', 'c2', 'c3', 'c4'] });
  });

  it('leaves rows of entities that the plan does not read to a run that does', async () => {
    const { sweep } = await useRuns(bench(), wholePlan);
    await (await sweep('r1', showing(full))).finish();
    const few = { entities: [pages], tables: [tableOf(pages)] };
    const hand = await sweep('r2', showing(without(full, 'p1')), few);
    expect(await hand.tombstone([pages])).toEqual({ pages: 1 });
    await hand.finish();
    expect(await ids()).toMatchObject({ pages: ['p2', 'p3'], blocks: ['b1', 'b2', 'b3', 'b4'] });
    const next = await sweep('r3', showing(without(full, 'p1')));
    expect(await next.tombstone(entities)).toEqual({ pages: 0, blocks: 2, comments: 3 });
  });

  it('forgets the half-read tree below a vanished record', async () => {
    const { sink, lease, sweep, begin } = await useRuns(bench(), wholePlan);
    await (await sweep('r1', showing(full))).finish();
    const hand = await begin('r2');
    const root = await onlyPartition(sink, lease);
    await hand.walkOne(root, showing(full)(root));
    const first = (await hand.ready())[0] ?? root;
    const inner = partition(blocks, { of: 'inside' }, { tree: first.id, treeDepth: 1, rank: 2 });
    await hand.walkOne(first, { records: [], children: [inner] });
    const gone = param(first, 'of');
    expect(await sink.repair.tombstoneRecord(lease, hand.run, pages, JSON.stringify([gone]))).toBe(true);
    expect(await partitions('count(*) FROM _sync_partitions WHERE tree IS NOT NULL')).toEqual([0]);
    const next = await sink.nextPartitions(lease, 9);
    expect(next.map(({ params }) => params['of'])).not.toContain(gone);
    expect(await partitions('count(*) FROM _sync_missing WHERE missed > 0')).toEqual([0]);
  });

  /** `p1` is met and leads to nothing. */
  const rested = (one: Partition): Shown =>
    one.entity === pages
      ? { ...showing(full)(one), children: showing(without(full, 'p1'))(one).children ?? [] }
      : showing(full)(one);
  // Proves promise 4
  it.each<[string, boolean]>([
    ['lies in the trash', true],
    ['leads to nothing', false],
  ])('goes with a record that %s for longer than partitions are kept', async (_what, isUnlisted) => {
    const { sink, lease, sweep } = await useRuns(bench(), wholePlan);
    await (await sweep('r1', showing(full))).finish();
    const shown = isUnlisted ? showing(without(full, 'p1')) : rested;
    const hand = await sweep('r2', (one) => ({ ...shown(one), absence: 'get' }));
    const judge = async (run: RunInHand['started']['run'], verdict: Judgement['verdict']) => {
      const asked = await sink.deletes.toConfirm(lease, run, pages, 9);
      expect(asked).toHaveLength(isUnlisted ? 1 : 0);
      const said = { verdict, record: null, isUnlisted: true, isRefused: false };
      const judgements = asked.map(({ row: number }) => ({ row: number, ...said }));
      await sink.deletes.judge(lease, run, pages, judgements);
    };
    await judge(hand.run, 'there');
    await hand.finish();
    bench().clock.advance(31 * dayMs);
    await (await sweep('r3', (one) => ({ ...shown(one), absence: 'get' }))).finish();
    expect(await ids(), 'what lies below it stays as it was').toMatchObject({
      blocks: ['b1', 'b2', 'b3', 'b4'],
    });
    const last = await sweep('r4', showing(without(full, 'p1')));
    await judge(last.started.run, 'gone');
    await last.tombstone(entities);
    expect(await ids()).toEqual({ pages: ['p2', 'p3'], blocks: ['b3', 'b4'], comments: ['c4'] });
  });

  it('goes with a record that vanishes a second time', async () => {
    const { sink, lease, sweep, begin } = await useRuns(bench(), wholePlan);
    await (await sweep('r1', showing(full))).finish();
    const hand = await sweep('r2', showing(without(full, 'p1')));
    await hand.tombstone(entities);
    await hand.finish();
    // It is back without what lies below it, of which a person fetches a part.
    await (await sweep('r3', rested)).finish();
    const byHand = await begin('r4', refetch);
    await sink.repair.storeRecord(lease, byHand.run, blocks, row(blocks, 'b1'));
    byHand.count(blocks, counts({ fetched: 1, updated: 1 }));
    await byHand.finish();
    expect(await ids()).toMatchObject({ pages: ['p1', 'p2', 'p3'], blocks: ['b1', 'b3', 'b4'] });
    const last = await sweep('r5', showing(without(full, 'p1')));
    await last.tombstone(entities);
    expect(await ids()).toMatchObject({ pages: ['p2', 'p3'], blocks: ['b3', 'b4'] });
  });
}
