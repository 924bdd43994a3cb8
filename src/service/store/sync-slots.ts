/** Lets only so many syncs run at a time; the others wait in the order in which they came. */
export interface SyncSlots {
  /** Resolves with what gives the slot back. Rejects with the signal's reason. */
  take(signal: AbortSignal): Promise<() => void>;
}

export function syncSlots(count: number): SyncSlots {
  let free = count;
  const waiting: (() => void)[] = [];

  const giveBack = (): (() => void) => {
    let isGiven = false;
    return () => {
      if (isGiven) return;
      isGiven = true;
      free += 1;
      waiting.shift()?.();
    };
  };

  return {
    take: (signal) =>
      new Promise((resolve, reject) => {
        const enter = (): void => {
          signal.removeEventListener('abort', leave);
          free -= 1;
          resolve(giveBack());
        };
        const leave = (): void => {
          const place = waiting.indexOf(enter);
          if (place !== -1) waiting.splice(place, 1);
          reject(signal.reason as Error);
        };
        if (signal.aborted) {
          leave();
          return;
        }
        if (free > 0) {
          enter();
          return;
        }
        waiting.push(enter);
        signal.addEventListener('abort', leave, { once: true });
      }),
  };
}
