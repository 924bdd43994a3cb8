import type { Job, Queue } from 'bullmq';
import PQueue from 'p-queue';
import { carryOut, factsOf, isLastAttempt } from '../carry-out.ts';
import { reportProgress, startsInARow } from '../report-progress.ts';
import { interruptible, lockLost } from '../run-job.ts';
import { settleRun, type Ending, type Settlement } from '../settle-run.ts';
import type { PublicationEnd, WorkerContext } from '../worker-context.ts';
import { parsePublicationJob } from './publication-job.ts';
import { sinkOfTarget } from './scheduled-target.ts';

interface PublicationContext extends WorkerContext {
  readonly sinkName: string;
  /** The sink's queue of publications, over a connection that fails fast. */
  readonly queue: Queue;
  /** Of all sinks: how many publications this process makes at a time. */
  readonly turns: PQueue;
}

/** Each has a process that writes files, and reads the sink beside the runs. */
export const mostAtATime = 2;

export function publicationTurns(): PQueue {
  return new PQueue({ concurrency: mostAtATime });
}

const maxStarts = 3;
/** During a deploy, a worker with the old config may get jobs of targets that only the new config has. */
const unknownForMs = 15 * 60 * 1000;

/**
 * The processor of a sink's queue of publications. It must declare all three parameters, as BullMQ passes a signal only
 * to such a function.
 */
export function createPublicationProcessor(
  context: PublicationContext,
): (job: Job, token: string | undefined, signal: AbortSignal | undefined) => Promise<unknown> {
  return async (job, token, signal) => {
    const { target } = parsePublicationJob(job);
    const settlement = await publishUnlessHeld(context, job, target, signal ?? new AbortController().signal);
    const end = endOf(job, settlement);
    context.observe({ kind: 'publication-ended', target, end });
    if (end !== 'busy' && (end !== 'given-back' || context.stopping.aborted)) {
      context.log.info({ target, end, ...factsOf(settlement) }, 'publication job ended');
    }
    return await carryOut(job, token, `publish-${target}`, settlement);
  };
}

/**
 * Publishes, unless something holds the job back: this worker stops, the sink is away, the config has no such target.
 */
async function publishUnlessHeld(
  context: PublicationContext,
  job: Job,
  target: string,
  signal: AbortSignal,
): Promise<Settlement> {
  const { clock, stopping, timings, targets, sinkName, publishing, log } = context;
  // While BullMQ closes, it takes one more job, which may be the one just given back.
  if (stopping.aborted) return { kind: 'give-back' };
  const later: Settlement = { kind: 'delay', untilMs: clock.now() + timings.busyDelayMs, end: 'busy' };
  if (!targets.some((known) => known.name === target && sinkOfTarget(known) === sinkName)) {
    const isNew = clock.now() - job.timestamp < unknownForMs;
    return isNew ? later : { kind: 'complete', outcome: 'unknown' };
  }
  if ((await context.ledger.lost(sinkName)) !== null || publishing.has(target)) return later;
  const starts = startsInARow(job);
  if (starts >= maxStarts) {
    log.error({ target, starts }, 'poison job: the process crashed on every start of this publication');
    return { kind: 'fail', code: 'POISON', isFinal: true };
  }
  publishing.add(target);
  try {
    return await publish(context, job, target, signal);
  } finally {
    publishing.delete(target);
  }
}

async function publish(
  context: PublicationContext,
  job: Job,
  target: string,
  signal: AbortSignal,
): Promise<Settlement> {
  const { clock, stopping, timings, log } = context;
  const progress = reportProgress(job, context);
  const within = interruptible(signal);
  const ending = await context.turns.add(async (): Promise<Ending | string> => {
    try {
      within.throwIfAborted();
      await progress.begin();
      return await context.publish(target, within);
    } catch (error) {
      return { kind: 'thrown', error };
    }
  });
  const isLockLost = signal.aborted && signal.reason === lockLost;
  // Another worker may have the job by now and count its own starts.
  if (!isLockLost) await progress.end();
  if (typeof ending === 'string') return { kind: 'complete', outcome: ending };
  const settlement = settleRun(ending, {
    isLockLost,
    isStopping: stopping.aborted,
    isCancelled: false,
    nowMs: clock.now(),
    busyDelayMs: timings.busyDelayMs,
    heldDelayMs: timings.busyDelayMs,
  });
  if (settlement.kind === 'fail' && ending.kind === 'thrown') {
    log.error(
      { target, err: ending.error },
      'the publication failed; what was published before is unchanged',
    );
  }
  return settlement;
}

function endOf(job: Job, settlement: Settlement): PublicationEnd {
  switch (settlement.kind) {
    case 'complete':
      return settlement.outcome === 'unknown' ? 'unknown' : 'done';
    case 'give-back':
    case 'lost':
      return 'given-back';
    case 'delay':
      return 'busy';
    case 'fail':
      return settlement.isFinal || isLastAttempt(job) ? 'failed' : 'retry';
  }
}
