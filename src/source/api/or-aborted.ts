/** Waits for a promise that others wait for too: it goes on when one of them leaves. Rejects with the signal's reason when that is aborted first. */
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
