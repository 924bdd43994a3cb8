/** Runs what is given one after the other, in the order given, however the one before it ended. */
interface Turns {
  readonly take: <Result>(work: () => Promise<Result>) => Promise<Result>;
  /** Gives a function that refuses every `take` since now that has not begun, with the error that it is given. */
  readonly sinceNow: () => (error: unknown) => void;
}

interface Waiting {
  readonly begin: () => void;
  readonly refuse: (error: unknown) => void;
}

export function openTurns(): Turns {
  const waiting: Waiting[] = [];
  let isTaken = false;
  /** How many have ever begun. */
  let begun = 0;
  const leave = (): void => {
    const next = waiting.shift();
    isTaken = next !== undefined;
    if (next === undefined) return;
    begun += 1;
    next.begin();
  };
  return {
    take: async (work) => {
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
    sinceNow: () => {
      const known = begun + waiting.length;
      return (error) => {
        for (const { refuse } of waiting.splice(Math.max(0, known - begun))) refuse(error);
      };
    },
  };
}
