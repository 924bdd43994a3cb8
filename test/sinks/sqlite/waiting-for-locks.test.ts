import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, describe, expect } from 'vitest';
import { it } from '../../support/it.ts';
import { systemClock, type Clock } from '../../../src/core/clock.ts';
import { openSink } from '../../../src/sinks/registry.ts';
import type { Sink, SinkOptions } from '../../../src/sinks/sink-access.ts';
import { identity, member, news, onlyPartition, page } from '../../contracts/sink/fixture.ts';
import { jsonlKind, sqliteKind } from '../../contracts/file-sink/file-sink-kind.ts';
import { useBench } from '../../contracts/sink/use-bench.ts';

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
    mkdirSync(at);
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=8m', 'none', at], { stdio: 'ignore' });
    } catch {
      skip('mounting needs root');
    }
    cleanups.push(() => execFileSync('umount', [at]));
    const remount = (how: string) => execFileSync('mount', ['-o', `remount,${how}`, at]);
    const told = async (options: SinkOptions): Promise<string> => {
      const sink = await openSink(options, { clock: systemClock }).catch(String);
      if (typeof sink === 'string') return sink;
      await sink[Symbol.asyncDispose]();
      return 'opened';
    };
    remount('ro');
    expect(await told(kinds[type].options(at)), 'nothing there yet').toContain(
      `${kinds[type].ledgerFile(at)} is read-only`,
    );
    remount('rw');
    expect(await told(kinds[type].options(at))).toBe('opened');
    remount('ro');
    expect(await told(kinds[type].options(at)), 'after a good one').toContain(
      `${kinds[type].ledgerFile(at)} is read-only`,
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
      /(is read-only|may not be written by this user) \(.*then sync again/s,
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
    const started = await bench().begin(sink, 'r1');
    const { id } = await onlyPartition(sink, started.lease);
    held = new Database(jsonlKind.ledgerFile(bench().folder));
    held.exec('BEGIN IMMEDIATE');
    const [committed] = await sink.commit(started.lease, [page(started, id, [member('1')])]);
    expect([pauses, committed?.counts[0]?.counts.inserted]).toEqual([2, 1]);
  });
});
