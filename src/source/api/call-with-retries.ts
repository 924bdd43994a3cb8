import { setMaxListeners } from 'node:events';
import pRetry from 'p-retry';
import type { Clock } from '../../core/clock.ts';
import { SyncError, ThrottledError } from '../../core/errors.ts';
import type { OnRunEvent, RunEvent } from '../../core/events.ts';
import type { ApiLimits } from './api-limits.ts';
import { isBrokenAnswer, type BrokenAnswers } from './broken-answers.ts';
import type { CallBudget, CallWaits } from './call-budget.ts';
import { type CallFacts, CallFailure, onceOnly, type RetryRule, stopError } from './call-failure.ts';

/** One call of a source, through the API or to the third party itself. */
export interface Call<T> {
  readonly facts: CallFacts;
  /** A large file takes long: no time limit for the whole call. */
  readonly isLong: boolean;
  /** A person sees each answer: one that is none is a mistake to see at once, and is not asked for again. */
  readonly isTrial?: boolean;
  /** Shared by calls whose answers are broken together; null: the call is judged alone. */
  readonly brokenAnswers: BrokenAnswers | null;
  /** The token for an attempt, which is no part of it: what fails here is neither counted nor repeated. */
  readonly token?: () => Promise<string | null>;
  /** Sends once. Throws `CallFailure` for what may be sent again. */
  readonly send: (token: string | null) => Promise<T>;
  /** How an error that nothing expects may be shown. */
  readonly describe: (error: unknown) => string;
  readonly limits: ApiLimits;
  readonly clock: Clock;
  readonly budget: CallBudget;
  readonly onEvent: OnRunEvent;
  readonly signal: AbortSignal;
}

/**
 * Puts the layers of a call together: retries around a budget around one attempt. The only place where anything is sent
 * twice. Rejects with a classified `SyncError`, with `ThrottledError` when the service asks for a long pause, or
 * promptly with the signal's reason.
 */
export async function callWithRetries<T>(call: Call<T>): Promise<T> {
  const { budget, signal } = call;
  signal.throwIfAborted();
  // One run's signal serves all its walks at once: more than ten listeners are no leak here.
  setMaxListeners(0, signal);
  const attempt = (waits: CallWaits) => attemptOnce(call, waits);
  try {
    return await repeat(async () => {
      // Get the token first: calls that wait for it after taking a turn would all start together.
      await call.token?.();
      return await budget.run(attempt, signal);
    }, call);
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof SyncError) throw error;
    const what = `${call.facts.label}: ${call.describe(error)}`;
    throw stopError('INTERNAL', `${what}; this is a bug in connector-sync`);
  }
}

type CallEnded = Extract<RunEvent, { readonly kind: 'call-ended' }>;

async function attemptOnce<T>(
  { facts, token, send, clock, budget, onEvent, signal }: Call<T>,
  waits: CallWaits,
): Promise<T> {
  // Without a call failure inside: the token's own request has already been retried.
  const current = (await token?.()) ?? null;
  signal.throwIfAborted();
  budget.takeCall();
  const sentAt = clock.now();
  const ended = (answer: CallEnded['answer']): void =>
    onEvent({ kind: 'call-ended', entity: facts.entity, answer, ms: clock.now() - sentAt, ...waits });
  let value: T;
  try {
    value = await send(current);
  } catch (error) {
    signal.throwIfAborted();
    ended(answerOf(error));
    throw facts.isWrite === true ? onceOnly(error) : error;
  }
  ended('ok');
  return value;
}

function answerOf(error: unknown): CallEnded['answer'] {
  if (error instanceof CallFailure) {
    return error.retry?.reason === 'token' ? 'refresh-auth' : error.error.recovery;
  }
  return error instanceof SyncError ? error.recovery : 'stop';
}

/** Repeats an attempt that throws `CallFailure` as its rule allows. */
async function repeat<T>(
  attempt: () => Promise<T>,
  {
    facts: { entity },
    isLong,
    isTrial = false,
    brokenAnswers,
    limits,
    clock,
    budget,
    onEvent,
    signal,
  }: Call<T>,
): Promise<T> {
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
      onEvent({ kind: 'throttled', waitMs });
      if (waitMs > limits.maxThrottleWaitMs) {
        throw new ThrottledError(failure.message, waitMs, { because });
      }
    }
    if (isTrial && isBrokenAnswer(failure.error)) throw failure;
    // Before the wait: nothing may follow it. After the throttle: others must hear of that.
    try {
      budget.checkCall();
    } catch (error) {
      throw error instanceof SyncError ? withCause(error, failure.error) : error;
    }
    const isLast = count > rule.most || attemptNumber > limits.retries;
    const isTooLong = !isLong && clock.now() + waitMs - startedAt > limits.maxCallMs;
    if (isLast || isTooLong) throw failure;
    if (brokenAnswers !== null && isBrokenAnswer(failure.error)) {
      if (!(await brokenAnswers.mayRepeat(call, signal))) throw failure;
    }
    const attempts = Math.min(attemptNumber - count + rule.most, limits.retries) + 1;
    const { code, message } = failure.error;
    onEvent({ kind: 'call-retried', entity, code, message, attempt: attemptNumber, attempts, waitMs });
    budget.count({ retries: 1 });
    // A throttle is waited for in the budget, together with all other calls.
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

function withCause({ message, code, recovery, context }: SyncError, cause: SyncError): SyncError {
  return new SyncError(message, { code, recovery, context, cause });
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
