import { expect, it } from 'vitest';
import type { RunId } from '../../../src/core/names.ts';
import {
  counts,
  lists,
  listsTable,
  member,
  members,
  membersTable,
  partition,
  record,
  rootOf,
  type SinkKind,
} from './fixture.ts';
import type { Partition } from '../../../src/sinks/partition.ts';
import { useRuns, type Shown } from './run-in-hand.ts';
import { useBench } from './use-bench.ts';

const plan = { tables: [listsTable, membersTable], entities: [lists, members], roots: [rootOf(lists)] };
const outside = {
  kind: 'undelete',
  window: 'undelete',
  entities: [],
  roots: [],
  tables: plan.tables,
} as const;

/** Lists lead to members; `a` holds three. */
const showing =
  (ids: readonly string[]) =>
  ({ entity, params }: Pick<Partition, 'entity' | 'params'>): Shown =>
    entity === lists
      ? {
          records: ids.map((id) => record(listsTable, { id })),
          children: ids.map((id) =>
            partition(members, { list_id: id }, { rank: 1, parent: { entity: lists, keyText: `["${id}"]` } }),
          ),
        }
      : { records: params['list_id'] === 'a' ? ['1', '2', '3'].map((id) => member(id)) : [] };

export function undeleting(kind: SinkKind): void {
  const bench = useBench(kind);
  const status = async (sink: Awaited<ReturnType<typeof useRuns>>['sink']) =>
    (await sink.history.connectors())[0]?.entities.map(({ entity, rows, deleted }) => ({
      entity,
      rows,
      deleted,
    }));

  /** A list has gone with its members in run r2. */
  async function gone() {
    const runs = await useRuns(bench(), plan);
    await (await runs.sweep('r1', showing(['a', 'b']))).finish();
    const hand = await runs.sweep('r2', showing(['b']));
    await hand.tombstone([lists, members]);
    await hand.finish();
    return runs;
  }

  it('stores and tombstones single records outside a walk, and counts them', async () => {
    const { sink, lease, begin } = await useRuns(bench(), plan);
    const hand = await begin('r1', { ...outside, kind: 'refetch' });
    const { run } = hand.started;
    expect(await sink.repair.storeRecord(lease, run, members, member('1'))).toEqual(
      counts({ fetched: 1, inserted: 1 }),
    );
    expect(await sink.repair.storeRecord(lease, run, members, member('1', 'Grace'))).toEqual(
      counts({ fetched: 1, updated: 1 }),
    );
    hand.count(members, counts({ fetched: 2, inserted: 1, updated: 1 }));
    expect(await sink.repair.tombstoneRecord(lease, run, members, '["a","9"]')).toBe(false);
    expect(await sink.repair.tombstoneRecord(lease, run, members, '["a","1"]')).toBe(true);
    expect(await sink.repair.tombstoneRecord(lease, run, members, '["a","1"]')).toBe(false);
    expect(await status(sink)).toEqual([
      { entity: lists, rows: 0, deleted: 0 },
      { entity: members, rows: 0, deleted: 1 },
    ]);
    await hand.finish();
    expect(await bench().rows()).toEqual([]);
  });

  it('walks what lies below a record again that was stored back outside a walk', async () => {
    const { sink, lease, begin, sweep } = await gone();
    const hand = await begin('r3', { ...outside, kind: 'refetch' });
    await sink.repair.storeRecord(lease, hand.started.run, lists, record(listsTable, { id: 'a' }));
    hand.count(lists, counts({ fetched: 1, updated: 1 }));
    await hand.finish();
    const walked: unknown[] = [];
    const next = await sweep('r4', (one) => {
      walked.push(one.params['list_id'] ?? 'lists');
      return one.entity === lists ? { records: [], absence: null } : showing([])(one);
    });
    expect(walked).toContain('a');
    await next.finish();
    expect(await bench().rows(membersTable)).toHaveLength(3);
  });

  // Proves promise 13
  it('takes back the tombstones of one run in batches', async () => {
    const { sink, lease, begin } = await gone();
    const before = (await bench().rows(listsTable)).length;
    const hand = await begin('r3', outside);
    const { run } = hand.started;
    const of = 'r2' as RunId;
    expect(await sink.repair.undelete(lease, run, 'r1' as RunId, 9)).toEqual({ rows: [], isDone: true });
    expect(await sink.repair.undelete(lease, run, of, 2)).toEqual({
      rows: [
        { entity: lists, rows: 1 },
        { entity: members, rows: 1 },
      ],
      isDone: false,
    });
    expect(await sink.repair.undelete(lease, run, of, 3)).toEqual({
      rows: [{ entity: members, rows: 2 }],
      isDone: true,
    });
    await hand.finish();
    expect(await bench().rows(listsTable)).toHaveLength(before + 1);
    expect(await bench().rows()).toMatchObject(
      ['1', '2', '3'].map((id) => ({ id, name: 'Ada', _run_id: 'r3' })),
    );
    expect(await status(sink)).toEqual([
      { entity: lists, rows: 2, deleted: 0 },
      { entity: members, rows: 3, deleted: 0 },
    ]);
    const next = await begin('r4');
    await next.walk(showing(['a', 'b']));
    await next.sweep();
    expect(await next.tombstone([lists, members]), 'and they stay').toEqual({ lists: 0, members: 0 });
  });
}
