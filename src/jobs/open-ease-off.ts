import type { Worker } from 'bullmq';
import type { Clock } from '../core/clock.ts';
import { errorKind } from './gate-errors.ts';

interface RestingQueue {
  readonly worker: Pick<Worker, 'pause' | 'resume'>;
  readonly isHeld: () => boolean;
}

export interface EaseOff {
  /** Told of every error: one that says that Redis refuses to work sends the workers to rest. */
  notice(error: Error): void;
  watch(served: readonly RestingQueue[]): void;
  /** Redis's word for why the workers rest now; null when they work. */
  why(): string | null;
}

const firstRestMs = 1000;
const longestRestMs = 30_000;
/** Out of memory, a replica, no credentials (any more), an unwritable disk, a failover: all pass without us. */
const refusals = ['OOM', 'READONLY', 'NOAUTH', 'NOPERM', 'MISCONF', 'MASTERDOWN', 'LOADING', 'CLUSTERDOWN'];

/** Redis's word for why it does not do what it was asked for; null for an error of another kind. */
export function refusalOf(error: Error): string | null {
  const word = errorKind(error);
  return refusals.includes(word) ? word : null;
}

/**
 * Without this a worker asks a Redis that refuses to work again at once, tens of thousands of times in seconds. Rests
 * grow from 1 s to 30 s; runs in hand go on meanwhile.
 */
export function openEaseOff(options: { readonly clock: Clock; readonly signal: AbortSignal }): EaseOff {
  const { clock, signal } = options;
  let served: readonly RestingQueue[] = [];
  let why: string | null = null;
  let restMs = firstRestMs;
  let resumedAtMs = Number.NEGATIVE_INFINITY;

  const rest = async (): Promise<void> => {
    await Promise.all(served.map(({ worker }) => worker.pause(true)));
    // Rejects when the worker stops: nobody needs to be woken then.
    const isOver = await clock.sleep(restMs, signal).then(
      () => true,
      () => false,
    );
    if (!isOver) return;
    restMs = Math.min(restMs * 2, longestRestMs);
    resumedAtMs = clock.now();
    why = null;
    await Promise.all(served.flatMap(({ worker, isHeld }) => (isHeld() ? [] : [worker.resume()])));
  };

  return {
    notice(error) {
      const refusal = refusalOf(error);
      if (why !== null || signal.aborted || refusal === null) return;
      if (clock.now() - resumedAtMs > longestRestMs) restMs = firstRestMs;
      why = refusal;
      void rest();
    },
    watch(started) {
      served = started;
    },
    why: () => why,
  };
}
