/** Runs functions one after the other, in the given order, however the previous one ended: the first one at once. */
export function openTurns() {
  let last: Promise<unknown> | null = null;
  return {
    take: async <Result>(work: () => Promise<Result>): Promise<Result> => {
      const turn = last === null ? work() : last.then(work);
      const ended = turn.then(
        () => undefined,
        () => undefined,
      );
      last = ended;
      void ended.then(() => {
        if (last === ended) last = null;
      });
      return await turn;
    },
  };
}
