import type { Clock } from '../../core/clock.ts';

/** A wait that can be cut short from outside. */
export interface Pause {
  /** Resolves at `ms` (null: never) or when it is woken; at once where it was woken since `clear`. Never rejects. */
  until(ms: number | null): Promise<void>;
  wake(): void;
  /** What it was woken for is being done. */
  clear(): void;
}

/** Timers take no longer time than this: it is waited for in parts. */
const longestMs = 2 ** 31 - 1;

export function openPause(clock: Clock): Pause {
  let isWoken = false;
  let cutShort: AbortController | null = null;
  return {
    async until(ms) {
      for (;;) {
        const leftMs = ms === null ? longestMs : ms - clock.now();
        if (isWoken || leftMs <= 0) return;
        const sleeping = new AbortController();
        cutShort = sleeping;
        await clock.sleep(Math.min(longestMs, leftMs), sleeping.signal).catch((error: unknown) => {
          // Woken: the next turn sees it.
          if (!sleeping.signal.aborted) throw error;
        });
      }
    },
    wake() {
      isWoken = true;
      cutShort?.abort(new Error('woken'));
    },
    clear() {
      isWoken = false;
    },
  };
}
