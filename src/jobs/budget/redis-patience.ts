import type { Clock } from '../../core/clock.ts';

/** Runs one command against Redis, or none while it is away. Null: it did not answer, or was not asked. Never rejects. */
export type AskRedis = <T>(command: () => Promise<T>) => Promise<T | null>;

const firstPauseMs = 1_000;
const longestPauseMs = 30_000;

/**
 * Each question to a Redis that hangs costs the whole command timeout, and calls must not be held up for that: after a
 * failure nobody asks for 1 s, then one asks for all, and each further failure doubles the pause up to 30 s.
 * Any error counts: a Redis out of memory, or with another's rights on our keys, holds no limits either.
 */
export function openRedisPatience(clock: Clock, onError: (error: Error) => void): AskRedis {
  let pauseMs = 0;
  let askAgainAt = 0;
  let isTrying = false;

  return async (command) => {
    const isTrial = pauseMs > 0;
    if (isTrial && (isTrying || clock.now() < askAgainAt)) return null;
    if (isTrial) isTrying = true;
    try {
      const answer = await command();
      pauseMs = 0;
      return answer;
    } catch (error) {
      onError(error instanceof Error ? error : new Error(String(error)));
      // Commands that were on their way together fail together, which is one failure: only a trial doubles the pause.
      pauseMs = isTrial ? Math.min(pauseMs * 2, longestPauseMs) : firstPauseMs;
      askAgainAt = clock.now() + pauseMs;
      return null;
    } finally {
      if (isTrial) isTrying = false;
    }
  };
}
