import { EventEmitter, once, setMaxListeners } from 'node:events';
import type PQueue from 'p-queue';
import type { Clock } from '../../core/clock.ts';
import { type ErrorCode, SyncError } from '../../core/errors.ts';
import { orAborted } from '../../http/or-aborted.ts';
import { takeSlot } from '../../search/process/take-slot.ts';
import { answerCall } from './answer-call.ts';
import type { KeptConnector, Readiness, StoreStatus } from './context-stores.ts';
import { firstSyncAt, isSettled, nextSyncAt } from './next-sync.ts';
import { runStoreProcess, type StoreProcessEnd } from './run-store-process.ts';
import { searchableEntities } from './store-entities.ts';
import { removeStore, storeFile } from './store-file.ts';
import { isSearchable, storeRecord } from './store-record.ts';

interface KeepStoreOptions {
  readonly folder: string;
  readonly connector: KeptConnector;
  readonly clock: Clock;
  readonly refreshEveryMs: number | null;
  /** Lets only so many syncs run at a time. */
  readonly slots: PQueue;
  /** Of the reads of what stores hold: each has files open. */
  readonly reads: PQueue;
  /** What must be over before the file is touched; null: nothing. Never rejects. */
  readonly after: Promise<void> | null;
}

export type KeptStore = ReturnType<typeof keepStore>;

/**
 * The store of one connector: its syncs, one after the other, and what is known of it. Disposed, it leaves no process.
 * Throws `SyncError` USAGE for a connector id that makes no file name.
 */
export function keepStore(options: KeepStoreOptions) {
  const { clock, slots, reads, refreshEveryMs } = options;
  let { connector } = options;
  const file = storeFile(options.folder, connector.connectorId);
  const closing = new AbortController();
  setMaxListeners(0, closing.signal);
  const pause = openPause(clock);
  const refreshes = openWaitingRoom();
  const searches = openWaitingRoom();
  const record = storeRecord(file, () => connector.definition);

  /** Where there is nothing to search, there is nothing to store. */
  const hasStore = (): boolean => searchableEntities(connector.definition).length > 0;
  /** Lets go who waits for search, where it works, and gives the readiness. */
  const letSearch = (): Readiness => {
    const { readiness } = record.status();
    if (isSearchable(readiness)) searches.take()();
    return readiness;
  };

  const syncOnce = async (): Promise<StoreProcessEnd> => {
    if (record.mustRebuild()) await removeStore(file);
    record.begun();
    const { connectorId, definition } = connector;
    return await runStoreProcess({
      job: { file, connectorId, definition, nowMs: clock.now() },
      // The connector as it is when the call comes: its credentials may have changed.
      answer: (body, signal) => answerCall(connector, body, signal),
      onLedger: (ledger) => record.stored(ledger),
      signal: closing.signal,
    });
  };

  const work = async (): Promise<void> => {
    await reads.add(record.read);
    let readiness = letSearch();
    let dueAt = firstSyncAt(record.ledger(), { readiness, refreshEveryMs, nowMs: clock.now() });
    let failures = 0;
    for (;;) {
      await pause.until(dueAt);
      const giveBack = await takeSlot(slots, closing.signal);
      // A refresh requested from here on is another one.
      pause.clear();
      const letRefreshed = refreshes.take();
      const end = await syncOnce().catch(storageFailure).finally(giveBack);
      await record.ended(end);
      readiness = letSearch();
      failures = isSettled(end, readiness) ? 0 : failures + 1;
      dueAt = nextSyncAt(end, { readiness, failures, refreshEveryMs, nowMs: clock.now() });
      letRefreshed();
    }
  };

  const start = async (): Promise<void> => {
    if (options.after !== null) await options.after;
    if (hasStore()) await work();
  };
  const working = start().catch((error: unknown) => {
    if (!closing.signal.aborted) void record.ended({ kind: 'error', code: 'INTERNAL' });
    const reason = error instanceof Error ? error : new Error(String(error));
    for (const room of [refreshes, searches]) room.fail(reason);
  });

  return {
    file,
    get connector(): KeptConnector {
      return connector;
    },
    /** Takes the connector as it is now, with other credentials for example, and syncs at once. */
    change(changed: KeptConnector): void {
      connector = changed;
      pause.wake();
    },
    status: (): StoreStatus => record.status(),
    /** See `ContextStores`. Rejects with `SyncError` INTERRUPTED when the store is disposed of first. */
    async refresh(): Promise<void> {
      if (!hasStore()) return;
      const refreshed = refreshes.wait(closing.signal);
      pause.wake();
      await refreshed;
    },
    async searchable(signal: AbortSignal): Promise<void> {
      if (!isSearchable(record.status().readiness)) await searches.wait(signal);
    },
    /** The file cannot be read: it is made again from nothing. */
    damaged(code: ErrorCode): void {
      record.damaged(code);
      pause.wake();
    },
    async [Symbol.asyncDispose](): Promise<void> {
      closing.abort(disposed());
      pause.wake();
      await working;
      for (const room of [refreshes, searches]) room.fail(disposed());
    },
  };
}

/** A file that cannot be removed, a process that cannot be started: it may pass. */
function storageFailure(error: unknown): StoreProcessEnd {
  if (error instanceof Error && 'syscall' in error) return { kind: 'error', code: 'SINK_FAILED' };
  throw error;
}

function disposed(): SyncError {
  return new SyncError('The store was closed before what was waited for had come.', {
    code: 'INTERRUPTED',
    recovery: 'stop',
  });
}

/** Timers take no longer time than this: it is waited for in parts. */
const longestMs = 2 ** 31 - 1;

/** A wait that can be cut short from outside. */
function openPause(clock: Clock) {
  let isWoken = false;
  let cutShort: AbortController | null = null;
  return {
    /** Resolves at `ms` (null: never) or when it is woken; at once where it was woken since `clear`. Never rejects. */
    async until(ms: number | null): Promise<void> {
      for (;;) {
        const leftMs = ms === null ? longestMs : ms - clock.now();
        if (isWoken || leftMs <= 0) return;
        const sleeping = new AbortController();
        cutShort = sleeping;
        await clock.sleep(Math.min(longestMs, leftMs), sleeping.signal).catch((error: unknown) => {
          // Woken: the next turn sees it.
          if (!sleeping.signal.aborted) throw error;
        });
      }
    },
    wake(): void {
      isWoken = true;
      cutShort?.abort(new Error('woken'));
    },
    /** What it was woken for is being done. */
    clear(): void {
      isWoken = false;
    },
  };
}

/** Callers that wait for one and the same event, which may come more than once. */
function openWaitingRoom() {
  const events = new EventEmitter();
  setMaxListeners(0, events);
  // It may fail while no caller waits.
  events.on('error', () => undefined);
  let next = 0;
  return {
    /** Resolves with the event that `take` gave to its caller; rejects with the signal's reason, or that of `fail`. */
    wait: async (signal: AbortSignal): Promise<void> => {
      await orAborted(once(events, String(next)), signal);
    },
    /** Those who wait now wait for what this returns to be called. Later ones wait for the next event. */
    take: (): (() => void) => {
      const taken = String(next);
      next += 1;
      return () => void events.emit(taken);
    },
    fail: (reason: Error): void => void events.emit('error', reason),
  };
}
