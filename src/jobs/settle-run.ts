import { SyncError, ThrottledError, type ErrorCode } from '../core/errors.ts';
import type { RunEnd } from './worker-context.ts';

/** What becomes of a job. */
export type Settlement =
  | { readonly kind: 'complete'; readonly outcome: string }
  /** Back to the front of the queue, for the next worker. */
  | { readonly kind: 'give-back' }
  /** Not before then; no attempt is used. */
  | { readonly kind: 'delay'; readonly untilMs: number; readonly end: 'delayed' | 'busy' }
  /** An attempt is used; another one comes unless it is the last or `isFinal`. */
  | { readonly kind: 'fail'; readonly code: ErrorCode; readonly isFinal: boolean }
  /** The queue has given the job to somebody else already. */
  | { readonly kind: 'lost' };

/** How a run went: it ended with a report, or none could begin. */
export type Ending =
  | { readonly kind: 'ended'; readonly end: RunEnd; readonly isDone: boolean }
  | { readonly kind: 'thrown'; readonly error: unknown };

export interface Circumstances {
  /** The queue says that the job is no longer ours. */
  readonly isLockLost: boolean;
  readonly isStopping: boolean;
  /** Of a backfill: nobody wants it any more. */
  readonly isWithdrawn: boolean;
  readonly nowMs: number;
  readonly busyDelayMs: number;
  /** The same where another process holds the connector: asking costs calls of the API. */
  readonly heldDelayMs: number;
}

/** What a run's end means for its job. */
export function settleRun(ending: Ending, circumstances: Circumstances): Settlement {
  return ending.kind === 'ended'
    ? settleEnd(ending.end, ending.isDone, circumstances)
    : settleError(ending.error, circumstances);
}

function settleEnd(end: RunEnd, isDone: boolean, circumstances: Circumstances): Settlement {
  const { nowMs, busyDelayMs } = circumstances;
  if (end.error?.code === 'SINK_MOVED') return { kind: 'delay', untilMs: nowMs + busyDelayMs, end: 'busy' };
  if (end.outcome === 'interrupted') return settleInterruption(circumstances);
  if (end.resumeAt !== null) return { kind: 'delay', untilMs: Date.parse(end.resumeAt), end: 'delayed' };
  if (end.outcome === 'failed') {
    return { kind: 'fail', code: end.error?.code ?? 'INTERNAL', isFinal: end.error?.recovery === 'stop' };
  }
  if (isDone) return { kind: 'complete', outcome: end.outcome };
  if (circumstances.isWithdrawn) return { kind: 'complete', outcome: 'cancelled' };
  return { kind: 'delay', untilMs: nowMs + busyDelayMs, end: 'delayed' };
}

function settleError(error: unknown, circumstances: Circumstances): Settlement {
  const { nowMs, busyDelayMs, heldDelayMs } = circumstances;
  if (error instanceof ThrottledError) {
    return { kind: 'delay', untilMs: nowMs + error.retryAfterMs, end: 'delayed' };
  }
  if (!(error instanceof SyncError)) return { kind: 'fail', code: 'INTERNAL', isFinal: false };
  // The queue of that sink is held until its file is back, and the run is resumed then.
  if (error.code === 'SINK_MOVED') return { kind: 'delay', untilMs: nowMs + busyDelayMs, end: 'busy' };
  if (error.code === 'CONNECTOR_BUSY') return { kind: 'delay', untilMs: nowMs + heldDelayMs, end: 'busy' };
  if (error.code === 'INTERRUPTED' || error.code === 'CANCELLED') return settleInterruption(circumstances);
  return { kind: 'fail', code: error.code, isFinal: error.recovery === 'stop' };
}

function settleInterruption({ isLockLost, isStopping }: Circumstances): Settlement {
  if (isLockLost) return { kind: 'lost' };
  if (isStopping) return { kind: 'give-back' };
  // Nobody here ended it, so somebody asked for it: it shall not come back by itself.
  return { kind: 'complete', outcome: 'cancelled' };
}
