import type { Partition, WalkFailure } from '../sinks/partition.ts';
import type { Lease, Sink } from '../sinks/sink.ts';
import type { WalkEnd } from './walk-partition.ts';

export interface WorkOptions {
  readonly sink: Sink;
  readonly lease: Lease;
  readonly concurrency: number;
  /** Aborted when the run must end: walks stop at their last commit. */
  readonly signal: AbortSignal;
  /** True from when nothing more may start; what is open goes on to its end. */
  readonly isClosing?: () => boolean;
  /** Walks one partition to its end. Rejects only with what must end the run. */
  readonly walk: (partition: Partition) => Promise<WalkEnd>;
  readonly setAside: (partition: Partition, failure: WalkFailure) => Promise<void>;
  /** Called once with the first thing that must end the run, before the other walks are waited for. */
  readonly onFatal: (error: unknown) => void;
}

/** Lets the pool look for work again: a commit has made partitions due. */
export interface Wake {
  wake(): void;
  /** Resolves at the next `wake()`. */
  next(): Promise<void>;
}

/**
 * Works off what is due, at most `concurrency` partitions at a time. A started partition keeps its place until it
 * ends; the ledger says which one starts next. Resolves when nothing is due and nothing is open, or when the signal
 * was aborted or nothing more may start, and every walk has stopped.
 */
export async function workPartitions(options: WorkOptions, wake: Wake): Promise<void> {
  const { sink, lease, concurrency, signal, isClosing = () => false } = options;
  const open = new Map<number, Promise<void>>();

  async function work(partition: Partition): Promise<void> {
    try {
      const end = await options.walk(partition);
      if (end.kind === 'set-aside') await options.setAside(partition, end.failure);
    } catch (error) {
      options.onFatal(error);
    } finally {
      open.delete(partition.id);
      wake.wake();
    }
  }

  while (!signal.aborted && !isClosing()) {
    const woken = wake.next();
    const free = concurrency - open.size;
    // What is open may be among the answers: asking for that many more leaves `free` others where there are any.
    const due = free > 0 ? await sink.nextPartitions(lease, concurrency + open.size) : [];
    for (const partition of due.filter(({ id }) => !open.has(id)).slice(0, free)) {
      open.set(partition.id, work(partition));
    }
    if (open.size === 0) return;
    // Not a race over the walks: each one would keep a reaction per turn for as long as the longest walk lasts.
    await woken;
  }
  await Promise.all(open.values());
}

export function newWake(): Wake {
  let wakeNow: () => void = () => undefined;
  let next = new Promise<void>((resolve) => (wakeNow = resolve));
  return {
    wake: () => {
      wakeNow();
      next = new Promise<void>((resolve) => (wakeNow = resolve));
    },
    next: () => next,
  };
}
