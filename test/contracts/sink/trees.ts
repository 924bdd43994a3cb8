import { expect, it as everywhere } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import type { Absence } from '../../../src/sinks/partition.ts';
import type { RunPlan } from '../../../src/sinks/sink.ts';
import type { Sink } from '../../../src/sinks/sink-access.ts';
import {
  blocks,
  blocksTable,
  identity,
  news,
  page,
  partition,
  sealed,
  record,
  start,
  type SinkKind,
  onlyPartition,
  type Bench,
  walkFailure,
} from './fixture.ts';
import { rulesOf, useBench } from './use-bench.ts';

const root = partition(blocks, { block_id: 'page' }, { treeDepth: 0, rank: 1 });
const plan: Partial<RunPlan> = { tables: [blocksTable], entities: [blocks], roots: [root] };

const inner = (tree: number, id: string, depth = 1) =>
  partition(
    blocks,
    { block_id: id },
    { tree, treeDepth: depth, rank: 1 + depth, inject: { page_id: 'page' } },
  );
const block = (id: string) => record(blocksTable, { id, text: id });

async function ready(
  sink: Awaited<ReturnType<Bench['open']>>,
  lease: Parameters<typeof sink.nextPartitions>[0],
) {
  const next = await sink.nextPartitions(lease, 10);
  return next.map(({ params, id, tree, treeDepth, position }) => ({
    at: params['block_id'],
    id,
    tree,
    treeDepth,
    position,
  }));
}

/** Walks the root listing to its end; it has two listings inside. */
async function withTwoInside(bench: Bench, absence: Absence = null) {
  const sink = await bench.open();
  const started = await bench.begin(sink, 'r1', plan);
  const tree = await onlyPartition(sink, started.lease);
  const children = [inner(tree.id, 'x'), inner(tree.id, 'y')];
  await sink.commit(started.lease, [
    page(started, tree.id, [block('x'), block('y')], {
      entity: blocks,
      children,
      seal: { ...sealed, absence },
    }),
  ]);
  return { sink, started, tree: tree.id };
}

const entity = async (sink: Sink): Promise<unknown> => (await sink.history.connectors())[0]?.entities[0];

export function trees(kind: SinkKind): void {
  const bench = useBench(kind);
  const it = rulesOf(kind);

  it('seals a tree only when its own listing and every listing inside are read, and then forgets those', async () => {
    const { sink, started, tree } = await withTwoInside(bench());
    expect(await ready(sink, started.lease)).toMatchObject([
      { at: 'x', tree, treeDepth: 1 },
      { at: 'y', tree, treeDepth: 1 },
    ]);
    expect(await sink.left(started.lease), 'a part of the tree is no partition of its own').toEqual([
      { entity: blocks, partitions: 1 },
    ]);
    const [x, y] = await ready(sink, started.lease);
    const below = [inner(tree, 'z', 2)];
    await sink.commit(started.lease, [
      page(started, x?.id ?? 0, [block('z')], { entity: blocks, children: below, seal: sealed }),
      page(started, y?.id ?? 0, [], { entity: blocks, seal: sealed }),
    ]);
    expect(await entity(sink)).toMatchObject({ partitions: 1, due: 1, lastSealedAt: null });
    const [z] = await ready(sink, started.lease);
    expect(z).toMatchObject({ at: 'z', treeDepth: 2 });
    await sink.commit(started.lease, [page(started, z?.id ?? 0, [], { entity: blocks, seal: sealed })]);
    expect(await entity(sink)).toMatchObject({ partitions: 1, due: 0, lastSealedAt: instant(start) });
    expect(await ready(sink, started.lease)).toEqual([]);
    await expect(
      sink.commit(started.lease, [page(started, x?.id ?? 0, [], { entity: blocks })]),
    ).rejects.toMatchObject({ code: 'FENCED' });
  });

  it('does not seal a tree whose inner listings are read while its own is not', async () => {
    const sink = await bench().open();
    const started = await bench().begin(sink, 'r1', plan);
    const tree = await onlyPartition(sink, started.lease);
    const more = page(started, tree.id, [block('x')], { entity: blocks, children: [inner(tree.id, 'x')] });
    await sink.commit(started.lease, [more]);
    const [x] = await ready(sink, started.lease);
    await sink.commit(started.lease, [page(started, x?.id ?? 0, [], { entity: blocks, seal: sealed })]);
    expect(await entity(sink)).toMatchObject({ due: 1 });
    const [repeated] = await sink.commit(started.lease, [more]);
    expect(repeated?.newlyDue, 'an inner listing that was read is not read again').toBe(0);
    await sink.commit(started.lease, [page(started, tree.id, [], { entity: blocks, seal: sealed })]);
    expect(await entity(sink)).toMatchObject({ partitions: 1, due: 0 });
  });

  // Proves promise 1
  everywhere('resumes exactly the unread listings of a tree after a kill', async () => {
    const { sink, started, tree } = await withTwoInside(bench());
    const [x, y] = await ready(sink, started.lease);
    await sink.commit(started.lease, [
      page(started, x?.id ?? 0, [], { entity: blocks, seal: sealed }),
      page(started, y?.id ?? 0, [block('z')], {
        entity: blocks,
        position: { kind: 'pageToken', token: 't' },
      }),
    ]);
    await started.lease[Symbol.asyncDispose]();
    const other = await bench().open();
    const lease = await other.acquire(identity());
    const next = { lease, run: 'r2' as typeof started.run };
    expect(await other.startRun(lease, bench().plan('r2', plan))).toMatchObject({
      run: 'r2',
      continues: 'r1',
      due: 1,
      found: [{ entity: blocks, parent: null, isTree: true, ready: 1 }],
    });
    expect(await ready(other, lease)).toEqual([
      { at: 'y', id: y?.id, tree, treeDepth: 1, position: { kind: 'pageToken', token: 't' } },
    ]);
    await other.commit(lease, [page(next, y?.id ?? 0, [block('z')], { entity: blocks, seal: sealed })]);
    expect(await entity(other)).toMatchObject({ partitions: 1, due: 0 });
  });

  it('keeps a tree due while a listing inside is set aside, and tries that one again in the next run', async () => {
    const { sink, started } = await withTwoInside(bench());
    const [x, y] = await ready(sink, started.lease);
    await sink.commit(started.lease, [page(started, x?.id ?? 0, [], { entity: blocks, seal: sealed })]);
    const why = walkFailure({
      code: 'NOT_FOUND',
      recovery: 'skip-partition',
      message: 'gone',
      at: instant(start),
    });
    await sink.setAside(started.lease, { partition: y?.id ?? 0, run: started.run }, why);
    expect(await ready(sink, started.lease)).toEqual([]);
    expect(await entity(sink)).toMatchObject({ due: 1, lastSealedAt: null });
    expect(await sink.history.failures(news, 5)).toEqual([
      { entity: blocks, params: { block_id: 'y' }, failure: why },
    ]);
    expect(await sink.startRun(started.lease, bench().plan('r2', plan))).toMatchObject({
      continues: 'r1',
      due: 1,
    });
    expect(await ready(sink, started.lease)).toMatchObject([{ at: 'y' }]);
  });

  it.each<[Absence, Absence, boolean]>([
    ['nothing', 'nothing', true],
    ['nothing', 'get', true],
    ['walk', 'nothing', true],
    ['nothing', null, false],
    [null, 'get', false],
  ])(
    'says of what it did not meet what its least certain listing says: %s and %s',
    async (own, inside, isSwept) => {
      const { sink, started, tree } = await withTwoInside(bench(), own);
      for (const [index, one] of (await ready(sink, started.lease)).entries()) {
        const seal = { ...sealed, absence: index === 0 ? inside : 'nothing' } as const;
        await sink.commit(started.lease, [page(started, one.id, [], { entity: blocks, seal })]);
      }
      const [stored] = await bench().ledger(
        `SELECT absence, full_at, sweep_origin FROM _sync_partitions WHERE id = ${tree}`,
      );
      expect(stored).toEqual({
        absence: [null, 'walk', 'get', 'nothing'].find((one) => one === own || one === inside),
        full_at: isSwept ? null : instant(start),
        sweep_origin: isSwept ? expect.any(Number) : null,
      });
    },
  );

  it('drops half-read trees in a fresh start', async () => {
    const { sink, started, tree } = await withTwoInside(bench());
    bench().clock.advance(1);
    const late = bench().plan('r2', { ...plan, continueAfter: instant(bench().clock.now()) });
    expect(await sink.startRun(started.lease, late)).toEqual({
      run: 'r2',
      continues: null,
      due: 1,
      isFull: false,
      earlier: [],
      wrote: [],
      found: [],
      rawKey: expect.any(String) as string,
    });
    expect(await ready(sink, started.lease)).toEqual([
      { at: 'page', id: tree, tree: null, treeDepth: 0, position: null },
    ]);
    expect(await bench().count('_sync_partitions')).toBe(1);
  });
}
