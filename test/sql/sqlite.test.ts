import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path, { join } from 'node:path';
import { describe, expect, afterEach, beforeEach, onTestFinished, vi } from 'vitest';
import type { Database } from '../../src/sql/database.ts';
import type { SqliteDatabase } from '../../src/sql/sqlite/open-sqlite-database.ts';
import { openSqlite, type Connection } from '../../src/sql/sqlite/open-sqlite.ts';
import { readSqlite } from '../../src/sql/sqlite/open-sqlite-database.ts';
import { mountDisk } from '../support/small-disk.ts';
import { it } from '../support/it.ts';
import { openTestSqlite, writerOf } from '../support/sql/databases.ts';

/** The version of better-sqlite3 that this Node.js cannot run. */
const unfit = Number(process.versions.napi) < 10 ? '13.2.0' : '12.11.1';
/** The sources and what the compiler left take a second to copy. */
const isNeeded = (file: string): boolean => !/\/(?:deps|src|obj|obj\.target)$/.test(file);
const runsHere = Number.parseInt(process.versions.node, 10);

describe('a better-sqlite3 that does not fit the Node.js that runs', () => {
  let folder: string;
  let library: string;

  /** What opens databases, with a better-sqlite3 that the test may spoil. */
  it.beforeEach(({ folder: made }) => {
    folder = made;
    library = path.join(folder, 'node_modules', 'better-sqlite3');
    mkdirSync(path.join(folder, 'node_modules'));
    for (const name of readdirSync('node_modules').filter((name) => !name.startsWith('.'))) {
      const target = path.resolve('node_modules', name);
      if (name === 'better-sqlite3') cpSync(target, library, { recursive: true, filter: isNeeded });
      else symlinkSync(target, path.join(folder, 'node_modules', name));
    }
    for (const name of ['package.json', 'src/core', 'src/sql/sqlite/open-sqlite.ts']) {
      cpSync(name, path.join(folder, name), { recursive: true });
    }
  });

  const opened = (): { status: number | null; stderr: string } => {
    const open = `import('${folder}/src/sql/sqlite/open-sqlite.ts').then(({ openSqlite }) => openSqlite(':memory:')).catch((error) => { console.error(error.code, error.message); process.exitCode = 1; })`;
    return spawnSync(process.execPath, ['--import', import.meta.resolve('tsx'), '-e', open], {
      encoding: 'utf8',
    });
  };

  it('is opened where it fits', () => {
    expect(opened()).toMatchObject({ status: 0, stderr: '' });
  });

  // Both versions run on Node.js 22.14 and later.
  it.skipIf(unfit === '12.11.1' && runsHere < 24)('is named in one sentence instead of crashing', () => {
    const manifest = path.join(library, 'package.json');
    const { version } = JSON.parse(readFileSync(manifest, 'utf8')) as { version: string };
    writeFileSync(manifest, readFileSync(manifest, 'utf8').replace(`"${version}"`, `"${unfit}"`));
    const { status, stderr } = opened();
    expect(status).toBe(1);
    expect(stderr).toContain(
      `SQLITE_UNUSABLE The installed better-sqlite3 ${unfit} does not work on this Node.js (${process.version}`,
    );
    expect(stderr).toContain('`npm ci`');
  });

  it('is named where its binary was made for another Node.js', () => {
    for (const file of readdirSync(library, { recursive: true, encoding: 'utf8' })) {
      if (file.endsWith('.node')) writeFileSync(path.join(library, file), 'not this machine');
    }
    const { status, stderr } = opened();
    expect(status).toBe(1);
    expect(stderr).toContain('SQLITE_UNUSABLE');
    expect(stderr).toContain('holds no binary for this Node.js');
  });
});

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
  using _disk = mountDisk(folder, '1m', skip);
  const file = join(folder, 'test.db');
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

const count = 'SELECT count(*) AS n FROM t';

/** A file with one row, the connection that made it, and those that read it. */
function fileIn(folder: string) {
  const file = join(folder, 'test.db');
  const writer = writerOf(file);
  onTestFinished(() => void writer.close());
  writer.exec('CREATE TABLE t (id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)');
  const opened: Connection[] = [];
  const openReader = (): Connection => {
    const db = openSqlite(file, { readonly: true });
    opened.push(db);
    return db;
  };
  return { file, writer, opened, openReader };
}

const explain = (error: unknown): Error => new Error('explained', { cause: error });

describe('readers', () => {
  /* Connections of SQLite that read. */

  beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }));
  afterEach(() => void vi.useRealTimers());

  it('are opened on first use, one at a time, used again, and closed when idle', async ({ folder }) => {
    const { file, opened, openReader } = fileIn(folder);
    await using db = readSqlite({ file, openReader, explain });
    expect(opened).toEqual([]);
    const read = async () => await db.read(async (tx) => await tx.first(count));
    expect(await Promise.all(Array.from({ length: 20 }, read))).toEqual(
      Array.from({ length: 20 }, () => ({ n: 1 })),
    );
    vi.advanceTimersByTime(4_999);
    await read();
    vi.advanceTimersByTime(4_999);
    expect(opened.map((one) => one.open)).toEqual([true]);
    vi.advanceTimersByTime(1);
    expect(opened.map((one) => one.open)).toEqual([false]);
    expect(await read()).toEqual({ n: 1 });
    expect(opened.length).toBe(2);
  });

  it('are not closed during a read that began before', async ({ folder }) => {
    const { file, openReader } = fileIn(folder);
    await using db = readSqlite({ file, openReader, explain });
    await db.read(async (tx) => await tx.first(count));
    const reading = db.read(async (tx) => {
      await tx.first(count);
      vi.advanceTimersByTime(5_000);
      return await tx.first(count);
    });
    expect(await reading).toEqual({ n: 1 });
  });

  it('are not needed by a database that writes: it reads on its own connection', async ({ folder }) => {
    const { file, writer, opened, openReader } = fileIn(folder);
    await using db = openTestSqlite(file, { writer, openReader, cacheKiB: 4_096 });
    await db.transact(async (tx) => void (await tx.run('INSERT INTO t VALUES (2)')));
    const read = async () => await db.read(async (tx) => await tx.first(count));
    const writing = db.transact(async (tx) => void (await tx.run('INSERT INTO t VALUES (3)')));
    expect(await Promise.all([read(), read(), writing])).toEqual([{ n: 3 }, { n: 3 }, undefined]);
    expect(opened).toEqual([]);
    expect(writer.pragma('cache_size', { simple: true })).toBe(-4_096);
  });

  it('store nothing where a database that writes is read', async ({ folder }) => {
    const { file } = fileIn(folder);
    await using db = openTestSqlite(file);
    await db.read(async (tx) => await tx.run('INSERT INTO t VALUES (5)'));
    expect(await db.read(async (tx) => await tx.first(count))).toEqual({ n: 1 });
  });

  it('hold no snapshot longer than a read: the log can be folded into the file and emptied', async ({
    folder,
  }) => {
    const { file, writer, openReader } = fileIn(folder);
    await using db = openTestSqlite(file, { writer, openReader });
    await db.read(async (tx) => await tx.first(count));
    await expect(db.read(async (tx) => await tx.first('SELECT nonsense'))).rejects.toThrow('nonsense');
    await db.transact(async (tx) => void (await tx.run('INSERT INTO t VALUES (2)')));
    expect(writer.pragma('wal_checkpoint(TRUNCATE)')).toEqual([{ busy: 0, log: 0, checkpointed: 0 }]);
  });

  it('need no connection that writes, and cannot write', async ({ folder }) => {
    const { file, openReader } = fileIn(folder);
    await using db = readSqlite({ file, openReader, explain });
    expect(await db.read(async (tx) => await tx.first(count))).toEqual({ n: 1 });
    await expect(db.read(async (tx) => await tx.run('INSERT INTO t VALUES (5)'))).rejects.toThrow(
      'explained',
    );
    await using snapshot = await db.openSnapshot();
    await expect(snapshot.read(async (tx) => await tx.run('DELETE FROM t'))).rejects.toThrow('explained');
  });
});

/* A SQLite file that is read for days. */

function watched(folder: string) {
  const { file, openReader, ...more } = fileIn(folder);
  const db = readSqlite({ file, openReader, cacheKiB: 512, explain, isWatched: true });
  onTestFinished(async () => await db[Symbol.asyncDispose]());
  return { db, ...more };
}

it('is read on one connection, opened on first use, with the memory it is given', async ({ folder }) => {
  const { db, opened } = watched(folder);
  expect(opened).toEqual([]);
  const read = async () => await db.read(async (tx) => await tx.first(count));
  const answers = await Promise.all([read(), db.mark(), read(), read()]);
  expect(answers).toEqual([{ n: 1 }, expect.any(Number), { n: 1 }, { n: 1 }]);
  expect(opened.map((one) => one.pragma('cache_size', { simple: true }))).toEqual([-512]);
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
});

it('cannot be written, and holds no snapshot between reads', async ({ folder }) => {
  const { db, writer } = watched(folder);
  await expect(db.read(async (tx) => await tx.run('DELETE FROM t'))).rejects.toThrow('explained');
  await db.mark();
  writer.exec('INSERT INTO t VALUES (2)');
  expect(writer.pragma('wal_checkpoint(TRUNCATE)')).toEqual([{ busy: 0, log: 0, checkpointed: 0 }]);
});

it('is closed when the reads that have begun are over, and answers no more', async ({ folder }) => {
  const { db, opened } = watched(folder);
  const reading = db.read(async (tx) => await tx.first(count));
  await db[Symbol.asyncDispose]();
  expect(await reading).toEqual({ n: 1 });
  expect(opened.map((one) => one.open)).toEqual([false]);
  await expect(db.mark()).rejects.toMatchObject({
    cause: { message: expect.stringContaining('was closed') },
  });
});
