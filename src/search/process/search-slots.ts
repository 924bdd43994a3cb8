import { SyncError } from '../../core/errors.ts';

/** How many may search at once, and how many may wait for that. */
export interface SearchSlots {
  /** Resolves when it is the caller's turn. Rejects with `SyncError` SEARCH_BUSY when too many wait, or with the signal's reason. */
  take(signal: AbortSignal): Promise<void>;
  /** Once for each `take` that resolved. */
  release(): void;
  /** Those that wait are rejected, and so is whoever comes later. */
  close(reason: Error): void;
}

export function searchSlots({
  slots,
  maxWaiting,
}: {
  readonly slots: number;
  readonly maxWaiting: number;
}): SearchSlots {
  const waiting = new Set<Turn>();
  let free = slots;
  let closed: Error | null = null;
  const turn = (signal: AbortSignal): Promise<void> =>
    new Promise((resolve, reject) => {
      const onAbort = (): void => {
        waiting.delete(one);
        reject(signal.reason as Error);
      };
      const done = (): void => {
        waiting.delete(one);
        signal.removeEventListener('abort', onAbort);
      };
      const one: Turn = {
        begin: () => {
          done();
          resolve();
        },
        refuse: (reason) => {
          done();
          reject(reason);
        },
      };
      waiting.add(one);
      signal.addEventListener('abort', onAbort, { once: true });
    });
  return {
    take: async (signal) => {
      signal.throwIfAborted();
      if (closed !== null) throw closed;
      if (free === 0 && waiting.size >= maxWaiting) throw busy(waiting.size);
      if (free === 0) return turn(signal);
      free -= 1;
    },
    release: () => {
      const [first] = waiting;
      if (first === undefined) free += 1;
      else first.begin();
    },
    close: (reason) => {
      closed = reason;
      for (const one of waiting) one.refuse(reason);
    },
  };
}

/** Somebody who waits. */
interface Turn {
  begin(): void;
  refuse(reason: Error): void;
}

function busy(waiting: number): SyncError {
  return new SyncError(
    `All search processes are at work and ${waiting} searches wait already. Try again in a moment.`,
    { code: 'SEARCH_BUSY', recovery: 'throttle', context: { waiting } },
  );
}
