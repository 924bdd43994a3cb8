import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { instant, systemClock } from '../../src/core/clock.ts';
import { writeJson } from '../../src/core/json-text.ts';
import { readRows, replaceRows, rowsTable } from '../../src/sinks/records/whole-rows.ts';
import type { RunId } from '../../src/core/names.ts';
import { keyTextOf, type Column, type ColumnValue, type EntityTable } from '../../src/core/records.ts';
import type { RecordTables } from '../../src/sinks/ledger/driver.ts';
import type { RecordTable, TablePlace, WrittenRow, Stamp } from '../../src/sinks/ledger/record-table.ts';
import { postgresTables } from '../../src/sinks/postgres/records/record-tables.ts';
import { sqliteTables } from '../../src/sinks/sqlite/records/record-tables.ts';
import type { Database, Tx } from '../../src/sql/database.ts';
import { openServer } from '../../src/sql/postgres/server.ts';
import { openSqliteDatabase } from '../../src/sql/sqlite/open-sqlite-database.ts';
import { openSqlite } from '../../src/sql/sqlite/open-sqlite.ts';
import { lists, members, news, start } from '../contracts/sink/fixture.ts';
import { sharedPostgres } from '../support/postgres.ts';
import { seededRandom } from '../support/seeded-random.ts';

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
      volatileHash: random() < 0.5 ? null : 'v',
      values: [`n${below(9)}`, ...key, below(100) / 8, below(2), '{"b":1.50,"a":[]}'],
      extra: extras[below(extras.length)] ?? null,
    });
    const whole = async (entity = members, stored = table.columns) =>
      await ask('readRows', async (tx, _, on) => {
        const of = { ...table, entity, stored, hasVersions: false };
        return await readRows(tx, rowsTable(on, news, of), { after: 0, limit: 999 });
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
        return [{ row, record: recordOf(key), ...isNew }, ...some([{ row, record: recordOf(key) }], 0.2)];
      });
      await ask('write', async (tx, stamp, _, all) => await all.write(tx, written, stamp));
      const looked = some(keys, 0.5).map(recordOf);
      await ask('find', async (tx, _, __, all) => await all.find(tx, looked));
      const moved = some(rows, 0.1).map((row) => ({ row, owner: owners[below(4)] ?? 1 }));
      await ask('setOwners', async (tx, _, __, all) => all.setOwners(tx, moved));
      const gone = some(rows, 0.15);
      await ask('tombstone', async (tx, stamp, _, all) => await all.tombstone(tx, gone, stamp));
      const limit = 1 + below(20);
      await ask('liveRows', async (tx, _, __, all) => await all.liveRows(tx, from, limit));
      await ask('countLive', async (tx, _, __, all) => await all.countLive(tx, from, limit));
      const after = below(9);
      const before = instant(start + below(step + 1) * 1_000);
      await ask('liveBefore', async (tx, _, __, all) => await all.liveBefore(tx, before, after, limit));
      const numbers = [...some(rows, 0.3), 999];
      await ask('rows', async (tx, _, __, all) => await all.rows(tx, numbers));
      const texts = [...looked.map(({ keyText }) => keyText), '["a"]', 'no key', '[null,1]', beyond];
      await ask('rowsOf', async (tx, _, __, all) => await all.rowsOf(tx, texts));
      const text = texts[below(texts.length)] ?? '';
      await ask('row', async (tx, _, on) => await on.row(tx, news, table, text));
      const run = `r${below(5)}` as RunId;
      const changed = await ask(
        'changedBy',
        async (tx, _, __, all) => await all.changedBy(tx, { run, startedAt: before }, after, limit),
      );
      const undone = [`r${below(5)}` as RunId];
      const of = { run, from: below(9), through: 9 + below(20), undone };
      await ask('changedSince', async (tx, _, __, all) => await all.changedSince(tx, of, limit));
      const back = changed.flatMap(({ row, deletedAt }) => (deletedAt === null ? [] : [row]));
      if (random() < 0.5) await ask('revive', async (tx, stamp, _, all) => await all.revive(tx, back, stamp));
    }
    expect((await whole()).length).toBeGreaterThan(50);

    const widened: TablePlace = { connector: news, table: wider, stored: table.columns };
    await ask('fitting', async (tx, _, on) => await on.fitting(tx, widened, added));
    await ask('ensure', async (tx, _, on) => await on.ensure(tx, widened));
    await ask('fill', async (tx, stamp, on) => await on.fill(tx, widened, added, stamp));
    const filled = await whole(members, wider.columns);
    expect(filled.filter(({ values }) => values.slice(-6).some((value) => value !== null))).not.toEqual([]);
    // Written by a plan that no longer declares the added columns.
    const [again = []] = keys.filter((key) => rowOf.get(keyTextOf(key)) === 1);
    const rewritten = [{ row: 1, record: recordOf(again) }];
    await ask('write', async (tx, stamp, _, all) => await all.write(tx, rewritten, stamp), {
      connector: news,
      table,
      stored: wider.columns,
    });
    const copy = { connector: news, table: { ...wider, entity: lists }, stored: [] };
    await ask('ensure', async (tx, _, on) => await on.ensure(tx, copy));
    await ask('insertRows', async (tx, _, on) => {
      const of = { ...table, stored: wider.columns, hasVersions: false };
      const rows = await readRows(tx, rowsTable(on, news, of), { after: 5, limit: 40 });
      const changed = rows.map((was) => ({
        was,
        now: { values: was.values, extra: was.extra, hash: 'other' },
      }));
      await replaceRows(tx, on, rowsTable(on, news, { ...of, entity: lists }), changed);
    });
    expect((await whole(lists, wider.columns)).length).toBe(40);
    await ask('drop', async (tx, _, on) => await on.drop(tx, news, [members, lists]));
    await ask('ensure', async (tx, _, on) => await on.ensure(tx, { connector: news, table, stored: [] }));
    expect(await whole()).toEqual([]);
  });

  async function openPlaces(seed: number): Promise<readonly Place[]> {
    const folder = mkdtempSync(join(tmpdir(), 'connector-sync-tables-'));
    cleanup.push(async () => rmSync(folder, { recursive: true }));
    const explain = (error: unknown): unknown => error;
    const sqlite = (name: string, delay?: () => Promise<void>): Place => {
      const file = join(folder, name);
      const writer = openSqlite(file);
      writer.pragma('journal_mode = WAL');
      writer.pragma('synchronous = OFF');
      const db = openSqliteDatabase({
        file,
        writer,
        openReader: () => openSqlite(file),
        clock: systemClock,
        lockTimeoutMs: 1_000,
        explain,
        ...(delay === undefined ? {} : { delay }),
      });
      return { name, db, records: sqliteTables, seq: 1 };
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
      sqlite('sqlite'),
      sqlite('slow-sqlite', async () => await new Promise((resolve) => setImmediate(resolve))),
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
