import { instant, type Clock, type Instant } from '../core/clock.ts';
import { SyncError, ThrottledError } from '../core/errors.ts';

/**
 * What ended a run before its work was done. A failure outweighs a pause, because a person may have to act on it; a
 * pause outweighs a budget. `outer`: the caller's signal.
 */
export function runEnding(outer: AbortSignal, clock: Clock) {
  const stop = new AbortController();
  const signal = AbortSignal.any([outer, stop.signal]);

  /** Notes the first thing that ended the run. What follows from the end itself is no news. */
  function note(reason: unknown): void {
    if (isBudgetSpent(reason)) ending.isSpent = true;
    else if (signal.aborted && isAbort(reason, signal)) return;
    else if (!(reason instanceof ThrottledError)) fail(reason);
    else if (!signal.aborted) {
      ending.resumeAt = instant(clock.now() + reason.retryAfterMs);
      ending.resumeBecause = reason.because;
    }
  }

  function fail(reason: unknown): void {
    ending.error ??= toSyncError(reason);
  }

  function endNow(reason: unknown): void {
    note(reason);
    stop.abort(reason);
  }

  const ending = {
    error: null as SyncError | null,
    /** No call is to be made until then, which is longer than one waits. */
    resumeAt: null as Instant | null,
    /** What came, where the service did not ask for that pause. */
    resumeBecause: null as string | null,
    /** The time or the calls that the run was given are used up: nothing more may start. */
    isSpent: false,
    /** The run ended early or was asked to: the phases to come are left to a later run. */
    get isOver(): boolean {
      return this.error !== null || this.resumeAt !== null || this.isSpent || signal.aborted;
    },
    /** Aborted when the run must stop at once: by the caller, or by what ended it. */
    signal,
    note,
    /** Notes a failure that does not stop the run: what remains must still be reported. */
    fail,
    /** Notes it and stops the run. Calls that were paid for when the budget was spent may still be stored. */
    end: (reason: unknown): void => (isBudgetSpent(reason) ? note(reason) : endNow(reason)),
    /** As `end`, without waiting for calls that were paid for. */
    endNow,
  };
  return ending;
}

export function isBudgetSpent(error: unknown): boolean {
  return error instanceof SyncError && error.code === 'BUDGET_SPENT';
}

export function toSyncError(error: unknown): SyncError {
  if (error instanceof SyncError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new SyncError(message, { code: 'INTERNAL', recovery: 'stop', cause: error });
}

function isAbort(error: unknown, signal: AbortSignal): boolean {
  return error === signal.reason || (error instanceof Error && error.name === 'AbortError');
}

/** Timers do not reach further: 24 days. */
const longestMs = 2 ** 31 - 1;

/** Calls `onSpent` with BUDGET_SPENT once, `budgetMs` after `beganMs`, unless it is disposed before. Null: never. */
export function watchTime(
  budgetMs: number | null,
  beganMs: number,
  { clock, onSpent }: { readonly clock: Clock; readonly onSpent: (error: SyncError) => void },
): Disposable {
  const over = new AbortController();
  if (budgetMs !== null) {
    const leftMs = Math.min(longestMs, Math.max(0, beganMs + budgetMs - clock.now()));
    clock.sleep(leftMs, over.signal).then(
      () => onSpent(spentError(budgetMs)),
      // Only the signal ends a sleep early.
      () => undefined,
    );
  }
  return { [Symbol.dispose]: () => over.abort() };
}

function spentError(budgetMs: number): SyncError {
  return new SyncError(`the ${budgetMs} ms that this run was given are over; the next run resumes`, {
    code: 'BUDGET_SPENT',
    recovery: 'stop',
    context: { budgetMs },
  });
}
