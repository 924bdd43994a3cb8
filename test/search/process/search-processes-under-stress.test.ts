import { fork } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, it, vi } from 'vitest';
import { systemClock, type Clock } from '../../../src/core/clock.ts';
import type { SearchProcesses } from '../../../src/search/process/open-search-processes.ts';
import { Bench } from '../../contracts/sink/fixture.ts';
import { testProgram } from '../../support/ensure-built.ts';
import { never, sqlite } from '../../support/search/index-world.ts';
import { callFor, listMember, openProcesses, sinkOfMembers } from '../../support/search/process-world.ts';

const odd = { entry: pathToFileURL(join(import.meta.dirname, 'odd-process.mjs')) };

/** Number of the process that answered. */
async function ask(processes: SearchProcesses, act: string, signal = never): Promise<number> {
  const { data } = await processes.search(callFor('nowhere', { act }), signal);
  return Number(data[0]?.['pid']);
}

describe('search processes', () => {
  it('kill a statement that does not end at its deadline, and answer the next search', async () => {
    await using processes = openProcesses({ ...odd, deadlineMs: 100 });
    const first = await ask(processes, 'answer');
    await expect(ask(processes, 'hang')).rejects.toMatchObject({
      code: 'SEARCH_TOO_SLOW',
      context: { deadlineMs: 100 },
    });
    expect(await ask(processes, 'answer')).not.toBe(first);
    expect(isAlive(first)).toBe(false);
  });

  it('keep a process for the next search, one for each at a time, and no more than asked for', async () => {
    await using processes = openProcesses({ ...odd, processes: 2 });
    const all = await Promise.all(Array.from({ length: 8 }, () => ask(processes, 'answer')));
    expect(new Set(all).size).toBe(2);
    expect(all).toContain(await ask(processes, 'answer'));
  });

  it('refuse what would wait behind too many, and take it later', async () => {
    await using processes = openProcesses({ ...odd, maxWaiting: 1 });
    const gone = new AbortController();
    const running = ask(processes, 'wait', gone.signal);
    const waiting = ask(processes, 'answer');
    await expect(ask(processes, 'answer')).rejects.toMatchObject({
      code: 'SEARCH_BUSY',
      recovery: 'throttle',
      context: { waiting: 1 },
    });
    gone.abort(new Error('nobody waits'));
    await expect(running).rejects.toThrow('nobody waits');
    expect(await waiting).toBeGreaterThan(0);
    expect(await ask(processes, 'answer')).toBeGreaterThan(0);
  });

  it('end a search whose caller has left, in the queue and in the middle of a statement', async () => {
    await using processes = openProcesses(odd);
    const first = await ask(processes, 'answer');
    const running = new AbortController();
    const queued = new AbortController();
    const hanging = ask(processes, 'hang', running.signal);
    const waiting = ask(processes, 'answer', queued.signal);
    const next = ask(processes, 'answer');
    queued.abort(new Error('not queued any more'));
    await expect(waiting).rejects.toThrow('not queued any more');
    running.abort(new Error('not running any more'));
    await expect(hanging).rejects.toThrow('not running any more');
    expect(await next).not.toBe(first);
    expect(isAlive(first)).toBe(false);
    await expect(ask(processes, 'answer', running.signal)).rejects.toThrow('not running any more');
  });

  it('say that a process died, and answer the next search with another', async () => {
    await using processes = openProcesses(odd);
    const first = await ask(processes, 'answer');
    await expect(ask(processes, 'die')).rejects.toMatchObject({
      code: 'SINK_FAILED',
      recovery: 'retry',
      context: { how: 'exit code 3' },
    });
    expect(await ask(processes, 'answer')).not.toBe(first);
  });

  it('say that a process could not start, each time', async () => {
    await using missing = openProcesses({ entry: new URL('file:///nowhere/at-all.mjs') });
    for (const _ of [1, 2]) {
      await expect(ask(missing, 'answer')).rejects.toMatchObject({
        code: 'SINK_FAILED',
        context: { how: 'exit code 1' },
      });
    }
  });

  it('let a process go that is not used for a while, and start another when it is needed', async () => {
    const clock = pausedClock();
    await using processes = openProcesses({ ...odd, clock });
    const first = await ask(processes, 'answer');
    expect(isAlive(first)).toBe(true);
    clock.wake();
    expect(await ask(processes, 'answer')).not.toBe(first);
  });

  it.skipIf(process.platform !== 'linux')(
    'end when the process that started them is killed, idle or in the middle of a statement',
    async () => {
      const bench = new Bench(sqlite);
      const file = await sinkOfMembers(bench, [listMember('1')], { isIndexed: false });
      const holder = fork(testProgram('search/process/pool-holder.mjs'), [], { serialization: 'advanced' });
      const told = once(holder, 'message') as Promise<[{ readonly pid: number }]>;
      holder.send({ odd: odd.entry.href, call: callFor(file, { query: {} }) });
      const [{ pid }] = await told;
      const left = readFileSync(`/proc/${holder.pid}/task/${holder.pid}/children`, 'utf8');
      const pids = left.trim().split(' ').map(Number);
      expect(pids).toHaveLength(2);
      expect(pids).toContain(pid);
      holder.kill('SIGKILL');
      await vi.waitFor(() => expect(pids.map(isAlive)).toEqual([false, false]), { timeout: 15_000 });
      await bench.close();
    },
  );

  it('are all gone after they were disposed, whatever they did', async () => {
    const processes = openProcesses({ ...odd, processes: 2 });
    const [one, two] = await Promise.all([ask(processes, 'answer'), ask(processes, 'answer')]);
    const ended = [ask(processes, 'hang'), ask(processes, 'wait'), ask(processes, 'answer')].map((search) =>
      expect(search).rejects.toMatchObject({ code: 'INTERRUPTED' }),
    );
    await processes[Symbol.asyncDispose]();
    await Promise.all(ended);
    expect([one, two].map(isAlive)).toEqual([false, false]);
    await expect(ask(processes, 'answer')).rejects.toMatchObject({ code: 'INTERRUPTED' });
    await processes[Symbol.asyncDispose]();
  });
});

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    // There is no such process.
    return false;
  }
}

/** Nothing that waits wakes before `wake`. */
function pausedClock(): Clock & { wake(): void } {
  const sleeping = new Set<() => void>();
  return {
    now: () => systemClock.now(),
    sleep: (_, signal) =>
      new Promise((resolve, reject) => {
        sleeping.add(resolve);
        signal?.addEventListener('abort', () => {
          sleeping.delete(resolve);
          reject(signal.reason as Error);
        });
      }),
    wake: () => {
      for (const resolve of sleeping) resolve();
    },
  };
}
