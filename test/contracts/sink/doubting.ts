import { expect, it as everywhere } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import type { RunPlan } from '../../../src/sinks/sink.ts';
import type { PreparedRecord } from '../../../src/core/records.ts';
import type { Doubt } from '../../../src/sinks/partition.ts';
import {
  blocks,
  blocksTable,
  entityReport,
  identity,
  lists,
  member,
  members,
  onlyPartition,
  page,
  partition,
  report,
  sealed,
  start,
  type SinkKind,
} from './fixture.ts';
import type { RunInHand } from './run-in-hand.ts';
import { list, membersOf, readingOf, beginLists, settled, whole } from './run-in-hand.ts';
import { rulesOf, useBench } from './use-bench.ts';

/** What follows where the end of a walk proves nothing. */
export function doubting(kind: SinkKind): void {
  const bench = useBench(kind);
  const it = rulesOf(kind);
  const three: Doubt = { kind: 'total', total: 8, shown: 3 };
  const doubted = (doubt: Doubt = three) => ({ seal: whole({ doubt }) });

  async function runs() {
    const sinkOf = await bench().hold();
    const begin = async (run: string, change: Partial<RunPlan> = {}): Promise<RunInHand> =>
      await beginLists(bench(), sinkOf, run, change);
    const status = async (entity: string) =>
      (await sinkOf.sink.history.connectors())[0]?.entities.find((one) => one.entity === entity);
    const partMissing = async () => await sinkOf.sink.partMissing(sinkOf.lease);
    return { ...sinkOf, begin, status, partMissing };
  }

  // Proves promise 3.1
  everywhere(
    'leaves everything as it was: what is missing, how fresh it is, when it was read, and how the next run reads it',
    async () => {
      const { sink, lease, begin, status, partMissing } = await runs();
      const incremental = { reading: readingOf({ lists: { isIncremental: true } }) };
      const absence = 'nothing' as const;
      const first = await begin('r1', incremental);
      const watermark = instant(start);
      await first.read(null, { records: [list('a'), list('b')], seal: whole({ absence, watermark }) });
      await first.sweep();
      await first.finish();
      const before = await status(lists);
      const fresh = await sink.history.freshness(lease.connector);

      const second = await begin('r2', { ...incremental, isFull: true });
      await second.read(null, { records: [list('a')], ...doubted() });
      await second.sweep();
      const found = [{ entity: lists, listings: 1, params: {}, doubt: three, runs: 1 }];
      expect(await partMissing()).toEqual(found);
      const entities = [{ ...entityReport(lists, { fetched: 1, unchanged: 1 }), isProven: false }];
      const { run } = second;
      await sink.finish(lease, run, report({ lease, run }, { entities, partMissing: found }));

      expect(await status(lists)).toMatchObject({
        rows: 2,
        missing: 0,
        partMissing: { listings: 1, doubt: three },
      });
      expect((await status(lists))?.lastCompleteReadAt).toBe(before?.lastCompleteReadAt);
      expect(await sink.history.freshness(lease.connector)).toEqual(fresh);
      expect(await sink.history.overview()).toMatchObject([
        { partMissing: [{ entity: lists, listings: 1 }] },
      ]);
      const third = await begin('r3', incremental);
      expect(await third.modes(), 'again in full').toEqual(['lists full']);
      await third.read(null, { records: [list('a')], seal: whole({ absence, watermark }) });
      await third.sweep();
      expect(await partMissing()).toEqual([]);
      expect(await status(lists)).toMatchObject({ missing: 1, partMissing: null });
      const fourth = await begin('r4', incremental);
      expect(await fourth.modes()).toEqual(['lists incremental']);
      await fourth.read(null, doubted());
      await fourth.finish();
      const fifth = await begin('r5', incremental);
      expect(await fifth.modes(), 'from the watermark before').toEqual(['lists incremental']);
      expect(await fifth.partition(null)).toMatchObject({ watermark });
    },
  );

  // Proves promise 3
  it('tells listings that no order and no total proves from those of which part is missing', async () => {
    const { sink, lease, begin, status } = await runs();
    const words: string[] = [];
    const unordered = { kind: 'seam', isOrdered: false } as const;
    const seals = [{ proof: unordered }, { proof: { ...unordered, isCounted: true } }, {}] as const;
    for (const [index, seal] of [...seals, { proof: unordered, doubt: three }].entries()) {
      const run = await begin(`r${index}`);
      const before = (await status(lists))?.completeness;
      await run.read(null, { records: [list('a')], seal: whole(seal) });
      const found = (await sink.unconfirmed(lease)).map(({ listings }) => listings).join();
      await run.finish();
      words.push(`${before}, then ${(await status(lists))?.completeness} ${found}`.trim());
    }
    expect(words).toEqual([
      'not-yet, then unconfirmed 1',
      'not-yet, then complete',
      'not-yet, then complete',
      'not-yet, then part-missing',
    ]);
  });

  // Proves promise 3.1
  it('reads a listing below a record again, although nothing has changed there', async () => {
    const { begin, partMissing } = await runs();
    const found = { records: [list('a'), list('b')] };
    const children = ['a', 'b'].map((id) => membersOf(id, settled('m1')));
    const first = await begin('r1');
    await first.read(null, { ...found, children });
    await first.read('a', { records: [member('1')], ...doubted() });
    await first.read('b');
    expect(await partMissing()).toMatchObject([{ entity: members, listings: 1, params: { list_id: 'a' } }]);
    await first.finish();
    const second = await begin('r2');
    await second.read(null, { ...found, children });
    expect(await second.modes()).toEqual(['a full']);
    await second.read('a', { records: [member('1')] });
    expect(await partMissing()).toEqual([]);
  });

  it('names of several listings the one that was found in the most runs', async () => {
    const { begin, partMissing } = await runs();
    const children = ['a', 'b', 'c'].map((id) => membersOf(id));
    for (const shown of [3, 4]) {
      const run = await begin(`r${shown}`);
      await run.read(null, { records: [list('a')], children });
      await run.read('a', doubted({ kind: 'total', total: 900, shown }));
      await run.read('b', doubted());
      await run.read('c', doubted({ kind: 'repeats' }));
      const runs = shown === 3 ? 1 : 2;
      const named = shown === 3 ? { kind: 'total', total: 900, shown } : three;
      expect(await partMissing()).toMatchObject([{ entity: members, listings: 3, runs, doubt: named }]);
      await run.finish();
    }
  });

  it('leaves out a listing of other settings, to which nothing leads now', async () => {
    const { begin, partMissing } = await runs();
    const first = await begin('r1');
    await first.read(null, doubted());
    await first.finish();
    const roots = [partition(lists, { status: 'archived' })];
    await begin('r2', { roots, choices: 'archived' });
    expect(await partMissing()).toEqual([]);
  });

  // Proves promise 3.1
  it('doubts a tree where a listing inside it ended with a doubt, in every run', async () => {
    const sink = await bench().open();
    const root = partition(blocks, { block_id: 'page' }, { treeDepth: 0, rank: 1 });
    const plan = { tables: [blocksTable], entities: [blocks], roots: [root] };
    const lease = await sink.acquire(identity());
    for (const runs of [1, 2]) {
      const started = await sink.startRun(lease, bench().plan(`r${runs}`, plan));
      const tree = await onlyPartition(sink, lease);
      const inside = ['x', 'y'].map((id) =>
        partition(blocks, { block_id: id }, { tree: tree.id, treeDepth: 1, rank: 2 }),
      );
      const at = { lease, run: started.run };
      await sink.commit(lease, [
        page(at, tree.id, [], { entity: blocks, children: inside, seal: { ...sealed, absence: 'nothing' } }),
      ]);
      for (const [index, { id }] of (await sink.nextPartitions(lease, 5)).entries()) {
        const seal = index === 0 ? { ...sealed, doubt: three } : { ...sealed, absence: 'nothing' as const };
        await sink.commit(lease, [page(at, id, [], { entity: blocks, seal })]);
      }
      const params = { block_id: 'page' };
      expect(await sink.partMissing(lease)).toEqual([
        { entity: blocks, listings: 1, params, doubt: three, runs },
      ]);
      const [stored] = await bench().ledger('SELECT sweep_origin, full_at FROM _sync_partitions');
      expect(stored).toEqual({ sweep_origin: null, full_at: null });
      await sink.finish(lease, started.run, report(at));
      bench().clock.advance(1_000);
    }
  });

  /** The listings a and b below lists, which changed when `marker` says so. */
  async function readBoth(
    run: RunInHand,
    {
      a,
      b,
      marker = 'm1',
    }: {
      readonly a: readonly PreparedRecord[];
      readonly b: readonly PreparedRecord[];
      readonly marker?: string;
    },
  ): Promise<void> {
    const children = [membersOf('a', settled('m1')), membersOf('b', settled(marker))];
    await run.read(null, { records: [list('a'), list('b')], children });
    const ready = (await run.ready()).map(({ params }) => params['list_id']);
    if (ready.includes('a')) await run.read('a', { records: a, seal: found });
    if (ready.includes('b')) await run.read('b', { records: b, seal: found });
  }
  const found = whole({ absence: 'nothing' });

  // Proves promise 3.2
  it('finds rows of one key with different content in two listings: neither proves anything', async () => {
    const { sink, begin, status, partMissing } = await runs();
    const a = [member('1', 'Ada'), member('2')];
    const b = [member('1', 'Bob'), member('3')];
    const first = await begin('r1');
    await readBoth(first, { a: [...a, member('4')], b: [...b, member('5')] });
    expect(await first.leftovers(), 'the first is read again').toBe(1);
    await first.read('a', { records: [...a, member('4')], seal: found });
    expect(await first.leftovers()).toBe(0);
    const doubt = { kind: 'collision', key: { list_id: 'a', id: '1' } };
    const [one] = await partMissing();
    expect(one).toMatchObject({
      listings: 2,
      params: { list_id: 'a' },
      doubt: { ...doubt, params: { list_id: 'b' } },
    });
    await first.sweep();
    await first.finish();

    const second = await begin('r2');
    await readBoth(second, { a, b });
    await second.leftovers();
    await second.read('a', { records: a, seal: found });
    await second.sweep();
    expect(await status(members)).toMatchObject({
      rows: 5,
      missing: 0,
      lastCompleteReadAt: null,
      partMissing: { doubt },
    });
    expect(await partMissing()).toMatchObject([{ listings: 2 }]);
    expect(await bench().count('_sync_partitions', "entity = 'members' AND full_at IS NULL")).toBe(2);
    await second.finish();
    expect(JSON.stringify(await bench().ledger('SELECT proof FROM _sync_partitions'))).not.toContain(
      'list_id',
    );
    expect((await sink.history.connectors())[0]?.entities.length).toBe(2);
  });

  // Proves promise 3.2
  it('finds them where the listing that owns the row was not read in this run', async () => {
    const { begin, partMissing } = await runs();
    const a = [member('1', 'Ada')];
    const first = await begin('r1');
    await readBoth(first, { a, b: [] });
    await first.sweep();
    await first.finish();
    const second = await begin('r2');
    await readBoth(second, { a, b: [member('1', 'Bob')], marker: 'm2' });
    expect(await second.leftovers()).toBe(1);
    expect(await second.modes()).toEqual(['a full']);
    await second.read('a', { records: a });
    expect(await partMissing()).toMatchObject([
      { entity: members, listings: 2, doubt: { kind: 'collision' } },
    ]);
  });

  // Proves promise 3.2
  it('finds them without another read where the owner comes last, and reads one owner of several', async () => {
    const { begin, partMissing } = await runs();
    const first = await begin('r1');
    await readBoth(first, { a: [member('1', 'Ada')], b: [] });
    await first.finish();
    const second = await begin('r2', { isFull: true });
    const children = [membersOf('b'), membersOf('a'), membersOf('c'), membersOf('d')];
    await second.read(null, { records: ['a', 'b', 'c', 'd'].map(list), children });
    await second.read('b', { records: [member('1', 'Bob')] });
    await second.read('a', { records: [member('1', 'Ada')] });
    await second.read('c', { records: [member('2', 'Ada')] });
    await second.read('d', { records: [member('2', 'Bob')] });
    expect(await second.leftovers(), 'what is known of two holds for the others').toBe(0);
    expect(await partMissing()).toMatchObject([{ entity: members, listings: 4 }]);
  });

  // Proves promise 3.2
  it.for([
    ['moved during the run', [], ['Bob']],
    ['was edited during the run', ['Bob'], ['Bob']],
    ['is another one with every answer', ['Cleo'], ['Bob']],
    ['is equal in several listings', null, ['Ada']],
  ] as const)('finds nothing where a record %s', async ([, again, [inB]]) => {
    const { begin, status, partMissing } = await runs();
    const first = await begin('r1');
    await readBoth(first, { a: [member('1', 'Ada')], b: [member('1', inB)] });
    expect(await first.leftovers()).toBe(again === null ? 0 : 1);
    const records = again?.map((name) => member('1', name)) ?? [];
    if (again !== null) await first.read('a', { records, seal: found });
    expect(await first.leftovers()).toBe(0);
    expect(await partMissing()).toEqual([]);
    await first.sweep();
    expect(await status(members)).toMatchObject({ rows: 1, missing: 0, partMissing: null });
  });

  it('reads no long listing again for a record that moved between runs', async () => {
    const { begin, partMissing } = await runs();
    const a = Array.from({ length: 1_001 }, (_, index) => member(`${index}`, 'Ada'));
    const first = await begin('r1');
    await readBoth(first, { a, b: [] });
    await first.finish();
    const second = await begin('r2');
    await readBoth(second, { a, b: [member('1', 'Bob')], marker: 'm2' });
    expect(await second.leftovers()).toBe(0);
    expect(await partMissing()).toEqual([]);
  });
}
