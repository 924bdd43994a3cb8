/** Numbers in [0, 1) that a seed repeats (mulberry32). Tests print their seed, so that a failure can be run again. */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** Lets a random number of other tasks run; some waits are shorter than a turn of the event loop. */
export function randomTurns(seed: number): () => Promise<void> {
  const random = seededRandom(seed);
  return async () => {
    for (let left = Math.floor(random() * 3); left > 0; left -= 1) {
      const kind = random();
      if (kind < 0.4) await Promise.resolve();
      else if (kind < 0.9) await new Promise((resolve) => setImmediate(resolve));
      else await new Promise((resolve) => setTimeout(resolve, 1));
    }
  };
}
