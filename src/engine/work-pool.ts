export interface Pool<T> {
  readonly concurrency: number;
  /** True from when nothing more may start; what is open runs to its end. */
  readonly isOver: () => boolean;
  /** The next items, at most `limit`; may repeat ones that are open. */
  readonly next: (limit: number) => Promise<readonly T[]>;
  readonly work: (item: T) => Promise<void>;
  /** Takes what `next` and `work` throw, at once. It must make `isOver` true where nothing more may start. */
  readonly onError: (error: unknown) => void;
}

/**
 * Works off items, at most `concurrency` at a time; `next` says which one starts. Resolves when there is nothing more,
 * or it is over, and nothing is open.
 */
export async function workPool<T extends { readonly id: number }>(pool: Pool<T>, wake = newWake()) {
  const { concurrency, isOver, onError } = pool;
  const open = new Map<number, Promise<void>>();

  async function work(item: T): Promise<void> {
    try {
      await pool.work(item);
    } catch (error) {
      onError(error);
    } finally {
      open.delete(item.id);
      wake.wake();
    }
  }

  try {
    while (!isOver()) {
      const woken = wake.next();
      const free = concurrency - open.size;
      // What ends while `next` looks may be in an answer that is older than its end, and what it led to may not.
      const asked = new Set(open.keys());
      // Open items may be among the answers: asking for that many more leaves `free` others where there are any.
      const next = free > 0 ? await pool.next(concurrency + open.size) : [];
      for (const item of next.filter(({ id }) => !asked.has(id)).slice(0, free)) {
        open.set(item.id, work(item));
      }
      if (open.size === 0 && asked.size === 0) return;
      // Not a race over the open items: each one would keep a reaction per turn until the longest ends.
      await woken;
    }
  } catch (error) {
    onError(error);
  }
  await Promise.all(open.values());
}

export function newWake() {
  let wakeNow: () => void = () => undefined;
  let next = new Promise<void>((resolve) => (wakeNow = resolve));
  return {
    wake: (): void => {
      wakeNow();
      next = new Promise<void>((resolve) => (wakeNow = resolve));
    },
    /** Resolves at the next `wake()`. */
    next: (): Promise<void> => next,
  };
}
