import { readFile } from 'node:fs/promises';
import { describe, expect } from 'vitest';
import type { Database, Tx } from '../../src/sql/database.ts';
import { it } from '../support/it.ts';
import { databaseKinds, openTestPostgres } from '../support/sql/databases.ts';

/*
 * What every transaction of the port promises (`src/sql/database.ts`), whatever the database. What a lost answer to a
 * COMMIT means has tests of its own: test/sinks/postgres/cut-connections.test.ts.
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
  it('stores all of it or nothing, and what it puts is stored with it', async ({ folder }) => {
    await using db = await open(folder);
    await makeTable(db);
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
    folder,
  }) => {
    await using db = await open(folder);
    await makeTable(db);
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

  it('runs statements in the order in which they were given', async ({ folder }) => {
    await using db = await open(folder);
    await makeTable(db);
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

  it('follows another one, where both are begun at once', async ({ folder }) => {
    await using db = await open(folder);
    await makeTable(db);
    const add = async () =>
      await db.transact(async (tx) => {
        if (tx.dialect.name === 'postgres') await tx.run('LOCK TABLE t');
        const found = await tx.first<{ n: number }>('SELECT count(*) AS n FROM t');
        await insert(tx, found?.n ?? 0);
      });
    await Promise.all(Array.from({ length: 8 }, add));
    expect(await idsIn(db)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  });

  it('refuses statements when it is over', async ({ folder }) => {
    await using db = await open(folder);
    await makeTable(db);
    const kept = await db.transact(async (tx) => {
      await insert(tx, 1);
      return tx;
    });
    await expect(insert(kept, 2)).rejects.toThrow('after its transaction had ended');
    expect(() => kept.put('INSERT INTO t (id) VALUES (3)')).toThrow('after its transaction had ended');
    expect(await idsIn(db)).toEqual([1]);
  });

  it('is not seen by readers before it is committed', async ({ folder }) => {
    await using db = await open(folder);
    await makeTable(db);
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
  it('is refused when the database is closed, which waits for those that have begun', async ({ folder }) => {
    const db = await open(folder);
    await makeTable(db);
    const begun = db.transact(async (tx) => await insert(tx, 1));
    const reading = idsIn(db);
    await db[Symbol.asyncDispose]();
    expect([await begun, (await reading).length <= 1]).toEqual([1, true]);
    await expect(db.transact(async (tx) => await insert(tx, 2))).rejects.toThrow();
    await expect(idsIn(db)).rejects.toThrow();
    await db[Symbol.asyncDispose]();
  });
});

describe.each(sqliteKinds)(
  'a transaction of $name that waits for something else than its own statements',
  ({ open }) => {
    it.for<[string, (db: Database) => Promise<unknown>]>([
      ['a timer', async () => await new Promise((resolve) => setTimeout(resolve, 1))],
      ['a file', async () => await readFile(import.meta.filename)],
      ['another transaction', async (db) => await db.transact(async (tx) => await insert(tx, 2))],
      ['what never comes', async () => await new Promise(() => undefined)],
    ])('throws instead of hanging, and stores nothing: %s', async ([, wait], { folder }) => {
      await using db = await open(folder);
      await makeTable(db);
      let late: unknown = null;
      const stuck = db.transact(async (tx) => {
        await insert(tx, 1);
        await wait(db).catch(() => undefined);
        late = await insert(tx, 3).catch((error: unknown) => error);
      });
      await expect(stuck).rejects.toThrow('waited for something else than its own statements');
      expect(await idsIn(db)).toEqual([]);
      expect(await db.transact(async (tx) => await insert(tx, 4)), 'the next one').toBe(1);
      expect(await idsIn(db)).toEqual([4]);
      expect(late === null || late instanceof TypeError).toBe(true);
    });
  },
);

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
