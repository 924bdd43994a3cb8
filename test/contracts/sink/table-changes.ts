import { expect, it } from 'vitest';
import type { Column, EntityTable, FieldType } from '../../../src/core/records.ts';
import type { RunPlan } from '../../../src/sinks/sink.ts';
import {
  counts,
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

const retyped: FieldType = 'boolean';
const retypedTo: FieldType = 'string';
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
    const { sink, lease } = await bench().hold();
    await sink.startRun(lease, bench().plan('r1', planned(membersTable)));
    await expect(sink.startRun(lease, bench().plan('r2', planned(changed)))).rejects.toMatchObject({
      code: 'SINK_INCOMPATIBLE',
      context: { connector: 'news', entity: members },
    });
    await expect(sink.startRun(lease, bench().plan('r3', planned(membersTable)))).resolves.toMatchObject({
      run: 'r3',
    });
  });

  it('makes texts of columns that are declared as texts now, in deleted rows and versions too', async () => {
    const after = {
      ...membersTable,
      columns: membersTable.columns.map((one) => ({ ...one, type: retypedTo })),
    };
    const versions = new Set([members]);
    const sink = await bench().open();
    const first = await bench().begin(sink, 'r1', { ...planned(membersTable), versions });
    const { id } = await onlyPartition(sink, first.lease);
    const one = {
      list_id: 'a',
      id: '1',
      name: 'Ada',
      score: 0.1 + 0.2,
      vip: 1,
      tags: '[1,"b"]',
      anything: '"text"',
    };
    const rows = [
      record(membersTable, { ...one, visits: 9007199254740993n }),
      record(membersTable, { list_id: 'a', id: '2', vip: 0, address: '{"a":1}' }),
      record(membersTable, { list_id: 'a', id: '3', score: 1 }),
    ];
    await sink.commit(first.lease, [page(first, id, rows)]);
    await sink.commit(first.lease, [page(first, id, [record(membersTable, { ...one, visits: 2 })])]);
    await sink.repair.tombstoneRecord(first.lease, first.run, members, '["a","2"]');
    const tableId = async () =>
      await bench().ledger(`SELECT table_id FROM _sync_tables WHERE entity = 'members'`);
    const before = await tableId();
    await sink.startRun(first.lease, bench().plan('r2', { ...planned(after), versions }));
    expect(await tableId()).not.toEqual(before);
    const columns = 'visits, score, vip, address, tags, anything';
    const texts = async (table: string): Promise<readonly unknown[]> =>
      (await bench().ledger(`SELECT ${columns} FROM ${table} ORDER BY _row, _seq`)).map((row) =>
        Object.values(row),
      );
    const rest = ['0.30000000000000004', 'true', null, '[1,"b"]', 'text'];
    const stored = [
      ['2', ...rest],
      [null, null, 'false', '{"a":1}', null, null],
      [null, '1', null, null, null, null],
    ];
    expect(await texts('news__members')).toEqual(stored);
    expect(await texts('news__members__history')).toEqual([
      ['9007199254740993', ...rest],
      stored[0],
      stored[1],
      ...stored.slice(1),
    ]);
    expect(await bench().rows(after)).toHaveLength(2);
  });
}
