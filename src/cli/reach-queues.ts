import { SyncError } from '../core/errors.ts';
import type { Queues } from '../jobs/open-queues.ts';
import type { Settings } from '../settings/settings.ts';

/** The caller disposes them. Throws QUEUE_UNAVAILABLE within two seconds. */
export async function openQueuesOf(settings: Settings): Promise<Queues> {
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

/** For what is right without Redis too. Answers within two seconds either way. */
export async function reachQueues(settings: Settings): Promise<ReachedQueues> {
  try {
    const queues = await openQueuesOf(settings);
    return { queues, problem: null, [Symbol.asyncDispose]: () => queues[Symbol.asyncDispose]() };
  } catch (error) {
    if (!isUnavailable(error)) throw error;
    return { queues: null, problem: error.message, [Symbol.asyncDispose]: () => Promise.resolve() };
  }
}

export function isUnavailable(error: unknown): error is SyncError {
  return error instanceof SyncError && error.code === 'QUEUE_UNAVAILABLE';
}
