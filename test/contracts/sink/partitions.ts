import { expect, it as everywhere } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import type { Seal, Partition, FoundPartition } from '../../../src/sinks/partition.ts';
import type { RunPlan } from '../../../src/sinks/sink.ts';
import { missingRows } from '../../support/missing-rows.ts';
import {
  hourMs,
  identity,
  lists,
  member,
  members,
  membersTable,
  page,
  start,
  type SinkKind,
  dayMs,
  liveIds,
  news,
  counts,
  partition,
  rootOf,
  sealed,
} from './fixture.ts';
import {
  type RunInHand,
  useHeld,
  list,
  membersOf,
  readingOf,
  beginLists,
  settled,
  whole,
  type Read,
} from './run-in-hand.ts';
import { rulesOf, useBench } from './use-bench.ts';

const incremental: Partial<RunPlan> = {
  reading: readingOf({ lists: { isIncremental: true }, members: { isIncremental: true } }),
};
const at = (ms: number): string => instant(start + ms);

export function becomingDue(kind: SinkKind): void {
  const bench = useBench(kind);
  const held = useHeld(bench);
  const it = rulesOf(kind);
  const begin = async (run: string, change: Partial<RunPlan> = {}): Promise<RunInHand> =>
    beginLists(bench(), held(), run, change);

  /** A run that reads the lists (list `a` among them) and the members of `a`. */
  async function readOnce(
    run: string,
    change: Partial<RunPlan>,
    of: Read & { marker?: string } = {},
  ): Promise<void> {
    const marker = of.marker === undefined ? null : settled(of.marker);
    const one = await begin(run, change);
    await one.read(null, { records: [list('a')], children: [membersOf('a', marker)], ...of });
    await one.read('a', { records: [member('1')], ...of });
    await one.finish();
  }

  /** What a later run does that finds list `a` again. */
  async function findAgain(
    run: string,
    change: Partial<RunPlan>,
    marker: ReturnType<typeof settled> | null,
  ): Promise<readonly string[]> {
    const one = await begin(run, change);
    await one.read(null, { records: [list('a')], children: [membersOf('a', marker)], seal: null });
    return await one.modes();
  }

  everywhere(
    'reads in full first, and incrementally when a proven full walk has left a watermark',
    async () => {
      const first = await begin('r1', incremental);
      expect(await first.partition(null)).toMatchObject({ mode: 'full', watermark: null });
      await first.read(null, { seal: whole({ watermark: at(0) }) });
      await first.finish();
      const second = await begin('r2', incremental);
      expect(await second.partition(null)).toMatchObject({
        mode: 'incremental',
        watermark: at(0),
        position: null,
      });
    },
  );

  it.each(['nothing', null] as const)(
    'counts a full walk from the beginning of its chain, absence: %s',
    async (absence) => {
      const first = await begin('r1', incremental);
      const began = instant(bench().clock.now());
      bench().clock.advance(hourMs);
      await first.read(null, { records: [list('a')], seal: whole({ watermark: at(0), absence }) });
      await first.sweep();
      await first.finish();
      const aged = (fullBefore: string): Partial<RunPlan> => ({
        reading: readingOf({ lists: { isIncremental: true, fullBefore } }),
      });
      const second = await begin('r2', aged(instant(Date.parse(began) - 1)));
      expect(await second.modes()).toEqual(['lists incremental']);
      await second.finish();
      expect(await (await begin('r3', aged(began))).modes()).toEqual(['lists full']);
    },
  );

  it('takes other choices for no reason to read what leads to nothing in full, but a changed definition', async () => {
    const alone: Partial<RunPlan> = { ...incremental, leaves: [lists, members] };
    const first = await begin('r1', alone);
    await first.read(null, { seal: whole({ watermark: at(0) }) });
    await first.finish();
    expect(await (await begin('r2', { ...alone, choices: 'other' })).modes()).toEqual(['lists incremental']);
    const { sink, lease } = held();
    await lease[Symbol.asyncDispose]();
    const ofChanged = { sink, lease: await sink.acquire(identity({ definitionHash: 'v2' })) };
    expect(await (await beginLists(bench(), ofChanged, 'r3', alone)).modes()).toEqual(['lists full']);
  });

  // Proves promise 2
  it('reads in full what a clock that was ahead has dated years from now', async () => {
    await readOnce('r1', incremental, { seal: whole({ watermark: at(0) }), marker: 'm1' });
    await bench().ledger("UPDATE _sync_partitions SET full_at = '2099-01-01T00:00:00.000Z'");
    const second = await begin('r2', incremental);
    expect(await second.modes()).toEqual(['lists full']);
    await second.read(null, { seal: whole({ watermark: at(0) }) });
    expect(await second.sink.findLeftovers(second.lease), 'also where its parent is not met').toBe(1);
    expect(await second.modes()).toEqual(['a full']);
  });

  // Proves promise 2.1
  it('reads again what was read with a change value that had not settled', async () => {
    await readOnce('r1', {}, { marker: 'm1' });
    const second = await begin('r2');
    const unsettled = { value: 'm2', isSettled: false };
    await second.read(null, { records: [list('a')], children: [membersOf('a', unsettled)] });
    await second.read('a');
    await second.finish();
    expect(await findAgain('r3', {}, settled('m2'))).toEqual(['a full', 'lists full']);
  });

  // Proves promise 2
  it('starts from the beginning, in full, when an incremental walk turns out not to work', async () => {
    await readOnce('r1', incremental, { marker: 'm1', seal: whole({ watermark: at(0) }) });
    const second = await begin('r2', incremental);
    await second.read(null, { records: [list('a')], children: [membersOf('a', settled('m2'))], seal: null });
    await second.read('a', { seal: null });
    await second.setAside(bench(), 'a', { dropWatermark: true });
    const third = await begin('r3', incremental);
    expect(third.started.continues).toBe('r2');
    expect(await third.partition('a')).toMatchObject({ mode: 'full', watermark: null, position: null });
  });

  it('drops a kept position when the next chain reads the partition in another mode', async () => {
    await readOnce('r1', incremental, { marker: 'm1', seal: whole({ watermark: at(0) }) });
    const second = await begin('r2', incremental);
    await second.read(null, { records: [list('a')], children: [membersOf('a', settled('m2'))] });
    await second.read('a', { seal: null });
    await second.setAside(bench(), 'a');
    await second.finish('degraded');
    const positionIn = async (run: string, change: Partial<RunPlan>): Promise<unknown> => {
      const one = await begin(run, change);
      await one.read(null, { records: [list('a')], children: [membersOf('a', settled('m2'))], seal: null });
      return (await one.partition('a')).position;
    };
    expect(await positionIn('r3', { ...incremental, isFull: true })).toBeNull();
  });

  it('concludes nothing from a walk whose first half an earlier chain has read, and makes it again in full', async () => {
    const second = await begin('r2');
    await second.read(null, { records: [list('a')], children: [membersOf('a', settled('m2'))] });
    await second.read('a', { seal: null });
    await second.setAside(bench(), 'a');
    await second.finish('degraded');
    const third = await begin('r3');
    await third.read(null, { records: [list('a')], children: [membersOf('a', settled('m2'))] });
    expect((await third.partition('a')).position).toEqual({ kind: 'offset', offset: 0 });
    await third.read('a', { seal: whole({ absence: 'nothing' }) });
    await third.sweep();
    expect(await held().sink.deletes.missing(held().lease, third.run)).toEqual([]);
    await third.finish();
    expect(await findAgain('r4', {}, settled('m2'))).toEqual(['a full', 'lists full']);
  });

  it('restarts a full walk that breaks off, where the partition was read whole before', async () => {
    const swept = whole({ watermark: at(0), absence: 'nothing' });
    await readOnce('r1', incremental, { marker: 'm1', seal: swept });
    const second = await begin('r2', { ...incremental, isFull: true });
    await second.read(null, { records: [list('a')], children: [membersOf('a', settled('m1'))], seal: swept });
    await second.read('a', { seal: null });
    await second.setAside(bench(), 'a');
    await second.finish('degraded');
    const third = await begin('r3', incremental);
    await third.read(null, { records: [list('a')], children: [membersOf('a', settled('m1'))], seal: swept });
    expect(await third.partition('a')).toMatchObject({ mode: 'full', position: null });
  });

  everywhere('reads partitions below a record from the start when it returns after a delete', async () => {
    const swept = whole({ watermark: at(0), absence: 'nothing' });
    const first = await begin('r1', incremental);
    await first.read(null, { records: [list('a')], children: [membersOf('a', settled('m1'))], seal: swept });
    await first.read('a', { records: [member('1')], seal: swept });
    await first.sweep();
    await first.finish();
    const second = await begin('r2', { ...incremental, isFull: true });
    await second.read(null, { seal: swept });
    await second.sweep();
    const { lease, sink } = held();
    expect(await sink.deletes.tombstone(lease, second.run, lists, 'all', 10)).toBe(1);
    while ((await sink.deletes.tombstoneBelow(lease, second.run, 10)).length > 0);
    await second.finish();
    expect((await sink.history.connectors())[0]?.entities).toMatchObject([
      { entity: lists, rows: 0, deleted: 1 },
      { entity: members, rows: 0, deleted: 1, partitions: 0 },
    ]);
    const third = await begin('r3', incremental);
    await third.read(null, { records: [list('a')], children: [membersOf('a', settled('m1'))] });
    expect(await third.partition('a')).toMatchObject({ mode: 'full', watermark: null, position: null });
    expect((await sink.history.connectors())[0]?.entities).toMatchObject([
      { entity: lists, partitions: 1 },
      { entity: members, partitions: 1, due: 1 },
    ]);
  });

  it('continues a full run with one that is not, which stays full; a full run continues no other run', async () => {
    const first = await begin('r1', { ...incremental, isFull: true });
    expect(first.started).toMatchObject({ continues: null, isFull: true });
    await first.read(null, { seal: null });
    const second = await begin('r2', incremental);
    expect(second.started).toMatchObject({ continues: 'r1', isFull: true });
    await second.read(null, {
      records: [list('a')],
      children: [membersOf('a')],
      seal: whole({ watermark: at(0) }),
    });
    await second.read('a', { seal: whole({ watermark: at(0) }) });
    await second.finish();
    const third = await begin('r3', incremental);
    expect(third.started).toMatchObject({ continues: null, isFull: false });
    await third.read(null, { seal: null });
    const fourth = await begin('r4', { ...incremental, isFull: true });
    expect(fourth.started).toMatchObject({ continues: null, isFull: true });
    expect(await fourth.modes()).toEqual(['lists full']);
  });

  // Proves promise 13
  it('gives what was not read for longest first where the run may end early, never read ones before all others', async () => {
    const budgeted: Partial<RunPlan> = { isBudgeted: true };
    const children = ['a', 'b', 'c'].map((id) => membersOf(id));
    const first = await begin('r1', budgeted);
    await first.read(null, { records: ['a', 'b', 'c'].map(list), children });
    for (const id of ['b', 'a', 'c']) {
      bench().clock.advance(1);
      await first.read(id);
    }
    await first.finish();
    const second = await begin('r2', budgeted);
    await second.read(null, {
      records: ['a', 'b', 'c'].map(list),
      children: [...children, membersOf('d')],
      seal: null,
    });
    expect(await second.modes()).toEqual(['d full', 'lists full', 'b full', 'a full', 'c full']);
  });

  // Proves promise 3
  it('makes due again what a page ended that was not the last: in full, without its watermark, and nothing is missing there', async () => {
    const ids = ['a', 'b', 'c', 'd'];
    const first = await begin('r1', incremental);
    await first.read(null, { records: ids.map(list), children: ids.map((id) => membersOf(id)) });
    const endedBy = (records: number): Seal => ({
      ...whole({ watermark: at(0) }),
      lastPage: { size: 1000, records },
    });
    await first.read('a', { records: [member('1')], seal: endedBy(450) });
    await first.read('b', { records: [member('2')], seal: endedBy(255) });
    // Killed: what the next run of the chain finds out holds for what this one has sealed.
    const second = await begin('r2', incremental);
    const { id } = await second.partition('c');
    const evidence = {
      ...page(second, id, [], { entity: members, seal: null }),
      followed: { size: 1000, records: 256 },
    };
    const [committed] = await second.sink.commit(second.lease, [evidence]);
    expect(committed).toMatchObject({ newlyDue: 1 });
    expect(committed?.unsealed, 'another run has counted it').toBeUndefined();
    expect(await second.partition('a')).toMatchObject({ mode: 'full', watermark: null, position: null });
    expect(await second.modes()).toEqual(['a full', 'c full', 'd full']);
    // Decided before the evidence was known, stored after it.
    await second.read('d', { records: [member('4')], seal: endedBy(300) });
    expect(await second.modes()).toEqual(['a full', 'c full', 'd full']);
    await second.read('a', { records: [member('1')], seal: whole({ watermark: at(0) }) });
    expect(await second.modes()).toEqual(['c full', 'd full']);
  });
}

/** Lists are asked for what changed, so that most runs meet only a few of them. */
const changed: Partial<RunPlan> = {
  reading: readingOf({ lists: { isIncremental: true }, members: { isIncremental: true } }),
};
const watermark = instant(start);
const all = whole({ watermark, absence: 'nothing' });

export function leftovers(kind: SinkKind): void {
  const bench = useBench(kind);
  const held = useHeld(bench);
  const it = rulesOf(kind);
  const begin = async (run: string, change: Partial<RunPlan> = {}): Promise<RunInHand> =>
    beginLists(bench(), held(), run, { ...changed, ...change });
  const dueMembers = async (): Promise<unknown> =>
    (await held().sink.history.connectors())[0]?.entities.find(({ entity }) => entity === members)?.due;

  /** A run that reads lists `a` and `b` and their members, all of it in full. */
  async function readAll(): Promise<void> {
    const first = await begin('r1');
    await first.read(null, {
      records: [list('a'), list('b')],
      children: [membersOf('a', settled('m1')), membersOf('b', settled('m1'))],
      seal: all,
    });
    for (const id of ['a', 'b']) await first.read(id, { records: [member(id)], seal: all });
    await first.sweep();
    await first.finish();
  }

  /** Meets list `a` with another change value and fails to read its members, somewhere in the middle. */
  async function failOne(run = 'r2', marker = 'm2'): Promise<void> {
    const second = await begin(run);
    await second.read(null, { records: [list('a')], children: [membersOf('a', settled(marker))] });
    await second.read('a', { seal: null });
    await second.setAside(bench(), 'a');
    await second.finish('degraded');
  }

  // Proves promise 7.1
  it('reads again what is known below a record that came in part, also through later chains', async () => {
    await readAll();
    const partial = { entity: lists, reason: 'partial', detail: 'without name', record: '{}' } as const;
    for (const run of ['r2', 'r3']) {
      const later = await begin(run);
      const newlyDue = await later.read(null, {
        records: [{ ...list('a'), partial }, list('b')],
        children: [membersOf('b', settled('m1'))],
        seal: all,
      });
      expect([newlyDue, await later.modes()]).toEqual([1, ['a incremental']]);
      await later.read('a');
      expect(await later.leftovers()).toBe(0);
      await later.sweep();
      await later.finish();
    }
    expect(liveIds(await bench().rows())).toEqual(['a', 'b']);
    expect(await dueMembers()).toBe(0);
  });

  // Proves promise 2.1
  everywhere(
    'brings a child whose walk failed when its parent is not met again, once, from where it had stopped',
    async () => {
      await readAll();
      await failOne();
      const third = await begin('r3');
      await third.read(null);
      expect(await third.ready()).toEqual([]);
      expect(await held().sink.left(held().lease)).toEqual([{ entity: members, partitions: 1 }]);
      expect(await third.leftovers()).toBe(1);
      expect(await third.leftovers()).toBe(0);
      const [one, ...others] = await third.ready();
      expect(others).toEqual([]);
      expect(one).toMatchObject<Partial<Partition>>({
        params: { list_id: 'a' },
        mode: 'incremental',
        watermark,
        position: { kind: 'offset', offset: 0 },
      });
      expect(await held().sink.history.failures(news, 5), 'until it is read').toHaveLength(1);
      await third.read('a');
      expect(await held().sink.history.failures(news, 5)).toEqual([]);
      expect(await held().sink.left(held().lease)).toEqual([]);
      expect(await third.leftovers()).toBe(0);
    },
  );

  it('leaves out what the chain has set aside itself', async () => {
    await readAll();
    const second = await begin('r2');
    await second.read(null, { records: [list('a')], children: [membersOf('a', settled('m2'))] });
    await second.setAside(bench(), 'a');
    expect(await second.leftovers()).toBe(0);
    const third = await begin('r3');
    expect([third.started.continues, await third.modes()]).toEqual(['r2', ['a incremental']]);
  });

  it('keeps a child waiting whose parent this chain has looked for and not met', async () => {
    await readAll();
    await failOne();
    const third = await begin('r3', { isFull: true });
    await third.read(null, { records: [list('b')], children: [membersOf('b', settled('m1'))], seal: all });
    await third.read('b', { records: [member('b')], seal: all });
    expect(await third.leftovers()).toBe(0);
    expect(await third.ready()).toEqual([]);
    expect(await dueMembers()).toBe(1);
    expect(await held().sink.left(held().lease)).toEqual([{ entity: members, partitions: 1 }]);
  });

  it('drops a child whose parent is tombstoned, or was never stored', async () => {
    await readAll();
    await failOne();
    const third = await begin('r3');
    const stray = membersOf('z', settled('m1'));
    await third.read(null, { children: [stray] });
    await third.setAside(bench(), 'z');
    await third.finish('degraded');
    const fourth = await begin('r4');
    await fourth.read(null);
    expect(await dueMembers()).toBe(2);
    await held().sink.repair.tombstoneRecord(held().lease, fourth.run, lists, '["a"]');
    expect(await dueMembers()).toBe(1);
    expect(await fourth.leftovers()).toBe(0);
    expect(await dueMembers()).toBe(0);
  });

  everywhere(
    'drops a child that its parent leads to no more: met again in full, and another way',
    async () => {
      await readAll();
      await failOne();
      const third = await begin('r3', { isFull: true });
      const others = ['a', 'b'].map((id) => ({
        ...membersOf(id),
        params: { list_id: id, status: 'archived' },
      }));
      await third.read(null, { records: [list('a'), list('b')], children: others, seal: all });
      expect(await third.leftovers()).toBe(0);
      expect(await dueMembers(), 'the other two').toBe(2);
      await third.finish('degraded');
    },
  );

  // Proves promise 2.1
  it('brings children that have not been read in full for too long, in full', async () => {
    await readAll();
    const late = instant(start + dayMs);
    const aged = readingOf({
      lists: { isIncremental: true },
      members: { isIncremental: true, fullBefore: late },
    });
    const second = await begin('r2', { reading: aged });
    await second.read(null);
    expect(await second.ready()).toEqual([]);
    expect(await second.leftovers()).toBe(2);
    expect(await second.modes()).toEqual(['a full', 'b full']);
  });

  it('brings in full what was read on from where an earlier chain had stopped', async () => {
    await readAll();
    await failOne();
    const third = await begin('r3');
    await third.read(null);
    await third.leftovers();
    await third.read('a', { seal: whole({ watermark }) });
    await third.finish();
    const fourth = await begin('r4');
    await fourth.read(null);
    expect(await fourth.leftovers()).toBe(1);
    expect(await fourth.modes()).toEqual(['a full']);
    await fourth.read('a', { seal: whole({ watermark }) });
    await fourth.finish();
    const fifth = await begin('r5');
    await fifth.read(null);
    expect(await fifth.leftovers()).toBe(0);
  });

  it('brings children whose full walk was never swept', async () => {
    const first = await begin('r1');
    await first.read(null, { records: [list('a')], children: [membersOf('a')], seal: all });
    await first.sweep();
    await first.read('a', { records: [member('1')], seal: all });
    await first.finish('ok');
    const second = await begin('r2');
    await second.read(null);
    expect(await second.leftovers()).toBe(1);
    expect(await second.modes()).toEqual(['a full']);
  });

  it('never brings a root, nor what another selection of entities reads', async () => {
    await readAll();
    await failOne();
    const third = await begin('r3');
    await third.setAside(bench(), null);
    await third.finish('degraded');
    const fourth = await begin('r4', { roots: [] });
    expect(await fourth.leftovers()).toBe(1);
    await fourth.read('a');
    await fourth.finish();
    await failOne('r5', 'm3');
    const sixth = await begin('r6', { entities: [lists], reading: readingOf() });
    expect(await sixth.leftovers()).toBe(0);
    expect(await dueMembers()).toBe(1);
  });

  everywhere('brings thousands of children in one call', async () => {
    const ids = Array.from({ length: 2_500 }, (_, at) => `l${at}`);
    const first = await begin('r1');
    await first.read(null, {
      records: ids.map(list),
      children: ids.map((id) => membersOf(id)),
      seal: whole({ watermark }),
    });
    await first.finish('degraded');
    const second = await begin('r2');
    await second.read(null);
    expect(await second.leftovers()).toBe(2_500);
    expect(await second.leftovers()).toBe(0);
    expect(second.started.continues).toBeNull();
  });
}

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
  const held = useHeld(bench);
  const it = rulesOf(kind);
  const begin = async (run: string, change: Partial<RunPlan> = {}): Promise<RunInHand> =>
    beginLists(bench(), held(), run, change);
  const partitionsIn = (window: string): Promise<unknown> =>
    bench().count('_sync_partitions', `backfill = '${window}'`);

  /** Reads list `a` and the members that a window shows of it. */
  async function readWindow(run: RunInHand, id = '1'): Promise<void> {
    await run.read(null, { records: [list('a')], children: [inWindow('a')] });
    await run.read('a', { records: [member(id)] });
  }

  // Proves promise 13
  it('leaves an unfinished sync alone: its positions, what is ready, and what it has met', async () => {
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
    const [stored] = await next.sink.commit(next.lease, [page(next, id, [member('1')])]);
    expect(stored?.counts[0]?.counts).toEqual(counts({ fetched: 1, duplicate: 1 }));
  });

  // Proves promise 13
  it('resumes its own window after a kill, also when a sync ran meanwhile, and no other', async () => {
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
    const last = page(again, id, [member('1'), member('2')], { seal: sealed });
    const [stored] = await again.sink.commit(again.lease, [last]);
    expect(stored?.counts[0]?.counts).toEqual(counts({ fetched: 2, duplicate: 1, inserted: 1 }));
  });

  it('is read in full from the start, whatever the living partitions know', async () => {
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
    const first = await begin('b1', backfill());
    await readWindow(first, 'gone');
    await first.finish();
    const [shownLists, shownMembers] = (await held().sink.history.connectors())[0]?.entities ?? [];
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
    expect(
      await missingRows(held().sink.history, news, membersTable, ['["a","here"]', '["a","gone"]']),
    ).toMatchObject([{ entity: members, keyText: '["a","gone"]' }]);
  });

  everywhere.each([
    ['ok', 0, [january]],
    ['degraded', 0, []],
    ['partial', 2, []],
    ['failed', 2, []],
  ] as const)(
    'after a run that ended as %s, keeps %i partitions and is done: %j',
    async (outcome, kept, done) => {
      const first = await begin('b1', backfill());
      await readWindow(first);
      expect(await partitionsIn(january)).toBe(2);
      await first.finish(outcome);
      expect(await partitionsIn(january)).toBe(kept);
      const { history } = held().sink;
      expect(await history.finishedWindows(news, 'b1')).toEqual(done);
      expect(await history.finishedWindows(news, 'b2')).toEqual([]);
    },
  );

  it('is forgotten when it starts from the beginning', async () => {
    const first = await begin('b1', backfill());
    await first.read(null, { records: [list('a')], children: [inWindow('a'), inWindow('b')] });
    const late = { ...backfill(), continueAfter: instant(bench().clock.now() + dayMs) };
    const second = await begin('b2', late);
    expect(second.started).toMatchObject({ continues: null, due: 1 });
    expect([await partitionsIn(january), await second.modes()]).toEqual([1, ['lists full']]);
  });

  everywhere('says nothing of how fresh an entity is, and is no sync in the history', async () => {
    const sync = await begin('s1');
    await sync.read(null);
    await sync.finish();
    const { history } = held().sink;
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
}
