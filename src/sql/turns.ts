interface Waiting {
  readonly begin: () => void;
  readonly refuse: (error: unknown) => void;
}

/** Runs functions one after the other, in the given order, however the previous one ended. */
export function openTurns() {
  const waiting: Waiting[] = [];
  let isTaken = false;
  /** Number of turns that have ever begun. */
  let begun = 0;
  const leave = (): void => {
    const next = waiting.shift();
    isTaken = next !== undefined;
    if (next === undefined) return;
    begun += 1;
    next.begin();
  };
  return {
    take: async <Result>(work: () => Promise<Result>): Promise<Result> => {
      if (isTaken) {
        await new Promise<void>((resolve, reject) => {
          waiting.push({ begin: resolve, refuse: reject });
        });
      }
      isTaken = true;
      try {
        return await work();
      } finally {
        leave();
      }
    },
    /** Gives a function that refuses every `take` since now that has not begun, with the error that it is given. */
    sinceNow: () => {
      const known = begun + waiting.length;
      return (error: unknown): void => {
        for (const { refuse } of waiting.splice(Math.max(0, known - begun))) refuse(error);
      };
    },
  };
}
