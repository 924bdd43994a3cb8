import PQueue from 'p-queue';

/** What a run must hold while it goes on. */
export interface RunSlots {
  /**
   * A slot; of several that wait, the one with the lowest `priority` is next. Null when none came free within `patienceMs` or
   * before the signal was aborted. The caller disposes it.
   */
  take(request: {
    readonly priority: number;
    readonly patienceMs: number;
    readonly signal: AbortSignal;
  }): Promise<Disposable | null>;
  /** True while every slot is taken; `onFree` follows then. */
  isFull(): boolean;
}

/** At most `limit` runs of this process at a time, over all sinks. `onFree` is called when a slot is given back for which no run waits. */
export function openRunSlots(limit: number, onFree: () => void): RunSlots {
  const queue = new PQueue({ concurrency: limit });
  queue.on('next', () => {
    if (queue.pending < limit) onFree();
  });
  return {
    isFull: () => queue.pending >= limit,
    take: ({ priority, patienceMs, signal }) =>
      new Promise((resolve) => {
        const givenUp = new AbortController();
        const giveUp = (): void => givenUp.abort();
        const timer = setTimeout(giveUp, patienceMs);
        signal.addEventListener('abort', giveUp, { once: true });
        if (signal.aborted) giveUp();
        const stopWaiting = (): void => {
          clearTimeout(timer);
          signal.removeEventListener('abort', giveUp);
        };
        const hold = (): Promise<void> =>
          new Promise((giveBack) => {
            stopWaiting();
            resolve({ [Symbol.dispose]: giveBack });
          });
        // The library puts the highest priority first.
        queue.add(hold, { priority: -priority, signal: givenUp.signal }).catch(() => {
          stopWaiting();
          resolve(null);
        });
      }),
  };
}
