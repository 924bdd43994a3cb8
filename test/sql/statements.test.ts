import { describe, expect, onTestFinished, vi } from 'vitest';
import type { Database, Values, Tx, Cells, Snapshot } from '../../src/sql/database.ts';
import { sqliteDialect } from '../../src/sql/sqlite/sqlite-tx.ts';
import { compileStatement } from '../../src/sql/statement.ts';
import { it } from '../support/it.ts';
import { databaseKinds, openTestPostgres } from '../support/sql/databases.ts';

/*
 * The few words in which statements are written once for every database (`src/sql/statement.ts`) mean the same in each.
 */

/** `it` with a database of this kind, and the tables that `make` makes. */
function withDatabase(open: (typeof databaseKinds)[number]['open'], make?: (db: Database) => Promise<void>) {
  return it.extend<{ db: Database }>({
    db: async ({ folder }, use) => {
      await using db = await open(folder);
      await make?.(db);
      await use(db);
    },
  });
}

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
  const it = withDatabase(open, makeTable);

  it('store values one by one and in sets, and read them back, to the last digit and byte', async ({
    db,
  }) => {
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
    db,
  }) => {
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

  it('ask for lists: what is in them, what is not, and 64 bits of each integer', async ({ db }) => {
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

  it('find an integer by a number that is as large exactly', async ({ db }) => {
    // `String` has another integer for this one, which reads back as the same number.
    const id = 1_234_567_890_123_456_768n;
    await db.transact((tx) => Promise.resolve(tx.put(insertOne, { id, name: null, bytes: null, isOn: 1 })));
    expect(await ask<Row>(db, 'SELECT id FROM t WHERE id = :id', { id: Number(id) })).toEqual([{ id }]);
  });

  it('count the rows of a set from 1, and take an empty one', async ({ db }) => {
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

  it('give flags as booleans, by the name of their column, and a member of a JSON text', async ({ db }) => {
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
    db,
  }) => {
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

describe('transactions', () => {
  /*
   * What every transaction of the port promises (`src/sql/database.ts`), whatever the database. What a lost answer to a
   * COMMIT means has tests of its own: test/sinks/postgres/losses.test.ts.
   */

  async function makeTable(db: Database): Promise<void> {
    const id = db.dialect.name === 'sqlite' ? 'INTEGER' : 'bigint';
    await db.transact(async (tx) => void (await tx.run(`CREATE TABLE t (id ${id} PRIMARY KEY)`)));
  }

  async function insert(tx: Tx, id: number): Promise<number> {
    return await tx.run('INSERT INTO t (id) VALUES (:id)', { id });
  }

  async function idsIn(db: Database): Promise<readonly number[]> {
    const rows = await db.read(async (tx) => await tx.rows<{ id: number }>('SELECT id FROM t ORDER BY id'));
    return rows.map(({ id }) => id);
  }

  describe.each(databaseKinds)('a transaction of $name', ({ name, open }) => {
    const it = withDatabase(open, makeTable);

    it('stores all of it or nothing, and what it puts is stored with it', async ({ db }) => {
      await db.transact(async (tx) => {
        tx.put('INSERT INTO t (id) VALUES (1)');
        expect(await insert(tx, 2)).toBe(1);
        expect(await tx.first('SELECT count(*) AS n FROM t')).toEqual({ n: 2 });
        tx.put('INSERT INTO t (id) VALUES (3)');
      });
      const thrown = db.transact(async (tx) => {
        await insert(tx, 4);
        throw new Error('on the way');
      });
      await expect(thrown).rejects.toThrow('on the way');
      expect(await idsIn(db)).toEqual([1, 2, 3]);
    });

    it('stores nothing where one of its statements has failed, also where the error was caught or the statement was put', async ({
      db,
    }) => {
      await db.transact(async (tx) => void (await insert(tx, 1)));
      const works: readonly ((tx: Tx) => Promise<unknown>)[] = [
        async (tx) => [await insert(tx, 2), await insert(tx, 1).catch(() => 0)],
        async (tx) => [await insert(tx, 2), tx.put('INSERT INTO t (id) VALUES (1)')],
        async (tx) => [tx.put('INSERT INTO t (id) VALUES (1)'), await insert(tx, 2).catch(() => 0)],
        async (tx) => await Promise.allSettled([insert(tx, 2), insert(tx, 1), insert(tx, 3)]),
        async (tx) => {
          const first = await insert(tx, 1).catch((error: unknown) => error);
          await expect(insert(tx, 3), 'what follows is refused with the same error').rejects.toBe(first);
        },
      ];
      for (const [index, work] of works.entries()) {
        await expect(db.transact(work), `work ${index}`).rejects.toThrow(/unique/i);
        expect(await idsIn(db), `after work ${index}`).toEqual([1]);
      }
      expect(await db.transact(async (tx) => await insert(tx, 2)), 'the next one begins clean').toBe(1);
    });

    it('runs statements in the order in which they were given', async ({ db }) => {
      const counts = await db.transact(
        async (tx) =>
          await Promise.all(
            [1, 2, 3, 4].map(async (id) => {
              tx.put('INSERT INTO t (id) VALUES (:id)', { id });
              return (await tx.first<{ n: number }>('SELECT count(*) AS n FROM t'))?.n;
            }),
          ),
      );
      expect(counts).toEqual([1, 2, 3, 4]);
    });

    it('follows another one, where both are begun at once', async ({ db }) => {
      const add = async () =>
        await db.transact(async (tx) => {
          if (tx.dialect.name === 'postgres') await tx.run('LOCK TABLE t');
          const found = await tx.first<{ n: number }>('SELECT count(*) AS n FROM t');
          await insert(tx, found?.n ?? 0);
        });
      await Promise.all(Array.from({ length: 8 }, add));
      expect(await idsIn(db)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    });

    it('refuses statements when it is over', async ({ db }) => {
      const kept = await db.transact(async (tx) => {
        await insert(tx, 1);
        return tx;
      });
      await expect(insert(kept, 2)).rejects.toThrow('after its transaction had ended');
      expect(() => kept.put('INSERT INTO t (id) VALUES (3)')).toThrow('after its transaction had ended');
      expect(await idsIn(db)).toEqual([1]);
    });

    it('is not seen by readers before it is committed', async ({ db }) => {
      const seen: (readonly number[])[] = [];
      const beside = db.transact(async (tx) => {
        await insert(tx, 1);
        seen.push(...(name === 'PostgreSQL' ? [await idsIn(db)] : []));
        await insert(tx, 2);
      });
      seen.push(await idsIn(db));
      await beside;
      expect(seen.filter((ids) => ids.length === 1)).toEqual([]);
      expect(await idsIn(db)).toEqual([1, 2]);
    });
  });

  const sqliteKinds = databaseKinds.filter(({ name }) => name.startsWith('SQLite'));

  describe.each(sqliteKinds)('a transaction of $name', ({ open }) => {
    const it = withDatabase(open, makeTable);

    it('is refused when the database is closed, which waits for those that have begun', async ({ db }) => {
      const begun = db.transact(async (tx) => await insert(tx, 1));
      const reading = idsIn(db);
      await db[Symbol.asyncDispose]();
      expect([await begun, (await reading).length <= 1]).toEqual([1, true]);
      await expect(db.transact(async (tx) => await insert(tx, 2))).rejects.toThrow();
      await expect(idsIn(db)).rejects.toThrow();
      await db[Symbol.asyncDispose]();
    });

    it.for<[string, (db: Database) => Promise<unknown>]>([
      ['another transaction', async (db) => await db.transact(async (tx) => await insert(tx, 2))],
      ['what never comes', async () => await new Promise(() => undefined)],
    ])('fails instead of waiting for ever, and stores nothing: for %s', async ([, wait], { db }) => {
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
      onTestFinished(() => void vi.useRealTimers());
      const stuck = db.transact(async (tx) => {
        await insert(tx, 1);
        await wait(db);
        await insert(tx, 3);
      });
      const failed = expect(stuck).rejects.toThrow('waited for more than its own statements');
      await vi.advanceTimersByTimeAsync(20_000);
      await failed;
      vi.useRealTimers();
      await expect.poll(async () => await db.transact(async (tx) => await insert(tx, 4))).toBe(1);
      expect(await idsIn(db)).not.toContain(1);
      expect(await idsIn(db)).not.toContain(3);
    });
  });

  describe('a transaction that the server breaks off for another one', () => {
    it('runs again, after `restart` has undone what it had changed outside', async () => {
      await using db = await openTestPostgres();
      await makeTable(db);
      await db.transact(async (tx) => {
        for (const id of [1, 2]) await insert(tx, id);
      });
      const update = 'UPDATE t SET id = id WHERE id = :id';
      /** Each locks its first row and wants that of the other: the server ends one of the two. */
      const begun = [gate(), gate()];
      let restarts = 0;
      const lock = async (own: number, other: number): Promise<number> => {
        let attempts = 0;
        return await db.transact(
          async (tx) => {
            attempts += 1;
            await tx.run(update, { id: own });
            begun[own - 1]?.open();
            await begun[other - 1]?.opened;
            await tx.run(update, { id: other });
            return attempts;
          },
          { restart: () => void (restarts += 1) },
        );
      };
      expect((await Promise.all([lock(1, 2), lock(2, 1)])).sort()).toEqual([1, 2]);
      expect(restarts).toBe(1);
    });
  });

  function gate(): { readonly open: () => void; readonly opened: Promise<void> } {
    let open = (): void => undefined;
    const opened = new Promise<void>((resolve) => (open = resolve));
    return { open: () => open(), opened };
  }
});

/* Readers of whole tables: one state for as long as they need it, in batches. */

async function fill(db: Database, count: number): Promise<void> {
  const types =
    db.dialect.name === 'sqlite'
      ? 'id INTEGER PRIMARY KEY, is_name TEXT'
      : 'id bigint PRIMARY KEY, is_name text';
  await db.transact(async (tx) => {
    await tx.run(`CREATE TABLE t (${types})`);
    const v = Array.from({ length: count }, (_, id) => ({ id, name: `n${id}` }));
    tx.put('INSERT INTO t (id, is_name) SELECT v.id, v.name FROM {v: id bigint, name text}', { v });
  });
}

const byId = 'SELECT id, is_name FROM t WHERE id >= :from ORDER BY id';

async function read(snapshot: Snapshot, from = 0): Promise<readonly Cells[]> {
  const rows: Cells[] = [];
  for await (const batch of snapshot.batches(byId, { from })) {
    expect(batch.length).toBeGreaterThan(0);
    rows.push(...batch);
  }
  return rows;
}

describe.each(databaseKinds)('a snapshot of $name', ({ open }) => {
  const it = withDatabase(open);

  it('shows one state, however long its reader waits and whatever is committed meanwhile', async ({ db }) => {
    await fill(db, 2);
    await using snapshot = await db.openSnapshot();
    const add = async (id: number) =>
      await db.transact(async (tx) => await tx.run("INSERT INTO t (id, is_name) VALUES (:id, '')", { id }));
    await add(2);
    await new Promise((resolve) => setTimeout(resolve, 5));
    const count = async () =>
      await snapshot.read(async (tx) => await tx.first<{ n: number }>('SELECT count(*) AS n FROM t'));
    expect(await count()).toEqual({ n: 2 });
    await add(3);
    expect((await read(snapshot)).map(([id]) => id)).toEqual([0, 1]);
    expect(await count()).toEqual({ n: 2 });
    await using later = await db.openSnapshot();
    expect((await read(later)).length).toBe(4);
  });

  it('gives every row once, in the order asked for, in batches; several readers side by side', async ({
    db,
  }) => {
    await fill(db, 1_234);
    await using snapshot = await db.openSnapshot();
    const [all, half] = await Promise.all([read(snapshot), read(snapshot, 600)]);
    expect(all).toEqual(Array.from({ length: 1_234 }, (_, id) => [id, `n${id}`]));
    expect(half).toEqual(all.slice(600));
    expect(await read(snapshot, 5_000)).toEqual([]);
    const lengths: number[] = [];
    for await (const batch of snapshot.batches(byId, { from: 0 })) lengths.push(batch.length);
    // A cursor of PostgreSQL begins with few rows, whose lengths say how many to ask for next.
    expect(lengths).toEqual(db.dialect.name === 'sqlite' ? [1_000, 234] : [100, 1_000, 134]);
  });

  it('ends a batch by the length of its rows, and keeps all digits of integers', async ({ db }) => {
    await fill(db, 0);
    const large = 'x'.repeat(3_000_000);
    await db.transact(async (tx) => {
      for (let id = 0n; id < 4n; id += 1n) {
        tx.put('INSERT INTO t (id, is_name) VALUES (:id, :large)', { id: 2n ** 53n + id, large });
      }
    });
    await using snapshot = await db.openSnapshot();
    const batches: number[] = [];
    const ids: unknown[] = [];
    for await (const batch of snapshot.batches(byId, { from: 0 })) {
      batches.push(batch.length);
      ids.push(...batch.map(([id]) => id));
    }
    expect(ids).toEqual([0n, 1n, 2n, 3n].map((id) => 2n ** 53n + id));
    // The first batch of a server comes by its number of rows.
    expect(Math.max(...batches)).toBeLessThanOrEqual(db.dialect.name === 'sqlite' ? 2 : 4);
  });

  it('can be left in the middle of a batch, and disposed while it is read', async ({ db }) => {
    await fill(db, 1_000);
    await using snapshot = await db.openSnapshot();
    for await (const batch of snapshot.batches(byId, { from: 0 })) {
      expect(batch.length).toBeGreaterThan(0);
      break;
    }
    expect((await read(snapshot, 990)).length).toBe(10);
    const left = snapshot.batches(byId, { from: 0 })[Symbol.asyncIterator]();
    await left.next();
    await snapshot[Symbol.asyncDispose]();
    await snapshot[Symbol.asyncDispose]();
    expect(await db.transact(async (tx) => await tx.run('DELETE FROM t'))).toBe(1_000);
  });

  it('rejects with the reason of its signal once that is aborted', async ({ db }) => {
    await fill(db, 1_000);
    const stop = new AbortController();
    await using snapshot = await db.openSnapshot(stop.signal);
    const reason = new Error('stopped');
    const reading = async (): Promise<void> => {
      for await (const batch of snapshot.batches(byId, { from: 0 })) {
        expect(batch.length).toBeGreaterThan(0);
        stop.abort(reason);
      }
    };
    await expect(reading()).rejects.toBe(reason);
    await expect(snapshot.read(async (tx) => await tx.rows('SELECT 1 AS one'))).rejects.toBe(reason);
    await expect(db.openSnapshot(stop.signal)).rejects.toBe(reason);
  });

  it('says what is wrong with a statement', async ({ db }) => {
    await using snapshot = await db.openSnapshot();
    await expect(snapshot.batches('SELECT nonsense').next()).rejects.toThrow(/nonsense/);
  });
});
