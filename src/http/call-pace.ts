import type { Clock } from '../core/clock.ts';
import { ThrottledError } from '../core/errors.ts';

const slowest = 1 / 16;
const recoverEveryMs = 10_000;
/** Throttled answers to attempts that were already sent count once. */
const halveAtMostEveryMs = 1_000;

/**
 * When the next attempt may start: a steady rate, that a throttle pauses and slows.
 *
 * p-queue has a rate limit, but a fixed one in windows of real time; this one can be slowed, spaces attempts evenly (a
 * quarter of a second's worth may start together) and takes its time from the clock.
 */
export function openCallPace(firstRate: number, clock: Clock, maxWaitMs: number) {
  let requestsPerSecond = firstRate;
  let share = 1;
  let lastHalvedAt = -Infinity;
  let recoverAt = Infinity;
  let pausedUntil = 0;
  let pausedBecause: string | null = null;
  let nextAt = 0;

  const spacingMs = (now: number): number => {
    while (share < 1 && now >= recoverAt) {
      share = Math.min(1, share * 1.5);
      recoverAt += recoverEveryMs;
    }
    return 1_000 / (requestsPerSecond * share);
  };

  return {
    /**
     * Resolves when an attempt may start. Throws `ThrottledError` when a pause is longer than `maxWaitMs`, and the
     * signal's reason.
     */
    async turn(signal: AbortSignal): Promise<void> {
      for (;;) {
        signal.throwIfAborted();
        const now = clock.now();
        if (pausedUntil - now > maxWaitMs) {
          const why = pausedBecause ?? 'the service asked for a long pause';
          throw new ThrottledError(`${why}; the pause is not over`, pausedUntil - now, {
            because: pausedBecause,
          });
        }
        const spacing = spacingMs(now);
        const burst = share < 1 ? 0 : Math.max(0, Math.floor(requestsPerSecond / 4) - 1);
        const startAt = Math.max(pausedUntil, nextAt - burst * spacing);
        if (startAt <= now) {
          nextAt = Math.max(nextAt, now) + spacing;
          return;
        }
        await clock.sleep(Math.ceil(startAt - now), signal);
      }
    },
    /** Another rate from now on. */
    limitTo(rate: number): void {
      requestsPerSecond = rate;
    },
    /** No attempt starts before `waitMs` have passed; the rate stays. */
    pause(waitMs: number): void {
      pausedUntil = Math.max(pausedUntil, clock.now() + waitMs);
    },
    /**
     * Pauses for `waitMs`: no attempt starts before that, and the rate is halved for a while after. `because`: the
     * answer that led to the pause, where the API did not ask for it.
     */
    slowDown(waitMs: number, because: string | null = null): void {
      const now = clock.now();
      if (now + waitMs > pausedUntil) pausedBecause = because;
      pausedUntil = Math.max(pausedUntil, now + waitMs);
      if (now - lastHalvedAt < halveAtMostEveryMs) return;
      lastHalvedAt = now;
      share = Math.max(share / 2, slowest);
      recoverAt = pausedUntil + recoverEveryMs;
    },
  };
}
