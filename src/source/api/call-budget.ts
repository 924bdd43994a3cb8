import PQueue from 'p-queue';
import type { Clock } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import type { RunEvent } from '../../core/events.ts';
import type { SharedBudget, SharedTurn } from '../../core/shared-budget.ts';
import { openCallPace } from '../../http/call-pace.ts';
import type { CallRate, SourceStats, StatedRate } from '../source.ts';

/** What calls have cost so far. */
type CallCosts = Omit<SourceStats, 'serverTime' | 'rate'>;

/** Of one attempt, as `call-ended` has them. */
export type CallWaits = Pick<Extract<RunEvent, { readonly kind: 'call-ended' }>, 'waitedMs' | 'pacedMs'>;

/** As much as a config may ask for. */
const mostPerSecond = 1_000;

export type CallBudget = ReturnType<typeof openCallBudget>;

export interface CallBudgetOptions {
  readonly concurrency: number;
  readonly requestsPerSecond: number;
  readonly statedRate?: StatedRate;
  readonly clock: Clock;
  readonly maxThrottleWaitMs: number;
  /** Limit on attempts; null: none. */
  readonly maxCalls?: number | null;
  /** What all processes keep together for the account, once that is known; it stays the caller's to dispose. */
  readonly shared?: () => SharedBudget | null;
}

/** The rate and concurrency that all calls of one source share, how many there may be, and what they cost. */
export function openCallBudget(options: CallBudgetOptions) {
  const { clock, shared = () => null, maxCalls = null } = options;
  const queue = new PQueue({ concurrency: options.concurrency });
  const pace = openCallPace(options.requestsPerSecond, clock, options.maxThrottleWaitMs);
  let rate: CallRate = { requestsPerSecond: options.requestsPerSecond, by: 'definition' };
  const sums = { calls: 0, retries: 0, waitedMs: 0, bytes: 0 };

  const count = (part: Partial<Omit<CallCosts, 'calls'>>): void => {
    sums.retries += part.retries ?? 0;
    sums.waitedMs += part.waitedMs ?? 0;
    sums.bytes += part.bytes ?? 0;
  };

  /** Throws BUDGET_SPENT where `takeCall` would: there is nothing to wait for. */
  const checkCall = (): void => {
    if (maxCalls !== null && sums.calls >= maxCalls) throw spentError(maxCalls);
  };

  const start = async (signal: AbortSignal): Promise<SharedTurn | undefined> => {
    await pace.turn(signal);
    return await shared()?.enter(signal);
  };

  return {
    /**
     * Runs one attempt when concurrency, rate and pauses let it, and tells it how long they made it wait. Rejects at
     * once when the signal is aborted, also from the queue.
     */
    async run<T>(attempt: (waits: CallWaits) => Promise<T>, signal: AbortSignal): Promise<T> {
      checkCall();
      const queuedAt = clock.now();
      return await queue.add(
        async () => {
          const takenAt = clock.now();
          const turn = await start(signal).finally(() => count({ waitedMs: clock.now() - queuedAt }));
          try {
            const startedAt = clock.now();
            return await attempt({ waitedMs: startedAt - queuedAt, pacedMs: startedAt - takenAt });
          } finally {
            // The result of the attempt matters; a turn that cannot be released expires.
            await turn?.release().catch(() => undefined);
          }
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
      shared()?.limitTo?.(next);
      return true;
    },
    /** How many calls a second there are at most, where no setting says it. */
    rate: () => rate,
    /**
     * A pause: no attempt starts for `waitMs`, and the rate is lower for a while after. `because`: what came, where the
     * API did not ask for it.
     */
    async slowDown(waitMs: number, because: string | null): Promise<void> {
      pace.slowDown(waitMs, because);
      // This process pauses anyway; the others will get the API's own answer.
      await shared()
        ?.slowDown(waitMs)
        .catch(() => undefined);
    },
    /**
     * Counts an attempt that is about to be sent. After `maxCalls` attempts it throws BUDGET_SPENT (stop) and counts
     * nothing.
     */
    takeCall(): void {
      checkCall();
      sums.calls += 1;
    },
    checkCall,
    count,
    stats: (): CallCosts => ({ ...sums }),
  };
}

function spentError(maxCalls: number): SyncError {
  return new SyncError(`call limit of ${maxCalls} reached; the next run resumes`, {
    code: 'BUDGET_SPENT',
    recovery: 'stop',
    context: { maxCalls },
  });
}
