import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../../src/core/json.ts';
import type { RunId } from '../../src/core/names.ts';
import type { EntityTable } from '../../src/core/records.ts';
import { compilePrepare } from '../../src/engine/prepare/prepare-record.ts';
import type { Sink } from '../../src/sinks/sink-access.ts';
import {
  entityReport,
  members,
  membersTable,
  onlyPartition,
  page,
  report,
  type Started,
} from '../contracts/sink/fixture.ts';
import { jsonlKind, sqliteKind } from '../contracts/file-sink/file-sink-kind.ts';
import { useBench } from '../contracts/sink/use-bench.ts';

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

  it('has the values moved into it, each as a change of its row in the change feed, and every other row as it was', async () => {
    const sink = await bench().open();
    const started = await bench().begin(sink, 'r1', { tables: [membersTable] });
    const raws = [
      { id: '1', path: String.raw`C:\udata`, left: true },
      { id: '2', path: null },
      { id: '3' },
      { id: '4', path: 'a\u0000b', left: 1 },
    ];
    await commit(sink, started, raws);
    const before = rows();
    await sink.drift.evolve(started.lease, started.run, members);
    const after = rows();
    expect(after.map(({ path, _extra }) => [path, _extra])).toEqual([
      [String.raw`C:\udata`, '{"left":true}'],
      [null, null],
      [null, null],
      ['a\u0000b', '{"left":1}'],
    ]);
    expect(after.map(({ _seq }) => _seq)).toEqual([5, 6, 3, 7]);
    expect(after[2]).toEqual({ ...before[2], path: null });
    expect(after.map(({ _hash }) => _hash)).toEqual(before.map(({ _hash }) => _hash));
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

  it.each<[string, JsonValue]>([
    ['a text that no column holds', '\ud800'],
    ['an integer of more than 64 bits', 2n ** 70n],
  ])('gets none for %s', async (_what, value) => {
    const sink = await bench().open();
    const started = await bench().begin(sink, 'r1', { tables: [membersTable] });
    await commit(sink, started, [
      { id: '1', odd: typeof value === 'string' ? 'x' : 1 },
      { id: '2', odd: value },
    ]);
    expect(await sink.drift.evolve(started.lease, started.run, members)).toEqual([]);
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
    db.exec(`CREATE TRIGGER refusing BEFORE UPDATE ON news__members WHEN NEW.id = '2'
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

describe('JSONL files whose entity gets a column for an undeclared field', () => {
  const bench = useBench(jsonlKind);
  const directory = (): string => join(bench().folder, 'news', 'members');
  const lines = (): readonly string[] =>
    readdirSync(directory())
      .sort()
      .flatMap((name) => readFileSync(join(directory(), name), 'utf8').split('\n').filter(Boolean));

  it('keep their lines to the byte, and have a line for each row whose value was moved', async () => {
    const sink = await bench().open();
    const first = await bench().begin(sink, 'r1', { tables: [membersTable] });
    await commit(sink, first, [
      { id: '1', city: 'Kyiv' },
      { id: '2', left: 1 },
    ]);
    const entities = [entityReport(members, { fetched: 2, inserted: 2 })];
    await sink.finish(first.lease, first.run, report(first, { entities }));
    const before = lines();
    expect(before.map((line) => JSON.parse(line) as JsonObject)).toMatchObject([
      { id: '1', _extra: { city: 'Kyiv' }, _seq: 1 },
      { id: '2', _extra: { left: 1 }, _seq: 2 },
    ]);
    const next: Started = { ...first, run: 'r2' as RunId };
    await sink.startRun(next.lease, bench().plan('r2', { tables: [membersTable] }));
    await sink.drift.evolve(next.lease, next.run, members);
    await sink.finish(next.lease, next.run, report(next));
    expect(lines().slice(0, 2)).toEqual(before);
    const moved = lines()
      .slice(2)
      .map((line) => JSON.parse(line) as JsonObject);
    expect(moved).toMatchObject([
      { id: '1', city: 'Kyiv', left: null, _op: 'upsert', _seq: 3 },
      { id: '2', city: null, left: 1, _op: 'upsert', _seq: 4 },
    ]);
  });
});
