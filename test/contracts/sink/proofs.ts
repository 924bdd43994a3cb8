import { expect, it as everywhere, it } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import type { PreparedRecord } from '../../../src/core/records.ts';
import type { EntityStatus } from '../../../src/sinks/ledger-reader.ts';
import type { Doubt, Absence } from '../../../src/sinks/partition.ts';
import type { Lease } from '../../../src/sinks/lease.ts';
import type { Sink } from '../../../src/sinks/sink-access.ts';
import type { PageCommit, RunPlan } from '../../../src/sinks/sink.ts';
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
  news,
  record,
  type Bench,
  walkFailure,
  hourMs,
  membersTable,
} from './fixture.ts';
import { type RunInHand, list, membersOf, readingOf, beginLists, settled, whole } from './run-in-hand.ts';
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

const root = partition(blocks, { block_id: 'page' }, { treeDepth: 0, rank: 1 });
const plan: Partial<RunPlan> = { tables: [blocksTable], entities: [blocks], roots: [root] };

const inner = (tree: number, id: string, depth = 1) =>
  partition(
    blocks,
    { block_id: id },
    { tree, treeDepth: depth, rank: 1 + depth, inject: { page_id: 'page' } },
  );
const block = (id: string) => record(blocksTable, { id, text: id });

async function ready(sink: Sink, lease: Lease) {
  const next = await sink.nextPartitions(lease, 10);
  return next.map(({ params, id, tree, treeDepth, position }) => {
    return { at: params['block_id'], id, tree, treeDepth, position };
  });
}

/** Walks the root listing to its end; it has two listings inside. */
async function withTwoInside(bench: Bench, absence: Absence = null) {
  const { sink, started, id, commit } = await bench.walking('r1', plan);
  const children = [inner(id, 'x'), inner(id, 'y')];
  const seal = { ...sealed, absence };
  await commit([block('x'), block('y')], { entity: blocks, children, seal });
  /** Stores a page of a listing inside. */
  const store = async (...[listing, records = [], change]: InsideOf) =>
    await sink.commit(started.lease, [
      page(started, listing?.id ?? 0, records, { entity: blocks, seal: sealed, ...change }),
    ]);
  return { sink, started, tree: id, store };
}

type InsideOf = [
  listing: { readonly id: number } | undefined,
  records?: readonly PreparedRecord[],
  change?: Partial<PageCommit>,
];

const entity = async (sink: Sink): Promise<unknown> => (await sink.history.connectors())[0]?.entities[0];

export function trees(kind: SinkKind): void {
  const bench = useBench(kind);
  const it = rulesOf(kind);

  it('seals a tree only when its own listing and every listing inside are read, and then forgets those', async () => {
    const { sink, started, tree, store } = await withTwoInside(bench());
    expect(await ready(sink, started.lease)).toMatchObject([
      { at: 'x', tree, treeDepth: 1 },
      { at: 'y', tree, treeDepth: 1 },
    ]);
    expect(await sink.left(started.lease), 'a part of the tree is no partition of its own').toEqual([
      { entity: blocks, partitions: 1 },
    ]);
    const [x, y] = await ready(sink, started.lease);
    await store(x, [block('z')], { children: [inner(tree, 'z', 2)] });
    await store(y);
    expect(await entity(sink)).toMatchObject({ partitions: 1, due: 1, lastSealedAt: null });
    const [z] = await ready(sink, started.lease);
    expect(z).toMatchObject({ at: 'z', treeDepth: 2 });
    await store(z);
    expect(await entity(sink)).toMatchObject({ partitions: 1, due: 0, lastSealedAt: instant(start) });
    expect(await ready(sink, started.lease)).toEqual([]);
    await expect(store(x)).rejects.toMatchObject({ code: 'FENCED' });
  });

  // Proves promise 1
  everywhere('resumes exactly the unread listings of a tree after a kill', async () => {
    const { sink, started, tree, store } = await withTwoInside(bench());
    const [x, y] = await ready(sink, started.lease);
    await store(x);
    await store(y, [block('z')], { seal: null, position: { kind: 'pageToken', token: 't' } });
    await started.lease[Symbol.asyncDispose]();
    const other = await bench().open();
    const lease = await other.acquire(identity());
    const next = { lease, run: 'r2' as typeof started.run };
    expect(await other.startRun(lease, bench().plan('r2', plan))).toMatchObject({
      run: 'r2',
      continues: 'r1',
      due: 1,
    });
    expect(await ready(other, lease)).toEqual([
      { at: 'y', id: y?.id, tree, treeDepth: 1, position: { kind: 'pageToken', token: 't' } },
    ]);
    await other.commit(lease, [page(next, y?.id ?? 0, [block('z')], { entity: blocks, seal: sealed })]);
    expect(await entity(other)).toMatchObject({ partitions: 1, due: 0 });
  });

  it('keeps a tree due while a listing inside is set aside, and tries that one again in the next run', async () => {
    const { sink, started, store } = await withTwoInside(bench());
    const [x, y] = await ready(sink, started.lease);
    await store(x);
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
      const { sink, started, tree, store } = await withTwoInside(bench(), own);
      for (const [index, one] of (await ready(sink, started.lease)).entries()) {
        const seal = { ...sealed, absence: index === 0 ? inside : 'nothing' } as const;
        await store(one, [], { seal });
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
      rawKey: expect.any(String) as string,
    });
    expect(await ready(sink, started.lease)).toEqual([
      { at: 'page', id: tree, tree: null, treeDepth: 0, position: null },
    ]);
    expect(await bench().count('_sync_partitions')).toBe(1);
  });
}

/** What is known of when an entity was last read completely. */
export function completeReads(kind: SinkKind): void {
  const bench = useBench(kind);
  const it = rulesOf(kind);

  async function twoLists() {
    const sinkOf = await bench().hold();
    const shown = async (): Promise<readonly (string | null)[]> => {
      const entities = (await sinkOf.sink.history.connectors())[0]?.entities ?? [];
      const at = (name: string): EntityStatus | undefined => entities.find(({ entity }) => entity === name);
      return [at(lists)?.lastCompleteReadAt ?? null, at(members)?.lastCompleteReadAt ?? null];
    };
    const begin = async (run: string, isFull = false): Promise<RunInHand> =>
      await beginLists(bench(), sinkOf, run, { isFull });
    const now = (): string => instant(bench().clock.now());
    return { shown, begin, now };
  }

  const found = (ids: readonly string[]) => ({
    records: ids.map(list),
    children: ids.map((id) => membersOf(id)),
  });

  // Proves promise 11.3
  everywhere('does not count an entity as read completely while one of its listings never was', async () => {
    const { shown, begin, now } = await twoLists();
    const first = await begin('r1');
    await first.read(null, { ...found(['a', 'b']), seal: null });
    await first.read('a');
    await first.read('b');
    expect(await shown(), 'the lists may still lead to other members').toEqual([null, null]);
    await first.read(null, found(['c']));
    expect(await shown()).toEqual([now(), null]);
    await first.finish('interrupted');
    expect(await shown()).toEqual([now(), null]);
    const next = await begin('r2');
    const earlier = instant(bench().clock.now() - hourMs);
    await next.read('c');
    expect(await shown(), 'as old as the listing read longest ago').toEqual([earlier, earlier]);
  });

  // Proves promise 11.3
  it('shows the complete read before while listings are read again, and where new ones are not read yet', async () => {
    const { shown, begin, now } = await twoLists();
    const first = await begin('r1');
    await first.read(null, found(['a', 'b']));
    await first.read('a');
    await first.read('b');
    await first.finish();
    const before = now();
    expect(await shown()).toEqual([before, before]);
    const again = await begin('r2', true);
    expect(await shown()).toEqual([before, before]);
    await again.read(null, found(['a', 'b']));
    await again.read('a');
    const againAt = now();
    expect(await shown(), 'one is as old as before').toEqual([now(), before]);
    await again.finish('interrupted');
    const third = await begin('r3', true);
    await third.read('b');
    await third.finish();
    const fourth = await begin('r4');
    await fourth.read(null, found(['a', 'b', 'c']));
    expect(await shown(), 'a new listing takes nothing from what a chain has read whole').toEqual([
      now(),
      againAt,
    ]);
  });
}

export function storedKeys(kind: SinkKind): void {
  const bench = useBench(kind);
  const ids = Array.from({ length: 50 }, (_, index) => String(index + 1).padStart(2, '0'));

  // Proves promise 4.1
  it('reports how many rows are stored, which records have one, and some that are spread over all', async () => {
    const first = await bench().walking();
    const { sink } = first;
    expect(await sink.stored.account(first.lease, members)).toEqual({ live: 0, isAdopted: false });
    const records = ids.map((one) => member(one));
    await first.commit(records, { seal: sealed });
    await sink.repair.tombstoneRecord(first.lease, first.run, members, member('01').keyText);
    expect(await sink.stored.spread(first.lease, members, 5), 'no sync has ended well').toEqual([]);
    bench().clock.advance(1000);
    await first.finish({ finishedAt: instant(bench().clock.now()) });
    await first.release();

    bench().clock.advance(1000);
    const second = await bench().walking('r2', {}, { sink });
    await second.commit([member('99')]);
    const { stored } = sink;
    expect(await stored.account(second.lease, members)).toEqual({ live: 50, isAdopted: false });
    const asked = ['01', '07', '99', '70'].map((one) => member(one));
    expect(await stored.known(second.lease, members, asked)).toBe(2);
    const ofOther = record(membersTable, { list_id: 'b', id: '07' });
    expect(await stored.known(second.lease, members, [ofOther])).toBe(0);
    const spread = await stored.spread(second.lease, members, 5);
    expect(spread.map(({ keyText }) => JSON.parse(keyText) as unknown)).toEqual(
      ['02', '11', '21', '31', '41'].map((one) => ['a', one]),
    );
    expect(spread[0]).toMatchObject({ params: {}, inject: {} });
    await second.release();
    const elsewhere = identity({ baseUrl: 'http://other' });
    await sink.repair.adopt(elsewhere, instant(bench().clock.now()));
    const third = await sink.acquire(elsewhere);
    await sink.startRun(third, bench().plan('r3'));
    expect(await stored.account(third, members)).toMatchObject({ isAdopted: true });
  });
}
