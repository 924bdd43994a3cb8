/** Numbers in some order, by position (from 0), without a table of them all. */
export interface Sequence {
  readonly size: number;
  readonly at: (position: number) => number;
}

export function sequenceOf(numbers: ArrayLike<number>): Sequence {
  return { size: numbers.length, at: (position) => numbers[position] ?? 0 };
}

/** The numbers below `limit` whose remainder by `cycle` is one of `residues` (ascending). */
export function everyCycle(cycle: number, residues: readonly number[], limit: number): Sequence {
  const rest = residues.filter((residue) => residue < limit % cycle).length;
  return {
    size: Math.floor(limit / cycle) * residues.length + rest,
    at: (position) =>
      Math.floor(position / residues.length) * cycle + (residues[position % residues.length] ?? 0),
  };
}

export function followedBy(first: Sequence, second: Sequence): Sequence {
  return {
    size: first.size + second.size,
    at: (position) => (position < first.size ? first.at(position) : second.at(position - first.size)),
  };
}

export function reversed({ size, at }: Sequence): Sequence {
  return { size, at: (position) => at(size - 1 - position) };
}

export function filtered({ size, at }: Sequence, test: (number: number) => boolean): Sequence {
  const kept: number[] = [];
  for (let position = 0; position < size; position += 1) {
    const number = at(position);
    if (test(number)) kept.push(number);
  }
  return sequenceOf(kept);
}

/** The part whose values lie from `from` to `to`, both inclusive; values grow along the sequence. */
export function between(
  { size, at }: Sequence,
  valueOf: (number: number) => number,
  from: number,
  to: number,
): Sequence {
  const firstFrom = (bound: number): number => {
    let [low, high] = [0, size];
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      if (valueOf(at(middle)) < bound) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  const [start, end] = [firstFrom(from), firstFrom(to + 1)];
  return { size: Math.max(0, end - start), at: (position) => at(start + position) };
}
