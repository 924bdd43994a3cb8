/** Those who wait for one and the same thing. */
interface WaitingRoom {
  /** Resolves when everybody who waits is let go; rejects with the signal's reason, or with what `fail` says. */
  wait(signal?: AbortSignal): Promise<void>;
  /** Takes everybody out who is in it: they wait on for what this returns to be called. Who comes later is not among them. */
  take(): () => void;
  fail(reason: Error): void;
}

interface Waiter {
  readonly resolve: () => void;
  readonly reject: (reason: Error) => void;
}

export function openWaitingRoom(): WaitingRoom {
  let inside = new Set<Waiter>();
  const take = (): ReadonlySet<Waiter> => {
    const taken = inside;
    inside = new Set();
    return taken;
  };
  return {
    wait: (signal) =>
      new Promise((resolve, reject) => {
        if (signal?.aborted === true) {
          reject(signal.reason as Error);
          return;
        }
        const leave = (): void => signal?.removeEventListener('abort', onAbort);
        const waiter: Waiter = {
          resolve: () => {
            leave();
            resolve();
          },
          reject: (reason) => {
            leave();
            reject(reason);
          },
        };
        const onAbort = (): void => {
          inside.delete(waiter);
          waiter.reject(signal?.reason as Error);
        };
        signal?.addEventListener('abort', onAbort, { once: true });
        inside.add(waiter);
      }),
    take: () => {
      const taken = take();
      return () => {
        for (const { resolve } of taken) resolve();
      };
    },
    fail: (reason) => {
      for (const { reject } of take()) reject(reason);
    },
  };
}
