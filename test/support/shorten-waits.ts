import { onTestFinished, vi } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';

/** Until the test ends, waits of this process take this share of their time: for waits that it is not about. */
export function shortenWaits(share: number): void {
  const sleep = systemClock.sleep.bind(systemClock);
  const spy = vi
    .spyOn(systemClock, 'sleep')
    .mockImplementation(async (ms, signal) => await sleep(ms * share, signal));
  onTestFinished(() => spy.mockRestore());
}
