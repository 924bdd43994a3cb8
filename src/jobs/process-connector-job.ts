import { UnrecoverableError, WaitingError, type Job } from 'bullmq';
import { SyncError } from '../core/errors.ts';
import type { ConnectorName } from '../core/names.ts';
import { parseConnectorJob } from './connector-job.ts';
import type { JobLog } from './job-log.ts';

/** Runs one connector to its end; aborting the signal ends it after a checkpoint with the outcome `interrupted`. */
export type RunConnector = (
  connector: ConnectorName,
  signal: AbortSignal,
) => Promise<{ readonly outcome: string }>;

export interface JobResult {
  readonly connector: ConnectorName;
  /** A run's outcome; `skipped`: it is still running here; `busy`: in another process; `unknown`: no longer configured. */
  readonly outcome: string;
}

export interface JobContext {
  readonly connectors: { has(connector: ConnectorName): boolean };
  readonly runConnector: RunConnector;
  /** The worker's end: a job that arrives after it goes back unstarted. */
  readonly signal: AbortSignal;
  readonly log: JobLog;
}

/**
 * The queue's processor. It declares exactly three parameters: the queue looks at `length` and passes a signal only then.
 * One connector never overlaps itself here, because a schedule makes its next job while the last one still runs.
 */
export function createProcessor(
  context: JobContext,
): (job: Job, token: string | undefined, signal: AbortSignal | undefined) => Promise<JobResult> {
  const running = new Set<ConnectorName>();
  return async (job, token, signal) => {
    const { connector } = parseConnectorJob(job.data);
    // The queue's client hands out one more job while it closes, the one just given back among them.
    if (context.signal.aborted) return giveBack(job, token);
    if (!context.connectors.has(connector)) return { connector, outcome: 'unknown' };
    if (running.has(connector)) {
      context.log.info({ connector, outcome: 'skipped' }, 'its last run is still going on');
      return { connector, outcome: 'skipped' };
    }
    running.add(connector);
    try {
      const outcome = await outcomeOf(context, connector, signal ?? new AbortController().signal);
      if (outcome === 'interrupted') await giveBack(job, token);
      return { connector, outcome };
    } finally {
      running.delete(connector);
    }
  };
}

/** Failures end the job without another attempt: the source has retried what is worth it, and the schedule comes again. */
async function outcomeOf(
  context: JobContext,
  connector: ConnectorName,
  signal: AbortSignal,
): Promise<string> {
  const outcome = await context.runConnector(connector, signal).then(
    (run) => run.outcome,
    (error: unknown) => {
      if (error instanceof SyncError && error.code === 'CONNECTOR_BUSY') return 'busy';
      if (error instanceof SyncError && error.code === 'INTERRUPTED') return 'interrupted';
      context.log.error({ connector, err: error }, 'the run could not be made');
      // Only the code: Redis keeps this text in clear, and a message may quote what a service answered.
      throw new UnrecoverableError(`${connector}: ${error instanceof SyncError ? error.code : 'INTERNAL'}`);
    },
  );
  context.log.info({ connector, outcome }, 'run ended');
  if (outcome === 'failed') throw new UnrecoverableError(`${connector}: the run failed, see its report`);
  return outcome;
}

/** Back to the queue for the next worker, without using up an attempt; the ledger knows where to go on. */
async function giveBack(job: Job, token: string | undefined): Promise<never> {
  await job.moveToWait(token);
  throw new WaitingError();
}
