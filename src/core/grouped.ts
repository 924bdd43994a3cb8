/** Groups the members of a list by a key, in their order. */
export function grouped<One, Key>(list: readonly One[], keyOf: (one: One) => Key) {
  const groups = new Map<Key, One[]>();
  const begin = (): One[] => [];
  for (const one of list) knownOrMade(groups, keyOf(one), begin).push(one);
  return groups as ReadonlyMap<Key, readonly One[]>;
}

/** The value that is known under a key; the first time it is made, and kept. */
export function knownOrMade<Key, Value>(known: Known<Key, Value>, key: Key, make: () => Value): Value {
  const found = known.get(key);
  if (found !== undefined) return found;
  const made = make();
  known.set(key, made);
  return made;
}

/** A `Map` or a `WeakMap`. */
interface Known<Key, Value> {
  get(key: Key): Value | undefined;
  set(key: Key, value: Value): unknown;
}

/** Does the work for each of them, at most `concurrency` at a time, in their order. */
export async function eachOf<T>(items: readonly T[], concurrency: number, work: (item: T) => Promise<void>) {
  const waiting = items.values();
  const oneAfterAnother = async (): Promise<void> => {
    for (const item of waiting) await work(item);
  };
  await Promise.all(Array.from({ length: Math.min(concurrency, items.length) }, oneAfterAnother));
}
