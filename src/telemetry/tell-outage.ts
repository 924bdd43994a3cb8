import type { Clock } from '../core/clock.ts';
import type { OnRunEvent } from '../core/events.ts';
import { duration, retryText } from './progress-text.ts';

/** A service that fails every other call would otherwise make two lines of each. */
const leastBetweenMs = 10_000;

/**
 * Tells in single lines when calls start to fail, each further attempt, and when the API answers again. Calls that fail beside each
 * other are told once.
 */
export function tellOutage(addLine: (line: string) => void, clock: Clock): OnRunEvent {
  let sinceMs: number | null = null;
  let toldAttempt = 0;
  let toldAtMs = -Infinity;
  return (event) => {
    const now = clock.now();
    const isAnswered = event.kind === 'run-started' || (event.kind === 'call-ended' && event.answer === 'ok');
    if (isAnswered) {
      if (toldAttempt > 0 && sinceMs !== null) addLine(`API answers again after ${duration(now - sinceMs)}`);
      [sinceMs, toldAttempt] = [null, 0];
    }
    if (event.kind !== 'call-retried' || event.code === 'THROTTLED' || event.waitMs === 0) return;
    sinceMs ??= now;
    const isTooSoon = toldAttempt === 0 && now - toldAtMs < leastBetweenMs;
    if (isTooSoon || event.attempt <= toldAttempt) return;
    [toldAttempt, toldAtMs] = [event.attempt, now];
    addLine(retryText({ ...event, nextAtMs: now + event.waitMs }, now));
  };
}
