import { addAbortListener } from 'node:events';
import PQueue from 'p-queue';
import { startChild, type Child } from '../../child/start-child.ts';
import type { Clock } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import type { JsonObject } from '../../core/json.ts';
import { withoutMask } from '../../definitions/record-masks.ts';
import { orAborted, takeSlot, within } from '../../http/or-aborted.ts';
import { checkSize, searchLimits, tooSlow } from '../search-request.ts';
import type { SearchOptions } from '../open-search.ts';
import type { Searched, StatedAnswer } from '../search-target.ts';

/** One search: the table that it reads, and its request. */
export interface SearchCall extends Searched {
  /** A SQLite sink, or the ledger of a JSONL sink. */
  readonly file: string;
  readonly isJsonl?: boolean;
  /** Parameters as received. */
  readonly params: JsonObject;
  /** Connector and entity: a cursor of others is refused. */
  readonly scope: string;
}

export type ProcessSettings = Pick<SearchOptions, 'cursorKey' | 'deadlineMs'>;

/** Functions of a search process: first `settings`, then one search after the other. */
export type SearchCalls = {
  readonly settings: (settings: ProcessSettings) => void;
  readonly search: (call: SearchCall) => Promise<StatedAnswer>;
};

export interface SearchProcessesOptions extends ProcessSettings {
  /** Limit on running processes; each is started when it is first needed. */
  readonly processes: number;
  /** Searches that may wait for a process. */
  readonly maxWaiting: number;
  readonly clock: Clock;
  /** The module that a process runs; the search process of this folder unless a test wants another. */
  readonly entry?: URL;
}

export type SearchProcesses = ReturnType<typeof openSearchProcesses>;

/** Enough for the largest answer; more than that and the process ends instead of the machine's memory. */
const maxHeapMiB = 512;
/** A search ends itself at the deadline wherever it reads rows; one that does not is killed so much later. */
const graceMs = 500;
/** Above the limits of a valid search: anything smaller is checked, with a better message, when it is read. */
const mostBytes = 2 * searchLimits.queryBytes;
/** Time to load its modules, also on a busy machine. */
const startMs = 20_000;
/** An unused process ends, to free its memory and its open files. */
const idleMs = 60_000;

/**
 * Runs searches in separate processes: a SQLite statement cannot be interrupted, but a process can be killed. No
 * process is left after it is disposed, or after this process dies.
 */
export function openSearchProcesses(options: SearchProcessesOptions) {
  const { processes, maxWaiting, clock, deadlineMs } = options;
  const slots = new PQueue({ concurrency: processes });
  let isClosed = false;
  const alive = new Set<SearchProcess>();
  const idle = new Map<SearchProcess, AbortController>();
  const searches = new Set<AbortController>();

  const start = (): SearchProcess => {
    const child = startChild<SearchCalls>({
      module: options.entry ?? 'search/process/search-process',
      maxHeapMiB,
      died: endedByItself,
    });
    const ready = child.ask('settings', { cursorKey: options.cursorKey, deadlineMs });
    const started = { ...child, ready };
    alive.add(started);
    void child.ended.then(() => {
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
  /** The slot is free when the process has ended: there are never more processes than slots. */
  const giveBack = async (one: SearchProcess, freeSlot: () => void): Promise<void> => {
    if (one.isEnding()) await one.ended;
    else keep(one);
    freeSlot();
  };
  const searchWithin = async (call: SearchCall, signal: AbortSignal): Promise<StatedAnswer> => {
    if (slots.pending === processes && slots.size >= maxWaiting) throw busy(slots.size);
    const freeSlot = await takeSlot(slots, signal);
    const one = takeProcess();
    try {
      const notReady = `A search process was not ready within ${startMs / 1000} s. Try again when the machine is less busy.`;
      const late = () => new SyncError(notReady, { code: 'SINK_FAILED', recovery: 'retry' });
      await resultOf(one, one.ready, startMs, signal, late);
      const answer = one.ask('search', { ...call, entity: withoutMask(call.entity) });
      return await resultOf(one, answer, deadlineMs + graceMs, signal, () => tooSlow(deadlineMs));
    } finally {
      void giveBack(one, freeSlot);
    }
  };

  return {
    /**
     * Rejects with `SyncError` SEARCH_INVALID, SEARCH_TOO_SLOW, SEARCH_BUSY, SINK_FAILED (no such file, or the process
     * died), INTERRUPTED (disposed meanwhile), or with the signal's reason; then the search has ended too, wherever it
     * was.
     */
    search: async (call: SearchCall, given: AbortSignal): Promise<StatedAnswer> => {
      // Copying it for a process would cost as much as it is large, and overflow the stack where it is deep.
      checkSize(call.params, mostBytes);
      given.throwIfAborted();
      if (isClosed) throw interrupted();
      const ending = new AbortController();
      using _listener = addAbortListener(given, () => ending.abort(given.reason));
      searches.add(ending);
      try {
        return await searchWithin(call, ending.signal);
      } finally {
        searches.delete(ending);
      }
    },
    [Symbol.asyncDispose]: async (): Promise<void> => {
      isClosed = true;
      for (const ending of searches) ending.abort(interrupted());
      for (const one of alive) one.kill();
      await Promise.all([...alive].map(({ ended }) => ended));
    },
  };
}

interface SearchProcess extends Child<SearchCalls> {
  /** It has been loaded. */
  readonly ready: Promise<void>;
}

/** The result of the process; kills it after the time limit or when the signal is aborted. */
async function resultOf<Result>(
  one: SearchProcess,
  work: Promise<Result>,
  ms: number,
  signal: AbortSignal,
  late: () => SyncError,
): Promise<Result> {
  if (signal.aborted) one.kill();
  return await within(ms, signal, late, (own) => {
    own.addEventListener('abort', () => one.kill(), { once: true });
    return orAborted(work, own);
  });
}

/** More searches wait than are allowed. */
export function busy(waiting: number): SyncError {
  return new SyncError(
    `All search processes are busy and ${waiting} searches are waiting. Try again in a moment.`,
    { code: 'SEARCH_BUSY', recovery: 'throttle', context: { waiting } },
  );
}

function interrupted(): SyncError {
  return new SyncError(
    'The search was aborted because the server is stopping. Search again when it is back.',
    { code: 'INTERRUPTED', recovery: 'retry' },
  );
}

function endedByItself(how: string): SyncError {
  return new SyncError(
    `The search process ended unexpectedly (${how}). Search again; if it ends again, ask for less: ` +
      `fewer fields, a lower limit. It may use ${maxHeapMiB} MiB.`,
    { code: 'SINK_FAILED', recovery: 'retry', context: { how } },
  );
}
