import type { Job } from 'bullmq';
import type { Clock } from '../core/clock.ts';
import type { ConnectorName } from '../core/names.ts';
import { addSync } from './add-job.ts';
import { parseTickJob } from './connector-job.ts';
import { jitterOffset } from './jitter-offset.ts';
import type { JobLog } from './job-log.ts';
import type { QueueSet } from './open-queue-set.ts';
import type { ScheduledConnector } from './reconcile-schedules.ts';
import type { WorkerEvent } from './worker-event.ts';

export interface TickContext {
  readonly queues: Pick<QueueSet, 'syncs'>;
  readonly connectors: ReadonlyMap<ConnectorName, ScheduledConnector>;
  readonly retryDelayMs: number;
  readonly clock: Clock;
  readonly log: JobLog;
  readonly observe: (event: WorkerEvent) => void;
}

const missedAfterMs = 60_000;

/**
 * A tick becomes a job in its sink's queue, unless one of the same connector waits or runs there already. Whose sink it
 * is does not matter: the job reaches a worker that serves it.
 */
export function createTickProcessor(context: TickContext): (job: Job) => Promise<void> {
  const { queues, connectors, retryDelayMs, clock, log, observe } = context;
  return async (job) => {
    const { sink, connector } = parseTickJob(job.data);
    observe({ kind: 'tick', connector });
    const schedule = connectors.get(connector)?.schedule;
    const due = dueTime(job);
    if (schedule?.missed === 'skip' && clock.now() - due > missedAfterMs) {
      log.info({ connector, due: new Date(due).toISOString() }, 'a run was missed and is left out');
      return;
    }
    const delayMs = jitterOffset(connector, schedule?.jitterMs ?? 0);
    await addSync(
      queues.syncs(sink),
      { connector, reason: 'schedule', due: due + delayMs },
      { delayMs, retryDelayMs },
    );
  };
}

/** When the scheduler meant it: it makes each job ahead, delayed until then. A retry changes the job's delay, not its options. */
function dueTime(job: Job): number {
  return job.timestamp + (job.opts.delay ?? 0);
}
