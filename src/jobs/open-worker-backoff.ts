import type { Worker } from 'bullmq';
import { type Clock, slept } from '../core/clock.ts';
import { errorKind } from './gate-errors.ts';

/** While Redis refuses commands: the first wait, which doubles up to the longest. */
export const firstRestMs = 1000;
export const longestRestMs = 30_000;
/**
 * Out of memory, replica, invalid credentials or rights, disk not writable, failover, loading: all may pass without a
 * restart.
 */
const refusals = ['OOM', 'READONLY', 'NOAUTH', 'NOPERM', 'MISCONF', 'MASTERDOWN', 'LOADING', 'CLUSTERDOWN'];

/** The error code if Redis refused the command for one of these reasons, else null. */
export function refusalOf(error: Error): string | null {
  const code = errorKind(error);
  return refusals.includes(code) ? code : null;
}

/**
 * Backoff for a Redis that refuses commands: without it a worker retries tens of thousands of times in seconds. Pauses
 * grow from 1 s to 30 s; active runs continue.
 */
export function openWorkerBackoff(clock: Clock, signal: AbortSignal) {
  let served: readonly {
    readonly worker: Pick<Worker, 'pause' | 'resume'>;
    readonly isHeld: () => boolean;
  }[] = [];
  let why: string | null = null;
  let restMs = firstRestMs;
  let resumedAtMs = Number.NEGATIVE_INFINITY;

  const rest = async (): Promise<void> => {
    await Promise.all(served.map(({ worker }) => worker.pause(true)));
    // When the worker stops, the workers stay paused.
    if (!(await slept(clock, restMs, signal))) return;
    restMs = Math.min(restMs * 2, longestRestMs);
    resumedAtMs = clock.now();
    why = null;
    await Promise.all(served.flatMap(({ worker, isHeld }) => (isHeld() ? [] : [worker.resume()])));
  };

  return {
    /** Called with every Redis error; a refusal pauses the workers. */
    notice(error: Error): void {
      const refusal = refusalOf(error);
      if (why !== null || signal.aborted || refusal === null) return;
      if (clock.now() - resumedAtMs > longestRestMs) restMs = firstRestMs;
      why = refusal;
      void rest();
    },
    watch(started: typeof served): void {
      served = started;
    },
    /** The error code of Redis while the workers are paused, else null. */
    why: () => why,
  };
}
