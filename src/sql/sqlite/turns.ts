/** Runs what is given one after the other, in the order given. */
export interface Turns {
  take<Result>(work: () => Promise<Result>): Promise<Result>;
  /** Gives a function that refuses every `take` since now that has not begun, with the error that it is given. */
  sinceNow(): (error: unknown) => void;
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
  const enter = async (): Promise<void> => {
    if (isTaken) {
      await new Promise<void>((resolve, reject) => {
        waiting.push({ begin: resolve, refuse: reject });
      });
    }
    isTaken = true;
  };
  const leave = (): void => {
    const next = waiting.shift();
    if (next === undefined) {
      isTaken = false;
      return;
    }
    begun += 1;
    next.begin();
  };
  return {
    take: async (work) => {
      await enter();
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
