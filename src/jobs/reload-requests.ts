import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Redis } from 'ioredis';
import * as z from 'zod';
import { slept, type Clock } from '../core/clock.ts';

/*
 * A person asks all workers of a Redis to read their config again. The request is a key with a random id, so that a
 * worker that could not reach Redis meanwhile finds it later; each worker answers in a hash of that request.
 */

const keptS = 60 * 60;
const answerWithinMs = 20_000;
const askEveryMs = 250;
/** A reload that is asked for comes within this. One look costs a key of Redis. */
const lookEveryMs = 2_000;

const answer = z.strictObject({
  /** Of the worker: `host:pid`. */
  worker: z.string(),
  config: z.string(),
  outcome: z.enum(['applied', 'refused']),
  /** The connectors that were added and removed, or why the config was refused. */
  text: z.string(),
});

/** What a worker made of a request to read its config again. */
type ReloadAnswer = z.output<typeof answer>;

interface Place {
  readonly redis: Redis;
  readonly prefix: string;
}

/** Asks all workers to read their config again. Resolves when so many have answered, and after 20 seconds. */
export async function askReload(
  { redis, prefix }: Place,
  workers: number,
  clock: Clock,
  signal: AbortSignal,
) {
  const request = randomUUID();
  await redis.set(requestKey(prefix), request, 'EX', keptS);
  const endMs = clock.now() + answerWithinMs;
  for (;;) {
    const texts = await redis.hvals(answersKey(prefix, request));
    if (texts.length >= workers || clock.now() >= endMs) {
      return texts.map((text) => answer.parse(JSON.parse(text)));
    }
    await clock.sleep(askEveryMs, signal);
  }
}

/** Reloads on each request until the signal is aborted, and answers it. `place`: where requests are now. */
export async function answerReloads(
  place: () => Place,
  reload: () => Promise<Omit<ReloadAnswer, 'worker'>>,
  clock: Clock,
  signal: AbortSignal,
): Promise<void> {
  const newest = (): Promise<string | null> => {
    const { redis, prefix } = place();
    // The connection reports its errors itself.
    return redis.get(requestKey(prefix)).catch(() => null);
  };
  let answered = await newest();
  while (await slept(clock, lookEveryMs, signal)) {
    const request = await newest();
    if (request === null || request === answered) continue;
    answered = request;
    const worker = `${hostname()}:${process.pid}`;
    const given: ReloadAnswer = { worker, ...(await reload()) };
    const { redis, prefix } = place();
    const key = answersKey(prefix, request);
    await redis
      .multi()
      .hset(key, worker, JSON.stringify(given))
      .expire(key, keptS)
      .exec()
      .catch(() => undefined);
  }
}

function requestKey(prefix: string): string {
  return `${prefix}:reload`;
}

function answersKey(prefix: string, request: string): string {
  return `${prefix}:reload:${request}`;
}
