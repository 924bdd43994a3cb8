import { expect, it } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import type { RunId } from '../../../src/core/names.ts';
import type { Quarantined } from '../../../src/core/records.ts';
import {
  counts,
  hourMs,
  lists,
  listsTable,
  member,
  members,
  membersTable,
  news,
  onlyPartition,
  opens,
  opensTable,
  page,
  partition,
  sealed,
  record,
  rootOf,
  start,
  type SinkKind,
} from './fixture.ts';
import { useBench } from './use-bench.ts';
import { isLong } from '../../support/trials.ts';

export function committing(kind: SinkKind): void {
  const bench = useBench(kind);

  // Proves promise 1
  it('stores records, position and children together, and shows them all to a sink opened without a close', async () => {
    const { sink, started, id, commit } = await bench().walking('r1', {
      tables: [listsTable, membersTable],
      entities: [lists, members],
      roots: [rootOf(lists)],
    });
    const child = partition(members, { list_id: 'a' }, { rank: 1, inject: { list_id: 'a' } });
    const committed = await commit([record(listsTable, { id: 'a' })], {
      entity: lists,
      children: [child, child],
      position: { kind: 'offset', offset: 1, keys: ['a', 9_007_199_254_740_993n] },
    });
    expect(committed.newlyDue).toBe(1);
    expect(await bench().rows(listsTable)).toMatchObject([{ id: 'a' }]);
    const next = await sink.nextPartitions(started.lease, 5);
    expect(next).toMatchObject([
      { entity: members, params: { list_id: 'a' }, inject: { list_id: 'a' }, rank: 1, position: null },
      { id, position: { kind: 'offset', offset: 1, keys: ['a', 9_007_199_254_740_993n] } },
    ]);
    const other = await bench().open();
    const nothingGone = { deleted: 0, missing: 0, partMissing: null, files: null };
    const neverRead = { completeness: 'not-yet', lastSealedAt: null, lastCompleteReadAt: null };
    expect((await other.history.connectors())[0]?.entities).toEqual([
      { entity: 'lists', rows: 1, ...nothingGone, partitions: 1, due: 1, quarantined: 0, ...neverRead },
      {
        entity: 'members',
        rows: 0,
        ...nothingGone,
        partitions: 1,
        due: 1,
        quarantined: 0,
        ...neverRead,
      },
    ]);
  });

  it('gives the deepest partitions first, and a sealed one no more', async () => {
    const sink = await bench().open();
    const started = await bench().begin(sink, 'r1');
    const root = await onlyPartition(sink, started.lease);
    const children = [1, 3, 2].map((rank) => partition(members, { n: rank }, { rank }));
    await sink.commit(started.lease, [page(started, root.id, [], { children })]);
    const ranks = async (): Promise<number[]> =>
      (await sink.nextPartitions(started.lease, 3)).map(({ rank }) => rank);
    expect(await ranks()).toEqual([3, 2, 1]);
    const [deepest] = await sink.nextPartitions(started.lease, 1);
    await sink.commit(started.lease, [page(started, deepest?.id ?? 0, [], { seal: sealed })]);
    expect(await ranks()).toEqual([2, 1, 0]);
  });

  it('counts foreign records as duplicates and filtered ones as filtered, and stores neither', async () => {
    const { commit } = await bench().walking();
    const committed = await commit([member('1')], { fetched: 6, foreign: 2, filtered: 3 });
    expect(committed.counts).toEqual([
      { entity: members, counts: counts({ fetched: 6, inserted: 1, duplicate: 2, filtered: 3 }) },
    ]);
    expect(await bench().rows()).toHaveLength(1);
  });

  // Proves promise 5
  it('stores nothing of a commit in which one page does not add up', async () => {
    const { sink, started, id, commit } = await bench().walking();
    const pages = [
      page(started, id, [member('1')], { children: [partition(members, { n: 1 })] }),
      page(started, id, [member('2')], { fetched: 2 }),
    ];
    await expect(sink.commit(started.lease, pages)).rejects.toMatchObject({
      code: 'ACCOUNTING',
      recovery: 'stop',
    });
    expect(await bench().rows()).toEqual([]);
    expect(await onlyPartition(sink, started.lease)).toMatchObject({ id, position: null });
    const committed = await commit([member('1')]);
    expect(committed.counts[0]?.counts, 'no seen bit is left of it').toEqual(
      counts({ fetched: 1, inserted: 1 }),
    );
    expect(await bench().rows()).toMatchObject([{ id: '1', _seq: 1 }]);
  });

  it('turns a page committed twice into duplicates and moves nothing', async () => {
    const { sink, started, id } = await bench().walking();
    const children = [partition(members, { n: 1 }, { rank: 1 })];
    const first = page(started, id, [member('1')], { children });
    const last = page(started, id, [member('2')], { seal: sealed });
    await sink.commit(started.lease, [first, last]);
    bench().clock.advance(hourMs);
    const [again, end] = await sink.commit(started.lease, [first, last]);
    await sink.commit(started.lease, [first]);
    expect(again).toEqual({
      counts: [{ entity: members, counts: counts({ fetched: 1, duplicate: 1 }) }],
      newlyDue: 0,
    });
    expect(end?.counts[0]?.counts).toEqual(counts({ fetched: 1, duplicate: 1 }));
    expect((await sink.nextPartitions(started.lease, 5)).map(({ params }) => params)).toEqual([{ n: 1 }]);
    expect(await bench().rows()).toHaveLength(2);
    const status = (await sink.history.connectors())[0]?.entities.find(({ entity }) => entity === members);
    expect(status?.lastSealedAt).toBe(instant(start));
    const [stored] = await bench().ledger(`SELECT position, listed FROM _sync_partitions WHERE id = ${id}`);
    expect(stored).toEqual({ position: null, listed: 0 });
  });

  // Proves promise 7
  it('keeps a refused record whole and once, however often it comes', async () => {
    const { sink, started, id } = await bench().walking();
    const refused: Quarantined = {
      entity: members,
      reason: 'key-missing',
      detail: 'no id',
      record: '{"name":"x"}',
    };
    const inOpens: Quarantined = { ...refused, entity: opens };
    for (const run of ['r1', 'r1', 'r2'] as RunId[]) {
      if (run !== started.run) await sink.startRun(started.lease, bench().plan(run));
      const [committed] = await sink.commit(started.lease, [
        page({ ...started, run }, id, [], { fetched: 1, refused: [refused, inOpens] }),
      ]);
      expect(committed?.counts).toEqual([
        { entity: members, counts: counts({ fetched: 1, quarantined: 1 }) },
        { entity: opens, counts: counts({ fetched: 1, quarantined: 1 }) },
      ]);
    }
    expect(await sink.history.quarantine(news, 10)).toMatchObject([
      { entity: opens, record: '{"name":"x"}' },
      {
        entity: members,
        reason: 'key-missing',
        detail: 'no id',
        record: '{"name":"x"}',
        firstSeenAt: '2026-03-01T10:00:00.000Z',
      },
    ]);
  });

  it('refuses a page of a run that the lease is not in, among pages that are', async () => {
    const { sink, started, id } = await bench().walking();
    const stray = page({ ...started, run: 'r0' as typeof started.run }, id, [member('2')]);
    await expect(sink.commit(started.lease, [page(started, id, [member('1')]), stray])).rejects.toMatchObject(
      {
        code: 'FENCED',
      },
    );
    expect(await bench().rows()).toEqual([]);
  });

  it('refuses rows of an entity without a table, and a position that is too long', async () => {
    const { sink, started, id } = await bench().walking();
    const ownerless = page(started, id, [member('1')], {
      rows: [{ entity: lists, records: [record(listsTable, { id: 'a' })] }],
      fetched: 0,
    });
    await expect(sink.commit(started.lease, [ownerless])).rejects.toMatchObject({ code: 'INTERNAL' });
    const long = page(started, id, [], { position: { kind: 'offset', keys: 'k'.repeat(65_536) } });
    await expect(sink.commit(started.lease, [long])).rejects.toMatchObject({ code: 'INTERNAL' });
  });

  it('continues with thousands of rows in any order of row numbers', async () => {
    const many = isLong ? 40_000 : 10_000;
    const { sink, started, id, commit } = await bench().walking();
    const events = Array.from({ length: many }, (_, at) => record(opensTable, { id: '1', at: String(at) }));
    const rows = [
      { entity: members, records: [] },
      { entity: opens, records: events },
    ];
    await commit([], { rows });
    const backwards = [
      { entity: members, records: [] },
      { entity: opens, records: events.toReversed() },
    ];
    const again = await commit([], { rows: backwards });
    expect(again.counts[1]?.counts).toEqual(counts({ fetched: many, duplicate: many }));

    await sink.startRun(started.lease, bench().plan('r2', { continueAfter: instant(start) }));
    const next = { ...started, run: 'r2' as RunId };
    const [fresh] = await sink.commit(started.lease, [page(next, id, [], { rows: backwards })]);
    expect(fresh?.counts[1]?.counts).toEqual(counts({ fetched: many, unchanged: many }));
  });
}
