import { addAbortListener, setMaxListeners } from 'node:events';
import type PQueue from 'p-queue';

/**
 * Waits for a shared promise, which continues if this caller aborts. Rejects with the signal's reason if it is aborted
 * first.
 */
export async function orAborted<T>(shared: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  return await new Promise((resolve, reject) => {
    const listener = addAbortListener(signal, () => reject(signal.reason as Error));
    void shared.then(resolve, reject).finally(() => listener[Symbol.dispose]());
  });
}

/**
 * A signal for one wait: aborted with `outer`, and after `ms` with the error of `late`. `outer` must not be aborted
 * yet. A controller for each wait: `AbortSignal.any` on a signal that lives for hours keeps memory per wait.
 */
export function startDeadline(ms: number, outer: AbortSignal, late: () => Error) {
  const controller = new AbortController();
  const timer = setTimeout(() => controller.abort(late()), ms);
  // The signal of a run serves all its waits at once, and each removes its own: more than ten are no leak.
  setMaxListeners(0, outer);
  const listener = addAbortListener(outer, () => controller.abort(outer.reason));
  return {
    signal: controller.signal,
    /** Removes the time limit; the outer signal still applies. */
    lift: () => clearTimeout(timer),
    end(): void {
      clearTimeout(timer);
      listener[Symbol.dispose]();
    },
  };
}

/** Does a piece of work with such a signal, which it must hear; rejects with its reason once it is aborted. */
export async function within<T>(
  ms: number,
  outer: AbortSignal,
  late: () => Error,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  outer.throwIfAborted();
  const deadline = startDeadline(ms, outer, late);
  try {
    return await work(deadline.signal);
  } catch (error) {
    deadline.signal.throwIfAborted();
    throw error;
  } finally {
    deadline.end();
  }
}

/**
 * Takes a slot of a queue, in the order of the calls. Resolves with the function that gives it back; while it waits,
 * rejects with the signal's reason.
 */
export function takeSlot(queue: PQueue, signal: AbortSignal): Promise<() => void> {
  return new Promise((resolve, reject) => {
    // The queue itself would free the slot when its signal is aborted, even while its work continues.
    const waiting = new AbortController();
    const stopWaiting = (): void => waiting.abort(signal.reason);
    const hold = (): Promise<void> =>
      new Promise((giveBack) => {
        signal.removeEventListener('abort', stopWaiting);
        resolve(giveBack);
      });
    signal.addEventListener('abort', stopWaiting, { once: true });
    if (signal.aborted) stopWaiting();
    queue.add(hold, { signal: waiting.signal }).catch(reject);
  });
}
