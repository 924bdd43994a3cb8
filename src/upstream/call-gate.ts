import { lstatSync, mkdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import PQueue from 'p-queue';
import { systemClock, type Clock } from '../core/clock.ts';
import { ThrottledError } from '../core/errors.ts';
import { knownOrMade } from '../core/grouped.ts';
import type { Secret } from '../core/secret.ts';
import { openCallPace } from '../http/call-pace.ts';
import { orAborted, takeSlot, within } from '../http/or-aborted.ts';
import { UpstreamFailure } from './upstream-failure.ts';

export type CallGate = ReturnType<typeof openCallGate>;
/** A value that a token endpoint has issued, and when it ends by this machine's clock. */
export interface IssuedValue {
  readonly secret: Secret;
  readonly endsAtMs: number;
}

export type CallLane = ReturnType<typeof openLane>;
export type CallTurn = Awaited<ReturnType<CallLane['enter']>>;

type LaneLimits = Readonly<Record<'concurrency' | 'requestsPerSecond', number>>;

export interface CallGateOptions {
  readonly clock?: Clock;
  /** The longest pause, and the longest queue, that a call waits for. */
  readonly maxWaitMs?: number;
  /** Shares the calls at a time with other processes of the machine. */
  readonly machineSlots?: ReturnType<typeof openMachineSlots>;
}

const defaultMaxWaitMs = 30_000;
/** A lane that is unused for this long is forgotten. */
const keepMs = 600_000;
const firstPauseMs = 1_000;
const longestPauseMs = 60_000;
/** Refusals of calls that were already sent count as one. */
const countAtMostEveryMs = 1_000;

interface LaneOptions {
  readonly clock: Clock;
  readonly maxWaitMs: number;
  readonly machine: ReturnType<ReturnType<typeof openMachineSlots>> | null;
  /** Refusals by account; kept separately, because its lane is forgotten sooner. */
  readonly refusals: Map<string, { readonly tokens: string; readonly failure: UpstreamFailure }>;
}

/** Creates the gate that all calls of a process to third parties pass. One per process. */
export function openCallGate(options: CallGateOptions = {}) {
  const { clock = systemClock, maxWaitMs = defaultMaxWaitMs, machineSlots } = options;
  const lanes = new Map<string, CallLane>();
  const refusals: LaneOptions['refusals'] = new Map();
  return {
    /** The lane of one account; all callers of it get the same. `account` is a hash, never a credential. */
    lane(account: string, limits: LaneLimits): CallLane {
      for (const [name, lane] of lanes) if (name !== account && lane.isIdle()) lanes.delete(name);
      return knownOrMade(lanes, account, () => {
        const machine = machineSlots?.(account, limits) ?? null;
        return openLane(account, limits, { clock, maxWaitMs, machine, refusals });
      });
    },
  };
}

/** The calls of one account: their concurrency, their rate, and their shared state. */
function openLane(account: string, limits: LaneLimits, { clock, maxWaitMs, machine, refusals }: LaneOptions) {
  const slots = new PQueue({ concurrency: limits.concurrency });
  const pace = openCallPace(limits.requestsPerSecond, clock, maxWaitMs);
  const alone = new PQueue({ concurrency: 1 });
  let usedAt = clock.now();
  let inUse = 0;
  let throttles = 0;
  let throttledAt = -Infinity;
  let pausedUntil = 0;

  return {
    /**
     * Resolves when a call may start; the caller reports its end. Rejects with `UpstreamFailure` throttled (reason
     * `gate`) if the wait would exceed the gate's limit, and with the signal's reason, also while it waits.
     */
    enter: async (signal: AbortSignal) => {
      // Waiting counts as use: a lane with callers is never forgotten.
      inUse += 1;
      const release = await takeTurn({ slots, pace, machine, maxWaitMs }, signal).catch((error: unknown) => {
        inUse -= 1;
        throw error;
      });
      let hasEnded = false;
      return {
        /** `isAnswered`: the service took the call. Lets another call start. Idempotent. */
        end(isAnswered: boolean): void {
          if (hasEnded) return;
          hasEnded = true;
          inUse -= 1;
          usedAt = clock.now();
          if (isAnswered && usedAt >= pausedUntil) throttles = 0;
          release();
        },
      };
    },
    /**
     * The service refused a call as one too many: halves the rate for a while, and starts none before `asked` ms have
     * passed (null: a pause that doubles each time, a minute at most).
     */
    slowDown(asked: number | null): void {
      const now = clock.now();
      if (now - throttledAt >= countAtMostEveryMs) {
        throttledAt = now;
        throttles += 1;
      } else if (asked === null) return;
      const waitMs = asked ?? Math.min(firstPauseMs * 2 ** (throttles - 1), longestPauseMs);
      pausedUntil = Math.max(pausedUntil, now + waitMs);
      pace.slowDown(waitMs);
    },
    /** Starts no call before the end of the wait; the limits stay. */
    pause: (waitMs: number): void => pace.pause(waitMs),
    /** Runs one piece of work at a time for this account, after the earlier ones. Does not count as a call. */
    async alone<T>(work: () => Promise<T>): Promise<T> {
      inUse += 1;
      try {
        return await alone.add(work);
      } finally {
        inUse -= 1;
        usedAt = clock.now();
      }
    },
    /** Values that a token endpoint has issued to this account and that are stored nowhere, by credential field. */
    issued: new Map<string, IssuedValue>(),
    /**
     * The reason why the tokens with this hash no longer work; null: not known. Kept until other tokens of the account
     * are refused.
     */
    refusalOf(tokens: string): UpstreamFailure | null {
      const known = refusals.get(account);
      return known?.tokens === tokens ? known.failure : null;
    },
    keepRefusal: (tokens: string, failure: UpstreamFailure): void =>
      void refusals.set(account, { tokens, failure }),
    isIdle: (): boolean => inUse === 0 && clock.now() - usedAt > keepMs && clock.now() >= pausedUntil,
  };
}

interface Limiters extends Pick<LaneOptions, 'maxWaitMs' | 'machine'> {
  readonly slots: PQueue;
  readonly pace: ReturnType<typeof openCallPace>;
}

/** Waits until each of them lets the call start; returns the function that releases its turn. */
async function takeTurn({ slots, pace, machine, maxWaitMs }: Limiters, signal: AbortSignal) {
  const text = `other calls with the same credentials took their turns for ${maxWaitMs} ms`;
  const late = (): Error => new UpstreamFailure('throttled', text, { reason: 'gate', waitMs: 1_000 });
  const giveBack = await within(maxWaitMs, signal, late, (own) => takeSlot(slots, own));
  try {
    await pace.turn(signal);
    const slot = machine && (await within(maxWaitMs, signal, late, (own) => machine.enter(own)));
    return () => {
      giveBack();
      slot?.release();
    };
  } catch (error) {
    giveBack();
    if (!(error instanceof ThrottledError)) throw error;
    const pause = 'the service asked for a pause that is not over yet';
    throw new UpstreamFailure('throttled', pause, { reason: 'gate', waitMs: error.retryAfterMs });
  }
}

const askAgainMs = 30;

/** Null: the system has no user ids, and each user has a separate folder for temporary files. */
const ownUid = process.getuid?.() ?? null;

/**
 * Calls of one account at a time, over all processes of this user that have the same folder for temporary files: a call
 * holds the lock of one of `concurrency` files, which the kernel frees when the process is killed. Rates and pauses are
 * not shared. A call that cannot take a lock, as in a folder that cannot be written, starts at once: each process still
 * keeps its own limit.
 */
export function openMachineSlots(
  clock: Clock,
  folder = path.join(tmpdir(), `connector-sync-calls-${ownUid ?? 'own'}`),
) {
  return (account: string, { concurrency }: { readonly concurrency: number }) => {
    /** Slots that this process holds: they need not be tried. */
    const held = new Set<number>();
    const tries = new PQueue({ concurrency: 1 });

    const takeOne = async () => {
      // Loaded only here: commands that call no third party need no SQLite.
      const { takeLock } = await import('../sql/sqlite/lock.ts');
      makeFolder(folder);
      for (let slot = 0; slot < concurrency; slot += 1) {
        if (held.has(slot)) continue;
        const lock = takeLock(path.join(folder, `${account}-${slot}`));
        if (lock === null) continue;
        held.add(slot);
        return {
          /** Idempotent. */
          release: (): void => {
            if (held.delete(slot)) lock.release();
          },
        };
      }
      return null;
    };
    const take = async (signal: AbortSignal) => {
      for (;;) {
        signal.throwIfAborted();
        // A full or read-only disk for temporary files must not end a sync.
        const turn = await takeOne().catch(() => ({ release: () => undefined }));
        if (turn !== null) return turn;
        await clock.sleep(askAgainMs * (1 + Math.random()), signal);
      }
    };
    return {
      async enter(signal: AbortSignal) {
        // Only one call of this process tries at a time: the others cost nothing while they wait.
        const mine = tries.add(() => take(signal));
        try {
          return await orAborted(mine, signal);
        } catch (error) {
          void mine.then(
            (turn) => turn.release(),
            () => undefined,
          );
          throw error;
        }
      },
    };
  };
}

/** Throws for a folder in which another user could hold every slot. */
function makeFolder(folder: string): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const { uid, mode } = lstatSync(folder);
  if (ownUid !== null && (uid !== ownUid || (mode & 0o022) !== 0)) {
    throw new TypeError('expected a folder of this user alone');
  }
}
