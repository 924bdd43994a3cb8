import pRetry from 'p-retry';
import type { Clock } from '../../core/clock.ts';
import { SyncError, ThrottledError } from '../../core/errors.ts';
import type { RunEvent } from '../../core/events.ts';
import type { ApiLimits } from './api-limits.ts';
import { isBrokenAnswer, type BrokenAnswers } from './broken-answers.ts';
import type { CallBudget } from './call-budget.ts';
import { CallFailure, type RetryRule } from './call-failure.ts';

interface RetryOptions {
  readonly limits: ApiLimits;
  readonly clock: Clock;
  readonly budget: CallBudget;
  readonly signal: AbortSignal;
  /** Shared by calls whose answers are broken together; null: the call is judged alone. */
  readonly brokenAnswers: BrokenAnswers | null;
  readonly onRetry: (retry: Omit<Extract<RunEvent, { kind: 'call-retried' }>, 'kind' | 'entity'>) => void;
  readonly onThrottle: (waitMs: number) => void;
}

/**
 * Repeats an attempt that throws `CallFailure` as its rule allows: the only place where anything is sent twice.
 * Rejects with the last failure's `SyncError`, with `ThrottledError` when the service asks for a long pause, with the
 * signal's reason, and with any other error at once.
 */
export async function callWithRetries<T>(attempt: () => Promise<T>, options: RetryOptions): Promise<T> {
  const { limits, clock, signal, budget, brokenAnswers } = options;
  const call = {};
  const startedAt = clock.now();
  let attempted = 0;
  const countByReason = new Map<RetryRule['reason'], number>();

  const beforeNext = async (failure: CallFailure, attemptNumber: number): Promise<void> => {
    const rule = failure.retry;
    attempted = attemptNumber;
    if (rule === null) throw failure;
    const count = (countByReason.get(rule.reason) ?? 0) + 1;
    countByReason.set(rule.reason, count);
    const waitMs = waitBefore(rule, count, attemptNumber, limits);
    if (rule.wait === 'throttle') {
      const because = failure.error instanceof ThrottledError ? failure.error.because : null;
      await budget.slowDown(waitMs, because);
      options.onThrottle(waitMs);
      if (waitMs > limits.maxThrottleWaitMs) {
        throw new ThrottledError(failure.message, waitMs, { because });
      }
    }
    // Before the wait: nothing may follow it. After the throttle: others must hear of that.
    budget.checkCall();
    const isLast = count > rule.most || attemptNumber > limits.retries;
    if (isLast || clock.now() + waitMs - startedAt > limits.maxCallMs) throw failure;
    if (brokenAnswers !== null && isBrokenAnswer(failure.error)) {
      if (!(await brokenAnswers.mayRepeat(call, signal))) throw failure;
    }
    const attempts = Math.min(attemptNumber - count + rule.most, limits.retries) + 1;
    const { code, message } = failure.error;
    options.onRetry({ code, message, attempt: attemptNumber, attempts, waitMs });
    budget.count({ retries: 1 });
    // A throttle is waited for in the budget, together with everybody else.
    if (rule.wait === 'throttle' || waitMs === 0) return;
    budget.count({ waitedMs: waitMs });
    await clock.sleep(waitMs, signal);
  };

  try {
    const value = await pRetry(attempt, {
      retries: limits.retries,
      minTimeout: 0,
      signal,
      onFailedAttempt: async ({ error, attemptNumber }) => {
        signal.throwIfAborted();
        if (!(error instanceof CallFailure)) throw error;
        await beforeNext(error, attemptNumber);
      },
    });
    brokenAnswers?.ended(call, null);
    return value;
  } catch (error) {
    const final: unknown = error instanceof CallFailure ? afterAttempts(error, attempted) : error;
    brokenAnswers?.ended(call, final);
    throw final;
  }
}

/** A failure that might have passed says how often it was tried. */
function afterAttempts({ error, retry }: CallFailure, attempts: number): SyncError {
  if (attempts < 2 || retry === null || retry.reason === 'token' || error instanceof ThrottledError) {
    return error;
  }
  const { message, code, recovery, context, cause } = error;
  return new SyncError(`${message} (${attempts} attempts)`, {
    code,
    recovery,
    context: { ...context, attempts },
    cause,
  });
}

/**
 * Full jitter: anything between nothing and the doubling limit, so that many clients do not come back together. After a
 * throttle that names no time, at least half of it: coming back at once would only be refused again.
 */
function waitBefore(rule: RetryRule, count: number, attemptNumber: number, limits: ApiLimits): number {
  if (rule.wait === 'at-once-first' && count === 1) return 0;
  if (rule.afterMs !== null && rule.afterMs > 0) return rule.afterMs;
  const limit = Math.min(limits.maxBackOffMs, limits.backOffMs * 2 ** attemptNumber);
  const least = rule.wait === 'throttle' ? limit / 2 : 0;
  return Math.round(least + Math.random() * (limit - least));
}
