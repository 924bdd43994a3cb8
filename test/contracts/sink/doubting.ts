import { expect, it as everywhere } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import type { RunPlan } from '../../../src/sinks/sink.ts';
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
import { held, list, membersOf, readingOf, RunOfLists, settled, whole } from './lists-and-members.ts';
import { rulesOf, useBench } from './use-bench.ts';

/** What follows where the end of a walk proves nothing. */
export function doubting(kind: SinkKind): void {
  const bench = useBench(kind);
  const it = rulesOf(kind);
  const three: Doubt = { kind: 'total', total: 8, shown: 3 };
  const doubted = (doubt: Doubt = three) => ({ seal: whole({ doubt }) });

  async function runs() {
    const sinkOf = await held(bench());
    const begin = async (run: string, change: Partial<RunPlan> = {}): Promise<RunOfLists> =>
      await RunOfLists.start(bench(), sinkOf, run, change);
    const status = async (entity: string) =>
      (await sinkOf.sink.history.connectors())[0]?.entities.find((one) => one.entity === entity);
    const unproven = async () => await sinkOf.sink.unproven(sinkOf.lease);
    return { ...sinkOf, begin, status, unproven };
  }

  // Proves promise 3.1
  everywhere(
    'leaves everything as it was: what is missing, how fresh it is, when it was read, and how the next run reads it',
    async () => {
      const { sink, lease, begin, status, unproven } = await runs();
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
      expect(await unproven()).toEqual(found);
      const entities = [{ ...entityReport(lists, { fetched: 1, unchanged: 1 }), isProven: false }];
      const { run } = second;
      await sink.finish(lease, run, report({ lease, run }, { entities, unproven: found }));

      expect(await status(lists)).toMatchObject({
        rows: 2,
        missing: 0,
        unproven: { listings: 1, doubt: three },
      });
      expect((await status(lists))?.lastCompleteReadAt).toBe(before?.lastCompleteReadAt);
      expect(await sink.history.freshness(lease.connector)).toEqual(fresh);
      expect(await sink.history.overview()).toMatchObject([{ unproven: [{ entity: lists, listings: 1 }] }]);
      const third = await begin('r3', incremental);
      expect(await third.modes(), 'again in full').toEqual(['lists full']);
      await third.read(null, { records: [list('a')], seal: whole({ absence, watermark }) });
      await third.sweep();
      expect(await unproven()).toEqual([]);
      expect(await status(lists)).toMatchObject({ missing: 1, unproven: null });
      const fourth = await begin('r4', incremental);
      expect(await fourth.modes()).toEqual(['lists incremental']);
      await fourth.read(null, doubted());
      await fourth.finish();
      const fifth = await begin('r5', incremental);
      expect(await fifth.modes(), 'from the watermark before').toEqual(['lists incremental']);
      expect(await fifth.partition(null)).toMatchObject({ watermark });
    },
  );

  // Proves promise 3.1
  it('counts how many runs in a row have found the same', async () => {
    const { begin, unproven } = await runs();
    const counted: unknown[] = [];
    const other: Doubt = { ...three, shown: 4 };
    for (const [index, doubt] of [three, three, three, other, { kind: 'repeats' } as const].entries()) {
      const run = await begin(`r${index}`);
      await run.read(null, doubted(doubt));
      await run.finish();
      counted.push(...(await (await begin(`look${index}`)).ready()).map(({ mode }) => mode));
      const [found] = await unproven();
      counted.push(found?.runs);
    }
    expect(counted).toEqual(['full', 1, 'full', 2, 'full', 3, 'full', 1, 'full', 1]);
  });

  // Proves promise 3.1
  it('reads a listing below a record again, although nothing has changed there', async () => {
    const { begin, unproven } = await runs();
    const found = { records: [list('a'), list('b')] };
    const children = ['a', 'b'].map((id) => membersOf(id, settled('m1')));
    const first = await begin('r1');
    await first.read(null, { ...found, children });
    await first.read('a', { records: [member('1')], ...doubted() });
    await first.read('b');
    expect(await unproven()).toMatchObject([{ entity: members, listings: 1, params: { list_id: 'a' } }]);
    await first.finish();
    const second = await begin('r2');
    await second.read(null, { ...found, children });
    expect(await second.modes()).toEqual(['a full']);
    await second.read('a', { records: [member('1')] });
    expect(await unproven()).toEqual([]);
  });

  it('names of several listings the one that was found in the most runs', async () => {
    const { begin, unproven } = await runs();
    const children = ['a', 'b', 'c'].map((id) => membersOf(id));
    for (const shown of [3, 4]) {
      const run = await begin(`r${shown}`);
      await run.read(null, { records: [list('a')], children });
      await run.read('a', doubted({ kind: 'total', total: 900, shown }));
      await run.read('b', doubted());
      await run.read('c', doubted({ kind: 'repeats' }));
      const runs = shown === 3 ? 1 : 2;
      const named = shown === 3 ? { kind: 'total', total: 900, shown } : three;
      expect(await unproven()).toMatchObject([{ entity: members, listings: 3, runs, doubt: named }]);
      await run.finish();
    }
  });

  it('leaves out a listing of other settings, to which nothing leads now', async () => {
    const { begin, unproven } = await runs();
    const first = await begin('r1');
    await first.read(null, doubted());
    await first.finish();
    const roots = [partition(lists, { status: 'archived' })];
    await begin('r2', { roots, choices: 'archived' });
    expect(await unproven()).toEqual([]);
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
      expect(await sink.unproven(lease)).toEqual([
        { entity: blocks, listings: 1, params, doubt: three, runs },
      ]);
      const [stored] = await bench().ledger('SELECT sweep_origin, full_at FROM _sync_partitions');
      expect(stored).toEqual({ sweep_origin: null, full_at: null });
      await sink.finish(lease, started.run, report(at));
      bench().clock.advance(1_000);
    }
  });
}
