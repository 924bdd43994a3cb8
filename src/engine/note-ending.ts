import { instant, type Instant } from '../core/clock.ts';
import { SyncError, ThrottledError } from '../core/errors.ts';

/** What ended a run before its work was done. A failure outweighs a pause: somebody may have to act on it; a pause outweighs a budget. */
export interface Ending {
  error: SyncError | null;
  /** The service asked for quiet until then, for longer than a call waits. */
  resumeAt: Instant | null;
  /** The time or the calls that the run was given are used up. */
  isSpent: boolean;
}

export function noEnding(): Ending {
  return { error: null, resumeAt: null, isSpent: false };
}

/** Something ended the run: what would come next is left to a later one. */
export function hasEnded(ending: Ending): boolean {
  return ending.error !== null || ending.resumeAt !== null || ending.isSpent;
}

export function isBudgetSpent(error: unknown): boolean {
  return error instanceof SyncError && error.code === 'BUDGET_SPENT';
}

/** Notes the first thing that ended the run. What follows from the end itself (`signal`) is no news. */
export function noteEnding(
  ending: Ending,
  error: unknown,
  { signal, nowMs }: { readonly signal: AbortSignal; readonly nowMs: number },
): void {
  if (isBudgetSpent(error)) ending.isSpent = true;
  else if (signal.aborted && isAbort(error, signal)) return;
  else if (!(error instanceof ThrottledError)) ending.error ??= toSyncError(error);
  else if (!signal.aborted) ending.resumeAt = instant(nowMs + error.retryAfterMs);
}

function isAbort(error: unknown, signal: AbortSignal): boolean {
  return error === signal.reason || (error instanceof Error && error.name === 'AbortError');
}

export function toSyncError(error: unknown): SyncError {
  if (error instanceof SyncError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new SyncError(message, { code: 'INTERNAL', recovery: 'stop', cause: error });
}
