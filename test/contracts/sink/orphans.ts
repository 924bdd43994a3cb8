import { expect, it as everywhere } from 'vitest';
import type { EntityName } from '../../../src/core/names.ts';
import type { EntityTable, PreparedRecord } from '../../../src/core/records.ts';
import type { Judgement } from '../../../src/sinks/deletes.ts';
import type { FoundPartition, Partition } from '../../../src/sinks/partition.ts';
import type { RunPlan } from '../../../src/sinks/sink.ts';
import { counts, dayMs, news, partition, reading, record, rootOf, type SinkKind } from './fixture.ts';
import { param, useRuns, type RunInHand, type Shown } from './run-in-hand.ts';
import { rulesOf, useBench } from './use-bench.ts';

const pages = 'pages' as EntityName;
const blocks = 'blocks' as EntityName;
const comments = 'comments' as EntityName;
const all = [pages, blocks, comments];

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

const plan: Partial<RunPlan> = {
  tables: all.map(tableOf),
  entities: all,
  roots: [rootOf(pages)],
};
/** A block that its page does not show may be on another one. */
const moving: Partial<RunPlan> = {
  ...plan,
  reading: new Map(all.map((one) => [one, reading({ mayMove: one === blocks })])),
};
/** The rows of `entity` stay when the record that led to them is gone. */
const keeping = (entity: EntityName): Partial<RunPlan> => ({
  keeps: [entity],
});

export function orphans(kind: SinkKind): void {
  const bench = useBench(kind);
  const it = rulesOf(kind);
  const ids = async (): Promise<Readonly<Record<string, readonly unknown[]>>> => {
    const found: Record<string, readonly unknown[]> = {};
    for (const entity of all) {
      found[entity] = (await bench().rows(tableOf(entity))).map(({ id }) => id);
    }
    return found;
  };
  const partitions = async (sql: string): Promise<readonly unknown[]> =>
    (await bench().ledger(`SELECT ${sql}`)).flatMap((row) => Object.values(row));

  // Proves promise 4
  it('tombstones what lies below a vanished record, at any depth, though nothing of it was read', async () => {
    const { sink, sweep } = await useRuns(bench(), plan);
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
    expect(await hand.tombstone(all, 1)).toEqual({ pages: 1, blocks: 2, comments: 3 });
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
      expect(await hand.tombstone(all, 1)).toMatchObject({ pages: 1, blocks: 0 });
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
        { row: asked[0]?.row ?? 0, verdict: 'there', record: null, isUnlisted: false },
        { row: asked[1]?.row ?? 0, verdict: 'gone' },
      ]);
      expect(await hand.tombstone(all, 1)).toMatchObject({ comments: 1 });
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

  it('counts rows below a vanished record neither as missing nor as live', async () => {
    const { sink, lease, sweep } = await useRuns(bench(), plan);
    await (await sweep('r1', showing(full))).finish();
    const hand = await sweep('r2', showing({ p2: { b3: [] }, p3: {} }));
    expect(await hand.missing(blocks)).toMatchObject({ live: 4, missing: 1 });
    expect(await sink.deletes.tombstone(lease, hand.started.run, pages, 'all', 9)).toBe(1);
    expect(await hand.missing(blocks)).toMatchObject({ live: 2, missing: 1 });
  });

  // Proves promise 4
  it('weighs all that would go along, of entities that the run does not read too, and notes it with the first delete', async () => {
    const { sink, lease, sweep } = await useRuns(bench(), { ...plan, keeps: [] });
    await (await sweep('r1', showing(full))).finish();
    const few = { entities: [pages], tables: [tableOf(pages)] };
    const hand = await sweep('r2', showing(without(full, 'p1')), few);
    const along = [
      { entity: blocks, rows: 2 },
      { entity: comments, rows: 3 },
    ];
    expect(await hand.missing(pages)).toMatchObject({ missing: 1, dayAgo: 3, deletedInDay: 0, along });
    expect(await hand.missing(comments)).toMatchObject({ missing: 0, live: 4, dayAgo: 4, deletedInDay: 0 });
    await sink.deletes.tombstone(lease, hand.started.run, pages, 'all', 9);
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
    const { sink, lease, sweep } = await useRuns(bench(), plan);
    await (await sweep('r1', showing(full))).finish();
    const hand = await sweep('r2', showing(without(full, 'p1')));
    await sink.deletes.allow(lease, hand.started.run, pages);
    expect(await hand.missing(pages)).toMatchObject({ missing: 1, allowed: 1, along: [] });
    expect(await hand.tombstone(all)).toEqual({ pages: 1, blocks: 2, comments: 3 });
    await hand.finish();
    const next = await sweep('r3', showing({ p3: {} }));
    expect(await next.missing(pages)).toMatchObject({ live: 2, dayAgo: 2, deletedInDay: 0 });
    expect((await next.missing(pages))?.along).toEqual([
      { entity: blocks, rows: 2 },
      { entity: comments, rows: 1 },
    ]);
  });

  it('resumes after a kill with the remaining rows below a vanished record', async () => {
    const { sink, lease, sweep, begin } = await useRuns(bench(), plan);
    await (await sweep('r1', showing(full))).finish();
    const hand = await sweep('r2', showing(without(full, 'p1')));
    expect(await sink.deletes.tombstone(lease, hand.started.run, pages, 'all', 9)).toBe(1);
    expect(await sink.deletes.tombstoneBelow(lease, hand.started.run, 1)).toEqual([
      { entity: blocks, rows: 1 },
    ]);
    const next = await begin('r3');
    await next.walk(showing(without(full, 'p1')));
    await next.sweep();
    expect(await next.missing(blocks), 'what is being deleted is neither missing nor live').toBeUndefined();
    await next.tombstone([]);
    expect(await ids()).toEqual({ pages: ['p2', 'p3'], blocks: ['b3', 'b4'], comments: ['c4'] });
  });

  everywhere(
    'forgets how far the partitions of a vanished record were read, and restarts them when it returns',
    async () => {
      const { sink, sweep, begin } = await useRuns(bench(), plan);
      await (await sweep('r1', showing(full))).finish();
      const hand = await sweep('r2', showing(without(full, 'p1')));
      await hand.tombstone(all);
      await hand.finish();
      const known = 'coalesce(full_at, CAST(full_origin AS TEXT), watermark, marker, position, due_since)';
      expect(await partitions(`${known} FROM _sync_partitions WHERE gone = 2`)).toEqual([null, null, null]);
      const back = await begin('r3');
      await back.walk(showing(full));
      await back.sweep();
      await back.tombstone(all);
      await back.finish();
      expect(await ids()).toEqual({
        pages: ['p1', 'p2', 'p3'],
        blocks: ['b1', 'b2', 'b3', 'b4'],
        comments: ['c1', 'c2', 'c3', 'c4'],
      });
      expect((await sink.history.connectors())[0]?.entities.map(({ deleted }) => deleted)).toEqual([0, 0, 0]);
      expect(await partitions('count(*) FROM _sync_partitions WHERE gone > 0')).toEqual([0]);
    },
  );

  it('keeps a row that another partition shows too, and makes that one its owner', async () => {
    const { sweep } = await useRuns(bench(), plan);
    const shared: World = { p1: { b1: [], b2: [] }, p2: { b2: [], b3: [] }, p3: {} };
    await (await sweep('r1', showing(shared))).finish();
    const hand = await sweep('r2', showing(without(shared, 'p1')));
    expect(await hand.tombstone(all)).toMatchObject({ blocks: 1 });
    await hand.finish();
    expect(await ids()).toMatchObject({ pages: ['p2', 'p3'], blocks: ['b2', 'b3'] });
    const next = await sweep('r3', showing({ p3: {} }));
    await next.tombstone(all);
    expect(await ids(), 'and from there it goes').toMatchObject({ pages: ['p3'], blocks: [] });
  });

  it('deletes a row whose other partition lies below a deleted record too', async () => {
    const { sweep } = await useRuns(bench(), plan);
    const shared: World = { p1: { b1: [], b2: [] }, p2: { b2: [], b3: [] }, p3: {} };
    await (await sweep('r1', showing(shared))).finish();
    const hand = await sweep('r2', showing({ p3: {} }));
    expect(await hand.tombstone(all, 100), 'both partitions are emptied at once').toMatchObject({
      pages: 2,
      blocks: 3,
    });
    expect(await ids()).toMatchObject({ pages: ['p3'], blocks: [] });
  });

  it('leaves rows of an entity that keeps its rows', async () => {
    const { sweep } = await useRuns(bench(), { ...plan, ...keeping(comments) });
    await (await sweep('r1', showing(full))).finish();
    const hand = await sweep('r2', showing(without(full, 'p1')));
    expect(await hand.tombstone(all)).toEqual({ pages: 1, blocks: 2, comments: 0 });
    expect(await ids()).toMatchObject({ blocks: ['b3', 'b4'], comments: ['c1', 'c2', 'c3', 'c4'] });
  });

  it('leaves rows of entities that the plan does not read to a run that does', async () => {
    const { sweep } = await useRuns(bench(), plan);
    await (await sweep('r1', showing(full))).finish();
    const few = { entities: [pages], tables: [tableOf(pages)] };
    const hand = await sweep('r2', showing(without(full, 'p1')), few);
    expect(await hand.tombstone([pages])).toEqual({ pages: 1 });
    await hand.finish();
    expect(await ids()).toMatchObject({ pages: ['p2', 'p3'], blocks: ['b1', 'b2', 'b3', 'b4'] });
    const next = await sweep('r3', showing(without(full, 'p1')));
    expect(await next.tombstone(all)).toEqual({ pages: 0, blocks: 2, comments: 3 });
  });

  it('forgets the half-read tree below a vanished record', async () => {
    const { sink, lease, sweep, begin } = await useRuns(bench(), plan);
    await (await sweep('r1', showing(full))).finish();
    const hand = await begin('r2');
    const [root] = await sink.nextPartitions(lease, 1);
    if (root === undefined) throw new Error('No root');
    await hand.walkOne(root, showing(full)(root));
    const [first] = await sink.nextPartitions(lease, 1);
    if (first === undefined) throw new Error('No blocks');
    const inner = partition(blocks, { of: 'inside' }, { tree: first.id, treeDepth: 1, rank: 2 });
    await hand.walkOne(first, { records: [], children: [inner] });
    const gone = param(first, 'of');
    expect(await sink.repair.tombstoneRecord(lease, hand.started.run, pages, JSON.stringify([gone]))).toBe(
      true,
    );
    expect(await partitions('count(*) FROM _sync_partitions WHERE tree IS NOT NULL')).toEqual([0]);
    const next = await sink.nextPartitions(lease, 9);
    expect(next.map(({ params }) => params['of'])).not.toContain(gone);
    expect(await sink.history.missing(news, 9)).toEqual([]);
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
    const { sink, lease, sweep } = await useRuns(bench(), plan);
    await (await sweep('r1', showing(full))).finish();
    const shown = isUnlisted ? showing(without(full, 'p1')) : rested;
    const hand = await sweep('r2', (one) => ({ ...shown(one), absence: 'get' }));
    const judge = async (run: RunInHand['started']['run'], verdict: Judgement['verdict']) => {
      const asked = await sink.deletes.toConfirm(lease, run, pages, 9);
      expect(asked).toHaveLength(isUnlisted ? 1 : 0);
      const said = { verdict, record: null, isUnlisted: true };
      const judgements = asked.map(({ row: number }) => ({ row: number, ...said }));
      await sink.deletes.judge(lease, run, pages, judgements);
    };
    await judge(hand.started.run, 'there');
    await hand.finish();
    bench().clock.advance(31 * dayMs);
    await (await sweep('r3', (one) => ({ ...shown(one), absence: 'get' }))).finish();
    expect(await ids(), 'what lies below it stays as it was').toMatchObject({
      blocks: ['b1', 'b2', 'b3', 'b4'],
    });
    const last = await sweep('r4', showing(without(full, 'p1')));
    await judge(last.started.run, 'gone');
    await last.tombstone(all);
    expect(await ids()).toEqual({ pages: ['p2', 'p3'], blocks: ['b3', 'b4'], comments: ['c4'] });
  });

  everywhere('goes with a record that vanishes a second time', async () => {
    const { sink, lease, sweep, begin } = await useRuns(bench(), plan);
    await (await sweep('r1', showing(full))).finish();
    const hand = await sweep('r2', showing(without(full, 'p1')));
    await hand.tombstone(all);
    await hand.finish();
    // It is back without what lies below it, of which a person fetches a part.
    await (await sweep('r3', rested)).finish();
    const refetch = await begin('r4', { kind: 'refetch', window: 'refetch', entities: [], roots: [] });
    await sink.repair.storeRecord(lease, refetch.started.run, blocks, row(blocks, 'b1'));
    refetch.count(blocks, counts({ fetched: 1, updated: 1 }));
    await refetch.finish();
    expect(await ids()).toMatchObject({ pages: ['p1', 'p2', 'p3'], blocks: ['b1', 'b3', 'b4'] });
    const last = await sweep('r5', showing(without(full, 'p1')));
    await last.tombstone(all);
    expect(await ids()).toMatchObject({ pages: ['p2', 'p3'], blocks: ['b3', 'b4'] });
  });
}
