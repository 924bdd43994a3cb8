import PQueue from 'p-queue';

/** Limits the concurrent runs of this process. */
export type RunSlots = ReturnType<typeof openRunSlots>;

interface SlotRequest {
  readonly priority: number;
  readonly patienceMs: number;
  readonly signal: AbortSignal;
}

/** At most `limit` runs of this process at a time, over all sinks. */
export function openRunSlots(limit: number) {
  const queue = new PQueue({ concurrency: limit });
  return {
    /** True while every slot is taken; then listeners of `onFree` are called later. */
    isFull: (): boolean => queue.pending >= limit,
    /** Calls the listener, until `signal` is aborted, when a slot is released and no run waits for it. */
    onFree: (listener: () => void, signal: AbortSignal): void => {
      const onNext = (): void => {
        if (queue.pending < limit) listener();
      };
      queue.on('next', onNext);
      signal.addEventListener('abort', () => queue.off('next', onNext), { once: true });
    },
    /**
     * Resolves with a slot, which the caller disposes; waiting requests are served by lowest `priority`. Null if no
     * slot became free within `patienceMs`, or the signal was aborted.
     */
    take: ({ priority, patienceMs, signal }: SlotRequest) =>
      new Promise<Disposable | null>((resolve) => {
        const waiting = new AbortController();
        const giveUp = (): void => waiting.abort();
        const timer = setTimeout(giveUp, patienceMs);
        signal.addEventListener('abort', giveUp, { once: true });
        if (signal.aborted) giveUp();
        const stopWaiting = (): void => {
          clearTimeout(timer);
          signal.removeEventListener('abort', giveUp);
        };
        const hold = (): Promise<void> =>
          new Promise((release) => {
            stopWaiting();
            resolve({ [Symbol.dispose]: release });
          });
        // p-queue runs the highest priority first.
        queue.add(hold, { priority: -priority, signal: waiting.signal }).catch(() => {
          stopWaiting();
          resolve(null);
        });
      }),
  };
}
