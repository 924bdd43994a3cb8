import PQueue from 'p-queue';
import { systemClock, type Clock } from '../core/clock.ts';
import { ThrottledError } from '../core/errors.ts';
import type { Secret } from '../core/secret.ts';
import type { SharedBudget } from '../core/shared-budget.ts';
import { openCallPace } from '../http/call-pace.ts';
import { inTime, openSlots } from './slots.ts';
import { UpstreamFailure } from './upstream-failure.ts';
import { knownOrMade } from '../core/known-or-made.ts';

export type CallGate = ReturnType<typeof openCallGate>;
export type CallLane = ReturnType<typeof openLane>;
export type CallTurn = Awaited<ReturnType<CallLane['enter']>>;

export interface LaneLimits {
  readonly concurrency: number;
  readonly requestsPerSecond: number;
}

export interface CallGateOptions {
  readonly clock?: Clock;
  /** A longer pause is not waited for, nor a longer queue. */
  readonly maxWaitMs?: number;
  /** Shares the limits with other processes. Disposed with the lane. */
  readonly openShared?: (account: string, limits: LaneLimits) => SharedBudget;
}

const defaultMaxWaitMs = 30_000;
/** A lane that nothing used for so long is forgotten. */
const keepMs = 600_000;
const firstPauseMs = 1_000;
const longestPauseMs = 60_000;
/** Refusals of calls that were already sent count once. */
const countAtMostEveryMs = 1_000;

interface LaneOptions {
  readonly clock: Clock;
  readonly maxWaitMs: number;
  readonly budget: SharedBudget | null;
  /** By account; not with its lane, which is forgotten sooner. */
  readonly refusals: Map<string, { readonly tokens: string; readonly failure: UpstreamFailure }>;
}

/** What all calls of a process to third parties pass. One for the process. */
export function openCallGate(options: CallGateOptions = {}) {
  const { clock = systemClock, maxWaitMs = defaultMaxWaitMs, openShared } = options;
  const lanes = new Map<string, CallLane>();
  const refusals: LaneOptions['refusals'] = new Map();
  const closing = new Set<Promise<void>>();

  const forget = (account: string, lane: CallLane): void => {
    lanes.delete(account);
    const closed = lane.dispose().finally(() => closing.delete(closed));
    closing.add(closed);
  };

  return {
    /** The lane of one account; all callers of it get the same. `account` is a hash, never a credential. */
    lane(account: string, limits: LaneLimits): CallLane {
      for (const [name, lane] of lanes) if (name !== account && lane.isIdle()) forget(name, lane);
      return knownOrMade(lanes, account, () => {
        const budget = openShared?.(account, limits) ?? null;
        return openLane(account, limits, { clock, maxWaitMs, budget, refusals });
      });
    },
    async [Symbol.asyncDispose]() {
      for (const [name, lane] of lanes) forget(name, lane);
      await Promise.all(closing);
    },
  };
}

/** One account's calls: how many at a time, how fast, and what they know together. */
function openLane(account: string, limits: LaneLimits, { clock, maxWaitMs, budget, refusals }: LaneOptions) {
  const slots = openSlots(limits.concurrency, clock);
  const pace = openCallPace(limits.requestsPerSecond, clock, maxWaitMs);
  const alone = new PQueue({ concurrency: 1 });
  let usedAt = clock.now();
  let inUse = 0;
  let throttles = 0;
  let throttledAt = -Infinity;
  let pausedUntil = 0;

  return {
    /**
     * Resolves when a call may start; the caller says when it has ended. Rejects with `UpstreamFailure` throttled
     * (reason `gate`) where the wait would be longer than the gate's limit, and with the signal's reason, also while it
     * waits.
     */
    enter: async (signal: AbortSignal) => {
      // Waiting counts as use: a lane with callers is never forgotten.
      inUse += 1;
      const release = await takeTurn({ slots, pace, budget, maxWaitMs }, signal).catch((error: unknown) => {
        inUse -= 1;
        throw error;
      });
      let hasEnded = false;
      return {
        /** `isAnswered`: the service took the call. Lets another call start. Idempotent. */
        async end(isAnswered: boolean): Promise<void> {
          if (hasEnded) return;
          hasEnded = true;
          inUse -= 1;
          usedAt = clock.now();
          if (isAnswered && usedAt >= pausedUntil) throttles = 0;
          await release();
        },
      };
    },
    /**
     * The service refused a call as one too many: half as many at a time for a while, and none before `asked` ms have
     * passed (null: a pause that doubles each time, a minute at most).
     */
    async slowDown(asked: number | null): Promise<void> {
      const now = clock.now();
      const isNew = now - throttledAt >= countAtMostEveryMs;
      if (isNew) {
        throttledAt = now;
        throttles += 1;
        slots.halve();
      }
      const waitMs = asked ?? Math.min(firstPauseMs * 2 ** (Math.max(1, throttles) - 1), longestPauseMs);
      if (!isNew && asked === null) return;
      pausedUntil = Math.max(pausedUntil, now + waitMs);
      pace.slowDown(waitMs);
      // This process waits anyway; the others get the service's own refusal.
      await budget?.slowDown(waitMs).catch(() => undefined);
    },
    /** No call starts before; the limits stay. */
    pause: (waitMs: number): void => pace.pause(waitMs),
    /** One at a time for this account; waits for the others before. Does not count as a call. */
    async alone<T>(work: () => Promise<T>): Promise<T> {
      inUse += 1;
      try {
        return await alone.add(work);
      } finally {
        inUse -= 1;
        usedAt = clock.now();
      }
    },
    remembered: openMemory(clock),
    /** What a token endpoint has issued to this account and nothing stores, by the fields of its credentials. */
    issued: new Map<string, Secret>(),
    /**
     * Why the tokens with this hash are of no use any longer; null: that is not known. Kept until other ones of the
     * account are refused.
     */
    refusalOf(tokens: string): UpstreamFailure | null {
      const known = refusals.get(account);
      return known?.tokens === tokens ? known.failure : null;
    },
    keepRefusal: (tokens: string, failure: UpstreamFailure): void =>
      void refusals.set(account, { tokens, failure }),
    isIdle: (): boolean => inUse === 0 && clock.now() - usedAt > keepMs && clock.now() >= pausedUntil,
    dispose: async (): Promise<void> => await budget?.[Symbol.asyncDispose](),
  };
}

interface Limiters extends Pick<LaneOptions, 'maxWaitMs' | 'budget'> {
  readonly slots: ReturnType<typeof openSlots>;
  readonly pace: ReturnType<typeof openCallPace>;
}

/** Waits until each of them lets the call start; gives what releases its turn. */
async function takeTurn(
  { slots, pace, budget, maxWaitMs }: Limiters,
  signal: AbortSignal,
): Promise<() => Promise<void>> {
  const slot = await slots.take(signal, maxWaitMs);
  try {
    await pace.turn(signal);
    const shared = budget && (await inTime(maxWaitMs, signal, (own) => budget.enter(own)));
    return async () => {
      slot.release();
      // A turn that cannot be released expires.
      await shared?.release().catch(() => undefined);
    };
  } catch (error) {
    slot.release();
    throw error instanceof ThrottledError ? longPause(error.retryAfterMs) : error;
  }
}

/** Gives a function that keeps what `read` brought for ten minutes; a failure is not kept. */
function openMemory(clock: Clock) {
  const memory = new Map<string, { readonly value: string; readonly untilMs: number }>();
  return async (name: string, read: () => Promise<string>): Promise<string> => {
    const known = memory.get(name);
    if (known !== undefined && known.untilMs > clock.now()) return known.value;
    const value = await read();
    memory.set(name, { value, untilMs: clock.now() + keepMs });
    return value;
  };
}

function longPause(waitMs: number): UpstreamFailure {
  const text = 'the service asked for a pause that is not over yet';
  return new UpstreamFailure('throttled', text, { reason: 'gate', waitMs });
}
