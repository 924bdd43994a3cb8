import { expect, it as everywhere } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import type { Partition } from '../../../src/sinks/partition.ts';
import type { RunPlan } from '../../../src/sinks/sink.ts';
import { dayMs, lists, liveIds, member, members, news, start, type SinkKind } from './fixture.ts';
import type { RunInHand } from './run-in-hand.ts';
import { type Held, list, membersOf, readingOf, beginLists, settled, whole } from './run-in-hand.ts';
import { rulesOf, useBench } from './use-bench.ts';

/** Lists are asked for what changed, so that most runs meet only a few of them. */
const changed: Partial<RunPlan> = {
  reading: readingOf({ lists: { isIncremental: true }, members: { isIncremental: true } }),
};
const watermark = instant(start);
const all = whole({ watermark, absence: 'nothing' });

export function leftovers(kind: SinkKind): void {
  const bench = useBench(kind);
  const it = rulesOf(kind);
  let sinkOf: Held;
  const begin = async (run: string, change: Partial<RunPlan> = {}): Promise<RunInHand> =>
    beginLists(bench(), sinkOf, run, { ...changed, ...change });
  const dueMembers = async (): Promise<unknown> =>
    (await sinkOf.sink.history.connectors())[0]?.entities.find(({ entity }) => entity === members)?.due;

  /** A run that reads lists `a` and `b` and their members, all of it in full. */
  async function readAll(): Promise<void> {
    sinkOf = await bench().hold();
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
      expect(await sinkOf.sink.left(sinkOf.lease)).toEqual([{ entity: members, partitions: 1 }]);
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
      expect(await sinkOf.sink.history.failures(news, 5), 'until it is read').toHaveLength(1);
      await third.read('a');
      expect(await sinkOf.sink.history.failures(news, 5)).toEqual([]);
      expect(await sinkOf.sink.left(sinkOf.lease)).toEqual([]);
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

  it('is left for the next run of the chain when a run ends before it', async () => {
    await readAll();
    await failOne();
    const third = await begin('r3');
    await third.read(null);
    const fourth = await begin('r4');
    expect(fourth.started).toMatchObject({ continues: 'r3', due: 0 });
    expect(await fourth.leftovers()).toBe(1);
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
    expect(await sinkOf.sink.left(sinkOf.lease)).toEqual([{ entity: members, partitions: 1 }]);
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
    await sinkOf.sink.repair.tombstoneRecord(sinkOf.lease, fourth.run, lists, '["a"]');
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
    sinkOf = await bench().hold();
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
    sinkOf = await bench().hold();
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
