import type { Clock } from '../core/clock.ts';
import type { JobLog } from './job-log.ts';
import type { ServedSink } from './served-sink.ts';
import type { WorkerLedger } from './worker-ledger.ts';

/**
 * Looks every `everyMs` whether the file of each sink is still at its place, and says once in the log when it is not and when it is
 * back. `holdQueues` hears of every look. Resolves when the signal is aborted.
 */
export async function watchSinks(options: {
  readonly sinks: readonly ServedSink[];
  readonly ledger: WorkerLedger;
  readonly holdQueues: () => Promise<void>;
  readonly everyMs: number;
  readonly log: JobLog;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}): Promise<void> {
  const { sinks, ledger, holdQueues, everyMs, log, clock, signal } = options;
  const told = new Set<string>();
  while (await slept(clock, everyMs, signal)) {
    for (const { name: sink } of sinks) {
      const found = await ledger.lost(sink);
      if (found === null && told.delete(sink)) {
        log.info({ sink }, 'the file of this sink is back at its place');
      }
      if (found === null || told.has(sink)) continue;
      told.add(sink);
      log.error(
        { sink, found },
        'the file of this sink was moved or replaced: no more jobs of it are taken. Put the file back, or restart the worker to serve what is there now',
      );
    }
    await holdQueues();
  }
}

/** For people, without a path: which sinks are not served because their file is not at its place. */
export async function lostSinks(
  sinks: readonly ServedSink[],
  ledger: WorkerLedger,
): Promise<readonly string[]> {
  const found = await Promise.all(sinks.map(({ name }) => ledger.lost(name)));
  return sinks
    .filter((_, index) => found[index] !== null)
    .map(
      ({ name }) =>
        `the file of sink ${name} was moved or replaced; its jobs wait. Put the file back, or restart the worker`,
    );
}

function slept(clock: Clock, ms: number, signal: AbortSignal): Promise<boolean> {
  return clock.sleep(ms, signal).then(
    () => true,
    () => false,
  );
}
