import { join } from 'node:path';
import { expect } from 'vitest';
import { openSqlite, type Connection } from '../../../src/sql/sqlite/open-sqlite.ts';
import { watchSqlite, type WatchedSqlite } from '../../../src/sql/sqlite/read-sqlite.ts';
import { it } from '../../support/it.ts';
import { writerOf } from '../../support/sql/databases.ts';

/* A SQLite file that is read for days. */

interface Watched {
  readonly db: WatchedSqlite;
  readonly opened: readonly Connection[];
  readonly writer: Connection;
}

function watched(folder: string): Watched {
  const file = join(folder, 'test.db');
  const writer = writerOf(file);
  writer.exec('CREATE TABLE t (id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)');
  const opened: Connection[] = [];
  const openReader = (): Connection => {
    const db = openSqlite(file, { readonly: true });
    opened.push(db);
    return db;
  };
  const explain = (error: unknown): Error => new Error('explained', { cause: error });
  return { db: watchSqlite({ file, openReader, cacheKiB: 512, explain }), opened, writer };
}

const count = 'SELECT count(*) AS n FROM t';

it('is read on one connection, opened on first use, with the memory it is given', async ({ folder }) => {
  const { db, opened, writer } = watched(folder);
  expect(opened).toEqual([]);
  const read = async () => await db.read(async (tx) => await tx.first(count));
  const answers = await Promise.all([read(), db.mark(), read(), read()]);
  expect(answers).toEqual([{ n: 1 }, expect.any(Number), { n: 1 }, { n: 1 }]);
  expect(opened.map((one) => one.pragma('cache_size', { simple: true }))).toEqual([-512]);
  await db[Symbol.asyncDispose]();
  writer.close();
});

it('gives a mark that changes with each commit, and with nothing else', async ({ folder }) => {
  const { db, writer } = watched(folder);
  const marks = [await db.mark()];
  const next = async (): Promise<boolean> => {
    marks.push(await db.mark());
    return marks.at(-1) !== marks.at(-2);
  };
  expect(await next(), 'nothing was written').toBe(false);
  writer.exec('INSERT INTO t VALUES (2)');
  expect(await next(), 'another connection has committed').toBe(true);
  writer.exec('BEGIN; INSERT INTO t VALUES (3); ROLLBACK');
  expect(await next(), 'nothing was stored').toBe(false);
  await db.read(async (tx) => await tx.first(count));
  expect(await next(), 'it was read').toBe(false);
  await db[Symbol.asyncDispose]();
  writer.close();
});

it('gives the mark of now, after the reads that began before', async ({ folder }) => {
  const { db, writer } = watched(folder);
  const before = await db.mark();
  let atRead = null;
  const reading = db.read(async (tx) => {
    await tx.first(count);
    writer.exec('INSERT INTO t VALUES (2)');
    atRead = await tx.first(count);
  });
  const after = await db.mark();
  await reading;
  expect(atRead, 'the state in which the read began').toEqual({ n: 1 });
  expect(after).not.toBe(before);
  await db[Symbol.asyncDispose]();
  writer.close();
});

it('cannot be written, and holds no snapshot between reads', async ({ folder }) => {
  const { db, writer } = watched(folder);
  await expect(db.read(async (tx) => await tx.run('DELETE FROM t'))).rejects.toThrow('explained');
  await db.mark();
  writer.exec('INSERT INTO t VALUES (2)');
  expect(writer.pragma('wal_checkpoint(TRUNCATE)')).toEqual([{ busy: 0, log: 0, checkpointed: 0 }]);
  await db[Symbol.asyncDispose]();
  writer.close();
});

it('is closed when the reads that have begun are over, and answers no more', async ({ folder }) => {
  const { db, opened, writer } = watched(folder);
  const reading = db.read(async (tx) => await tx.first(count));
  await db[Symbol.asyncDispose]();
  expect(await reading).toEqual({ n: 1 });
  expect(opened.map((one) => one.open)).toEqual([false]);
  await expect(db.mark()).rejects.toMatchObject({
    cause: { message: expect.stringContaining('was closed') },
  });
  writer.close();
});
