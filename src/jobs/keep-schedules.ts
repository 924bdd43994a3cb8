import type { Clock } from '../core/clock.ts';

export interface KeptSchedules {
  /** Reconciles now instead of at the next turn: Redis may have lost its memory. */
  readonly soon: () => void;
  /** Resolves after the signal was aborted, when no reconciling is under way any more. */
  readonly ended: Promise<void>;
}

const againAfterFailureMs = 5000;

/**
 * Repeats the reconciling: a Redis that lost its memory has lost the schedules too, without a word. The turns of several
 * processes are spread by a tenth. `reconcile` says whether it worked.
 */
export function keepSchedules(options: {
  readonly reconcile: () => Promise<boolean>;
  /** Whether it worked the last time. */
  readonly isInPlace: boolean;
  readonly everyMs: number;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}): KeptSchedules {
  const { reconcile, everyMs, clock, signal } = options;
  let wake = new AbortController();
  signal.addEventListener('abort', () => wake.abort(), { once: true });
  const loop = async (): Promise<void> => {
    let works = options.isInPlace;
    while (!signal.aborted) {
      const turnMs = works ? everyMs * (0.9 + Math.random() * 0.2) : Math.min(againAfterFailureMs, everyMs);
      // Rejects when it is woken: then it is time as well.
      await clock.sleep(turnMs, wake.signal).catch(() => undefined);
      if (signal.aborted) return;
      wake = new AbortController();
      works = await reconcile();
    }
  };
  return { soon: () => wake.abort(), ended: loop() };
}
