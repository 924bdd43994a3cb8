import { describe, expect, it } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import type { JsonObject } from '../../../src/core/json.ts';
import type { Column } from '../../../src/core/records.ts';
import type { RunPlan } from '../../../src/sinks/sink.ts';
import { sqliteKind } from '../../contracts/file-sink/file-sink-kind.ts';
import { member, membersTable, members, news } from '../../contracts/sink/fixture.ts';
import { prepared } from '../../contracts/sink/tables.ts';
import { useBench } from '../../contracts/sink/use-bench.ts';

describe('SQLite tables', () => {
  const bench = useBench(sqliteKind);

  it('have typed columns, a unique key and an index for the change feed, and are named after connector and entity', async () => {
    await bench().walking();
    const columns = await bench().ledger(
      "SELECT name, concat(name, ' ', type, iif(\"notnull\", ' NOT NULL', '')) AS declared FROM pragma_table_info('news__members')",
    );
    const indexes = await bench().ledger(
      'SELECT name, "unique" FROM pragma_index_list(\'news__members\') ORDER BY name',
    );
    expect(columns.slice(1, 10).map(({ declared }) => declared)).toEqual([
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
      rest: null,
    });
    const seqs = (await bench().rows(wider)).map((row) => Number(row['_seq']));
    expect(
      seqs.map((seq) => seq > 3),
      'every filled row moved behind the first three changes',
    ).toEqual([true, false, true]);
    expect(new Set(seqs).size).toBe(3);
  });
});

describe('a SQLite table that gets a column for an undeclared field', () => {
  const bench = useBench(sqliteKind);
  const rows = async () => await bench().ledger('SELECT * FROM news__members ORDER BY _row');

  /** A run that has stored these records, as the engine prepares them. */
  async function stored(raws: readonly JsonObject[], change: Partial<RunPlan> = {}) {
    const { sink, lease, run, commit } = await bench().walking('r1', { tables: [membersTable], ...change });
    const { records, drift } = prepared(membersTable, raws);
    await commit(records, { drift });
    return { sink, evolve: async () => await sink.drift.evolve(lease, run, members) };
  }

  it('has the values moved into it, each as a change of its row, and everything else is as it was', async () => {
    const { evolve } = await stored(
      [
        { id: '1', path: String.raw`C:\udata`, left: true },
        { id: '2', path: null },
        { id: '3' },
        { id: '4', path: 'a\u0000b', left: 1 },
      ],
      { versions: new Set([members]) },
    );
    const before = await rows();
    bench().clock.advance(1_000);
    await evolve();
    const changedAt = instant(bench().clock.now());
    const moved = (index: number, path: string | null, extra: string | null, seq: number) => ({
      ...before[index],
      path,
      _extra: extra,
      _seq: seq,
      _changed_at: changedAt,
    });
    expect(await rows()).toEqual([
      moved(0, String.raw`C:\udata`, '{"left":true}', 5),
      moved(1, null, null, 6),
      { ...before[2], path: null },
      moved(3, 'a\u0000b', '{"left":1}', 7),
    ]);
  });

  it('takes numbers of both kinds, but none that it would round', async () => {
    const { evolve } = await stored([
      { id: '1', rate: 1, big: 0.5 },
      { id: '2', rate: 0.5, big: 9_007_199_254_740_993n },
    ]);
    expect(await evolve()).toEqual([{ name: 'rate', type: 'number', isEvolved: true }]);
    expect((await rows()).map(({ rate, _extra }) => [rate, _extra])).toEqual([
      [1, '{"big":0.5}'],
      [0.5, '{"big":9007199254740993}'],
    ]);
  });

  it('is moved over whole, however many rows it has', async () => {
    const raws = Array.from({ length: 2500 }, (_, index) => ({ id: `m${index}`, city: `c${index}` }));
    const { evolve } = await stored(raws);
    await evolve();
    const moved = await rows();
    expect(moved.filter(({ city, _extra }, index) => city !== `c${index}` || _extra !== null)).toEqual([]);
    expect(new Set(moved.map(({ _seq }) => _seq)).size).toBe(2500);
  });

  it('has the column and all that goes with it, or nothing of it where a row cannot be moved', async () => {
    const { sink, evolve } = await stored([
      { id: '1', city: 'Kyiv' },
      { id: '2', city: 'Lviv' },
    ]);
    const before = await rows();
    await bench().ledger(`CREATE TRIGGER refusing BEFORE INSERT ON news__members WHEN NEW.id = '2'
                          BEGIN SELECT RAISE(ABORT, 'refused'); END`);
    await expect(evolve()).rejects.toMatchObject({
      code: 'SINK_FAILED',
    });
    expect(await rows()).toEqual(before);
    const known = await sink.drift.known(news, [members]);
    expect(known.get(members)?.evolved).toEqual([]);
    await bench().ledger('DROP TRIGGER refusing');
    expect(await evolve()).toHaveLength(1);
    expect((await rows()).map(({ city, _seq }) => [city, _seq])).toEqual([
      ['Kyiv', 3],
      ['Lviv', 4],
    ]);
  });

  it('leaves a tombstone with the run that set it, so that it can be taken back', async () => {
    const { evolve } = await stored([{ id: '1', city: 'Kyiv' }]);
    await bench().ledger(
      "UPDATE news__members SET _deleted_at = 'then', _run_id = 'r0', _changed_at = 'then'",
    );
    await evolve();
    const kept = { _deleted_at: 'then', _run_id: 'r0', _changed_at: 'then', _seq: 1 };
    expect(await rows()).toMatchObject([{ city: 'Kyiv', _extra: null, ...kept }]);
  });
});
