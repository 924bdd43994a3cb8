import { lstatSync, mkdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import PQueue from 'p-queue';
import type { Clock } from '../core/clock.ts';
import type { SharedBudget, SharedTurn } from '../core/shared-budget.ts';
import { orAborted, startDeadline, takeSlot } from '../http/or-aborted.ts';
import { UpstreamFailure } from './upstream-failure.ts';

const doubleEveryMs = 10_000;

/** How many calls of one account run at a time; a refusal halves it for a while. */
export function openSlots(concurrency: number, clock: Clock) {
  const queue = new PQueue({ concurrency });
  let share = 1;
  let grownAt = 0;

  // Called whenever a call comes or ends. A call that waits behind a lowered limit always waits for one that runs, so
  // no timer is needed.
  const setLimit = (): void => {
    while (share < 1 && clock.now() >= grownAt + doubleEveryMs) {
      share *= 2;
      grownAt += doubleEveryMs;
    }
    queue.concurrency = Math.max(1, Math.floor(concurrency * share));
  };

  return {
    /**
     * Resolves in order of asking. Rejects with the signal's reason, and with `UpstreamFailure` throttled after
     * `maxWaitMs`.
     */
    async take(signal: AbortSignal, maxWaitMs: number): Promise<{ release(): void }> {
      setLimit();
      const giveBack = await inTime(maxWaitMs, signal, (own) => takeSlot(queue, own));
      const release = (): void => {
        giveBack();
        setLimit();
      };
      return { release };
    },
    /** Half as many from now on, at least one; twice as many again after each 10 s. */
    halve(): void {
      share = Math.max(share / 2, 1 / (2 * concurrency));
      grownAt = clock.now();
      setLimit();
    },
  };
}

/** Waits for a turn. Rejects with the signal's reason, and with `UpstreamFailure` throttled after `maxWaitMs`. */
export async function inTime<Turn>(
  maxWaitMs: number,
  signal: AbortSignal,
  take: (signal: AbortSignal) => Promise<Turn>,
): Promise<Turn> {
  signal.throwIfAborted();
  const text = `other calls with the same credentials took their turns for ${maxWaitMs} ms`;
  const late = (): Error => new UpstreamFailure('throttled', text, { reason: 'gate', waitMs: 1_000 });
  const deadline = startDeadline(maxWaitMs, signal, late);
  try {
    return await take(deadline.signal);
  } catch (error) {
    deadline.signal.throwIfAborted();
    throw error;
  } finally {
    deadline.end();
  }
}

const askAgainMs = 30;

/** Null: the system has no user ids, and folders for temporary files are a user's own. */
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
): (account: string, limits: { readonly concurrency: number }) => SharedBudget {
  return (account, { concurrency }) => {
    /** Of this process: they need not be tried. */
    const held = new Set<number>();
    const tries = new PQueue({ concurrency: 1 });

    const takeOne = async (): Promise<SharedTurn | null> => {
      // Loaded only here: commands that call no third party need no SQLite.
      const { takeLock } = await import('../sql/sqlite/lock.ts');
      makeFolder(folder);
      for (let slot = 0; slot < concurrency; slot += 1) {
        if (held.has(slot)) continue;
        const lock = takeLock(path.join(folder, `${account}-${slot}`));
        if (lock === null) continue;
        held.add(slot);
        return {
          release() {
            if (held.delete(slot)) lock.release();
            return Promise.resolve();
          },
        };
      }
      return null;
    };
    const take = async (signal: AbortSignal): Promise<SharedTurn> => {
      for (;;) {
        signal.throwIfAborted();
        let turn: SharedTurn | null;
        try {
          turn = await takeOne();
        } catch {
          // A full or read-only disk for temporary files must not end a sync.
          return { release: () => Promise.resolve() };
        }
        if (turn !== null) return turn;
        await clock.sleep(askAgainMs * (1 + Math.random()), signal);
      }
    };
    return {
      async enter(signal) {
        // One of this process tries at a time: the others cost nothing while they wait.
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
      slowDown: () => Promise.resolve(),
      [Symbol.asyncDispose]: () => Promise.resolve(),
    };
  };
}

/** Throws for a folder that another user could hold every slot in. */
function makeFolder(folder: string): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const { uid, mode } = lstatSync(folder);
  if (ownUid !== null && (uid !== ownUid || (mode & 0o022) !== 0)) {
    throw new TypeError('expected a folder of this user alone');
  }
}
