import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import * as z from 'zod';

/*
 * A person asks all workers of a Redis to read their config again. The request is a key with a random id, so that a
 * worker that could not reach Redis meanwhile finds it later; each worker answers in a hash of that request.
 */

const keptS = 60 * 60;

function requestKey(prefix: string): string {
  return `${prefix}:reload`;
}

function answersKey(prefix: string, request: string): string {
  return `${prefix}:reload:${request}`;
}

const answer = z.strictObject({
  /** Of the worker: `host:pid`. */
  worker: z.string(),
  config: z.string(),
  outcome: z.enum(['applied', 'unchanged', 'refused']),
  /** What has changed, or why the config was refused. */
  text: z.string(),
});

/** What a worker made of a request to read its config again. */
export type ReloadAnswer = z.output<typeof answer>;

/** Resolves with the id of the request. */
export async function requestReload(redis: Redis, prefix: string): Promise<string> {
  const id = randomUUID();
  await redis.set(requestKey(prefix), id, 'EX', keptS);
  return id;
}

/** The id of the newest request; null where there is none. */
export async function newestReload(redis: Redis, prefix: string): Promise<string | null> {
  return await redis.get(requestKey(prefix));
}

export async function answerReload(
  redis: Redis,
  prefix: string,
  request: string,
  given: ReloadAnswer,
): Promise<void> {
  const key = answersKey(prefix, request);
  await redis.hset(key, given.worker, JSON.stringify(given));
  await redis.pexpire(key, keptS * 1000);
}

export async function reloadAnswers(
  redis: Redis,
  prefix: string,
  request: string,
): Promise<readonly ReloadAnswer[]> {
  const texts = await redis.hgetall(answersKey(prefix, request));
  return Object.values(texts).map((text) => answer.parse(JSON.parse(text)));
}
