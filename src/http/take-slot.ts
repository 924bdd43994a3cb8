import type PQueue from 'p-queue';

/**
 * A slot of a queue, in the order in which they were asked for. Resolves with what gives it back; while it waits,
 * rejects with the signal's reason.
 */
export function takeSlot(queue: PQueue, signal: AbortSignal): Promise<() => void> {
  return new Promise((resolve, reject) => {
    // The queue would let a slot go whose signal is aborted, whatever is still done in it.
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
