import { defaultRepeatStrategy } from 'bullmq';
import type { Schedule } from '../settings/settings.ts';

const longestGapMs = 10 * 366 * 24 * 60 * 60 * 1000;

/**
 * The last time before `nowMs` at which a cron schedule was due, by the same arithmetic that makes its ticks; null when
 * there was none in ten years.
 */
export function previousSlot(schedule: Extract<Schedule, { kind: 'cron' }>, nowMs: number): number | null {
  const isBehind = (fromMs: number): boolean => (nextSlot(schedule, fromMs) ?? Infinity) <= nowMs;
  let backMs = 1000;
  while (!isBehind(nowMs - backMs)) {
    backMs *= 2;
    if (backMs > longestGapMs) return null;
  }
  // From `early` the next slot is not after now, from `late` it is: the last slot lies where the two meet.
  let early = nowMs - backMs;
  let late = nowMs;
  while (late - early > 1) {
    const middle = Math.floor((early + late) / 2);
    if (isBehind(middle)) early = middle;
    else late = middle;
  }
  return late;
}

function nextSlot(
  { pattern, timezone }: { readonly pattern: string; readonly timezone: string },
  fromMs: number,
): number | undefined {
  return defaultRepeatStrategy(fromMs, { pattern, tz: timezone });
}
