import { lstatSync, mkdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Clock } from '../core/clock.ts';
import type { SharedBudget, SharedTurn } from '../core/shared-budget.ts';
import { orAborted } from '../http/or-aborted.ts';
import type { LaneLimits } from './call-gate.ts';

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
): (account: string, limits: Pick<LaneLimits, 'concurrency'>) => SharedBudget {
  return (account, { concurrency }) => {
    /** Of this process: they need not be tried. */
    const held = new Set<number>();
    let last: Promise<unknown> = Promise.resolve();

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
        const mine = last.then(() => take(signal));
        last = mine.catch(() => undefined);
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
