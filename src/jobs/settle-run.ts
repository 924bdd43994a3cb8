import { SyncError, ThrottledError, type ErrorCode, type Recovery } from '../core/errors.ts';
import type { RunResult } from './worker-context.ts';

/** What to do with a job after its run. */
export type Settlement =
  | { readonly kind: 'complete'; readonly outcome: string }
  /** Back to the front of the queue, for the next worker. */
  | { readonly kind: 'give-back' }
  /** Retry at `untilMs`; uses no attempt. */
  | { readonly kind: 'delay'; readonly untilMs: number; readonly end: 'delayed' | 'busy' }
  /** Uses an attempt; retried unless it was the last one or `isFinal`. */
  | { readonly kind: 'fail'; readonly code: ErrorCode; readonly isFinal: boolean }
  /** Another worker has the job. */
  | { readonly kind: 'lost' };

/** How a run ended: with a report, or with an error because it could not start. */
export type Ending =
  | { readonly kind: 'ended'; readonly end: RunResult; readonly isDone: boolean }
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
    ? settleEnd(ending.end, ending.isDone, circumstances)
    : settleError(ending.error, circumstances);
}

function settleEnd(end: RunResult, isDone: boolean, circumstances: Circumstances): Settlement {
  const { nowMs, busyDelayMs } = circumstances;
  if (end.error?.code === 'SINK_MOVED') return { kind: 'delay', untilMs: nowMs + busyDelayMs, end: 'busy' };
  if (end.error?.code === 'FENCED') return settleFenced(end.error.recovery, circumstances);
  if (end.outcome === 'interrupted') return settleInterruption(circumstances);
  if (end.resumeAt !== null) return { kind: 'delay', untilMs: Date.parse(end.resumeAt), end: 'delayed' };
  if (end.outcome === 'failed') {
    return { kind: 'fail', code: end.error?.code ?? 'INTERNAL', isFinal: end.error?.recovery === 'stop' };
  }
  if (isDone) return { kind: 'complete', outcome: end.outcome };
  if (circumstances.isCancelled) return { kind: 'complete', outcome: 'cancelled' };
  return { kind: 'delay', untilMs: nowMs + busyDelayMs, end: 'delayed' };
}

function settleError(error: unknown, circumstances: Circumstances): Settlement {
  const { nowMs, busyDelayMs, heldDelayMs } = circumstances;
  if (error instanceof ThrottledError) {
    return { kind: 'delay', untilMs: nowMs + error.retryAfterMs, end: 'delayed' };
  }
  if (!(error instanceof SyncError)) return { kind: 'fail', code: 'INTERNAL', isFinal: false };
  // The sink's queue is held until its file is back; then the run resumes.
  if (error.code === 'SINK_MOVED') return { kind: 'delay', untilMs: nowMs + busyDelayMs, end: 'busy' };
  if (error.code === 'FENCED') return settleFenced(error.recovery, circumstances);
  if (error.code === 'CONNECTOR_BUSY') return { kind: 'delay', untilMs: nowMs + heldDelayMs, end: 'busy' };
  if (error.code === 'INTERRUPTED' || error.code === 'CANCELLED') return settleInterruption(circumstances);
  return { kind: 'fail', code: error.code, isFinal: error.recovery === 'stop' };
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
