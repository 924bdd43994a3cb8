/** Does the work for each of them, at most `concurrency` at a time, in their order. */
export async function eachOf<T>(
  items: readonly T[],
  concurrency: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const waiting = items.values();
  const oneAfterAnother = async (): Promise<void> => {
    for (const item of waiting) await work(item);
  };
  await Promise.all(Array.from({ length: Math.min(concurrency, items.length) }, oneAfterAnother));
}
