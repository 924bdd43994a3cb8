import { hasCode } from '../core/errors.ts';
import { ProblemsError } from '../core/problems.ts';
import type { Queues } from '../jobs/open-queues.ts';
import { withParts } from '../settings/load-settings.ts';
import type { LocalSettings, SettingsWith } from '../settings/settings.ts';

/** The caller disposes them. Throws QUEUE_UNAVAILABLE within two seconds. */
export async function openQueuesOf(settings: SettingsWith<'redis'>): Promise<Queues> {
  // Loaded only here: the queue's code would double the start of every other command.
  const { openQueues } = await import('../jobs/open-queues.ts');
  return await openQueues(settings);
}

export interface ReachedQueues extends AsyncDisposable {
  /** Null: Redis cannot be reached. */
  readonly queues: Queues | null;
  /** Why; null where it can. */
  readonly problem: string | null;
}

/** For what is right without Redis too, also where the config cannot say here where it is. Answers within two seconds either way. */
export async function reachQueues(settings: LocalSettings): Promise<ReachedQueues> {
  try {
    const queues = await openQueuesOf(withParts(settings, 'redis'));
    return { queues, problem: null, [Symbol.asyncDispose]: () => queues[Symbol.asyncDispose]() };
  } catch (error) {
    if (!hasCode(error, 'QUEUE_UNAVAILABLE') && !(error instanceof ProblemsError)) throw error;
    return { queues: null, problem: error.message, [Symbol.asyncDispose]: () => Promise.resolve() };
  }
}
