/** Runs functions one after the other, in the given order, however the previous one ended. */
export function openTurns() {
  let last: Promise<unknown> = Promise.resolve();
  return {
    take: async <Result>(work: () => Promise<Result>): Promise<Result> => {
      const turn = last.then(work);
      last = turn.catch(() => undefined);
      return await turn;
    },
  };
}
