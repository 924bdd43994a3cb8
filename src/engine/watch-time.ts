import type { Clock } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';

/** Timers do not reach further: 24 days. */
const longestMs = 2 ** 31 - 1;

/**
 * Calls `onSpent` with BUDGET_SPENT once, `budgetMs` after `beganMs`, unless it is disposed before. Null: never.
 */
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
  return new SyncError(`the ${budgetMs} ms that this run was given are over; the next run goes on`, {
    code: 'BUDGET_SPENT',
    recovery: 'stop',
    context: { budgetMs },
  });
}
