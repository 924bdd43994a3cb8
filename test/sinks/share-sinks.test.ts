import { readlinkSync, readdirSync, renameSync, rmSync } from 'node:fs';
import path from 'node:path';
import { describe, expect } from 'vitest';
import { it } from '../support/it.ts';
import Database from 'better-sqlite3';
import { systemClock } from '../../src/core/clock.ts';
import { shareSinks } from '../../src/sinks/share-sinks.ts';
import { sampleSinks } from '../support/sample-sinks.ts';

const never = new AbortController().signal;
let folder = '';
it.beforeEach(({ folder: made }) => {
  folder = made;
});

/** How often this process has the file open; Linux tells. */
function opened(file: string): number {
  return readdirSync('/proc/self/fd').filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`) === file;
    } catch {
      return false; // The descriptor that lists the others is gone by now.
    }
  }).length;
}

describe.each(['sqlite', 'jsonl'] as const)('a %s sink that several runs use', (type) => {
  const options = () => sampleSinks[type].options(folder);
  const file = (): string => path.join(folder, type === 'sqlite' ? 'test.db' : 'lake/_ledger.db');

  it('is opened once, and closed with the last of them', async () => {
    const open = shareSinks(systemClock, 1);
    const deps = { signal: never, sinkId: null };
    const [first, second] = await Promise.all([open(options(), deps), open(options(), deps)]);
    const third = await open(options(), deps);
    expect([second.sink === first.sink, third.sink === first.sink]).toEqual([true, true]);
    if (process.platform === 'linux') expect(opened(file())).toBe(1);
    await first[Symbol.asyncDispose]();
    await second[Symbol.asyncDispose]();
    expect(await third.sink.resume(['newsletter' as never])).toEqual(new Set());
    await third[Symbol.asyncDispose]();
    if (process.platform === 'linux') expect(opened(file())).toBe(0);
    await using again = await open(options(), deps);
    expect([again.sink === first.sink, again.sink.id]).toEqual([false, first.sink.id]);
  });

  it('is reopened by the next run when another file is at its place', async () => {
    const open = shareSinks(systemClock, 1);
    await using first = await open(options(), { signal: never, sinkId: null });
    renameSync(file(), `${file()}.away`);
    for (const beside of ['-wal', '-shm']) rmSync(`${file()}${beside}`, { force: true });
    await expect(open(options(), { signal: never, sinkId: first.sink.id })).rejects.toMatchObject({
      code: 'SINK_MOVED',
    });
    await using next = await open(options(), { signal: never, sinkId: null });
    expect(next.sink.id).not.toBe(first.sink.id);
  });

  it('ends its wait for the write lock when all runs that use it are aborted, not before', async () => {
    const open = shareSinks(systemClock, 1);
    const [one, other] = [new AbortController(), new AbortController()];
    await using first = await open(options(), { signal: one.signal, sinkId: null });
    await using second = await open(options(), { signal: other.signal, sinkId: null });
    const holder = new Database(file());
    holder.exec('BEGIN IMMEDIATE');
    let isOver = false;
    const waiting = first.sink.resume(['newsletter' as never]).finally(() => (isOver = true));
    one.abort(new Error('told to end'));
    await new Promise((resolve) => setImmediate(resolve));
    expect(isOver).toBe(false);
    const failing = expect(waiting).rejects.toThrow();
    other.abort(new Error('told to end'));
    await failing;
    holder.close();
    expect(second.sink).toBe(first.sink);
    await using third = await open(options(), { signal: never, sinkId: null });
    expect(third.sink).not.toBe(first.sink);
  });

  it('that cannot be opened fails each of them, and is opened again by the next', async () => {
    const open = shareSinks(systemClock, 1);
    const deps = { signal: never, sinkId: 'some-other-id' };
    const both = await Promise.allSettled([open(options(), deps), open(options(), deps)]);
    expect(both.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    await using made = await open(options(), { signal: never, sinkId: null });
    expect(made.sink.id).not.toBe('');
  });
});
