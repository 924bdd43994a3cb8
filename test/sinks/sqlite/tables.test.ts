import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import type { JsonObject, JsonValue } from '../../../src/core/json.ts';
import type { Column, EntityTable } from '../../../src/core/records.ts';
import { compilePrepare } from '../../../src/engine/prepare/prepare-record.ts';
import type { Sink } from '../../../src/sinks/sink-access.ts';
import { sqliteKind } from '../../contracts/file-sink/file-sink-kind.ts';
import {
  member,
  membersTable,
  members,
  onlyPartition,
  page,
  type Started,
} from '../../contracts/sink/fixture.ts';
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

/** Commits these records, as the engine prepares them, in the lease's run. */
async function commit(
  sink: Sink,
  started: Started,
  raws: readonly JsonObject[],
  table: EntityTable = membersTable,
): Promise<void> {
  const prepare = compilePrepare({ table, ignored: new Set(), volatile: [], explodedField: null });
  const all = raws.map((raw) => prepare(raw, { list_id: 'a' }));
  const records = all.flatMap((one) => (one.kind === 'record' ? [one.record] : []));
  const { id } = await onlyPartition(sink, started.lease);
  await sink.commit(started.lease, [
    page(started, id, records, { drift: all.flatMap(({ drift }) => drift) }),
  ]);
}

describe('a SQLite table that gets a column for an undeclared field', () => {
  const bench = useBench(sqliteKind);

  function rows(): readonly Record<string, JsonValue>[] {
    const db = new Database(sqliteKind.ledgerFile(bench().folder));
    const found = db
      .prepare<[], Record<string, JsonValue>>('SELECT * FROM news__members ORDER BY _row')
      .all();
    db.close();
    return found;
  }

  it('has the values moved into it, each as a change of its row, and everything else is as it was', async () => {
    const sink = await bench().open();
    const versions = new Set([members]);
    const started = await bench().begin(sink, 'r1', { tables: [membersTable], versions });
    const raws = [
      { id: '1', path: String.raw`C:\udata`, left: true },
      { id: '2', path: null },
      { id: '3' },
      { id: '4', path: 'a\u0000b', left: 1 },
    ];
    await commit(sink, started, raws);
    const before = rows();
    bench().clock.advance(1_000);
    await sink.drift.evolve(started.lease, started.run, members);
    const changedAt = instant(bench().clock.now());
    const moved = (index: number, path: string | null, extra: string | null, seq: number) => ({
      ...before[index],
      path,
      _extra: extra,
      _seq: seq,
      _changed_at: changedAt,
    });
    expect(rows()).toEqual([
      moved(0, String.raw`C:\udata`, '{"left":true}', 5),
      moved(1, null, null, 6),
      { ...before[2], path: null },
      moved(3, 'a\u0000b', '{"left":1}', 7),
    ]);
  });

  it('takes numbers of both kinds, but none that it would round', async () => {
    const sink = await bench().open();
    const started = await bench().begin(sink, 'r1', { tables: [membersTable] });
    await commit(sink, started, [
      { id: '1', rate: 1, big: 0.5 },
      { id: '2', rate: 0.5, big: 9_007_199_254_740_993n },
    ]);
    expect(await sink.drift.evolve(started.lease, started.run, members)).toEqual([
      { name: 'rate', type: 'number', isEvolved: true },
    ]);
    expect(rows().map(({ rate, _extra }) => [rate, _extra])).toEqual([
      [1, '{"big":0.5}'],
      [0.5, '{"big":9007199254740993}'],
    ]);
  });

  it('is moved over whole, however many rows it has', async () => {
    const sink = await bench().open();
    const started = await bench().begin(sink, 'r1', { tables: [membersTable] });
    const raws = Array.from({ length: 2500 }, (_, index) => ({ id: `m${index}`, city: `c${index}` }));
    await commit(sink, started, raws);
    await sink.drift.evolve(started.lease, started.run, members);
    const moved = rows();
    expect(moved.filter(({ city, _extra }, index) => city !== `c${index}` || _extra !== null)).toEqual([]);
    expect(new Set(moved.map(({ _seq }) => _seq)).size).toBe(2500);
  });

  it('has the column and all that goes with it, or nothing of it where a row cannot be moved', async () => {
    const sink = await bench().open();
    const started = await bench().begin(sink, 'r1', { tables: [membersTable] });
    await commit(sink, started, [
      { id: '1', city: 'Kyiv' },
      { id: '2', city: 'Lviv' },
    ]);
    const before = rows();
    const db = new Database(sqliteKind.ledgerFile(bench().folder));
    db.exec(`CREATE TRIGGER refusing BEFORE INSERT ON news__members WHEN NEW.id = '2'
             BEGIN SELECT RAISE(ABORT, 'refused'); END`);
    await expect(sink.drift.evolve(started.lease, started.run, members)).rejects.toMatchObject({
      code: 'SINK_FAILED',
    });
    expect(rows()).toEqual(before);
    const known = await sink.drift.known(started.lease.connector, [members]);
    expect(known.get(members)?.evolved).toEqual([]);
    db.exec('DROP TRIGGER refusing');
    db.close();
    expect(await sink.drift.evolve(started.lease, started.run, members)).toHaveLength(1);
    expect(rows().map(({ city, _seq }) => [city, _seq])).toEqual([
      ['Kyiv', 3],
      ['Lviv', 4],
    ]);
  });

  it('leaves a tombstone with the run that set it, so that it can be taken back', async () => {
    const sink = await bench().open();
    const started = await bench().begin(sink, 'r1', { tables: [membersTable] });
    await commit(sink, started, [{ id: '1', city: 'Kyiv' }]);
    const db = new Database(sqliteKind.ledgerFile(bench().folder));
    db.exec("UPDATE news__members SET _deleted_at = 'then', _run_id = 'r0', _changed_at = 'then'");
    db.close();
    await sink.drift.evolve(started.lease, started.run, members);
    const kept = { _deleted_at: 'then', _run_id: 'r0', _changed_at: 'then', _seq: 1 };
    expect(rows()).toMatchObject([{ city: 'Kyiv', _extra: null, ...kept }]);
  });
});
