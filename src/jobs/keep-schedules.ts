import type { ScheduleClaim } from './sink-registry.ts';
import { reconcileSchedules } from './reconcile-schedules.ts';
import type { WorkerContext } from './worker-context.ts';

const againAfterFailureMs = 5000;

/**
 * Reconciles at every interval, because a Redis that lost its data has lost the schedules too and does not report it.
 * Each interval varies by a tenth, so that processes do not act at the same time. `reconcile` resolves with whether it
 * succeeded; `isInPlace`: whether the last reconciliation did.
 */
export function keepSchedules(
  { clock, closing: signal, timings: { reconcileMs } }: WorkerContext,
  reconcile: () => Promise<boolean>,
  isInPlace: boolean,
) {
  let wake = new AbortController();
  signal.addEventListener('abort', () => wake.abort(), { once: true });
  const loop = async (): Promise<void> => {
    let works = isInPlace;
    while (!signal.aborted) {
      const turnMs = works
        ? reconcileMs * (0.9 + Math.random() * 0.2)
        : Math.min(againAfterFailureMs, reconcileMs);
      // Rejects when `soon` wakes it.
      await clock.sleep(turnMs, wake.signal).catch(() => undefined);
      if (signal.aborted) return;
      wake = new AbortController();
      works = await reconcile();
    }
  };
  return {
    /** Reconciles now instead of at the next interval: Redis may have lost its data. */
    soon: () => wake.abort(),
    /** Resolves after the worker has stopped and the last reconciliation has ended. */
    ended: loop(),
  };
}

/**
 * The result resolves with whether it succeeded. `onOutdated` gets the names of the sinks whose schedules belong to a
 * newer config.
 */
export function openReconcile(
  context: WorkerContext,
  claim: ScheduleClaim,
  onOutdated: (sinks: readonly string[]) => Promise<void>,
): () => Promise<boolean> {
  const { timings, log, onError } = context;
  let logged = '';
  let seen = '';
  return async () => {
    try {
      const { written, kept, removed, foreign, outdated } = await reconcileSchedules({
        ...context,
        claim,
        retryDelayMs: timings.retryDelayMs,
      });
      if (written.length + removed.length > 0) {
        log.info({ written, kept, removed }, 'schedules updated');
      }
      await onOutdated(outdated);
      await context.publications.retry();
      const text = JSON.stringify([outdated, foreign]);
      // Logged only if seen twice in a row: the other worker may be writing its schedules now.
      const isNews = outdated.length > 0 && text === seen && text !== logged;
      if (isNews) {
        log.warn(
          { sinks: outdated, connectors: foreign },
          'another worker has a newer config with other schedules: this worker takes no more jobs of these sinks. Stop it, or give all workers the same config',
        );
      }
      if (outdated.length === 0 && logged !== '') log.info({}, 'the configs of all workers agree again');
      if (isNews || outdated.length === 0) logged = outdated.length === 0 ? '' : text;
      seen = text;
      return true;
    } catch (error) {
      onError(error instanceof Error ? error : new Error(String(error)));
      return false;
    }
  };
}
