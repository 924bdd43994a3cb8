import { setMaxListeners } from 'node:events';
import PQueue from 'p-queue';
import pRetry, { type RetryContext } from 'p-retry';
import { type ApiLimits } from './api-limits.ts';
import type { Clock } from '../../core/clock.ts';
import { SyncError, ThrottledError } from '../../core/errors.ts';
import type { OnRunEvent, RunEvent } from '../../core/events.ts';
import { type CallFacts, CallFailure, onceOnly, type RetryRule, stopError } from './call-failure.ts';
import { orAborted } from '../../http/or-aborted.ts';
import { knownOrMade } from '../../core/grouped.ts';
import type { SharedBudget } from '../../core/shared-budget.ts';
import { openCallPace } from '../../http/call-pace.ts';
import type { CallRate, SourceStats, StatedRate } from '../source.ts';

/** One call of a source, through the API or to the third party itself. */
export interface Call<T> {
  readonly facts: CallFacts;
  /** A large file takes long: no time limit for the whole call. */
  readonly isLong: boolean;
  /** Shared by calls whose answers are broken together; undefined: the call is judged alone. */
  readonly brokenAnswers: BrokenAnswers | undefined;
  /** Gets the token for an attempt, outside of the attempt: its failures are neither counted nor repeated. */
  readonly token?: () => Promise<string | null>;
  /** Sends once. Throws `CallFailure` for a request that may be sent again. */
  readonly send: (token: string | null) => Promise<T>;
  /** Describes an unexpected error so that it may be shown. */
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
  const { budget, brokenAnswers, limits, signal } = call;
  signal.throwIfAborted();
  // One run's signal serves all its walks at once: more than ten listeners are no leak here.
  setMaxListeners(0, signal);
  const attempt = async (): Promise<T> => {
    // Get the token first: calls that wait for it after taking a turn would all start together.
    await call.token?.();
    return await budget.run((waitedMs) => attemptOnce(call, waitedMs), signal);
  };
  try {
    const onFailedAttempt = openRepeats(call);
    const value = await pRetry(attempt, { retries: limits.retries, minTimeout: 0, signal, onFailedAttempt });
    brokenAnswers?.ended(call, null);
    return value;
  } catch (error) {
    brokenAnswers?.ended(call, error);
    signal.throwIfAborted();
    if (error instanceof SyncError) throw error;
    const what = `${call.facts.label}: ${call.describe(error)}`;
    throw stopError('INTERNAL', `${what}; this is a bug in connector-sync`);
  }
}

type CallEnded = Extract<RunEvent, { readonly kind: 'call-ended' }>;

async function attemptOnce<T>(
  { facts, token, send, clock, budget, onEvent, signal }: Call<T>,
  waitedMs: number,
): Promise<T> {
  // Without a call failure inside: the token's own request has already been retried.
  const current = (await token?.()) ?? null;
  signal.throwIfAborted();
  budget.takeCall();
  const sentAt = clock.now();
  const ended = (answer: CallEnded['answer']): void =>
    onEvent({ kind: 'call-ended', entity: facts.entity, answer, ms: clock.now() - sentAt, waitedMs });
  const value = await send(current).catch((error: unknown) => {
    signal.throwIfAborted();
    ended(answerOf(error));
    throw facts.isWrite === true ? onceOnly(error) : error;
  });
  ended('ok');
  return value;
}

function answerOf(error: unknown): CallEnded['answer'] {
  if (error instanceof CallFailure) {
    return error.retry?.reason === 'token' ? 'refresh-auth' : error.error.recovery;
  }
  return error instanceof SyncError ? error.recovery : 'stop';
}

/** Waits after a failed attempt, as its rule says. Rejects where no other one may follow. */
function openRepeats(call: Call<unknown>) {
  const { facts, isLong, brokenAnswers, limits, clock, budget, onEvent, signal } = call;
  const startedAt = clock.now();
  const countByReason = new Map<RetryRule['reason'], number>();

  return async ({ error: failure, attemptNumber }: RetryContext): Promise<void> => {
    signal.throwIfAborted();
    if (!(failure instanceof CallFailure)) throw failure;
    const rule = failure.retry;
    const final = afterAttempts(failure, attemptNumber);
    if (rule === null) throw final;
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
    // Before the wait: nothing may follow it. After the throttle: others must hear of that.
    budget.checkCall(failure.error);
    const isLast = count > rule.most || attemptNumber > limits.retries;
    const isTooLong = !isLong && clock.now() + waitMs - startedAt > limits.maxCallMs;
    if (isLast || isTooLong) throw final;
    const isBroken = isBrokenAnswer(failure.error);
    if (isBroken && (await brokenAnswers?.mayRepeat(call, signal)) === false) throw final;
    const attempts = Math.min(attemptNumber - count + rule.most, limits.retries) + 1;
    const { code, message } = failure.error;
    const { entity } = facts;
    onEvent({ kind: 'call-retried', entity, code, message, attempt: attemptNumber, attempts, waitMs });
    budget.costs.retries += 1;
    // A throttle is waited for in the budget, together with all other calls.
    if (rule.wait === 'throttle' || waitMs === 0) return;
    budget.costs.waitedMs += waitMs;
    await clock.sleep(waitMs, signal);
  };
}

/** A failure that might have passed says how often it was tried. */
function afterAttempts({ error, retry }: CallFailure, attempts: number): SyncError {
  if (attempts < 2 || retry === null || retry.reason === 'token' || error instanceof ThrottledError) {
    return error;
  }
  const { message, code, recovery, context, cause } = error;
  const how = { code, recovery, context: { ...context, attempts }, cause };
  return new SyncError(`${message} (${attempts} attempts)`, how);
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

export type BrokenAnswers = ReturnType<typeof watchBrokenAnswers>;
type Repeating = ReturnType<typeof startRepeating>;

/** One for all parameters of the same entity and action, which `label` names. */
export function openBrokenAnswers(isTrial = false): (label: string) => BrokenAnswers {
  const byLabel = new Map<string, BrokenAnswers>();
  return (label) => (isTrial ? onTrial : knownOrMade(byLabel, label, watchBrokenAnswers));
}

/** A person sees each answer: one that is none is a mistake to see at once, and is not asked for again. */
const onTrial: BrokenAnswers = { mayRepeat: () => Promise.resolve(false), ended: () => undefined };

/**
 * Coordinates calls of one kind (`list list_members`) that get HTML, or JSON of another shape. Such a fault usually
 * affects the whole entity, so one call repeats for all of them while the others wait for its outcome. Once it has used
 * up its attempts, one waiting call gets another attempt, since the fault may concern the first call alone. From then
 * on each further call has one attempt, until any of them gets a valid answer.
 */
function watchBrokenAnswers() {
  let repeating: Repeating | null = null;
  let isBroken = false;
  /** Another call than the one that used up its attempts was answered no better. */
  let isConfirmed = false;
  const settle = (isBrokenNow: boolean): void => {
    isBroken = isBrokenNow;
    isConfirmed &&= isBrokenNow;
    repeating?.settle();
    repeating = null;
  };
  return {
    /** After a broken answer to `call`: whether it may be sent again. Rejects with the signal's reason. */
    async mayRepeat(call: object, signal: AbortSignal): Promise<boolean> {
      if (repeating === null && !isBroken) repeating = startRepeating(call);
      let hasWaited = false;
      for (;;) {
        // Checked and, below, taken over without a wait in between: only one of those that waited does so.
        const ahead: Repeating | null = repeating;
        if (ahead === null || ahead.call === call) break;
        await orAborted(ahead.outcome, signal);
        hasWaited = true;
      }
      if (!isBroken) return true;
      const isSecond = hasWaited && !isConfirmed;
      isConfirmed = true;
      if (isSecond) repeating = startRepeating(call);
      return isSecond;
    },
    /** Once for each call, with the error that its caller gets; null: it was answered. */
    ended(call: object, error: unknown): void {
      // An answer to any call proves that the entity answers: the fault concerns something smaller.
      if (error === null) settle(false);
      else if (repeating?.call === call) settle(isBrokenAnswer(error));
    },
  };
}

/** The service answered with success, but in another form than the API promises: no overload and no lost connection. */
export function isBrokenAnswer(error: unknown): boolean {
  if (!(error instanceof SyncError) || error.code !== 'BODY_INVALID') return false;
  const { recovery, context } = error;
  return recovery === 'retry' || context['reason'] === 'noRecords' || context['reason'] === 'brokenRecords';
}

function startRepeating(call: object) {
  let settle = (): void => undefined;
  const outcome = new Promise<void>((resolve) => (settle = resolve));
  return { call, outcome, settle };
}

/** Highest rate that a config may ask for. */
const mostPerSecond = 1_000;

export type CallBudget = ReturnType<typeof openCallBudget>;

export interface CallBudgetOptions {
  readonly concurrency: number;
  readonly requestsPerSecond: number;
  readonly statedRate?: StatedRate | undefined;
  readonly clock: Clock;
  readonly maxThrottleWaitMs: number;
  /** Limit on attempts; null: none. */
  readonly maxCalls?: number | null;
  /** Returns the rate that all processes share for the account, null until the account is known. */
  readonly shared?: () => SharedBudget | null;
}

/** Budget of all calls of one source: their rate, concurrency, number and costs. */
export function openCallBudget(options: CallBudgetOptions) {
  const { clock, shared = () => null, maxCalls = null } = options;
  const queue = new PQueue({ concurrency: options.concurrency });
  const pace = openCallPace(options.requestsPerSecond, clock, options.maxThrottleWaitMs);
  let rate: CallRate = { requestsPerSecond: options.requestsPerSecond, by: 'definition' };
  /** Sums of all calls so far. */
  const costs = { calls: 0, retries: 0, waitedMs: 0, bytes: 0 };

  /** Throws BUDGET_SPENT where `takeCall` would: there is nothing to wait for. `cause`: why another call was wanted. */
  const checkCall = (cause?: SyncError): void => {
    if (maxCalls === null || costs.calls < maxCalls) return;
    const context = { maxCalls };
    const message = `call limit of ${maxCalls} reached; the next run resumes`;
    throw new SyncError(message, { code: 'BUDGET_SPENT', recovery: 'stop', context, cause });
  };

  return {
    /**
     * Runs one attempt when concurrency, rate and pauses let it, and tells it how long they made it wait. Rejects at
     * once when the signal is aborted, also from the queue.
     */
    async run<T>(attempt: (waitedMs: number) => Promise<T>, signal: AbortSignal): Promise<T> {
      checkCall();
      const queuedAt = clock.now();
      return await queue.add(
        async () => {
          await pace
            .turn(signal)
            .then(() => shared()?.enter(signal))
            .finally(() => (costs.waitedMs += clock.now() - queuedAt));
          return await attempt(clock.now() - queuedAt);
        },
        { signal },
      );
    },
    /** The API states how many calls a second it takes. True: the rate is another one now. */
    heardRate(stated: number): boolean {
      const { statedRate, requestsPerSecond } = options;
      if (statedRate === undefined) return false;
      const next = Math.min(stated, statedRate === 'follow' ? mostPerSecond : requestsPerSecond);
      if (next === rate.requestsPerSecond) return false;
      rate = { requestsPerSecond: next, by: 'api' };
      pace.limitTo(next);
      shared()?.limitTo(next);
      return true;
    },
    /** Highest rate of calls a second, where no setting states it. */
    rate: () => rate,
    /**
     * Pauses: no attempt starts for `waitMs`, and the rate is lower for a while after. `because`: the answer that led
     * to the pause, where the API did not ask for it.
     */
    async slowDown(waitMs: number, because: string | null): Promise<void> {
      pace.slowDown(waitMs, because);
      // This process pauses anyway; the others will get the API's own answer.
      await shared()?.slowDown(waitMs);
    },
    /**
     * Counts an attempt that is about to be sent. After `maxCalls` attempts it throws BUDGET_SPENT (stop) and counts
     * nothing.
     */
    takeCall(): void {
      checkCall();
      costs.calls += 1;
    },
    checkCall,
    costs,
    stats: (): Omit<SourceStats, 'serverTime'> => ({
      ...costs,
      ...(options.statedRate === undefined ? {} : { rate }),
    }),
  };
}
