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
import type { PreparedRecord } from '../../../src/core/records.ts';
import type { UndoneRows } from '../../../src/sinks/repair.ts';
import type { RunPlan } from '../../../src/sinks/sink.ts';
import { useRuns, type RunInHand, type Shown } from './run-in-hand.ts';
import { useBench } from './use-bench.ts';

const plan = { tables: [listsTable, membersTable], entities: [lists, members], roots: [rootOf(lists)] };
const outside = {
  kind: 'undo',
  window: 'undo',
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

export function undoing(kind: SinkKind): void {
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

  /** What an undo of all entities gives, in batches of two rows, by entity. */
  const undone = async (hand: RunInHand, of: string): Promise<Readonly<Record<string, UndoneRows>>> => {
    const { sink, started } = hand;
    const all: Record<string, UndoneRows> = {};
    for (const entity of [lists, members]) {
      for (let after: number | null = 0; after !== null;) {
        const place = { entity, after, limit: 2 };
        const batch: UndoneRows = await sink.repair.undo(started.lease, started.run, of as RunId, place);
        const before = all[entity];
        const plus = (key: 'deleted' | 'revived' | 'restored'): number => (before?.[key] ?? 0) + batch[key];
        const keys = [...(before?.kept.keys ?? []), ...batch.kept.keys];
        all[entity] = {
          ...batch,
          deleted: plus('deleted'),
          revived: plus('revived'),
          restored: plus('restored'),
          kept: { rows: keys.length, keys },
        };
        after = batch.next;
      }
    }
    return all;
  };
  const names = async (): Promise<readonly string[]> =>
    (await bench().rows()).map((row) => `${row['id'] as string} ${row['name'] as string}`).toSorted();
  const nothing = { deleted: 0, revived: 0, restored: 0, kept: { rows: 0 }, changedSince: { rows: 0 } };

  // Proves promise 13
  it('takes back the tombstones of one run in batches', async () => {
    const { begin } = await gone();
    const before = (await bench().rows(listsTable)).length;
    const hand = await begin('r3', outside);
    expect(await undone(hand, 'r2')).toMatchObject({
      lists: { ...nothing, revived: 1 },
      members: { ...nothing, revived: 3 },
    });
    expect(await undone(hand, 'r2'), 'a second time').toMatchObject({ lists: nothing, members: nothing });
    await hand.finish();
    expect(await bench().rows(listsTable)).toHaveLength(before + 1);
    expect(await bench().rows()).toMatchObject(
      ['1', '2', '3'].map((id) => ({ id, name: 'Ada', _run_id: 'r3' })),
    );
    expect(await status(hand.sink)).toEqual([
      { entity: lists, rows: 2, deleted: 0 },
      { entity: members, rows: 3, deleted: 0 },
    ]);
    const next = await begin('r4');
    await next.walk(showing(['a', 'b']));
    await next.sweep();
    expect(await next.tombstone([lists, members]), 'and they stay').toEqual({ lists: 0, members: 0 });
  });

  /** r1 stores 1, 2 and 3; r2 changes 1 and 2, adds 4 and 5, deletes 3; r3 changes 2 and 5. */
  async function written(change: Partial<RunPlan> = {}) {
    const ofMembers = {
      ...change,
      tables: [listsTable, membersTable],
      entities: [members],
      roots: [rootOf(members)],
    };
    const runs = await useRuns(bench(), ofMembers);
    const shown =
      (...records: readonly PreparedRecord[]) =>
      () => ({ records });
    await (await runs.sweep('r1', shown(member('1'), member('2'), member('3')))).finish();
    const wrong = [member('1', 'Eve'), member('2', 'Eve'), member('4', 'Eve'), member('5', 'Eve')];
    const second = await runs.sweep('r2', shown(...wrong));
    await second.tombstone([members]);
    await second.finish();
    const later = [member('1', 'Eve'), member('2', 'Grace'), member('4', 'Eve'), member('5', 'Grace')];
    await (await runs.sweep('r3', shown(...later))).finish();
    return { ...runs, shown };
  }

  // Proves promise 13.1
  it('marks what a run inserted as deleted, names what it cannot restore, and has that read again in full', async () => {
    const { begin, shown } = await written();
    const hand = await begin('r4', outside);
    const found = {
      deleted: 1,
      revived: 1,
      restored: 0,
      kept: { rows: 1, keys: ['["a","1"]'] },
      changedSince: { rows: 1, keys: ['["a","5"]'] },
    };
    expect((await undone(hand, 'r2'))['members']).toMatchObject(found);
    expect(await names()).toEqual(['1 Eve', '2 Grace', '3 Ada', '5 Grace']);
    expect((await undone(hand, 'r2'))['members'], 'a second time').toMatchObject({
      ...found,
      deleted: 0,
      revived: 0,
    });
    await hand.finish();
    const next = await begin('r5');
    const modes: unknown[] = [];
    await next.walk((one) => {
      modes.push(one.mode);
      return shown(member('1'), member('2', 'Grace'), member('3'))();
    });
    await next.finish();
    expect(modes).toEqual(['full']);
    expect(await names()).toEqual(['1 Ada', '2 Grace', '3 Ada', '5 Grace']);
  });

  // Proves promise 13.1
  it('restores what a run updated, deleted and revived from the versions that are kept', async () => {
    const { begin, sweep, shown } = await written({ versions: new Set([members]) });
    const hand = await begin('r4', { ...outside, versions: new Set([members]) });
    expect((await undone(hand, 'r2'))['members']).toMatchObject({
      deleted: 1,
      revived: 1,
      restored: 1,
      kept: { rows: 0 },
      changedSince: { rows: 2, keys: ['["a","2"]', '["a","5"]'] },
    });
    await hand.finish();
    expect(await names()).toEqual(['1 Ada', '2 Grace', '3 Ada', '5 Grace']);
    const versions = await bench().ledger(
      `SELECT name, _deleted_at FROM news__members__history WHERE id = '1' ORDER BY _seq`,
    );
    expect(versions.map(({ name }) => name)).toEqual(['Ada', 'Eve', 'Ada']);
    // Its own hash: the same record is no change.
    const same = await sweep(
      'r5',
      shown(member('1'), member('2', 'Grace'), member('3'), member('5', 'Grace')),
    );
    await same.finish();
    expect(await bench().rows()).toMatchObject([{ id: '1', _run_id: 'r4' }, {}, {}, {}]);

    // r6 revives 4 with other content: undone, it is deleted again.
    const all = [
      member('1'),
      member('2', 'Grace'),
      member('3'),
      member('4', 'Mallory'),
      member('5', 'Grace'),
    ];
    await (await sweep('r6', shown(...all))).finish();
    const again = await begin('r7', { ...outside, versions: new Set([members]) });
    expect((await undone(again, 'r6'))['members']).toMatchObject({ ...nothing, deleted: 1 });
    await again.finish();
    expect(await names()).toEqual(['1 Ada', '2 Grace', '3 Ada', '5 Grace']);
  });

  it('restores no version that is not the one before the run', async () => {
    const { begin, shown } = await written({ versions: new Set([members]) });
    const now = [member('2', 'Grace'), member('4', 'Eve'), member('5', 'Grace')];
    // Without versions the row changes twice; only the second change is undone.
    for (const [run, name] of [
      ['r4', 'Ada'],
      ['r5', 'Mallory'],
    ] as const) {
      const hand = await begin(run, {
        versions: new Set(),
        tables: [membersTable],
        entities: [members],
        roots: [rootOf(members)],
      });
      await hand.walk(shown(member('1', name), ...now));
      await hand.finish();
    }
    const hand = await begin('r6', { ...outside, versions: new Set() });
    expect((await undone(hand, 'r5'))['members']).toMatchObject({
      restored: 0,
      kept: { keys: ['["a","1"]'] },
    });
    await hand.finish();
  });
}
