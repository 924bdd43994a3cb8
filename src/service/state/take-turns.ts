import { ApiError } from '../api-error.ts';

interface TurnLimits {
  readonly atOnce: number;
  /** Of all senders together. */
  readonly waiting: number;
  /** Of one sender. */
  readonly waitingPerSender: number;
}

/**
 * Lets only so much of a costly work go on at once. Senders take turns, so that one who asks much waits behind itself alone; of one
 * sender the order of asking counts. Throws `ApiError` 429 at once when too much waits: a crowd that guesses costs this
 * process a bounded part of its time and memory.
 */
export function takeTurns({
  atOnce,
  waiting,
  waitingPerSender,
}: TurnLimits): <Result>(sender: string, work: () => Promise<Result>) => Promise<Result> {
  let running = 0;
  let queued = 0;
  /** Senders in the order of their next turn, each with at least one waiting. */
  const queues = new Map<string, (() => void)[]>();

  const turn = (sender: string): Promise<void> => {
    if (running < atOnce) {
      running += 1;
      return Promise.resolve();
    }
    const queue = queues.get(sender) ?? [];
    if (queue.length >= waitingPerSender || queued >= waiting) throw tooMany();
    queued += 1;
    queues.set(sender, queue);
    // The one that ends hands its turn on, so `running` stays.
    return new Promise((resolve) => queue.push(resolve));
  };
  const handOn = (): void => {
    const [next] = queues;
    if (next === undefined) {
      running -= 1;
      return;
    }
    const [sender, queue] = next;
    queued -= 1;
    const begin = queue.shift();
    queues.delete(sender);
    if (queue.length > 0) queues.set(sender, queue);
    begin?.();
  };
  return async (sender, work) => {
    await turn(sender);
    try {
      return await work();
    } finally {
      handOn();
    }
  };
}

function tooMany(): ApiError {
  return new ApiError(429, 'Too many sign-ins wait to be checked; try again later.', {
    errorCode: 'too_many_requests',
    headers: { 'retry-after': '1' },
  });
}
