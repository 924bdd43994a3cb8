import { knownOrMade } from './known-or-made.ts';

/** The members of a list by what they have in common, in their order. */
export function grouped<One, Key>(
  list: readonly One[],
  keyOf: (one: One) => Key,
): ReadonlyMap<Key, readonly One[]> {
  const groups = new Map<Key, One[]>();
  const begin = (): One[] => [];
  for (const one of list) knownOrMade(groups, keyOf(one), begin).push(one);
  return groups;
}
