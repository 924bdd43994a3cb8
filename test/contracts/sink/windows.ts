import { expect, it as everywhere } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import type { FoundPartition } from '../../../src/sinks/partition.ts';
import type { RunPlan } from '../../../src/sinks/sink.ts';
import {
  counts,
  dayMs,
  entityReport,
  lists,
  member,
  members,
  news,
  page,
  partition,
  report,
  rootOf,
  sealed,
  start,
  type SinkKind,
} from './fixture.ts';
import type { RunInHand } from './run-in-hand.ts';
import { type Held, list, membersOf, readingOf, beginLists, settled, whole } from './run-in-hand.ts';
import { rulesOf, useBench } from './use-bench.ts';

const january = '2026-01-01T00:00:00.000Z/2026-02-01T00:00:00.000Z';
const february = '2026-02-01T00:00:00.000Z/2026-03-01T00:00:00.000Z';

/** A backfill of the members that changed in a window; the lists above them are read as they are. */
const backfill = (window = january): Partial<RunPlan> => ({
  kind: 'backfill',
  window,
  backfill: 'b1',
  roots: [{ ...rootOf(lists), base: {} }],
});

function inWindow(id: string): FoundPartition {
  const parent = { entity: lists, keyText: JSON.stringify([id]) };
  const params = { list_id: id, since: '2026-01-01' };
  return partition(members, params, { rank: 1, parent, base: { list_id: id } });
}

/** What a backfill does beside the syncs of a connector. */
export function windows(kind: SinkKind): void {
  const bench = useBench(kind);
  const it = rulesOf(kind);
  let sinkOf: Held;
  const begin = async (run: string, change: Partial<RunPlan> = {}): Promise<RunInHand> =>
    beginLists(bench(), sinkOf, run, change);
  const partitionsIn = (window: string): Promise<unknown> =>
    bench().count('_sync_partitions', `backfill = '${window}'`);

  /** Reads list `a` and the members that a window shows of it. */
  async function readWindow(run: RunInHand, id = '1'): Promise<void> {
    await run.read(null, { records: [list('a')], children: [inWindow('a')] });
    await run.read('a', { records: [member(id)] });
  }

  // Proves promise 13
  it('leaves an unfinished sync alone: its positions, what is ready, and what it has met', async () => {
    sinkOf = await bench().hold();
    const sync = await begin('s1');
    await sync.read(null, { records: [list('a'), list('b')], children: [membersOf('a'), membersOf('b')] });
    await sync.read('a', { records: [member('1')], seal: null });
    await sync.setAside(bench(), 'b');
    const beside = await begin('b1', backfill());
    expect(beside.started).toMatchObject({ continues: null, due: 1 });
    expect((await beside.ready()).map(({ entity }) => entity)).toEqual([lists]);
    await readWindow(beside);
    expect(await beside.leftovers()).toBe(0);
    await beside.finish();
    const next = await begin('s2');
    expect(next.started).toMatchObject({ continues: 's1', due: 2 });
    expect((await next.ready()).map(({ params, position }) => [params['list_id'], position])).toEqual([
      ['a', { kind: 'offset', offset: 1 }],
      ['b', null],
    ]);
    const { id } = await next.partition('a');
    const [stored] = await sinkOf.sink.commit(sinkOf.lease, [
      page({ lease: sinkOf.lease, run: next.run }, id, [member('1')]),
    ]);
    expect(stored?.counts[0]?.counts).toEqual(counts({ fetched: 1, duplicate: 1 }));
  });

  // Proves promise 13
  it('resumes its own window after a kill, also when a sync ran meanwhile, and no other', async () => {
    sinkOf = await bench().hold();
    const first = await begin('b1', backfill());
    await first.read(null, { records: [list('a')], children: [inWindow('a')] });
    await first.read('a', { records: [member('1')], seal: null });
    const sync = await begin('s1');
    expect(sync.started).toMatchObject({ continues: null, due: 1 });
    await sync.read(null, { records: [list('a')], children: [membersOf('a')] });
    await sync.read('a', { records: [member('1')] });
    await sync.finish();
    const other = await begin('b2', backfill(february));
    expect(other.started.continues).toBeNull();
    const again = await begin('b3', backfill());
    expect(again.started).toMatchObject({ continues: 'b1', due: 1 });
    const { id, position } = await again.partition('a');
    expect(position).toEqual({ kind: 'offset', offset: 1 });
    const [stored] = await sinkOf.sink.commit(sinkOf.lease, [
      page({ lease: sinkOf.lease, run: again.run }, id, [member('1'), member('2')], { seal: sealed }),
    ]);
    expect(stored?.counts[0]?.counts).toEqual(counts({ fetched: 2, duplicate: 1, inserted: 1 }));
  });

  it('is read in full from the start, whatever the living partitions know', async () => {
    sinkOf = await bench().hold();
    const incremental = { reading: readingOf({ members: { isIncremental: true } }) };
    const sync = await begin('s1', incremental);
    await sync.read(null, { records: [list('a')], children: [membersOf('a', settled('m1'))] });
    await sync.read('a', { seal: whole({ watermark: instant(start) }) });
    await sync.finish();
    const beside = await begin('b1', { ...backfill(), ...incremental });
    await beside.read(null, {
      records: [list('a')],
      children: [{ ...inWindow('a'), marker: settled('m1') }],
    });
    expect(await beside.partition('a')).toMatchObject({ mode: 'full', watermark: null });
    await beside.read('a', { seal: whole({ watermark: instant(start + dayMs) }) });
    await beside.finish();
    const next = await begin('s2', incremental);
    await next.read(null, { records: [list('a')], children: [membersOf('a', settled('m2'))], seal: null });
    expect(await next.partition('a')).toMatchObject({ mode: 'incremental', watermark: instant(start) });
  });

  it('puts its rows where the living partition has them, which the next full walk judges', async () => {
    sinkOf = await bench().hold();
    const first = await begin('b1', backfill());
    await readWindow(first, 'gone');
    await first.finish();
    const [shownLists, shownMembers] = (await sinkOf.sink.history.connectors())[0]?.entities ?? [];
    expect([shownLists, shownMembers]).toMatchObject([
      { entity: lists, rows: 1, partitions: 1, due: 0 },
      { entity: members, rows: 1, partitions: 1, due: 0, lastSealedAt: null },
    ]);
    const sync = await begin('s1');
    const swept = whole({ absence: 'nothing' });
    await sync.read(null, { records: [list('a')], children: [membersOf('a')], seal: swept });
    expect(await sync.modes()).toEqual(['a full']);
    await sync.read('a', { records: [member('here')], seal: swept });
    await sync.sweep();
    expect(await sinkOf.sink.history.missing(news, 5)).toMatchObject([
      { entity: members, keyText: '["a","gone"]' },
    ]);
  });

  everywhere.each([
    ['ok', 0, [january]],
    ['degraded', 0, []],
    ['partial', 2, []],
    ['failed', 2, []],
  ] as const)(
    'after a run that ended as %s, keeps %i partitions and is done: %j',
    async (outcome, kept, done) => {
      sinkOf = await bench().hold();
      const first = await begin('b1', backfill());
      await readWindow(first);
      expect(await partitionsIn(january)).toBe(2);
      await first.finish(outcome);
      expect(await partitionsIn(january)).toBe(kept);
      const { history } = sinkOf.sink;
      expect(await history.finishedWindows(news, 'b1')).toEqual(done);
      expect(await history.finishedWindows(news, 'b2')).toEqual([]);
    },
  );

  it('is forgotten when it starts from the beginning', async () => {
    sinkOf = await bench().hold();
    const first = await begin('b1', backfill());
    await first.read(null, { records: [list('a')], children: [inWindow('a'), inWindow('b')] });
    const late = { ...backfill(), continueAfter: instant(bench().clock.now() + dayMs) };
    const second = await begin('b2', late);
    expect(second.started).toMatchObject({ continues: null, due: 1 });
    expect([await partitionsIn(january), await second.modes()]).toEqual([1, ['lists full']]);
  });

  everywhere('says nothing of how fresh an entity is, and is no sync in the history', async () => {
    sinkOf = await bench().hold();
    const sync = await begin('s1');
    await sync.read(null);
    await sync.finish();
    const { history } = sinkOf.sink;
    const before = await history.freshness(news);
    const beside = await begin('b1', backfill());
    await readWindow(beside);
    await beside.finish();
    expect(await history.freshness(news)).toEqual(before);
    expect((await history.connectors())[0]?.lastRun).toMatchObject({ run: 's1', kind: 'sync' });
    const runsOf = async (filter: object): Promise<readonly string[]> =>
      (await history.runs({ limit: 5, ...filter })).map(({ run, kind: of }) => `${run} ${of}`);
    expect(await runsOf({})).toEqual(['b1 backfill', 's1 sync']);
    expect(await runsOf({ connector: news, kind: 'sync' })).toEqual(['s1 sync']);
    expect(await runsOf({ kind: 'backfill' })).toEqual(['b1 backfill']);
  });

  it('is dropped by a later sync when no run resumes it', async () => {
    sinkOf = await bench().hold();
    const first = await begin('b1', backfill());
    await first.read(null, { records: [list('a')], children: [inWindow('a')] });
    const sync = await begin('s1');
    await sync.read(null);
    await sync.finish();
    expect(await partitionsIn(january)).toBe(2);
    bench().clock.advance(31 * dayMs);
    const later = await begin('s2');
    await later.read(null);
    await later.finish();
    expect(await partitionsIn(january)).toBe(0);
  });

  it('lets runs of other kinds stand beside a sync too', async () => {
    sinkOf = await bench().hold();
    const sync = await begin('s1');
    await sync.read(null, { records: [list('a')], children: [membersOf('a')], seal: null });
    const { sink, lease } = sinkOf;
    const refetch = await begin('f1', { kind: 'refetch', window: 'refetch', entities: [], roots: [] });
    expect(refetch.started).toMatchObject({ continues: null, due: 0 });
    await sink.repair.storeRecord(lease, refetch.run, members, member('1'));
    const entities = [entityReport(members, { fetched: 1, inserted: 1 })];
    await sink.finish(lease, refetch.run, report({ lease, run: refetch.run }, { kind: 'refetch', entities }));
    const next = await begin('s2');
    expect(next.started).toMatchObject({ continues: 's1', due: 2 });
  });
}
