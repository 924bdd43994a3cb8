/**
 * Waits for a shared promise, which continues if this caller aborts. Rejects with the signal's reason if it is aborted
 * first.
 */
export async function orAborted<T>(shared: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  let onAbort = (): void => undefined;
  const aborted = new Promise<never>((_resolve, reject) => {
    onAbort = () => reject(signal.reason as Error);
    signal.addEventListener('abort', onAbort, { once: true });
  });
  try {
    return await Promise.race([shared, aborted]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
