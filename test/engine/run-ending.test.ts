import { expect, it } from 'vitest';
import type { Clock } from '../../src/core/clock.ts';
import { watchTime } from '../../src/engine/run.ts';

/** Time stands still; sleeps are noted and end only by `wakeAll` or their signal. */
function stoppedClock(nowMs: number) {
  const sleeps: number[] = [];
  const open = new Set<() => void>();
  const clock: Clock = {
    now: () => nowMs,
    sleep: (ms, signal) =>
      new Promise((resolve, reject) => {
        sleeps.push(ms);
        open.add(resolve);
        signal?.addEventListener('abort', () => {
          open.delete(resolve);
          reject(signal.reason as Error);
        });
      }),
  };
  return { clock, sleeps, open, wakeAll: () => open.forEach((wake) => wake()) };
}

it('reports once that the time is over, counted from its start', async () => {
  const { clock, sleeps, wakeAll } = stoppedClock(10_000);
  const told: string[] = [];
  using _watch = watchTime(60_000, 4_000, { clock, onSpent: ({ code }) => told.push(code) });
  expect(sleeps).toEqual([54_000]);
  wakeAll();
  await new Promise(setImmediate);
  expect(told).toEqual(['BUDGET_SPENT']);
});

it('reports at once if the time was already over, and waits no longer than a timer can', () => {
  const { clock, sleeps } = stoppedClock(100_000);
  using _late = watchTime(1_000, 4_000, { clock, onSpent: () => undefined });
  using _long = watchTime(1e12, 100_000, { clock, onSpent: () => undefined });
  expect(sleeps).toEqual([0, 2 ** 31 - 1]);
});

it('leaves nothing behind when it is disposed, and waits for nothing without a budget', async () => {
  const { clock, sleeps, open } = stoppedClock(0);
  const told: string[] = [];
  const onSpent = ({ code }: { readonly code: string }): unknown => told.push(code);
  watchTime(1_000, 0, { clock, onSpent })[Symbol.dispose]();
  watchTime(null, 0, { clock, onSpent })[Symbol.dispose]();
  await new Promise(setImmediate);
  expect({ sleeps, open: open.size, told }).toEqual({ sleeps: [1_000], open: 0, told: [] });
});
