import PQueue from 'p-queue';

/** Runs functions one after the other, in the given order, however the previous one ended. */
export function openTurns() {
  const queue = new PQueue({ concurrency: 1 });
  return {
    take: async <Result>(work: () => Promise<Result>): Promise<Result> => await queue.add(work),
  };
}
