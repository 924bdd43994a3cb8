import { setMaxListeners } from 'node:events';
import type PQueue from 'p-queue';
import type { Clock } from '../../core/clock.ts';
import type { ErrorCode } from '../../core/errors.ts';
import { withoutMasks } from '../../definitions/mask/masked-definition.ts';
import { takeSlot } from '../../http/take-slot.ts';
import { answerCall } from './answer-call.ts';
import type { KeptConnector, StoreStatus } from './context-stores.ts';
import { firstSyncAt, isSettled, nextSyncAt } from './next-sync.ts';
import { runStoreProcess, type StoreProcessEnd } from './run-store-process.ts';
import { searchableEntities } from './store-entities.ts';
import { removeStore, storeFile, storeOrigin } from './store-file.ts';
import { storeRecord } from './store-record.ts';

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
  const record = storeRecord(file, () => connector.definition);

  const syncOnce = async (): Promise<StoreProcessEnd> => {
    if (record.mustRebuild()) await removeStore(file);
    record.begun();
    const { connectorId, definition } = connector;
    return await runStoreProcess({
      job: {
        file,
        origin: storeOrigin(definition),
        connectorId,
        definition: withoutMasks(definition),
        nowMs: clock.now(),
      },
      // The connector as it is when the call comes: its credentials may have changed.
      answer: (body, signal) => answerCall(connector, body, signal),
      onLedger: (ledger) => record.stored(ledger),
      signal: closing.signal,
    });
  };

  const work = async (): Promise<void> => {
    await reads.add(record.read);
    // At once: clear values that masks hide by now do not wait on the disk for a slot.
    if (record.mustRebuild()) await removeStore(file);
    let { readiness } = record.status();
    let dueAt = firstSyncAt(record.ledger(), { readiness, refreshEveryMs, nowMs: clock.now() });
    let failures = 0;
    for (;;) {
      await pause.until(dueAt);
      const giveBack = await takeSlot(slots, closing.signal);
      // What it is woken for from here on is another sync.
      pause.clear();
      const end = await syncOnce().catch(storageFailure).finally(giveBack);
      await record.ended(end);
      ({ readiness } = record.status());
      failures = isSettled(end, readiness) ? 0 : failures + 1;
      dueAt = nextSyncAt(end, { readiness, failures, refreshEveryMs, nowMs: clock.now() });
    }
  };

  const start = async (): Promise<void> => {
    if (options.after !== null) await options.after;
    // Where there is nothing to search, there is nothing to store.
    if (searchableEntities(connector.definition).length > 0) await work();
  };
  const working = start().catch(() => {
    if (!closing.signal.aborted) void record.ended({ kind: 'error', code: 'INTERNAL' });
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
    /** The file cannot be read: it is made again from nothing. */
    damaged(code: ErrorCode): void {
      record.damaged(code);
      pause.wake();
    },
    async [Symbol.asyncDispose](): Promise<void> {
      closing.abort();
      pause.wake();
      await working;
    },
  };
}

/** A file that cannot be removed, a process that cannot be started: it may pass. */
function storageFailure(error: unknown): StoreProcessEnd {
  if (error instanceof Error && 'syscall' in error) return { kind: 'error', code: 'SINK_FAILED' };
  throw error;
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
