import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { expect, onTestFinished } from 'vitest';
import { systemClock } from '../../../src/core/clock.ts';
import type { Database } from '../../../src/sql/database.ts';
import type { SqliteDatabase } from '../../../src/sql/sqlite/open-sqlite-database.ts';
import { LockedError } from '../../../src/sql/sqlite/sqlite-error.ts';
import { mountDisk } from '../../contracts/file-sink/full-disk.ts';
import { it } from '../../support/it.ts';
import { openTestSqlite, writerOf } from '../../support/sql/databases.ts';

/*
 * What a transaction of SQLite does where the disk is full, another process writes, or what is called around it throws.
 */

async function makeTable(db: Database): Promise<void> {
  await db.transact(
    async (tx) => void (await tx.run('CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT) STRICT')),
  );
}

async function insert(db: SqliteDatabase, count: number, length = 1): Promise<void> {
  await db.transact(async (tx) => {
    for (let left = count; left > 0; left -= 1) {
      await tx.run('INSERT INTO t (text) VALUES (:text)', { text: 'x'.repeat(length) });
    }
  });
}

async function countIn(db: Database): Promise<number> {
  const found = await db.read(async (tx) => await tx.first<{ n: number }>('SELECT count(*) AS n FROM t'));
  return found?.n ?? -1;
}

it('stores nothing of what did not fit, and the next transaction begins clean', async ({ folder }) => {
  const file = join(folder, 'test.db');
  const writer = writerOf(file);
  await using db = openTestSqlite(file, { writer });
  await makeTable(db);
  await insert(db, 1);
  writer.pragma('max_page_count = 20');
  for (let attempt = 0; attempt < 3; attempt += 1) {
    await expect(insert(db, 100, 4_000)).rejects.toMatchObject({ code: 'SQLITE_FULL' });
    expect([writer.inTransaction, await countIn(db)]).toEqual([false, 1 + attempt]);
    await insert(db, 1);
  }
  writer.pragma('max_page_count = 10000');
  await insert(db, 100, 4_000);
  expect(await countIn(db)).toBe(104);
  expect(writer.pragma('integrity_check', { simple: true })).toBe('ok');
});

it('survives a disk that is full, where SQLite has rolled back by itself', async ({ folder, skip }) => {
  const disk = join(folder, 'disk');
  skip(!mountDisk(disk, '1m'), 'a tmpfs cannot be mounted here');
  try {
    const file = join(disk, 'test.db');
    const writer = writerOf(file);
    await using db = openTestSqlite(file, { writer });
    await makeTable(db);
    await insert(db, 1);
    // Pages go into the log before the COMMIT: then SQLite gives up the whole transaction, and not the statement alone.
    writer.pragma('cache_size = 5');
    await expect(insert(db, 1_000, 4_000)).rejects.toMatchObject({
      code: expect.stringMatching(/^SQLITE_(FULL|IOERR)/) as string,
    });
    expect([writer.inTransaction, await countIn(db)]).toEqual([false, 1]);
    await insert(db, 2);
    expect(await countIn(db)).toBe(3);
  } finally {
    execFileSync('umount', ['-l', disk]);
  }
});

it('writes nothing where its check throws, which has the write lock', async ({ folder }) => {
  const file = join(folder, 'test.db');
  const writer = writerOf(file);
  let isMoved = false;
  const check = (): void => {
    expect(writer.inTransaction).toBe(true);
    if (isMoved) throw new Error('moved');
  };
  await using db = openTestSqlite(file, { writer, check });
  await makeTable(db);
  isMoved = true;
  await expect(insert(db, 1)).rejects.toThrow('moved');
  isMoved = false;
  expect([writer.inTransaction, await countIn(db)]).toEqual([false, 0]);
});

it('waits for another process in front of the transaction alone, and lets this one work meanwhile', async ({
  folder,
}) => {
  const file = join(folder, 'test.db');
  let begun = 0;
  await using db = openTestSqlite(file, { lockTimeoutMs: 60_000, check: () => void (begun += 1) });
  await makeTable(db);
  const other = writerOf(file);
  onTestFinished(() => void other.close());
  other.exec("BEGIN IMMEDIATE; INSERT INTO t (text) VALUES ('other')");
  let isSettled = false;
  const waiting = insert(db, 1).finally(() => (isSettled = true));
  // Where the wait blocked this process, the first timer would come when it is over.
  for (let turn = 0; turn < 10; turn += 1) {
    await systemClock.sleep(1);
    expect([isSettled, begun, await countIn(db)], 'readers wait for nobody').toEqual([false, 1, 0]);
  }
  other.exec('COMMIT');
  await waiting;
  expect(begun).toBe(2);
  expect(await countIn(db)).toBe(2);
});

it('gives up after its time, and when its signal is aborted; what comes behind it is not held up', async ({
  folder,
}) => {
  const file = join(folder, 'test.db');
  const stop = new AbortController();
  await using db = openTestSqlite(file, { lockTimeoutMs: 100, signal: stop.signal });
  await makeTable(db);
  const other = writerOf(file);
  onTestFinished(() => void other.close());
  other.exec('BEGIN IMMEDIATE');
  await expect(insert(db, 1)).rejects.toThrow(LockedError);
  await using patient = openTestSqlite(file, { signal: stop.signal });
  const reason = new Error('stopped');
  const waiting = insert(patient, 1);
  setTimeout(() => stop.abort(reason), 10);
  await expect(waiting).rejects.toBe(reason);
  other.exec('ROLLBACK');
  await insert(patient, 1);
  await insert(db, 1);
  expect(await countIn(db)).toBe(2);
});
