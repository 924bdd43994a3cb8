import type { Clock } from './clock.ts';

/** For work that must not fail because of something that passes: four attempts in six seconds. */
export async function inTries<Result>(work: () => Promise<Result>, clock: Clock): Promise<Result> {
  for (const pauseMs of [100, 1_000, 5_000]) {
    try {
      return await work();
    } catch {
      await clock.sleep(pauseMs);
    }
  }
  return await work();
}
