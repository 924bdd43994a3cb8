import type { Clock } from '../core/clock.ts';
import type { JobLog } from './job-log.ts';
import type { ServedSink } from './served-sink.ts';
import type { WorkerLedger } from './worker-ledger.ts';

/**
 * Checks every `everyMs` whether the file of each sink is still in place, and logs once when it disappears and when it is
 * back. Calls `holdQueues` after every check. Resolves when the signal is aborted.
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
  const logged = new Set<string>();
  while (await slept(clock, everyMs, signal)) {
    for (const { name: sink } of sinks) {
      const found = await ledger.lost(sink);
      if (found === null && logged.delete(sink)) {
        log.info({ sink }, 'the file of this sink is back in place');
      }
      if (found === null || logged.has(sink)) continue;
      logged.add(sink);
      log.error(
        { sink, found },
        'the file of this sink was moved or replaced: its jobs wait. Put the file back, or restart the worker to use the new file',
      );
    }
    await holdQueues();
  }
}

/** For people, without paths: a problem for each sink that is not served because its file is missing. */
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
