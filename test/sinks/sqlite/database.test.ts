import { execFileSync } from 'node:child_process';
import { writeFileSync, openSync, copyFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { expect, afterEach, describe, beforeEach } from 'vitest';
import { systemClock, type Clock } from '../../../src/core/clock.ts';
import { SyncError } from '../../../src/core/errors.ts';
import { checkTemporaryFolder } from '../../../src/files/private-file.ts';
import { ledgerSink } from '../../../src/sinks/ledger/ledger-sink.ts';
import { openSink } from '../../../src/sinks/registry.ts';
import type { Sink, SinkOptions } from '../../../src/sinks/sink-access.ts';
import { openDatabase, openReadonlyDatabase, toSinkError } from '../../../src/sinks/sqlite/open-database.ts';
import { sqliteFormat } from '../../../src/sinks/sqlite/sqlite-schema.ts';
import { openLedgerFile } from '../../../src/sinks/sqlite/sqlite-sink.ts';
import { sqliteTables } from '../../../src/sinks/sqlite/sqlite-tables.ts';
import { jsonlKind, sqliteKind } from '../../contracts/file-sink/file-sink-kind.ts';
import { identity, member, news, sealed } from '../../contracts/sink/fixture.ts';
import { useBench } from '../../contracts/sink/use-bench.ts';
import { testProgram } from '../../support/ensure-built.ts';
import { it } from '../../support/it.ts';
import { startScript } from '../../support/run-cli.ts';
import { lastStep, madeUpMigrations } from '../../support/sinks/made-up-versions.ts';
import { mountDisk } from '../../support/small-disk.ts';

describe('open database', () => {
  let folder = '';
  it.beforeEach(({ folder: made }) => {
    folder = made;
  });

  it.each([
    ['full', 2],
    ['normal', 1],
  ] as const)(
    'durability %s sets synchronous to %i, and every guard and size that was measured',
    (durability, synchronous) => {
      const options = {
        file: join(folder, 'a.db'),
        format: sqliteFormat,
        durability,
        now: '2026-03-01T10:00:00.000Z',
      } as const;
      for (let round = 0; round < 2; round += 1) {
        const db = openDatabase(options);
        const names = [
          'synchronous',
          'trusted_schema',
          'cell_size_check',
          'wal_autocheckpoint',
          'cache_size',
          'journal_size_limit',
          'mmap_size',
        ];
        const values = names.map((name) => db.pragma(name, { simple: true }) ?? 0);
        const isEmptyBefore = db.prepare('SELECT seq FROM _sync_meta').pluck().get();
        db.close();
        expect(values).toEqual([synchronous, 0, 1, 4_096, -32_768, 67_108_864, 0]);
        expect(isEmptyBefore).toBe(0);
      }
    },
  );

  it('a sink is not opened for writing without a temporary folder', () => {
    const file = join(folder, 'file');
    writeFileSync(file, '');
    const none = [join(folder, 'none'), file];
    expect(() => checkTemporaryFolder(none)).toThrow(
      `Expected a temporary folder that this user can write to, found none (${none.join(', ')}). Mount one at /tmp`,
    );
    expect(() => checkTemporaryFolder([...none, folder])).not.toThrow();
  });

  it('several processes may make the same file at the same time', async () => {
    const script = testProgram('sinks/sqlite/opening-process.mjs');
    const startAtMs = String(Date.now() + 4000);
    const processes = Array.from({ length: 4 }, () => startScript([script, folder, '25', startAtMs], folder));
    for (const { result } of processes) expect(await result).toMatchObject({ code: 0, stderr: '' });
  });
});

function failureOf(act: () => unknown): unknown {
  try {
    act();
    return null;
  } catch (error) {
    return toSinkError(error, '/data/warehouse.db');
  }
}

it('a database that another writer keeps locked is SINK_FAILED for now, and the message says who to look for', ({
  folder,
}) => {
  const first = new Database(join(folder, 'a.db'));
  const second = new Database(join(folder, 'a.db'), { timeout: 0 });
  first.exec('BEGIN IMMEDIATE');
  const failure = failureOf(() => second.exec('BEGIN IMMEDIATE'));
  first.close();
  second.close();
  expect(failure).toMatchObject({
    code: 'SINK_FAILED',
    recovery: 'retry',
    context: { cause: 'SQLITE_BUSY' },
  });
  expect(String(failure)).toContain('another program holds its write lock');
});

it('a database that may not grow is SINK_FULL for now', ({ folder }) => {
  const db = new Database(join(folder, 'a.db'));
  db.pragma('max_page_count = 2');
  const failure = failureOf(() => db.exec('CREATE TABLE a (x); CREATE TABLE b (x)'));
  db.close();
  expect(failure).toMatchObject({ code: 'SINK_FULL', recovery: 'retry' });
});

it('a full disk is SINK_FULL, and the message says where, what is free there, and what to do', ({
  folder,
}) => {
  const file = join(folder, 'not-there', 'a.db');
  const full = Object.assign(new Error('no space'), { code: 'ENOSPC', syscall: 'write' });
  expect(String(toSinkError(full, file))).toMatch(
    /No space is left for \S+\/not-there\/a\.db \(ENOSPC\); .*Free space and sync again\.$/,
  );
});

it('a failed system call is SINK_FAILED and keeps its cause', ({ folder }) => {
  const failure = failureOf(() => openSync(join(folder, 'none', 'a'), 'r'));
  expect(failure).toMatchObject({ code: 'SINK_FAILED', recovery: 'stop', cause: { code: 'ENOENT' } });
  expect(String(failure).match(/ENOENT/g)).toHaveLength(1);
});

it('a SyncError and a programming error stay what they are', () => {
  const known = new SyncError('known', { code: 'ACCOUNTING', recovery: 'stop' });
  const bug = new TypeError('undefined is not a function');
  expect([toSinkError(known, 'x'), toSinkError(bug, 'x')]).toEqual([known, bug]);
});

describe('waiting for locks', () => {
  const cleanups: (() => void)[] = [];
  let folder = '';
  it.beforeEach(({ folder: made }) => {
    folder = made;
  });
  afterEach(() => {
    for (const cleanup of cleanups.splice(0).reverse()) cleanup();
  });

  const kinds = { sqlite: sqliteKind, jsonl: jsonlKind };
  const why = { since: new Date(0).toISOString(), reason: 'too expensive' };

  describe.each(['sqlite', 'jsonl'] as const)('a %s sink', (type) => {
    /** As a database browser does: a write transaction that is left open. */
    function hold(): Database.Database {
      const other = new Database(kinds[type].ledgerFile(folder));
      cleanups.push(() => other.close());
      other.exec('BEGIN IMMEDIATE');
      return other;
    }

    async function open(
      more: { clock?: Clock; signal?: AbortSignal; lockTimeoutMs?: number } = {},
    ): Promise<Sink> {
      const { clock = systemClock, signal, lockTimeoutMs } = more;
      const options = {
        ...kinds[type].options(folder),
        ...(lockTimeoutMs === undefined ? {} : { lockTimeoutMs }),
      };
      return await openSink(options, { clock, ...(signal === undefined ? {} : { signal }) });
    }

    /** Ends the other program's transaction at the third pause of the wait. */
    function releasing(release: () => void): Clock {
      let pauses = 0;
      return {
        now: () => systemClock.now(),
        sleep: (ms, signal) => {
          pauses += 1;
          if (pauses === 3) release();
          return systemClock.sleep(ms, signal);
        },
      };
    }

    // Proves promise 1.6
    it('waits for the write lock that another program holds, and the process works on meanwhile', async () => {
      let held: Database.Database | null = null;
      await using sink = await open({ clock: releasing(() => held?.exec('COMMIT')) });
      held = hold();
      await sink.pause([news], why);
      expect(await sink.history.pauses()).toMatchObject([{ connector: news }]);
    });

    it('waits for it when it is opened for the first time, too', async () => {
      const held = hold();
      await using sink = await open({ clock: releasing(() => held.close()) });
      expect(await sink.history.connectors()).toEqual([]);
    });

    // Proves promise 1.6
    it('gives up after its lockTimeout, names the file and what may hold it, and has changed nothing', async () => {
      await using sink = await open({ lockTimeoutMs: 1 });
      hold();
      const failure: unknown = await sink.acquire(identity()).catch((error: unknown) => error);
      expect(failure).toMatchObject({
        code: 'SINK_FAILED',
        recovery: 'retry',
        context: { cause: 'SQLITE_BUSY' },
      });
      expect(String(failure)).toContain(
        `${kinds[type].ledgerFile(folder)} could not be written: another program holds its write lock`,
      );
      expect(String(failure)).toContain(
        'a database browser or a sqlite3 shell with an open transaction, a backup',
      );
      for (const cleanup of cleanups.splice(0)) cleanup();
      await (await sink.acquire(identity()))[Symbol.asyncDispose]();
    });

    // Proves promise 1.6
    it('ends a wait with the reason of its signal', async () => {
      const stop = new AbortController();
      const clock = releasing(() => stop.abort(new Error('Ctrl-C')));
      await using sink = await open({ clock, signal: stop.signal });
      hold();
      await expect(sink.acquire(identity())).rejects.toThrow('Ctrl-C');
    });

    // Proves promise 1.6
    it('on a disk that is mounted read-only says so, with the path', async ({ skip }) => {
      const at = join(folder, 'disk');
      using disk = mountDisk(at, '8m', skip);
      const told = async (options: SinkOptions): Promise<string> => {
        const sink = await openSink(options, { clock: systemClock }).catch(String);
        if (typeof sink === 'string') return sink;
        await sink[Symbol.asyncDispose]();
        return 'opened';
      };
      disk.remount('ro');
      expect(await told(kinds[type].options(at)), 'nothing there yet').toContain(
        `${kinds[type].ledgerFile(at)} may not be written by this user, or is read-only`,
      );
      disk.remount('rw');
      expect(await told(kinds[type].options(at))).toBe('opened');
      disk.remount('ro');
      expect(await told(kinds[type].options(at)), 'after a good one').toContain(
        `${kinds[type].ledgerFile(at)} may not be written by this user, or is read-only`,
      );
    });

    it('whose file may not be changed says so, with the path', async ({ skip }) => {
      await (await open())[Symbol.asyncDispose]();
      const file = kinds[type].ledgerFile(folder);
      try {
        execFileSync('chattr', ['+i', file], { stdio: 'ignore' });
      } catch {
        skip('setting the immutable flag needs root and a file system that has it');
      }
      cleanups.push(() => execFileSync('chattr', ['-i', file]));
      expect(await open().catch(String)).toMatch(
        /may not be written by this user, or is read-only \(.*then sync again/s,
      );
    });
  });

  describe('a commit that waits', () => {
    const bench = useBench(jsonlKind);

    it('stores its page once when the lock is free', async () => {
      const options = jsonlKind.options(bench().folder);
      let held: Database.Database | null = null;
      let pauses = 0;
      const clock: Clock = {
        now: () => bench().clock.now(),
        sleep: async () => {
          pauses += 1;
          if (pauses === 2) held?.close();
        },
      };
      await using sink = await openSink(options, { clock });
      const { commit } = await bench().walking('r1', {}, { sink });
      held = new Database(jsonlKind.ledgerFile(bench().folder));
      held.exec('BEGIN IMMEDIATE');
      const committed = await commit([member('1')]);
      expect([pauses, committed.counts[0]?.counts.inserted]).toEqual([2, 1]);
    });
  });
});

describe('migrations', () => {
  /* No release has migrations yet: version 3 here is made up, and version 1 is what this program writes. */

  const newer = { ...sqliteFormat, migrations: madeUpMigrations(() => 'SELECT 0') };
  const script = testProgram('sinks/sqlite/migrating-process.mjs');
  const bench = useBench(sqliteKind);
  let file = '';

  /** A sink of version 1 after one run of three members. */
  beforeEach(async () => {
    const { commit } = await bench().walking();
    await commit([member('1'), member('2'), member('3')], { seal: sealed });
    await bench().closeSinks();
    file = sqliteKind.ledgerFile(bench().folder);
  });

  async function stored() {
    const ask = async (sql: string) => await bench().ledger(sql);
    expect(await ask('PRAGMA integrity_check')).toEqual([{ integrity_check: 'ok' }]);
    const tables = await ask('SELECT name FROM sqlite_schema ORDER BY name');
    const names = tables.map(({ name }) => String(name));
    return {
      version: (await ask('PRAGMA user_version'))[0]?.['user_version'],
      members: await ask('SELECT * FROM news__members ORDER BY _row'),
      tables: names.filter((name) => !name.includes('_sync_made_up')),
      madeUp: names.includes('_sync_made_up') ? await ask('SELECT * FROM _sync_made_up') : null,
      runs: await ask('SELECT * FROM _sync_runs'),
    };
  }

  const migrated = (before: Awaited<ReturnType<typeof stored>>) => ({
    ...before,
    version: 3,
    madeUp: [{ connector: 'news', runs: 2 }],
    runs: before.runs.map((run) => ({ ...run, made_up: 'before' })),
  });

  // Proves promise 1.7
  it('brings version 1 to a later one when it is opened for writing, and the next sync writes only what has changed', async () => {
    const before = await stored();
    expect(before).toMatchObject({ version: 1, madeUp: null });
    const { clock } = bench();
    await using sink = ledgerSink(
      await openLedgerFile({ file, format: newer, records: sqliteTables, durability: 'full', clock }),
    );
    expect(await stored()).toEqual(migrated(before));
    const { commit } = await bench().walking('r2', {}, { sink });
    const records = [member('1'), member('2', 'Grace'), member('3')];
    const counts = await commit(records);
    expect(JSON.stringify(counts)).toContain('"updated":1');
    expect(await bench().ledger('SELECT id, _seq FROM news__members ORDER BY _row')).toEqual([
      { id: '1', _seq: 1 },
      { id: '2', _seq: 4 },
      { id: '3', _seq: 3 },
    ]);
    await expect(bench().open(), 'version 1 of the program').rejects.toMatchObject({
      code: 'SINK_INCOMPATIBLE',
      message: expect.stringContaining('expected tables of version 1, found version 3') as string,
    });
  });

  it('are not made for a sink of a development version: it is refused by name, and stays as it is', async () => {
    const db = new Database(file);
    db.exec('DROP TABLE _sync_journals');
    db.close();
    await expect(bench().open()).rejects.toMatchObject({
      code: 'SINK_INCOMPATIBLE',
      message: expect.stringContaining('a development version of connector-sync made it') as string,
    });
    expect(await bench().ledger('SELECT count(*) AS n FROM news__members')).toEqual([{ n: 3 }]);
  });

  // Proves promise 1.7
  it.each([...Array.from({ length: lastStep + 1 }, (_, step) => String(step)), 'end'])(
    'is of version 1 or of the newest, and whole, after a SIGKILL at step %s, and the next opening completes it',
    async (step) => {
      const before = await stored();
      const { child, result } = startScript([script, file, step], bench().folder);
      expect((await result).stderr).toBe('');
      expect(child.signalCode).toBe('SIGKILL');
      expect(await stored()).toEqual(step === 'end' ? migrated(before) : before);
      expect(await startScript([script, file], bench().folder).result).toMatchObject({ code: 0, stderr: '' });
      expect(await stored()).toEqual(migrated(before));
    },
  );

  // Proves promise 1.7
  it('is migrated once by several processes that open it at the same time', async () => {
    const before = await stored();
    const startAtMs = String(Date.now() + 1_000);
    const openers = Array.from({ length: 4 }, () =>
      startScript([script, file, '-1', startAtMs], bench().folder),
    );
    for (const { result } of openers) expect(await result).toMatchObject({ code: 0, stderr: '' });
    expect(await stored()).toEqual(migrated(before));
  });

  it('is not read before it is migrated, and says how', () => {
    const copy = join(bench().folder, 'copy.db');
    copyFileSync(file, copy);
    expect(() => openReadonlyDatabase({ file: copy, format: newer })).toThrow(
      `${copy} cannot be used as a sink: it has tables of version 1, and this program reads version 3. Sync into it once, or start the worker`,
    );
  });
});
