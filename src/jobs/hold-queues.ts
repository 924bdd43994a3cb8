import type { QueueSet } from './open-queue-set.ts';
import type { ServedQueue } from './serve-queues.ts';
import type { WorkerOptions } from './worker-context.ts';

/**
 * Holds the queues of each sink that cannot be served now: a newer config has it or its file is missing; where every
 * slot is taken, that of its runs alone.
 */
export function openHolds(
  { sinks, ledger }: Pick<WorkerOptions, 'sinks' | 'ledger'>,
  queues: QueueSet,
  isBackingOff: () => boolean,
) {
  let outdated: readonly string[] = [];
  const full = new Set<string>();
  let served: readonly ServedQueue[] = [];

  const holdUnserved = async (): Promise<void> => {
    // During backoff all queues are paused; `backoff` resumes them.
    if (isBackingOff()) return;
    for (const { id, name } of sinks) {
      const isAway = (await ledger.lost(name)) !== null || outdated.includes(name);
      const isHeld = new Map([
        [queues.syncs(id), isAway || full.has(name)],
        [queues.publications(id), isAway],
      ]);
      for (const { queue, hold } of served) {
        const isToHold = isHeld.get(queue);
        if (isToHold !== undefined) await hold(isToHold);
      }
    }
  };
  let holding: Promise<void> = Promise.resolve();
  // One call at a time, so that the last call decides from the latest state.
  const renew = (): Promise<void> => (holding = holding.catch(() => undefined).then(holdUnserved));

  return {
    renew,
    watch: (started: readonly ServedQueue[]): void => void (served = started),
    /** These sinks belong to a newer config, and no others do. */
    outdated: async (names: readonly string[]): Promise<void> => {
      outdated = names;
      await renew();
    },
    /** A job of the sink found no free slot. */
    full: async (sink: string): Promise<void> => {
      full.add(sink);
      await renew();
    },
    /** A slot is free again. */
    notFull: async (): Promise<void> => {
      if (full.size === 0) return;
      full.clear();
      await renew();
    },
    /** For people. */
    problems: (): readonly string[] =>
      outdated.map(
        (sink) => `another worker has a newer config for sink ${sink}; this one takes no more of its jobs`,
      ),
  };
}
