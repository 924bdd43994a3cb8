import type { Job } from 'bullmq';
import { SyncError } from '../core/errors.ts';
import type { RunEvent } from '../core/events.ts';
import type { ConnectorName } from '../core/names.ts';
import type { ConnectorJob } from './add-job.ts';
import type { JobContext } from './worker-context.ts';
import { backfillKey } from './queue-names.ts';
import { reportProgress } from './report-progress.ts';
import type { RunRequest } from './worker-context.ts';
import { settleRun, type Ending, type Settlement } from './settle-run.ts';

/** What a job's signal is aborted with when the queue has given the job to somebody else. */
export const lockLost = 'lock lost';

/** Makes the run that a job asks for, and says what its end means for the job. Never rejects. */
export async function runJob(
  context: JobContext,
  job: Job,
  work: ConnectorJob,
  signal: AbortSignal,
): Promise<Settlement> {
  const { clock, stopping } = context;
  const { busyDelayMs } = context.timings;
  const askedMs = (work.kind === 'sync' ? work.due : null) ?? job.timestamp;
  const progress = reportProgress(job, context);
  await progress.begin();
  context.observe({
    kind: 'job-started',
    connector: work.connector,
    reason: work.kind === 'sync' ? work.reason : 'backfill',
    lagMs: Math.max(0, clock.now() - askedMs),
  });
  const onEvent = (event: RunEvent): void => {
    if (event.kind === 'page-committed') context.suspects.delete(work.connector);
    progress.onEvent(event);
  };
  const request = { signal: interruptible(signal), onEvent };
  const ending = await runToItsEnd(context, job, work, request);
  const isLockLost = signal.aborted && signal.reason === lockLost;
  // The job may be another worker's by now, with starts of its own.
  if (!isLockLost) await progress.end();
  const settlement = settleRun(ending, {
    isLockLost,
    isStopping: stopping.aborted,
    isWithdrawn: work.kind === 'backfill' && (await isWithdrawn(context, job, work.connector)),
    nowMs: clock.now(),
    busyDelayMs,
    heldDelayMs: heldDelay(busyDelayMs, clock.now() - askedMs),
  });
  if (ending.kind === 'thrown' && settlement.kind === 'fail') {
    context.log.error({ connector: work.connector, err: ending.error }, 'the run could not be made');
  }
  return settlement;
}

/** What has taken long may take as long again: a tenth of it, twelve times the shortest delay at most. */
function heldDelay(shortestMs: number, waitedMs: number): number {
  return Math.min(12 * shortestMs, Math.max(shortestMs, waitedMs / 10));
}

async function runToItsEnd(
  context: JobContext,
  job: Job,
  work: ConnectorJob,
  request: RunRequest,
): Promise<Ending> {
  const { connector } = work;
  try {
    if (work.kind === 'sync' || context.runBackfill === null) {
      return { kind: 'ended', end: await context.runConnector(connector, request), isDone: true };
    }
    const end = await context.runBackfill(work.backfill, connector, {
      ...request,
      shouldYield: async () =>
        (await isSyncWaiting(context, connector)) || (await isWithdrawn(context, job, connector)),
    });
    return { kind: 'ended', end, isDone: end.isDone };
  } catch (error) {
    return { kind: 'thrown', error };
  }
}

/** A sync that waits, or was put off, holds the connector's place in the queue. */
function isSyncWaiting({ queue, onError }: JobContext, connector: ConnectorName): Promise<boolean> {
  return queue.getDeduplicationJobId(connector).then((id) => id !== null, unknownIs(false, onError));
}

/** A backfill is wanted as long as its place in the queue is its own. */
function isWithdrawn({ queue, onError }: JobContext, job: Job, connector: ConnectorName): Promise<boolean> {
  return queue
    .getDeduplicationJobId(backfillKey(connector))
    .then((id) => id !== job.id, unknownIs(false, onError));
}

/** Without an answer from Redis the work goes on. */
function unknownIs(answer: boolean, onError: (error: Error) => void): (error: Error) => boolean {
  return (error) => {
    onError(error);
    return answer;
  };
}

/** The queue aborts with a word; whoever rejects with a signal's reason expects an error. */
function interruptible(signal: AbortSignal): AbortSignal {
  const run = new AbortController();
  const interrupt = (): void =>
    run.abort(
      new SyncError(`interrupted: ${String(signal.reason)}`, { code: 'INTERRUPTED', recovery: 'stop' }),
    );
  if (signal.aborted) interrupt();
  else signal.addEventListener('abort', interrupt, { once: true });
  return run.signal;
}
