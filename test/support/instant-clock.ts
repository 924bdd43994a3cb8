import type { Clock } from '../../src/core/clock.ts';

interface InstantClock extends Clock {
  /** Every wait that was asked for, in milliseconds. */
  readonly sleeps: readonly number[];
  advance(ms: number): void;
}

/** Time passes only by `advance` and by being waited for: a sleep of an hour is over at once. */
export function instantClock(start = Date.parse('2026-01-01T00:00:00Z')): InstantClock {
  let now = start;
  const sleeps: number[] = [];
  return {
    sleeps,
    now: () => now,
    advance(ms) {
      now += ms;
    },
    async sleep(ms, signal) {
      signal?.throwIfAborted();
      sleeps.push(ms);
      now += ms;
      await new Promise((resolve) => {
        setImmediate(resolve);
      });
      signal?.throwIfAborted();
    },
  };
}
