import { UnrecoverableError, type Job } from 'bullmq';
import { SyncError, type ErrorCode } from '../core/errors.ts';
import type { RunEvent } from '../core/events.ts';
import type { ConnectorName } from '../core/names.ts';
import { parseConnectorJob, type ConnectorJob } from './job-payloads.ts';
import { backfillKey } from './open-queue-set.ts';
import { startsInARow } from './report-progress.ts';
import {
  attemptJob,
  carryOut,
  endOf,
  factsOf,
  maxStarts,
  type JobProcessor,
  type Settlement,
} from './settle-run.ts';
import { later, unlessHeld } from './unless-held.ts';
import { isMadeUpFor, type JobContext } from './worker-context.ts';

/** Outcomes of runs that may have stored something. */
const hasRead: ReadonlySet<string> = new Set(['ok', 'partial', 'degraded']);

const sameAgainMs = 10 * 60 * 1000;

/** The processor of a sink's queue. A job that cannot run now is delayed without using an attempt. */
export function createJobProcessor(context: JobContext): JobProcessor {
  const delayLoggedAt = new Map<ConnectorName, number>();
  /** A job that cannot run yet is checked every few seconds, perhaps for hours: log that only once in ten minutes. */
  const isNews = (connector: ConnectorName, settlement: Settlement): boolean => {
    if (settlement.kind === 'give-back' && !context.stopping.aborted) return false;
    if (settlement.kind !== 'delay' || settlement.end !== 'busy') {
      delayLoggedAt.delete(connector);
      return true;
    }
    const nowMs = context.clock.now();
    if (nowMs - (delayLoggedAt.get(connector) ?? Number.NEGATIVE_INFINITY) < sameAgainMs) return false;
    delayLoggedAt.set(connector, nowMs);
    return true;
  };
  return async (job, token, signal) => {
    const work = parseJob(job);
    const taken = { job, work, signal: signal ?? new AbortController().signal };
    const settlement = await runUnlessHeld(context, taken);
    const { connector } = work;
    const end = endOf(job, settlement);
    context.observe({ kind: 'job-ended', connector, end });
    if (isNews(connector, settlement)) {
      context.log.info({ connector, job: work.kind, end, ...factsOf(settlement) }, 'job ended');
    }
    // Before the job ends: a worker that is killed in between runs it again, and asks again.
    if (settlement.kind === 'complete' && hasRead.has(settlement.outcome)) {
      await context.publications.after(connector);
    }
    return carryOut(job, token, connector, settlement);
  };
}

function parseJob(job: Job): ConnectorJob {
  try {
    return parseConnectorJob(job.data);
  } catch (error) {
    throw new UnrecoverableError(error instanceof Error ? error.message : 'INTERNAL');
  }
}

interface TakenJob {
  readonly job: Job;
  readonly work: ConnectorJob;
  readonly signal: AbortSignal;
}

/** Runs the job, unless it is held back as `unlessHeld` says, the connector is paused, or every slot is taken. */
async function runUnlessHeld(context: JobContext, taken: TakenJob): Promise<Settlement> {
  const { job, work } = taken;
  const { connector } = work;
  const { running, connectors, sinkName, suspects } = context;
  const known = {
    name: connector,
    isKnown: () => connectors.get(connector)?.sink.name === sinkName,
    askedMs: Math.max(job.timestamp, (work.kind === 'sync' ? work.due : null) ?? 0),
    active: running,
  };
  return await unlessHeld(context, known, async () => {
    if (!context.serves(connector)) return later(context);
    try {
      return await runInSlot(context, taken);
    } catch (error) {
      context.log.error({ connector, err: error }, 'the ledger could not be read');
      return { kind: 'fail', code: codeOf(error), isFinal: false };
    } finally {
      suspects.delete(connector);
    }
  });
}

async function runInSlot(context: JobContext, taken: TakenJob): Promise<Settlement> {
  const { job, work, signal } = taken;
  const { connector } = work;
  const { closing, slots, sinkName, suspects } = context;
  using slot = await slots.take({
    priority: job.priority,
    patienceMs: context.timings.slotPatienceMs,
    signal: AbortSignal.any([signal, closing]),
  });
  if (slot === null) {
    if (!closing.aborted && slots.isFull()) await context.onFull(sinkName);
    return { kind: 'give-back' };
  }
  if ((await context.ledger.pause(connector)) !== null) return { kind: 'complete', outcome: 'paused' };
  if (await isNeedless(context, work)) return { kind: 'complete', outcome: 'made-up-for' };
  const starts = startsInARow(job);
  if (starts >= maxStarts) {
    context.log.error(
      { connector, starts },
      'poison job: the process crashed on every start before a page was stored',
    );
    return { kind: 'fail', code: 'POISON', isFinal: true };
  }
  if (starts > 0) {
    // Retry suspects one at a time, so that jobs that merely shared the crashed process are not counted as poison.
    if (suspects.size > 0) return later(context);
    suspects.add(connector);
  }
  return await runJob(context, taken);
}

async function isNeedless({ ledger }: JobContext, work: ConnectorJob): Promise<boolean> {
  if (work.kind !== 'sync' || work.reason !== 'catch-up' || work.due === null) return false;
  return isMadeUpFor(work.due, await ledger.lastRun(work.connector));
}

function codeOf(error: unknown): ErrorCode {
  return error instanceof SyncError ? error.code : 'INTERNAL';
}

/** Makes the run of a job and settles it. Never rejects. */
async function runJob(context: JobContext, { job, work, signal }: TakenJob): Promise<Settlement> {
  const { clock } = context;
  const { busyDelayMs } = context.timings;
  const askedMs = (work.kind === 'sync' ? work.due : null) ?? job.timestamp;
  return await attemptJob(context, job, signal, {
    run: async (within, progress) => {
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
      const shouldYield = async (): Promise<boolean> =>
        (await isSyncWaiting(context, work.connector)) || (await isCancelled(context, job, work.connector));
      return { kind: 'ended', end: await context.run(work, { signal: within, onEvent, shouldYield }) };
    },
    isCancelled: async () => work.kind === 'backfill' && (await isCancelled(context, job, work.connector)),
    heldDelayMs: () => heldDelay(busyDelayMs, clock.now() - askedMs),
    onFailed: (error) => {
      context.log.error({ connector: work.connector, err: error }, 'the run failed to start');
    },
  });
}

/** A tenth of the time waited so far, between the shortest delay and twelve times that. */
function heldDelay(shortestMs: number, waitedMs: number): number {
  return Math.min(12 * shortestMs, Math.max(shortestMs, waitedMs / 10));
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
