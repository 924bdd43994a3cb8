import { DelayedError, UnrecoverableError, WaitingError, type Job } from 'bullmq';
import { SyncError, ThrottledError, type ErrorCode, type Recovery } from '../core/errors.ts';
import type { JobEnd } from '../core/events.ts';
import { reportProgress, type ProgressReport } from './report-progress.ts';
import type { RunResult, SinkContext } from './worker-context.ts';

/** A job whose process crashed on as many starts in a row fails. */
export const maxStarts = 3;

/** The abort reason of a job's signal when the job lost its lock and another worker may take it. */
export const lockLost = 'lock lost';

/** What to do with a job after its run. */
export type Settlement =
  /**
   * `outcome`, which Redis keeps: a run's, or `paused`, `unknown`, `cancelled`, `made-up-for` if the job started no
   * run; of a publication how it ended.
   */
  | { readonly kind: 'complete'; readonly outcome: string }
  /** Back to the front of the queue, for the next worker. */
  | { readonly kind: 'give-back' }
  /** Retry at `untilMs`; uses no attempt. */
  | { readonly kind: 'delay'; readonly untilMs: number; readonly end: 'delayed' | 'busy' }
  /** Uses an attempt; retried unless it was the last one or `isFinal`. */
  | { readonly kind: 'fail'; readonly code: ErrorCode; readonly isFinal: boolean }
  /** Another worker has the job. */
  | { readonly kind: 'lost' };

/** How a run or publication ended; with an error where it could not be made. */
export type Ending =
  | { readonly kind: 'ended'; readonly end: Omit<RunResult, 'run'> }
  | { readonly kind: 'thrown'; readonly error: unknown };

export interface Circumstances {
  /** This worker lost the job's lock. */
  readonly isLockLost: boolean;
  readonly isStopping: boolean;
  /** The backfill was cancelled. */
  readonly isCancelled: boolean;
  readonly nowMs: number;
  readonly busyDelayMs: number;
  /** The delay if another process has the connector's lock. Longer, because each try costs API calls. */
  readonly heldDelayMs: number;
}

/** Decides what to do with a job from how its run ended. */
export function settleRun(ending: Ending, circumstances: Circumstances): Settlement {
  return ending.kind === 'ended'
    ? settleEnd(ending.end, circumstances)
    : settleError(ending.error, circumstances);
}

function settleEnd(end: Omit<RunResult, 'run'>, circumstances: Circumstances): Settlement {
  const { nowMs, busyDelayMs } = circumstances;
  // The sink's queue is held until its file is back; then the run resumes.
  if (end.error?.code === 'SINK_MOVED') return { kind: 'delay', untilMs: nowMs + busyDelayMs, end: 'busy' };
  if (end.error?.code === 'FENCED') return settleFenced(end.error.recovery, circumstances);
  if (end.outcome === 'interrupted') return settleInterruption(circumstances);
  if (end.resumeAt !== null) return { kind: 'delay', untilMs: Date.parse(end.resumeAt), end: 'delayed' };
  if (end.outcome === 'failed') {
    return { kind: 'fail', code: end.error?.code ?? 'INTERNAL', isFinal: end.error?.recovery === 'stop' };
  }
  if (end.isDone !== false) return { kind: 'complete', outcome: end.outcome };
  if (circumstances.isCancelled) return { kind: 'complete', outcome: 'cancelled' };
  return { kind: 'delay', untilMs: nowMs + busyDelayMs, end: 'delayed' };
}

function settleError(error: unknown, circumstances: Circumstances): Settlement {
  const { nowMs, heldDelayMs } = circumstances;
  if (error instanceof ThrottledError) {
    return { kind: 'delay', untilMs: nowMs + error.retryAfterMs, end: 'delayed' };
  }
  if (!(error instanceof SyncError)) return { kind: 'fail', code: 'INTERNAL', isFinal: false };
  if (error.code === 'CONNECTOR_BUSY') return { kind: 'delay', untilMs: nowMs + heldDelayMs, end: 'busy' };
  const isInterrupted = error.code === 'INTERRUPTED' || error.code === 'CANCELLED';
  const outcome = isInterrupted ? 'interrupted' : 'failed';
  return settleEnd({ outcome, error, resumeAt: null }, circumstances);
}

/**
 * Overtaken by another worker, or by a server that gave way to its standby. In the first case that worker has the job,
 * or holds the connector, which the next try finds out; in the second the connector is free.
 */
function settleFenced(recovery: Recovery, { isLockLost, nowMs, busyDelayMs }: Circumstances): Settlement {
  if (isLockLost) return { kind: 'lost' };
  if (recovery === 'stop') return { kind: 'fail', code: 'FENCED', isFinal: true };
  return { kind: 'delay', untilMs: nowMs + busyDelayMs, end: 'busy' };
}

function settleInterruption({ isLockLost, isStopping }: Circumstances): Settlement {
  if (isLockLost) return { kind: 'lost' };
  if (isStopping) return { kind: 'give-back' };
  // Neither this worker nor the queue ended the run, so a person cancelled it: do not retry.
  return { kind: 'complete', outcome: 'cancelled' };
}

interface Attempt {
  /** Rejects where the run or publication could not be made. */
  readonly run: (signal: AbortSignal, progress: ProgressReport) => Promise<Ending>;
  readonly isCancelled: () => Promise<boolean>;
  readonly heldDelayMs: () => number;
  /** The attempt failed without a report. */
  readonly onFailed: (error: unknown) => void;
}

/**
 * Makes one attempt of a job and settles it. Counts the start and its end, so that a job that crashes its process is
 * found. Never rejects.
 */
export async function attemptJob(
  context: SinkContext,
  job: Job,
  signal: AbortSignal,
  { run, isCancelled, heldDelayMs, onFailed }: Attempt,
): Promise<Settlement> {
  const progress = reportProgress(job, context);
  const ending = await run(interruptible(signal), progress).catch((error: unknown): Ending => ({
    kind: 'thrown',
    error,
  }));
  const isLockLost = signal.aborted && signal.reason === lockLost;
  // Another worker may have the job by now and count its own starts.
  if (isLockLost) {
    context.log.warn(job.data as object, 'lost the lock of a job: its run stopped; another worker takes it');
  } else {
    await progress.end();
  }
  const settlement = settleRun(ending, {
    isLockLost,
    isStopping: context.stopping.aborted,
    isCancelled: await isCancelled(),
    nowMs: context.clock.now(),
    busyDelayMs: context.timings.busyDelayMs,
    heldDelayMs: heldDelayMs(),
  });
  if (ending.kind === 'thrown' && settlement.kind === 'fail') onFailed(ending.error);
  return settlement;
}

/** BullMQ aborts with a string; code that rejects with a signal's reason needs an Error. */
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

/**
 * A queue's processor must declare all three parameters: BullMQ passes a signal only to a function whose `length` is 3
 * or more.
 */
export type JobProcessor = (
  job: Job,
  token: string | undefined,
  signal: AbortSignal | undefined,
) => Promise<unknown>;

/**
 * Applies a settlement to its job: returns, or throws what the queue understands. The text of a failure begins with
 * `name`.
 */
export async function carryOut(
  job: Job,
  token: string | undefined,
  name: string,
  settlement: Settlement,
): Promise<{ readonly outcome: string }> {
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
      // Only the code: Redis stores this text unencrypted, and a message may quote an API response.
      const text = `${name}: ${settlement.code}`;
      throw settlement.isFinal ? new UnrecoverableError(text) : new Error(text);
    }
    case 'lost':
      throw new Error(`${name}: lock lost; another worker takes over`);
  }
}

/** What the log says of a settlement. */
export function factsOf(settlement: Settlement): object {
  if (settlement.kind === 'complete') return { outcome: settlement.outcome };
  if (settlement.kind === 'fail') return { code: settlement.code };
  return settlement.kind === 'delay' ? { until: new Date(settlement.untilMs).toISOString() } : {};
}

/** How the job ended, in a word. */
export function endOf(job: Job, settlement: Settlement): JobEnd {
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
      const isLastAttempt = job.attemptsMade + 1 >= (job.opts.attempts ?? 1);
      return settlement.isFinal || isLastAttempt ? 'failed' : 'retry';
    }
  }
}
