import PQueue from 'p-queue';
import type { Clock } from '../../core/clock.ts';
import type { SourceStats } from '../source.ts';
import { openCallPace } from './call-pace.ts';

/** The rate and concurrency that all calls of one source share, and what they cost. */
export interface CallBudget {
  /**
   * Runs one attempt when concurrency, rate and pauses let it. Rejects at once when the signal is aborted, also from
   * the queue.
   */
  run<T>(attempt: () => Promise<T>, signal: AbortSignal): Promise<T>;
  slowDown(waitMs: number): void;
  count(part: Partial<SourceStats>): void;
  stats(): SourceStats;
}

export interface CallBudgetOptions {
  readonly concurrency: number;
  readonly requestsPerSecond: number;
  readonly clock: Clock;
  readonly maxThrottleWaitMs: number;
}

export function openCallBudget(options: CallBudgetOptions): CallBudget {
  const { clock } = options;
  const queue = new PQueue({ concurrency: options.concurrency });
  const pace = openCallPace(options.requestsPerSecond, clock, options.maxThrottleWaitMs);
  const sums = { calls: 0, retries: 0, throttled: 0, waitedMs: 0, bytes: 0 };

  const count: CallBudget['count'] = (part) => {
    sums.calls += part.calls ?? 0;
    sums.retries += part.retries ?? 0;
    sums.throttled += part.throttled ?? 0;
    sums.waitedMs += part.waitedMs ?? 0;
    sums.bytes += part.bytes ?? 0;
  };

  return {
    async run(attempt, signal) {
      const queuedAt = clock.now();
      return await queue.add(
        async () => {
          await pace.turn(signal).finally(() => count({ waitedMs: clock.now() - queuedAt }));
          return await attempt();
        },
        { signal },
      );
    },
    slowDown: (waitMs) => pace.slowDown(waitMs),
    count,
    stats: () => ({ ...sums }),
  };
}
