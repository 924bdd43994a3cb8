import type { Clock } from '../core/clock.ts';
import type { Queues } from '../jobs/open-queues.ts';
import type { ReloadAnswer } from '../jobs/reload-requests.ts';

const answerWithinMs = 20_000;
const lookEveryMs = 250;

/** What the workers of a Redis made of a request to read their config again. */
export interface AskedReload {
  readonly workers: number;
  readonly answers: readonly ReloadAnswer[];
  /** How many did not answer within 20 seconds. */
  readonly silent: number;
}

/** Asks all workers to read their config again, and waits for their answers. Throws QUEUE_UNAVAILABLE. */
export async function askReload(queues: Queues, clock: Clock, signal: AbortSignal): Promise<AskedReload> {
  const workers = await queues.workers();
  if (workers === 0) return { workers, answers: [], silent: 0 };
  const request = await queues.requestReload();
  const endMs = clock.now() + answerWithinMs;
  let answers = await queues.reloadAnswers(request);
  while (answers.length < workers && clock.now() < endMs) {
    await clock.sleep(lookEveryMs, signal);
    answers = await queues.reloadAnswers(request);
  }
  return { workers, answers, silent: Math.max(0, workers - answers.length) };
}
