import { join } from 'node:path';
import { afterEach, beforeEach, expect, vi } from 'vitest';
import { openSqlite, type Connection } from '../../../src/sql/sqlite/open-sqlite.ts';
import { readSqlite } from '../../../src/sql/sqlite/read-sqlite.ts';
import { it } from '../../support/it.ts';
import { openTestSqlite, writerOf } from '../../support/sql/databases.ts';

/* Connections of SQLite that read. */

let opened: Connection[] = [];
beforeEach(() => {
  opened = [];
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
});
afterEach(() => {
  vi.useRealTimers();
});

function openReader(file: string): Connection {
  const db = openSqlite(file, { readonly: true });
  opened.push(db);
  return db;
}

function fileIn(folder: string): string {
  const file = join(folder, 'test.db');
  const writer = writerOf(file);
  writer.exec('CREATE TABLE t (id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)');
  writer.close();
  return file;
}

const count = 'SELECT count(*) AS n FROM t';

it('are opened on first use, four at most, used again, and closed when idle', async ({ folder }) => {
  const file = fileIn(folder);
  await using db = openTestSqlite(file, { openReader: () => openReader(file) });
  await db.transact(async (tx) => void (await tx.run('INSERT INTO t VALUES (2)')));
  expect(opened).toEqual([]);
  const read = async () => await db.read(async (tx) => await tx.first(count));
  await read();
  await read();
  expect(opened.length).toBe(1);
  expect(await Promise.all(Array.from({ length: 20 }, read))).toEqual(
    Array.from({ length: 20 }, () => ({ n: 2 })),
  );
  expect(opened.length).toBe(4);
  vi.advanceTimersByTime(4_999);
  await read();
  vi.advanceTimersByTime(4_999);
  expect(opened.filter((one) => one.open).length).toBe(4);
  vi.advanceTimersByTime(1);
  expect(opened.filter((one) => one.open)).toEqual([]);
  expect(await read()).toEqual({ n: 2 });
  expect(opened.length).toBe(5);
});

it('hold no snapshot longer than a read: the log can be folded into the file and emptied', async ({
  folder,
}) => {
  const file = fileIn(folder);
  const writer = writerOf(file);
  await using db = openTestSqlite(file, { writer, openReader: () => openReader(file) });
  await db.read(async (tx) => await tx.first(count));
  await expect(db.read(async (tx) => await tx.first('SELECT nonsense'))).rejects.toThrow('nonsense');
  await db.transact(async (tx) => void (await tx.run('INSERT INTO t VALUES (2)')));
  expect(writer.pragma('wal_checkpoint(TRUNCATE)')).toEqual([{ busy: 0, log: 0, checkpointed: 0 }]);
});

it('share the memory of the database', async ({ folder }) => {
  const file = fileIn(folder);
  const writer = writerOf(file);
  await using db = openTestSqlite(file, { writer, openReader: () => openReader(file), cacheKiB: 4_096 });
  const read = async () => await db.read(async (tx) => await tx.first(count));
  await Promise.all(Array.from({ length: 9 }, read));
  const sizes = [writer, ...opened].map((one) => -Number(one.pragma('cache_size', { simple: true })));
  expect(sizes).toEqual([3_072, 256, 256, 256, 256]);
});

it('need no connection that writes, and cannot write', async ({ folder }) => {
  const file = fileIn(folder);
  await using db = readSqlite({
    file,
    openReader: () => openReader(file),
    explain: (error) => new Error('explained', { cause: error }),
  });
  expect(await db.read(async (tx) => await tx.first(count))).toEqual({ n: 1 });
  await expect(db.read(async (tx) => await tx.run('INSERT INTO t VALUES (5)'))).rejects.toThrow('explained');
  await using snapshot = await db.openSnapshot();
  await expect(snapshot.read(async (tx) => await tx.run('DELETE FROM t'))).rejects.toThrow('explained');
});

it('are all closed with the database, those that are being read from when the read is over', async ({
  folder,
}) => {
  const file = fileIn(folder);
  const db = openTestSqlite(file, { openReader: () => openReader(file) });
  const reading = db.read(async (tx) => await tx.first(count));
  await db[Symbol.asyncDispose]();
  expect(await reading).toEqual({ n: 1 });
  expect(opened.map((one) => one.open)).toEqual([false]);
  await expect(db.read(async (tx) => await tx.first(count))).rejects.toThrow('was closed');
});
