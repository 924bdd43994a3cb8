import { describe, expect } from 'vitest';
import type { Database, Values } from '../../src/sql/database.ts';
import { compileStatement } from '../../src/sql/statement.ts';
import { sqliteDialect } from '../../src/sql/sqlite/sqlite-tx.ts';
import { it } from '../support/it.ts';
import { databaseKinds } from '../support/sql/databases.ts';

/*
 * The few words in which statements are written once for every database (`src/sql/statement.ts`) mean the same in each.
 */

/** One table with a column of each type. */
async function makeTable(db: Database): Promise<void> {
  const types =
    db.dialect.name === 'sqlite'
      ? 'id INTEGER PRIMARY KEY, name TEXT, bytes BLOB, is_on INTEGER) STRICT'
      : 'id bigint PRIMARY KEY, name text COLLATE "C", bytes bytea, is_on integer)';
  await db.transact(async (tx) => void (await tx.run(`CREATE TABLE t (${types}`)));
}

interface Row {
  readonly id: number | bigint;
  readonly name: string | null;
  readonly bytes: Buffer | null;
  readonly isOn: boolean | null;
}

async function ask<Found extends object>(db: Database, sql: string, values: Values = {}) {
  return await db.read(async (tx) => await tx.rows<Found>(sql, values));
}

const insertSet = `INSERT INTO t (id, name, bytes, is_on)
  SELECT v.id, v.name, v.bytes, v.is_on FROM {v: id bigint, name text, bytes bytea, is_on integer}`;
const insertOne = 'INSERT INTO t (id, name, bytes, is_on) VALUES (:id, :name, :bytes, :isOn)';
const all = 'SELECT id, name, bytes, is_on FROM t ORDER BY id';

const largest = 2n ** 63n - 1n;
const rows: readonly Row[] = [
  { id: -(2n ** 63n), name: '', bytes: Buffer.alloc(0), isOn: false },
  { id: 0, name: null, bytes: null, isOn: null },
  { id: 1, name: 'a\0b', bytes: Buffer.from([0, 1, 255]), isOn: true },
  { id: 2, name: '"{}\\,NULL\'\n', bytes: Buffer.from('\\x00'), isOn: true },
  { id: 3, name: '\uE000\uE0000 \u{1F600}', bytes: Buffer.from('text'), isOn: false },
  { id: 2n ** 53n, name: 'null', bytes: Buffer.from('00', 'hex'), isOn: true },
  { id: largest, name: 'true', bytes: Buffer.from('ff', 'hex'), isOn: false },
];

describe.each(databaseKinds)('statements of $name', ({ open }) => {
  it('store values one by one and in sets, and read them back, to the last digit and byte', async ({
    folder,
  }) => {
    await using db = await open(folder);
    await makeTable(db);
    await db.transact(async (tx) => {
      for (const { id, name, bytes, isOn } of rows) tx.put(insertOne, { id, name, bytes, isOn: flag(isOn) });
    });
    expect(await ask<Row>(db, all)).toEqual(rows);
    expect(await db.transact(async (tx) => await tx.run('DELETE FROM t'))).toBe(rows.length);
    const v = rows.map((row) => ({ ...row, isOn: flag(row.isOn) }));
    expect(await db.transact(async (tx) => await tx.run(insertSet, { v }))).toBe(rows.length);
    expect(await ask<Row>(db, all)).toEqual(rows);
  });

  it('find by lists and sets what was stored by single values, U+0000 and lone surrogates too', async ({
    folder,
  }) => {
    await using db = await open(folder);
    await makeTable(db);
    const names = ['a\0b', '\0', '\uD800 high', 'low \uDC00', '\uFFFD', 'plain', '\uE000'];
    await db.transact(async (tx) => {
      for (const [id, name] of names.entries()) {
        tx.put(insertOne, { id, name, bytes: Buffer.from(name), isOn: 0 });
      }
    });
    const ids = names.map((_, id) => ({ id }));
    expect(await ask(db, 'SELECT id FROM t WHERE name IN {names text} ORDER BY id', { names })).toEqual(ids);
    const v = names.map((name) => ({ name, bytes: Buffer.from(name) }));
    const joined = `SELECT t.id FROM {v: name text, bytes bytea, n}
      JOIN t ON t.name = v.name AND t.bytes = v.bytes AND t.id = v.n - 1 ORDER BY v.n`;
    expect(await ask(db, joined, { v })).toEqual(ids);
    const bytes = names.map((name) => Buffer.from(name));
    expect(await ask(db, 'SELECT id FROM t WHERE bytes IN {bytes bytea} ORDER BY id', { bytes })).toEqual(
      ids,
    );
  });

  it('ask for lists: what is in them, what is not, and 64 bits of each integer', async ({ folder }) => {
    await using db = await open(folder);
    await makeTable(db);
    const ids = [1n, 2n, 2n ** 53n + 1n, largest];
    await db.transact(async (tx) => {
      await tx.run('INSERT INTO t (id) SELECT v.id FROM {v: id bigint}', { v: ids.map((id) => ({ id })) });
    });
    const found = async (condition: string, asked: readonly bigint[]) =>
      (
        await ask<{ id: number | bigint }>(db, `SELECT id FROM t WHERE ${condition} ORDER BY id`, {
          ids: asked,
        })
      ).map(({ id }) => BigInt(id));
    expect(await found('id IN {ids bigint}', [2n, largest, 5n])).toEqual([2n, largest]);
    expect(await found('id IN {ids bigint}', [2n ** 53n])).toEqual([]);
    expect(await found('id NOT IN {ids bigint}', [2n, largest])).toEqual([1n, 2n ** 53n + 1n]);
    expect(await found('id IN {ids bigint}', [])).toEqual([]);
    expect(await found('id NOT IN {ids bigint}', [])).toEqual(ids);
  });

  it('find an integer by a number that is as large exactly', async ({ folder }) => {
    await using db = await open(folder);
    await makeTable(db);
    // `String` has another integer for this one, which reads back as the same number.
    const id = 1_234_567_890_123_456_768n;
    await db.transact((tx) => Promise.resolve(tx.put(insertOne, { id, name: null, bytes: null, isOn: 1 })));
    expect(await ask<Row>(db, 'SELECT id FROM t WHERE id = :id', { id: Number(id) })).toEqual([{ id }]);
  });

  it('count the rows of a set from 1, and take an empty one', async ({ folder }) => {
    await using db = await open(folder);
    const sql = 'SELECT v.n, v.params_hash FROM {v: params_hash text, n} ORDER BY v.n';
    expect(
      await ask(db, sql, { v: [{ paramsHash: 'b' }, { paramsHash: null }, { paramsHash: 'a' }] }),
    ).toEqual([
      { n: 1, paramsHash: 'b' },
      { n: 2, paramsHash: null },
      { n: 3, paramsHash: 'a' },
    ]);
    expect(await ask(db, sql, { v: [] })).toEqual([]);
  });

  it('give flags as booleans, by the name of their column, and a member of a JSON text', async ({
    folder,
  }) => {
    await using db = await open(folder);
    await makeTable(db);
    const name = '{"key":"it\'s \\u00e9","n":7}';
    await db.transact(async (tx) => void (await tx.run(insertOne, { id: 1, name, bytes: null, isOn: true })));
    const sql = `SELECT is_on, is_on AS was_on, is_on AS on_number, 0 AS has_none, {json name key} AS member, {json name none} AS none
      FROM t`;
    expect(await ask(db, sql)).toEqual([
      { isOn: true, wasOn: true, onNumber: 1, hasNone: false, member: "it's é", none: null },
    ]);
    expect(await ask(db, "SELECT ':id {x} ''q''' AS text, id FROM t WHERE id = :id", { id: 1 })).toEqual([
      { text: ":id {x} 'q'", id: 1 },
    ]);
  });

  it('refuse a value that is missing, a set without a member and a list in place of a value', async ({
    folder,
  }) => {
    await using db = await open(folder);
    await makeTable(db);
    const refused = async (sql: string, values: Values): Promise<void> => {
      await expect(ask(db, sql, values)).rejects.toThrow();
    };
    await refused('SELECT id FROM t WHERE id = :id', {});
    await refused('SELECT id FROM t WHERE id IN {ids bigint}', {});
    await refused('SELECT id FROM t WHERE id IN {ids bigint}', { ids: 1 });
    await refused('SELECT id FROM t WHERE id = :id', { id: [1] });
    await refused('SELECT v.id FROM {v: id bigint, name text}', { v: [{ id: 1 }] });
    await refused('SELECT v.id FROM {v: id bigint}', { v: 1 });
  });
});

it('words that no database knows are refused when the statement is compiled', () => {
  const compiled = (sql: string) => (): unknown => compileStatement(sql, sqliteDialect);
  expect(compiled('SELECT {nonsense}')).toThrow('the word {nonsense}, which no database knows');
  expect(compiled('SELECT {v: id float}')).toThrow('the type "float"');
  expect(compiled('SELECT 1 IN {ids number}')).toThrow('the type "number"');
});

function flag(value: boolean | null): number | null {
  return value === null ? null : Number(value);
}
