import PQueue from 'p-queue';
import type { Clock } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import { builtModule } from '../../core/program-files.ts';
import { tooSlow } from '../search-problem.ts';
import type { SearchAnswer } from '../search-request.ts';
import {
  checkCallSize,
  type SearchCall,
  type SearchProcess,
  startSearchProcess,
} from './start-search-process.ts';
import { takeSlot } from './take-slot.ts';

export interface SearchProcessesOptions {
  /** At most so many at once; each is started when it is first needed. */
  readonly processes: number;
  /** What a search may take once it runs. */
  readonly deadlineMs: number;
  /** Searches that may wait for a process. */
  readonly maxWaiting: number;
  /** Authenticates cursors. */
  readonly cursorKey: Buffer;
  readonly clock: Clock;
  /** The module that a process runs; the search process of this folder unless a test wants another. */
  readonly entry?: URL;
}

export interface SearchProcesses extends AsyncDisposable {
  /**
   * Rejects with `SyncError` SEARCH_INVALID, SEARCH_TOO_SLOW, SEARCH_BUSY, SINK_FAILED (no such file, or the process
   * died), INTERRUPTED (disposed meanwhile), or with the signal's reason; then the search has ended too, wherever it
   * was.
   */
  search(call: SearchCall, signal: AbortSignal): Promise<SearchAnswer>;
}

/** A search ends itself at the deadline wherever it looks at rows; what does not is killed so much later. */
const graceMs = 500;
/** Time to load its modules, also on a busy machine. */
const startMs = 20_000;
/** An unused process ends, to free its memory and its open files. */
const idleMs = 60_000;

/**
 * Runs searches in separate processes: a SQLite statement cannot be interrupted, but a process can be killed. No
 * process is left after it is disposed, or after this process dies.
 */
export function openSearchProcesses(options: SearchProcessesOptions): SearchProcesses {
  const { processes, maxWaiting, clock, deadlineMs } = options;
  const entry = options.entry ?? builtModule('search/process/search-process');
  const slots = new PQueue({ concurrency: processes });
  let isClosed = false;
  const alive = new Set<SearchProcess>();
  const idle = new Map<SearchProcess, AbortController>();
  const searches = new Set<AbortController>();

  const start = (): SearchProcess => {
    const started = startSearchProcess(entry, { cursorKey: options.cursorKey, deadlineMs });
    alive.add(started);
    void started.gone.then(() => {
      alive.delete(started);
      idle.get(started)?.abort();
      idle.delete(started);
    });
    return started;
  };
  /** The one used last: the others may then go unused for long enough. */
  const takeProcess = (): SearchProcess => {
    const [last] = [...idle.keys()].slice(-1);
    if (last === undefined) return start();
    idle.get(last)?.abort();
    idle.delete(last);
    return last;
  };
  const keep = (one: SearchProcess): void => {
    const used = new AbortController();
    idle.set(one, used);
    clock.sleep(idleMs, used.signal).then(
      () => {
        idle.delete(one);
        one.kill();
      },
      () => undefined,
    );
  };
  /** The slot is free when the process is gone: there are never more processes than slots. */
  const giveBack = async (one: SearchProcess, freeSlot: () => void): Promise<void> => {
    if (one.isEnding()) await one.gone;
    else keep(one);
    freeSlot();
  };
  const searchWithin = async (call: SearchCall, signal: AbortSignal): Promise<SearchAnswer> => {
    if (slots.pending === processes && slots.size >= maxWaiting) throw busy(slots.size);
    const freeSlot = await takeSlot(slots, signal);
    const one = takeProcess();
    try {
      await within(one, { clock, ms: startMs, signal, late: didNotStart }, one.ready);
      const limit = { clock, ms: deadlineMs + graceMs, signal, late: () => tooSlow(deadlineMs) };
      return await within(one, limit, one.ask(call));
    } finally {
      void giveBack(one, freeSlot);
    }
  };

  return {
    search: async (call, given) => {
      checkCallSize(call.params);
      given.throwIfAborted();
      if (isClosed) throw interrupted();
      const ending = new AbortController();
      const end = (): void => ending.abort(given.reason);
      given.addEventListener('abort', end, { once: true });
      searches.add(ending);
      try {
        return await searchWithin(call, ending.signal);
      } finally {
        searches.delete(ending);
        given.removeEventListener('abort', end);
      }
    },
    [Symbol.asyncDispose]: async () => {
      isClosed = true;
      for (const ending of searches) ending.abort(interrupted());
      for (const one of alive) one.kill();
      await Promise.all([...alive].map(({ gone }) => gone));
    },
  };
}

interface Limit {
  readonly clock: Clock;
  readonly ms: number;
  readonly signal: AbortSignal;
  readonly late: () => SyncError;
}

/** The result of the process; kills it after the time limit or when the signal is aborted. */
async function within<Result>(
  one: SearchProcess,
  { clock, ms, signal, late }: Limit,
  work: Promise<Result>,
): Promise<Result> {
  const timer = new AbortController();
  let onAbort = (): void => undefined;
  const stopped = new Promise<never>((_, reject) => {
    const stop = (reason: Error): void => {
      one.kill();
      reject(reason);
    };
    onAbort = () => stop(signal.reason as Error);
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
    clock.sleep(ms, timer.signal).then(
      () => stop(late()),
      () => undefined,
    );
  });
  try {
    return await Promise.race([stopped, work]);
  } finally {
    timer.abort();
    signal.removeEventListener('abort', onAbort);
  }
}

function busy(waiting: number): SyncError {
  return new SyncError(
    `All search processes are busy and ${waiting} searches are waiting. Try again in a moment.`,
    { code: 'SEARCH_BUSY', recovery: 'throttle', context: { waiting } },
  );
}

function didNotStart(): SyncError {
  return new SyncError(
    `A search process was not ready within ${startMs / 1000} s. Try again when the machine is less busy.`,
    { code: 'SINK_FAILED', recovery: 'retry' },
  );
}

function interrupted(): SyncError {
  return new SyncError(
    'The search was aborted because the server is stopping. Search again when it is back.',
    { code: 'INTERRUPTED', recovery: 'retry' },
  );
}
