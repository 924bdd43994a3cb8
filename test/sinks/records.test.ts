import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, afterAll } from 'vitest';
import { instant, systemClock } from '../../src/core/clock.ts';
import { writeJson } from '../../src/core/json.ts';
import type { EntityName, RunId } from '../../src/core/names.ts';
import { type EntityTable, keyTextOf, type Column, type ColumnValue } from '../../src/core/records.ts';
import type {
  RecordTables,
  RecordTable,
  TablePlace,
  WrittenRow,
  Stamp,
} from '../../src/sinks/ledger/driver.ts';
import { postgresTables } from '../../src/sinks/postgres/postgres-tables.ts';
import type { StoredRecord } from '../../src/sinks/readings.ts';
import { columnValue } from '../../src/sinks/records/mark-rows.ts';
import { rowsTable, selectCells, type RowsTable } from '../../src/sinks/records/own-names.ts';
import { fittingColumns } from '../../src/sinks/records/record-tables.ts';
import { accessSink } from '../../src/sinks/registry.ts';
import type { RecordReader } from '../../src/sinks/sink-access.ts';
import { sqliteTables } from '../../src/sinks/sqlite/sqlite-tables.ts';
import { quoted, type Database, type Tx } from '../../src/sql/database.ts';
import { openServer } from '../../src/sql/postgres/server.ts';
import { openSqliteDatabase } from '../../src/sql/sqlite/open-sqlite-database.ts';
import { openSqlite } from '../../src/sql/sqlite/open-sqlite.ts';
import { jsonlKind, sqliteKind } from '../contracts/file-sink/file-sink-kind.ts';
import { postgresSinkKind } from '../contracts/postgres-sink-kind.ts';
import { member, members, membersTable, news, lists, resetScope, start } from '../contracts/sink/fixture.ts';
import { benchOfTest, useBench } from '../contracts/sink/use-bench.ts';
import { sharedPostgres } from '../support/postgres.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { delayed } from '../support/sql/delayed.ts';

const kinds = { sqlite: sqliteKind, jsonl: jsonlKind, postgres: await postgresSinkKind() };

describe.each(['sqlite', 'jsonl', 'postgres'] as const)('the records of a %s sink', (type) => {
  const bench = useBench(kinds[type]);
  const open = async (): Promise<RecordReader> =>
    await accessSink(kinds[type].options(bench().folder)).openRecords();

  /** A run that has stored three changes; the second member is deleted. */
  async function changed() {
    const { sink, lease, run, commit } = await bench().walking('run-1');
    await commit([member('1'), member('2')]);
    await commit([member('1', 'Eve')]);
    await sink.repair.tombstoneRecord(lease, run, members, '["a","2"]');
    return sink;
  }

  it('come in the order of their changes, each once, in its newest state', async () => {
    const sink = await changed();
    await using reader = await open();
    expect(await shown(reader, 0)).toEqual(['1 Eve upsert 3', '2 - delete 4']);
    expect(await shown(reader, 3)).toEqual(['2 - delete 4']);
    expect(await shown(reader, 4)).toEqual([]);
    expect(await reader.newestSeq(news)).toBe(4);
    expect(reader.sinkId).toBe(sink.id);
  });

  it('are those of the moment of opening, whatever is written meanwhile', async () => {
    const all = Array.from({ length: 250 }, (_, index) => member(`${index + 1}`));
    const { run, commit, finish } = await bench().walking('run-1');
    await commit(all);
    await using reader = await open();
    const reading = reader.changes(news, await tableOf(reader), 0)[Symbol.asyncIterator]();
    const first = await reading.next();
    await commit([member('2', 'Eve'), member('251')]);
    await finish();
    const rest: StoredRecord[] = [];
    for (let next = await reading.next(); next.done !== true; next = await reading.next()) {
      rest.push(...next.value);
    }
    const seqs = [...(first.value as readonly StoredRecord[]), ...rest].map(({ seq }) => seq);
    expect(seqs).toEqual(all.map((_, index) => index + 1));
    expect(await reader.newestSeq(news)).toBe(250);
    expect((await reader.history.run(run))?.state).toBe('running');
    await using later = await open();
    expect(await shown(later, 249)).toEqual(['250 Ada upsert 250', '2 Eve upsert 251', '251 Ada upsert 252']);
    expect((await later.history.run(run))?.state).toBe('ok');
  });

  it('are found by their key, tombstones too, and others are not', async () => {
    await changed();
    await using reader = await open();
    const table = await tableOf(reader);
    expect(await reader.record(news, table, '["a","1"]')).toMatchObject({
      isDeleted: false,
      seq: 3,
      run: 'run-1',
    });
    expect(await reader.record(news, table, '["a","2"]')).toMatchObject({ isDeleted: true, seq: 4 });
    expect(await reader.record(news, table, '["a","3"]')).toBeNull();
    expect(await reader.record(news, table, '["a"]')).toBeNull();
  });

  it('have no table where nothing was ever stored', async () => {
    await bench().walking('run-1');
    await using reader = await open();
    expect(await reader.table(news, 'strangers' as EntityName)).toBeNull();
    expect(await reader.tableId(news, 'strangers' as EntityName)).toBeNull();
    expect(await reader.newestSeq(news)).toBe(0);
  });

  it('are of a table that has one id until its data is reset, and numbers that continue behind a reset', async () => {
    const look = async (): Promise<{ readonly id: string | null; readonly newest: number }> => {
      await using reader = await open();
      return { id: await reader.tableId(news, members), newest: await reader.newestSeq(news) };
    };
    const { sink, lease, run, commit, release } = await bench().walking('run-1');
    await commit([member('1'), member('2')]);
    const first = await look();
    expect(first).toEqual({ id: expect.stringMatching(/^[0-9a-f-]{32,36}$/) as string, newest: 2 });
    await sink.repair.tombstoneRecord(lease, run, members, '["a","2"]');
    await release();
    const columns = [...membersTable.columns, { name: 'added', type: 'string' } as const];
    await bench().read('run-2', [], { plan: { tables: [{ ...membersTable, columns }] } });
    const tables = [membersTable];
    await sink.repair.reset(news, resetScope({ entity: members, tables, withData: false }));
    expect(await look()).toEqual({ ...first, newest: 3 });
    const ids = [first.id];
    for (const entity of [members, null]) {
      await sink.repair.reset(news, resetScope({ entity, tables }));
      expect((await look()).id).toBeNull();
      await bench().read(`run-${ids.length + 2}`, [member('1')], { sink });
      const { id, newest } = await look();
      expect(newest).toBe(3 + ids.length);
      ids.push(id);
    }
    expect(new Set(ids).size).toBe(3);
  });

  it('may be left in the middle', async () => {
    await bench().read(
      'run-1',
      ['1', '2', '3'].map((id) => member(id)),
    );
    {
      await using reader = await open();
      const table = await tableOf(reader);
      for await (const [first] of reader.changes(news, table, 0)) if (first?.seq === 1) break;
      reader.changes(news, table, 0);
    }
    await using again = await open();
    expect(await shown(again, 1)).toHaveLength(2);
  });
});

it('records of a JSONL sink are read as soon as they are committed, before a file has their lines', async () => {
  const bench = benchOfTest(kinds.jsonl);
  const { commit } = await bench.walking('run-1');
  await commit([member('1'), member('2')]);
  expect(existsSync(join(bench.folder, news))).toBe(false);
  await using reader = await accessSink(kinds.jsonl.options(bench.folder)).openRecords();
  expect(await shown(reader, 0)).toHaveLength(2);
});

async function records(
  reader: RecordReader,
  table: EntityTable,
  after: number,
): Promise<readonly StoredRecord[]> {
  const all: StoredRecord[] = [];
  for await (const batch of reader.changes(news, table, after)) all.push(...batch);
  return all;
}

async function tableOf(reader: RecordReader): Promise<EntityTable> {
  const table = await reader.table(news, members);
  if (table === null) throw new Error('the table should be there');
  return table;
}

/** `id name op seq`. */
async function shown(reader: RecordReader, after: number): Promise<readonly string[]> {
  const table = await tableOf(reader);
  const at = (name: string): number => table.columns.findIndex((column) => column.name === name);
  return (await records(reader, table, after)).map(({ values, isDeleted, seq }) => {
    const name = isDeleted ? '-' : String(values[at('name')]);
    return `${String(values[at('id')])} ${name} ${isDeleted ? 'delete' : 'upsert'} ${seq}`;
  });
}

describe('record tables', () => {
  const table: EntityTable = {
    entity: members,
    columns: [
      { name: 'name', type: 'string' },
      { name: 'list_id', type: 'string' },
      { name: 'number', type: 'integer' },
      { name: 'score', type: 'number' },
      { name: 'vip', type: 'boolean' },
      { name: 'address', type: 'object' },
    ],
    key: ['list_id', 'number'],
  };
  const added: readonly Column[] = [
    { name: 'text', type: 'string', isEvolved: true },
    { name: 'whole', type: 'integer' },
    { name: 'real', type: 'number' },
    { name: 'flag', type: 'boolean', isEvolved: true },
    { name: 'list', type: 'array' },
    { name: 'more', type: 'any' },
  ];
  const wider: EntityTable = { ...table, columns: [...table.columns, ...added] };
  const extras = [
    null,
    '{"text":"a","whole":1}',
    '{"other":[1.50,{"text":1}],"text":null}',
    '{"flag":true,"list":[1,{"a":null}],"more":1.50,"real":0.5}',
    '{"flag":0,"list":{},"real":1e400,"text":"\\ud800","whole":9223372036854775808}',
    '{"flag":null,"more":null,"real":9007199254740993,"text":"\\\\udata","whole":9223372036854775807}',
  ];
  const owners = [1, 2, 3, 4];

  interface Place {
    readonly name: string;
    readonly db: Database;
    readonly records: RecordTables;
    seq: number;
  }

  describe('tables of records', () => {
    const cleanup: (() => Promise<void>)[] = [];
    afterAll(async () => {
      for (const clean of cleanup.toReversed()) await clean();
    });

    it.each([1, 2, 3])('answer on every database as on every other (seed %i)', async (seed) => {
      const places = await openPlaces(seed);
      const random = seededRandom(seed);
      const below = (limit: number): number => Math.floor(random() * limit);
      const some = <One>(all: readonly One[], share: number): readonly One[] =>
        all.filter(() => random() < share);
      const keys = Array.from({ length: 60 }, (_, index): readonly ColumnValue[] => [
        ['a', 'ä"\\', '0'][index % 3] ?? '',
        index % 7 === 0 ? 9_223_372_036_854_775_000n + BigInt(index) : index,
      ]);
      const rowOf = new Map<string, number>();
      const beyond = '["a",99999999999999999999]';
      let step = 0;

      /** Asks all of the databases the same, in a transaction of each; gives the answer that they agree on. */
      async function ask<Answer>(
        what: string,
        work: (tx: Tx, stamp: Stamp, on: RecordTables, records: RecordTable) => Promise<Answer>,
        place: TablePlace = { connector: news, table, stored: table.columns },
      ): Promise<Answer> {
        const answers: Answer[] = [];
        for (const one of places) {
          const takeSeqs = async (count: number): Promise<number> => (one.seq += count) - count;
          const stamp = { run: `r${step % 5}` as RunId, now: instant(start + step * 1_000), takeSeqs };
          const open = one.records.open(place);
          answers.push(await one.db.transact(async (tx) => await work(tx, stamp, one.records, open)));
        }
        const [first, ...others] = answers.map(shown);
        for (const other of others) expect(other, `${what}, step ${step}`).toEqual(first);
        return answers[0] as Answer;
      }
      const recordOf = (key: readonly ColumnValue[]) => ({
        keyText: keyTextOf(key),
        hash: `h${below(1_000)}`,
        values: [`n${below(9)}`, ...key, below(100) / 8, below(2), '{"b":1.50,"a":[]}'],
        extra: extras[below(extras.length)] ?? null,
        compare: () => 'content' as const,
      });
      const whole = async (entity = members, stored = table.columns) =>
        await ask('cells', async (tx, _, on) => {
          const of = { ...table, entity, stored, hasVersions: false };
          return await cellsOf(tx, rowsTable(on, news, of));
        });

      await ask('ensure', async (tx, _, on) => await on.ensure(tx, { connector: news, table, stored: [] }));
      for (; step < 40; step += 1) {
        const rows = [...rowOf.values()];
        const from = some(owners, 0.7)
          .toSorted(() => random() - 0.5)
          .map((owner) => ({ owner, after: below(30) }));
        const written = some(keys, 0.2).flatMap((key): WrittenRow[] => {
          const known = rowOf.get(keyTextOf(key));
          const row = known ?? rowOf.size + 1;
          rowOf.set(keyTextOf(key), row);
          const owner = random() < 0.2 ? null : (owners[below(4)] ?? null);
          const isNew = known === undefined ? { owner } : {};
          const isSame = random() < 0.3;
          const again = { row, record: recordOf(key), isSame };
          return [{ row, record: recordOf(key), isSame, ...isNew }, ...some([again], 0.2)];
        });
        await ask('write', async (tx, stamp, _, all) => await all.write(tx, written, stamp));
        const looked = some(keys, 0.5).map(recordOf);
        await ask('find', async (tx, _, __, all) => await all.find(tx, looked));
        const moved = some(rows, 0.1).map((row) => ({ row, owner: owners[below(4)] ?? 1 }));
        await ask('setOwners', async (tx, _, __, all) => all.setOwners(tx, moved));
        const hashes = some(rows, 0.1).map((row) => ({ row, hash: `o${below(9)}` }));
        await ask('setHashes', async (tx, _, __, all) => all.setHashes(tx, hashes));
        const gone = some(rows, 0.15);
        await ask('tombstone', async (tx, stamp, _, all) => await all.tombstone(tx, gone, stamp));
        const limit = 1 + below(20);
        await ask('liveRows', async (tx, _, __, all) => await all.liveRows(tx, from, limit));
        await ask('countLive', async (tx, _, __, all) => await all.countLive(tx, from, limit));
        const after = below(9);
        const before = instant(start + below(step + 1) * 1_000);
        const numbers = [...some(rows, 0.3), 999];
        await ask('rows', async (tx, _, __, all) => await all.rows(tx, numbers));
        await ask('contents', async (tx, _, __, all) => await all.contents(tx, numbers));
        const texts = [...looked.map(({ keyText }) => keyText), '["a"]', 'no key', '[null,1]', beyond];
        await ask('rowsOf', async (tx, _, __, all) => await all.rowsOf(tx, texts));
        const run = `r${below(5)}` as RunId;
        const changed = await ask(
          'changedBy',
          async (tx, _, __, all) => await all.changedBy(tx, { run, startedAt: before }, after, limit),
        );
        const back = changed.flatMap(({ row, deletedAt }) => (deletedAt === null ? [] : [row]));
        if (random() < 0.5) {
          await ask('revive', async (tx, stamp, _, all) => await all.revive(tx, back, stamp));
        }
      }
      expect((await whole()).length).toBeGreaterThan(50);

      const widened: TablePlace = { connector: news, table: wider, stored: table.columns };
      const name = (on: RecordTables): string => quoted(on.tableName(news, table.entity));
      await ask('fitting', async (tx, _, on) => await fittingColumns(tx, name(on), added));
      await ask('ensure', async (tx, _, on) => await on.ensure(tx, widened));
      await ask('fill', async (tx, stamp, on) => await on.fill(tx, widened, added, stamp));
      const filled = await whole(members, wider.columns);
      expect(filled.filter((cells) => cells.slice(-6).some((value) => value !== null))).not.toEqual([]);
      // Written by a plan that no longer declares the added columns.
      const [again = []] = keys.filter((key) => rowOf.get(keyTextOf(key)) === 1);
      const rewritten = [{ row: 1, record: recordOf(again), isSame: false }];
      await ask('write', async (tx, stamp, _, all) => await all.write(tx, rewritten, stamp), {
        connector: news,
        table,
        stored: wider.columns,
      });
      const copy = { connector: news, table: { ...wider, entity: lists }, stored: [] };
      await ask('ensure', async (tx, _, on) => await on.ensure(tx, copy));
      await ask('insertRows', async (tx, _, on) => {
        const of = { ...table, stored: wider.columns, hasVersions: false };
        const rows = await cellsOf(tx, rowsTable(on, news, of));
        await on.insertRows(tx, rowsTable(on, news, { ...of, entity: lists }), rows.slice(5, 45));
      });
      expect((await whole(lists, wider.columns)).length).toBe(40);
      await ask('drop', async (tx, _, on) => await on.drop(tx, news, [members, lists]));
      await ask('ensure', async (tx, _, on) => await on.ensure(tx, { connector: news, table, stored: [] }));
      expect(await whole()).toEqual([]);
    });

    async function cellsOf(tx: Tx, rows: RowsTable): Promise<readonly (readonly ColumnValue[])[]> {
      const found = await tx.rows<Record<string, unknown>>(selectCells(rows));
      return found.map((cells) => Object.values(cells).map(columnValue));
    }

    async function openPlaces(seed: number): Promise<readonly Place[]> {
      const folder = mkdtempSync(join(tmpdir(), 'connector-sync-tables-'));
      cleanup.push(async () => rmSync(folder, { recursive: true }));
      const explain = (error: unknown): unknown => error;
      const nextTurn = async (): Promise<void> => await new Promise((resolve) => setImmediate(resolve));
      const sqlite = (name: string): Database => {
        const file = join(folder, name);
        const writer = openSqlite(file);
        writer.pragma('journal_mode = WAL');
        writer.pragma('synchronous = OFF');
        return openSqliteDatabase({
          file,
          writer,
          openReader: () => openSqlite(file),
          clock: systemClock,
          lockTimeoutMs: 1_000,
          explain,
        });
      };
      const schema = `record_tables_${seed}`;
      const { connection } = await sharedPostgres();
      const server = openServer({
        connection,
        direct: null,
        schema,
        connections: 1,
        durability: 'normal',
        explain,
      });
      await server.transact(async (tx) => await tx.run(`CREATE SCHEMA ${schema}`));
      const places = [
        { name: 'postgres', db: server, records: postgresTables(schema), seq: 1 },
        { name: 'sqlite', db: sqlite('sqlite'), records: sqliteTables, seq: 1 },
        { name: 'slow-sqlite', db: delayed(sqlite('slow'), nextTurn), records: sqliteTables, seq: 1 },
      ];
      cleanup.push(async () => {
        for (const { db } of places) await db[Symbol.asyncDispose]();
      });
      return places;
    }
  });

  /** Integers may be numbers or bigints. */
  function shown(answer: unknown): unknown {
    if (answer instanceof Map) return [...answer].map((one) => writeJson(one)).toSorted();
    return Array.isArray(answer) ? answer.map(writeJson) : writeJson(answer);
  }
});
