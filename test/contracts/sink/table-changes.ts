import { expect, it } from 'vitest';
import type { Column, EntityTable, FieldType } from '../../../src/core/records.ts';
import type { RunPlan } from '../../../src/sinks/sink.ts';
import {
  counts,
  identity,
  member,
  members,
  membersTable,
  onlyPartition,
  page,
  record,
  type SinkKind,
  type Started,
} from './fixture.ts';
import { useBench } from './use-bench.ts';

const retyped: FieldType = 'string';
const withColumns = (...columns: readonly Column[]): EntityTable => ({
  ...membersTable,
  columns: [...membersTable.columns, ...columns],
});
const planned = (table: EntityTable): Partial<RunPlan> => ({ tables: [table] });

export function tableChanges(kind: SinkKind): void {
  const bench = useBench(kind);

  it('adds a column that the definition now declares, and stores its values from then on', async () => {
    const sink = await bench().open();
    const { lease } = await bench().begin(sink, 'r1', planned(membersTable));
    const { id } = await onlyPartition(sink, lease);
    await sink.commit(lease, [page({ lease, run: 'r1' as Started['run'] }, id, [member('1')])]);
    const wider = withColumns({ name: 'city', type: 'string' });
    await sink.startRun(lease, bench().plan('r2', planned(wider)));
    const next = { lease, run: 'r2' as Started['run'] };
    const moved = record(wider, { list_id: 'a', id: '2', city: 'Kyiv' });
    await sink.commit(lease, [page(next, id, [moved])]);
    expect(await bench().rows(wider)).toMatchObject([
      { id: '1', name: 'Ada' },
      { id: '2', city: 'Kyiv' },
    ]);
  });

  it('still stores when the definition no longer declares a column, and clears it where the row is written again', async () => {
    const wider = withColumns({ name: 'city', type: 'string' });
    const sink = await bench().open();
    const { lease } = await bench().begin(sink, 'r1', planned(wider));
    const { id } = await onlyPartition(sink, lease);
    const first = record(wider, { list_id: 'a', id: '1', city: 'Kyiv' });
    await sink.commit(lease, [page({ lease, run: 'r1' as Started['run'] }, id, [first])]);
    await sink.startRun(lease, bench().plan('r2', planned(membersTable)));
    const next = { lease, run: 'r2' as Started['run'] };
    const [committed] = await sink.commit(lease, [
      page(next, id, [member('1', 'Ada', { extra: '{"city":"Kyiv"}' })]),
    ]);
    expect(committed?.counts[0]?.counts).toEqual(counts({ fetched: 1, updated: 1 }));
    const [row] = await bench().rows(wider);
    expect([row?.['city'] ?? null, row?.['_extra']]).toEqual([null, { city: 'Kyiv' }]);
  });

  it.each<[string, EntityTable]>([
    ['another key', { ...membersTable, key: ['id'] }],
    [
      'another type of a column',
      {
        ...membersTable,
        columns: membersTable.columns.map((one) => (one.name === 'visits' ? { ...one, type: retyped } : one)),
      },
    ],
  ])('refuses %s, and stays usable with the old definition', async (_what, changed) => {
    const sink = await bench().open();
    const lease = await sink.acquire(identity());
    await sink.startRun(lease, bench().plan('r1', planned(membersTable)));
    await expect(sink.startRun(lease, bench().plan('r2', planned(changed)))).rejects.toMatchObject({
      code: 'SINK_INCOMPATIBLE',
      context: { connector: 'news', entity: members },
    });
    await expect(sink.startRun(lease, bench().plan('r3', planned(membersTable)))).resolves.toMatchObject({
      run: 'r3',
    });
  });

  it('lets a column of one kind of JSON become another', async () => {
    const sink = await bench().open();
    const lease = await sink.acquire(identity());
    await sink.startRun(lease, bench().plan('r1', planned(withColumns({ name: 'more', type: 'object' }))));
    await expect(
      sink.startRun(lease, bench().plan('r2', planned(withColumns({ name: 'more', type: 'any' })))),
    ).resolves.toMatchObject({ run: 'r2' });
  });
}
