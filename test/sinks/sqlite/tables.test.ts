import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import type { Column } from '../../../src/core/records.ts';
import { member, membersTable } from '../../contracts/sink/fixture.ts';
import { sqliteKind } from '../../contracts/file-sink/file-sink-kind.ts';
import { useBench } from '../../contracts/sink/use-bench.ts';

describe('SQLite tables', () => {
  const bench = useBench(sqliteKind);

  it('have typed columns, a unique key and an index for the change feed, and are named after connector and entity', async () => {
    const sink = await bench().open();
    await bench().begin(sink, 'r1');
    const db = new Database(sqliteKind.ledgerFile(bench().folder), { readonly: true });
    const columns = db
      .prepare<[], { name: string; type: string; notnull: number }>(
        'SELECT name, type, "notnull" FROM pragma_table_info(\'news__members\')',
      )
      .all();
    const indexes = db
      .prepare<[], { name: string; unique: number }>(
        'SELECT name, "unique" FROM pragma_index_list(\'news__members\') ORDER BY name',
      )
      .all();
    db.close();
    expect(
      columns
        .slice(1, 10)
        .map(({ name, type, notnull }) => `${name} ${type}${notnull === 1 ? ' NOT NULL' : ''}`),
    ).toEqual([
      'list_id TEXT NOT NULL',
      'id TEXT NOT NULL',
      'name TEXT',
      'visits INTEGER',
      'score REAL',
      'vip INTEGER',
      'address TEXT',
      'tags TEXT',
      'anything TEXT',
    ]);
    expect(columns.slice(10).map(({ name }) => name)).toEqual([
      '_extra',
      '_first_seen_at',
      '_changed_at',
      '_run_id',
      '_seq',
      '_hash',
      '_volatile_hash',
      '_deleted_at',
      '_partition',
    ]);
    expect(indexes).toEqual([
      { name: 'news__members__key', unique: 1 },
      { name: 'news__members__partition', unique: 0 },
      { name: 'news__members__seq', unique: 0 },
    ]);
  });

  it('fill a newly declared column from what rows kept for it, as far as it fits, and show the move in the change feed', async () => {
    const columns: readonly Column[] = [
      { name: 'city', type: 'string' },
      { name: 'age', type: 'integer' },
      { name: 'rate', type: 'number' },
      { name: 'open', type: 'boolean' },
      { name: 'more', type: 'object' },
      { name: 'rest', type: 'any' },
    ];
    const wider = { ...membersTable, columns: [...membersTable.columns, ...columns] };
    const fits =
      '{"city":"Kyiv","age":9007199254740993,"rate":2,"open":false,"more":{"a":1},"rest":[null],"left":"here"}';
    const misfits =
      '{"city":"\\ud800","age":9223372036854775808,"rate":9007199254740993,"open":1,"more":[],"rest":null}';
    const { sink, started, commit } = await bench().walking('r1', { tables: [membersTable] });
    const records = [
      member('1', 'a', { extra: fits }),
      member('2', 'b', { extra: misfits }),
      member('3', 'c', { extra: '{"rest":1}' }),
    ];
    await commit(records);
    await sink.startRun(started.lease, bench().plan('r2', { tables: [wider] }));
    expect(await bench().rows(wider)).toMatchObject([
      {
        city: 'Kyiv',
        age: 9_007_199_254_740_993n,
        rate: 2,
        open: false,
        more: { a: 1 },
        rest: [null],
        _extra: { left: 'here' },
        _run_id: 'r2',
      },
      { city: null, age: null, rate: null, open: null, more: null, rest: null },
      { rest: 1, _extra: null },
    ]);
    expect((await bench().rows(wider))[1]?.['_extra']).toEqual({
      city: '\ud800',
      age: 2 ** 63,
      rate: 9_007_199_254_740_993n,
      open: 1,
      more: [],
    });
    const seqs = (await bench().rows(wider)).map((row) => row['_seq']);
    expect(
      Math.min(...seqs.map(Number)),
      'every filled row moved behind the first three changes',
    ).toBeGreaterThan(3);
    expect(new Set(seqs).size).toBe(3);
  });
});
