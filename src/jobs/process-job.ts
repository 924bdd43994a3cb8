import { DelayedError, UnrecoverableError, WaitingError, type Job } from 'bullmq';
import { SyncError, type ErrorCode } from '../core/errors.ts';
import type { ConnectorName } from '../core/names.ts';
import { parseConnectorJob, type ConnectorJob } from './add-job.ts';
import type { JobContext } from './worker-context.ts';
import { startsInARow } from './report-progress.ts';
import { runJob } from './run-job.ts';
import type { Settlement } from './settle-run.ts';
import type { JobEnd } from './worker-event.ts';
import { isMadeUpFor } from './worker-ledger.ts';

/** What Redis keeps of a job that is done. */
export interface JobResult {
  /** A run's outcome, or `paused`, `unknown`, `cancelled`, `made-up-for` where there was none. */
  readonly outcome: string;
}

const maxStarts = 3;
/** During a deploy, a worker of before meets jobs of connectors that only the workers to come know. */
const unknownForMs = 15 * 60 * 1000;
const sameAgainMs = 10 * 60 * 1000;
const withoutBackfillsMs = 60 * 60 * 1000;

/**
 * The processor of a sink's queue. It declares exactly three parameters: the queue looks at `length` and passes a signal
 * only then. A job that cannot run now is put off without using an attempt: nothing is forgotten.
 */
export function createJobProcessor(
  context: JobContext,
): (job: Job, token: string | undefined, signal: AbortSignal | undefined) => Promise<JobResult> {
  const putOff = new Map<ConnectorName, number>();
  /** A job that cannot run yet is looked at every few seconds, for hours perhaps: that it still waits is no news. */
  const isNews = (connector: ConnectorName, settlement: Settlement): boolean => {
    if (settlement.kind === 'give-back' && !context.stopping.aborted) return false;
    if (settlement.kind !== 'delay' || settlement.end !== 'busy') {
      putOff.delete(connector);
      return true;
    }
    const nowMs = context.clock.now();
    if (nowMs - (putOff.get(connector) ?? Number.NEGATIVE_INFINITY) < sameAgainMs) return false;
    putOff.set(connector, nowMs);
    return true;
  };
  return async (job, token, signal) => {
    const work = parseJob(job);
    const settlement = await settle(context, job, work, signal ?? new AbortController().signal);
    const { connector } = work;
    const end = endOf(job, settlement);
    context.observe({ kind: 'job-ended', connector, end });
    if (isNews(connector, settlement)) {
      context.log.info({ connector, job: work.kind, end, ...factsOf(settlement) }, 'job ended');
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

async function settle(
  context: JobContext,
  job: Job,
  work: ConnectorJob,
  signal: AbortSignal,
): Promise<Settlement> {
  const { connector } = work;
  const { running, stopping, clock, log } = context;
  // The queue's client hands out one more job while it closes, the one just given back among them.
  if (stopping.aborted) return { kind: 'give-back' };
  const later = (ms: number): Settlement => ({ kind: 'delay', untilMs: clock.now() + ms, end: 'busy' });
  if (context.connectors.get(connector)?.sink.name !== context.sinkName) {
    const askedMs = Math.max(job.timestamp, (work.kind === 'sync' ? work.due : null) ?? 0);
    if (clock.now() - askedMs < unknownForMs) return later(context.timings.busyDelayMs);
    return { kind: 'complete', outcome: 'unknown' };
  }
  if (!context.serves(connector)) return later(context.timings.busyDelayMs);
  // Its queue is held within seconds; until then its jobs must not begin a run.
  if ((await context.ledger.lost(context.sinkName)) !== null) return later(context.timings.busyDelayMs);
  if (running.has(connector)) return later(context.timings.busyDelayMs);
  running.add(connector);
  try {
    using slot = await context.slots.take({
      priority: job.priority,
      patienceMs: context.timings.slotPatienceMs,
      signal: AbortSignal.any([signal, stopping]),
    });
    if (slot === null) {
      if (!stopping.aborted && context.slots.isFull()) await context.tellFull(context.sinkName);
      return { kind: 'give-back' };
    }
    if ((await context.ledger.pause(connector)) !== null) return { kind: 'complete', outcome: 'paused' };
    if (await isNeedless(context, work)) return { kind: 'complete', outcome: 'made-up-for' };
    if (work.kind === 'backfill' && context.runBackfill === null) {
      log.warn({ connector }, 'a backfill waits for a worker that can make one');
      return later(withoutBackfillsMs);
    }
    const starts = startsInARow(job);
    if (starts >= maxStarts) {
      log.error({ connector, starts }, 'its process ended again and again before a page was stored');
      return { kind: 'fail', code: 'POISON', isFinal: true };
    }
    if (starts > 0) {
      // One after the other: what died beside a job that ends its process shall not be taken for one.
      if (context.suspects.size > 0) return later(context.timings.busyDelayMs);
      context.suspects.add(connector);
    }
    return await runJob(context, job, work, signal);
  } catch (error) {
    log.error({ connector, err: error }, 'the ledger could not be asked');
    return { kind: 'fail', code: codeOf(error), isFinal: false };
  } finally {
    running.delete(connector);
    context.suspects.delete(connector);
  }
}

async function isNeedless({ ledger }: JobContext, work: ConnectorJob): Promise<boolean> {
  if (work.kind !== 'sync' || work.reason !== 'catch-up' || work.due === null) return false;
  return isMadeUpFor(work.due, await ledger.lastRun(work.connector));
}

async function carryOut(
  job: Job,
  token: string | undefined,
  connector: ConnectorName,
  settlement: Settlement,
): Promise<JobResult> {
  switch (settlement.kind) {
    case 'complete':
      return { outcome: settlement.outcome };
    case 'give-back':
      await job.moveToWait(token);
      throw new WaitingError();
    case 'delay':
      await job.moveToDelayed(settlement.untilMs, token);
      throw new DelayedError();
    case 'fail': {
      // Only the code: Redis keeps this text in clear, and a message may quote what a service answered.
      const text = `${connector}: ${settlement.code}`;
      throw settlement.isFinal ? new UnrecoverableError(text) : new Error(text);
    }
    case 'lost':
      throw new Error(`${connector}: the lock was lost, another worker goes on`);
  }
}

function endOf(job: Job, settlement: Settlement): JobEnd {
  switch (settlement.kind) {
    case 'complete':
      return settlement.outcome === 'paused' || settlement.outcome === 'unknown'
        ? settlement.outcome
        : 'done';
    case 'give-back':
    case 'lost':
      return 'given-back';
    case 'delay':
      return settlement.end;
    case 'fail': {
      if (settlement.code === 'POISON') return 'poison';
      return settlement.isFinal || job.attemptsMade + 1 >= (job.opts.attempts ?? 1) ? 'failed' : 'retry';
    }
  }
}

function factsOf(settlement: Settlement): object {
  if (settlement.kind === 'complete') return { outcome: settlement.outcome };
  if (settlement.kind === 'fail') return { code: settlement.code };
  return settlement.kind === 'delay' ? { until: new Date(settlement.untilMs).toISOString() } : {};
}

function codeOf(error: unknown): ErrorCode {
  return error instanceof SyncError ? error.code : 'INTERNAL';
}
