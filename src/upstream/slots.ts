import type { Clock } from '../core/clock.ts';
import { UpstreamFailure } from './upstream-failure.ts';

/** How many calls of one account run at a time; a refusal halves it for a while. */
export interface Slots {
  /**
   * Resolves in order of asking. Rejects with the signal's reason, and with `UpstreamFailure` throttled after
   * `maxWaitMs`.
   */
  take(signal: AbortSignal, maxWaitMs: number): Promise<{ release(): void }>;
  /** Half as many from now on, at least one; twice as many again after each 10 s. */
  halve(): void;
}

interface Waiting {
  readonly start: () => void;
}

const doubleEveryMs = 10_000;

export function openSlots(concurrency: number, clock: Clock): Slots {
  const waiting = new Set<Waiting>();
  let running = 0;
  let share = 1;
  let grownAt = 0;

  const limit = (): number => {
    while (share < 1 && clock.now() >= grownAt + doubleEveryMs) {
      share *= 2;
      grownAt += doubleEveryMs;
    }
    return Math.max(1, Math.floor(concurrency * share));
  };

  // Called whenever a call ends. A call that waits behind a lowered limit always waits for one that runs, so no timer
  // is needed.
  const startNext = (): void => {
    for (const one of waiting) {
      if (running >= limit()) return;
      waiting.delete(one);
      running += 1;
      one.start();
    }
  };

  const slot = (): { release(): void } => {
    let isHeld = true;
    return {
      release() {
        if (!isHeld) return;
        isHeld = false;
        running -= 1;
        startNext();
      },
    };
  };

  return {
    take(signal, maxWaitMs) {
      signal.throwIfAborted();
      return new Promise((resolve, reject) => {
        const stopWaiting = new AbortController();
        const onAbort = (): void => leave(signal.reason as Error);
        const leave = (why: Error): void => {
          waiting.delete(one);
          stopWaiting.abort();
          signal.removeEventListener('abort', onAbort);
          reject(why);
        };
        const one: Waiting = {
          start: () => {
            stopWaiting.abort();
            signal.removeEventListener('abort', onAbort);
            resolve(slot());
          },
        };
        waiting.add(one);
        startNext();
        if (!waiting.has(one)) return;
        signal.addEventListener('abort', onAbort, { once: true });
        clock.sleep(maxWaitMs, stopWaiting.signal).then(
          () => leave(tooManyCalls(maxWaitMs)),
          // Its turn came, or the caller left.
          () => undefined,
        );
      });
    },
    halve() {
      share = Math.max(share / 2, 1 / (2 * concurrency));
      grownAt = clock.now();
    },
  };
}

export function tooManyCalls(waitedMs: number): UpstreamFailure {
  const text = `other calls with the same credentials took their turns for ${waitedMs} ms`;
  return new UpstreamFailure('throttled', text, { reason: 'gate', waitMs: 1_000 });
}
