import { expect, it as everywhere } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import type { Seal } from '../../../src/sinks/partition.ts';
import type { RunPlan } from '../../../src/sinks/sink.ts';
import { hourMs, identity, lists, member, members, page, start, type SinkKind } from './fixture.ts';
import type { RunInHand } from './run-in-hand.ts';
import {
  type Held,
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
  const it = rulesOf(kind);
  const begin = async (run: string, change: Partial<RunPlan> = {}): Promise<RunInHand> =>
    beginLists(bench(), sinkOf, run, change);
  let sinkOf: Held;
  const open = async (): Promise<void> => {
    sinkOf = await bench().hold();
  };

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
      await open();
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

  it.each<[string, Read]>([
    ['no watermark', { seal: whole() }],
    ['a sweep to come', { seal: whole({ watermark: at(0), absence: 'nothing' }) }],
  ])('reads in full again what was sealed with %s', async (_what, read) => {
    await open();
    const first = await begin('r1', incremental);
    await first.read(null, read);
    await first.finish('partial');
    await sinkOf.lease[Symbol.asyncDispose]();
    sinkOf = await bench().hold();
    const late = instant(bench().clock.now());
    expect(await (await begin('r2', { ...incremental, continueAfter: late })).modes()).toEqual([
      'lists full',
    ]);
  });

  it.each(['nothing', null] as const)(
    'counts a full walk from the beginning of its chain, absence: %s',
    async (absence) => {
      await open();
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
    await open();
    const alone: Partial<RunPlan> = { ...incremental, leaves: [lists, members] };
    const first = await begin('r1', alone);
    await first.read(null, { seal: whole({ watermark: at(0) }) });
    await first.finish();
    expect(await (await begin('r2', { ...alone, choices: 'other' })).modes()).toEqual(['lists incremental']);
    await sinkOf.lease[Symbol.asyncDispose]();
    const lease = await sinkOf.sink.acquire(identity({ definitionHash: 'v2' }));
    sinkOf = { ...sinkOf, lease };
    expect(await (await begin('r3', alone)).modes()).toEqual(['lists full']);
  });

  it("gives a walk what the last one has noted of the records' clock", async () => {
    await open();
    const first = await begin('r1', incremental);
    expect((await first.partition(null)).clockDifferences).toEqual([]);
    await first.read(null, { seal: whole({ watermark: at(0), clockDifferences: [7, 5] }) });
    await first.finish();
    const second = await begin('r2', incremental);
    expect((await second.partition(null)).clockDifferences).toEqual([7, 5]);
  });

  // Proves promise 2
  it('reads in full what a clock that was ahead has dated years from now', async () => {
    await open();
    await readOnce('r1', incremental, { seal: whole({ watermark: at(0) }), marker: 'm1' });
    await bench().ledger("UPDATE _sync_partitions SET full_at = '2099-01-01T00:00:00.000Z'");
    const second = await begin('r2', incremental);
    expect(await second.modes()).toEqual(['lists full']);
    await second.read(null, { seal: whole({ watermark: at(0) }) });
    expect(await second.sink.findLeftovers(second.lease), 'also where its parent is not met').toBe(1);
    expect(await second.modes()).toEqual(['a full']);
  });

  it('does not read what is found again with the same change value', async () => {
    await open();
    await readOnce('r1', {}, { marker: 'm1' });
    expect(await findAgain('r2', {}, settled('m1'))).toEqual(['lists full']);
    const [, entity] = (await sinkOf.sink.history.connectors())[0]?.entities ?? [];
    expect(entity).toMatchObject({ partitions: 1, due: 0 });
  });

  // Proves promise 2.1
  it('reads again what was read with a change value that had not settled', async () => {
    await open();
    await readOnce('r1', {}, { marker: 'm1' });
    const second = await begin('r2');
    const unsettled = { value: 'm2', isSettled: false };
    await second.read(null, { records: [list('a')], children: [membersOf('a', unsettled)] });
    await second.read('a');
    await second.finish();
    expect(await findAgain('r3', {}, settled('m2'))).toEqual(['a full', 'lists full']);
  });

  it('reads a child again whose last walk failed, though nothing has changed since the one before', async () => {
    await open();
    await readOnce('r1', {}, { marker: 'm1' });
    const second = await begin('r2');
    await second.read(null, { records: [list('a')], children: [membersOf('a', settled('m2'))] });
    await second.setAside(bench(), 'a');
    await second.finish('degraded');
    expect(await findAgain('r3', {}, settled('m1'))).toEqual(['a full', 'lists full']);
  });

  it('reads a changed child incrementally, from its own watermark', async () => {
    await open();
    await readOnce('r1', incremental, { marker: 'm1', seal: whole({ watermark: at(0) }) });
    expect(await findAgain('r2', incremental, settled('m2'))).toEqual(['a incremental', 'lists incremental']);
  });

  // Proves promise 2
  it('starts from the beginning, in full, when an incremental walk turns out not to work', async () => {
    await open();
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
    await open();
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
    await open();
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
    expect(await sinkOf.sink.deletes.missing(sinkOf.lease, third.run)).toEqual([]);
    await third.finish();
    expect(await findAgain('r4', {}, settled('m2'))).toEqual(['a full', 'lists full']);
  });

  it('restarts a full walk that breaks off, where the partition was read whole before', async () => {
    await open();
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
    await open();
    const swept = whole({ watermark: at(0), absence: 'nothing' });
    const first = await begin('r1', incremental);
    await first.read(null, { records: [list('a')], children: [membersOf('a', settled('m1'))], seal: swept });
    await first.read('a', { records: [member('1')], seal: swept });
    await first.sweep();
    await first.finish();
    const second = await begin('r2', { ...incremental, isFull: true });
    await second.read(null, { seal: swept });
    await second.sweep();
    const { lease, sink } = sinkOf;
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
    await open();
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
    await open();
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
    await open();
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
