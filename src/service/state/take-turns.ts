import { ApiError } from '../api-error.ts';

export interface TurnLimits {
  readonly atOnce: number;
  readonly waiting: number;
}

/**
 * Lets only so much of a costly work go on at once, in the order of asking. Throws `ApiError` 429 at once when too many wait:
 * a crowd that guesses costs this process a bounded part of its time and memory.
 */
export function takeTurns({
  atOnce,
  waiting,
}: TurnLimits): <Result>(work: () => Promise<Result>) => Promise<Result> {
  let running = 0;
  const queue: (() => void)[] = [];
  const turn = (): Promise<void> => {
    if (running < atOnce) {
      running += 1;
      return Promise.resolve();
    }
    if (queue.length >= waiting) {
      throw new ApiError(429, 'Too many clients prove who they are at the same time; try again later.', {
        errorCode: 'too_many_requests',
        headers: { 'retry-after': '1' },
      });
    }
    // Whoever ends hands its turn on, so `running` stays.
    return new Promise((resolve) => queue.push(resolve));
  };
  const handOn = (): void => {
    const next = queue.shift();
    if (next === undefined) running -= 1;
    else next();
  };
  return async (work) => {
    await turn();
    try {
      return await work();
    } finally {
      handOn();
    }
  };
}
