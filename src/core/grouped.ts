/** Groups the members of a list by a key, in their order. */
export function grouped<One, Key>(
  list: readonly One[],
  keyOf: (one: One) => Key,
): ReadonlyMap<Key, readonly One[]> {
  const groups = new Map<Key, One[]>();
  const begin = (): One[] => [];
  for (const one of list) knownOrMade(groups, keyOf(one), begin).push(one);
  return groups;
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
