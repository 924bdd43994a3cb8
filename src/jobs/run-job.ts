import type { Job } from 'bullmq';
import { SyncError } from '../core/errors.ts';
import type { RunEvent } from '../core/events.ts';
import type { ConnectorName } from '../core/names.ts';
import type { ConnectorJob } from './add-job.ts';
import type { JobContext, RunRequest } from './worker-context.ts';
import { backfillKey } from './open-queue-set.ts';
import { reportProgress } from './report-progress.ts';
import { settleRun, type Ending, type Settlement } from './settle-run.ts';

/** The abort reason of a job's signal when the job lost its lock and another worker may take it. */
export const lockLost = 'lock lost';

/** Runs a job and resolves with its settlement. Never rejects. */
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
  // Another worker may have the job by now and count its own starts.
  if (!isLockLost) await progress.end();
  const settlement = settleRun(ending, {
    isLockLost,
    isStopping: stopping.aborted,
    isCancelled: work.kind === 'backfill' && (await isCancelled(context, job, work.connector)),
    nowMs: clock.now(),
    busyDelayMs,
    heldDelayMs: heldDelay(busyDelayMs, clock.now() - askedMs),
  });
  if (ending.kind === 'thrown' && settlement.kind === 'fail') {
    context.log.error({ connector: work.connector, err: ending.error }, 'the run failed to start');
  }
  return settlement;
}

/** A tenth of the time waited so far, between the shortest delay and twelve times that. */
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
    if (work.kind === 'sync') {
      return { kind: 'ended', end: await context.runConnector(connector, request), isDone: true };
    }
    const end = await context.runBackfill(work.backfill, connector, {
      ...request,
      shouldYield: async () =>
        (await isSyncWaiting(context, connector)) || (await isCancelled(context, job, connector)),
    });
    return { kind: 'ended', end, isDone: end.isDone };
  } catch (error) {
    return { kind: 'thrown', error };
  }
}

/** A waiting or delayed sync has the connector's deduplication key. */
function isSyncWaiting(context: JobContext, connector: ConnectorName): Promise<boolean> {
  return isHolder(context, connector, (id) => id !== null);
}

/** A backfill is cancelled when it no longer has its deduplication key. */
function isCancelled(context: JobContext, job: Job, connector: ConnectorName): Promise<boolean> {
  return isHolder(context, backfillKey(connector), (id) => id !== job.id);
}

/** If Redis does not answer, the run continues. */
async function isHolder(
  { queue, onError }: JobContext,
  key: string,
  test: (id: string | null) => boolean,
): Promise<boolean> {
  try {
    return test(await queue.getDeduplicationJobId(key));
  } catch (error) {
    onError(error instanceof Error ? error : new Error(String(error)));
    return false;
  }
}

/** BullMQ aborts with a string; code that rejects with a signal's reason needs an Error. */
export function interruptible(signal: AbortSignal): AbortSignal {
  const run = new AbortController();
  const interrupt = (): void =>
    run.abort(
      new SyncError(`interrupted: ${String(signal.reason)}`, { code: 'INTERRUPTED', recovery: 'stop' }),
    );
  if (signal.aborted) interrupt();
  else signal.addEventListener('abort', interrupt, { once: true });
  return run.signal;
}
