import { describe, expect } from 'vitest';
import type { Cells, Database, Snapshot } from '../../src/sql/database.ts';
import { it } from '../support/it.ts';
import { databaseKinds } from '../support/sql/databases.ts';

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
  it('shows one state, however long its reader waits and whatever is committed meanwhile', async ({
    folder,
  }) => {
    await using db = await open(folder);
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
    folder,
  }) => {
    await using db = await open(folder);
    await fill(db, 1_234);
    await using snapshot = await db.openSnapshot();
    const [all, half] = await Promise.all([read(snapshot), read(snapshot, 600)]);
    expect(all).toEqual(Array.from({ length: 1_234 }, (_, id) => [id, `n${id}`]));
    expect(half).toEqual(all.slice(600));
    expect(await read(snapshot, 5_000)).toEqual([]);
    const lengths: number[] = [];
    for await (const batch of snapshot.batches(byId, { from: 0 })) lengths.push(batch.length);
    expect(lengths).toEqual([100, 1_000, 134]);
  });

  it('ends a batch by the length of its rows, and keeps all digits of integers', async ({ folder }) => {
    await using db = await open(folder);
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

  it('can be left in the middle of a batch, and disposed while it is read', async ({ folder }) => {
    await using db = await open(folder);
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

  it('rejects with the reason of its signal once that is aborted', async ({ folder }) => {
    await using db = await open(folder);
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

  it('says what is wrong with a statement', async ({ folder }) => {
    await using db = await open(folder);
    await using snapshot = await db.openSnapshot();
    await expect(snapshot.batches('SELECT nonsense').next()).rejects.toThrow(/nonsense/);
  });
});
