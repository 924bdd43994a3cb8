import type { Clock } from '../core/clock.ts';
import type { ScheduleClaim } from './claim-schedules.ts';
import { reconcileSchedules } from './reconcile-schedules.ts';
import type { WorkerContext } from './worker-context.ts';

export interface KeptSchedules {
  /** Reconciles now instead of at the next turn: Redis may have lost its memory. */
  readonly soon: () => void;
  /** Resolves after the signal was aborted, when no reconciling is under way any more. */
  readonly ended: Promise<void>;
}

const againAfterFailureMs = 5000;

/**
 * Repeats the reconciling: a Redis that lost its memory has lost the schedules too, without a word. The turns of several
 * processes are spread by a tenth. `reconcile` says whether it worked.
 */
export function keepSchedules(options: {
  readonly reconcile: () => Promise<boolean>;
  /** Whether it worked the last time. */
  readonly isInPlace: boolean;
  readonly everyMs: number;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}): KeptSchedules {
  const { reconcile, everyMs, clock, signal } = options;
  let wake = new AbortController();
  signal.addEventListener('abort', () => wake.abort(), { once: true });
  const loop = async (): Promise<void> => {
    let works = options.isInPlace;
    while (!signal.aborted) {
      const turnMs = works ? everyMs * (0.9 + Math.random() * 0.2) : Math.min(againAfterFailureMs, everyMs);
      // Rejects when it is woken: then it is time as well.
      await clock.sleep(turnMs, wake.signal).catch(() => undefined);
      if (signal.aborted) return;
      wake = new AbortController();
      works = await reconcile();
    }
  };
  return { soon: () => wake.abort(), ended: loop() };
}

/** Says whether it worked. `tellOutdated` hears the names of the sinks whose schedules a newer config holds. */
export function openReconcile(
  context: WorkerContext,
  claim: ScheduleClaim,
  tellOutdated: (sinks: readonly string[]) => Promise<void>,
): () => Promise<boolean> {
  const { ledger, timings, log, onError } = context;
  let told = '';
  let seen = '';
  return async () => {
    try {
      const { written, kept, removed, foreign, outdated } = await reconcileSchedules({
        ...context,
        claim,
        paused: (sink) => ledger.paused(sink),
        lastRun: (connector) => ledger.lastRun(connector),
        retryDelayMs: timings.retryDelayMs,
      });
      if (written.length + removed.length > 0) {
        log.info({ written, kept, removed }, 'schedules were put in place');
      }
      await tellOutdated(outdated);
      const text = JSON.stringify([outdated, foreign]);
      // Told when it is seen twice: the other worker may be in the middle of writing.
      const isNews = outdated.length > 0 && text === seen && text !== told;
      if (isNews) {
        log.warn(
          { sinks: outdated, connectors: foreign },
          'another worker has a newer config with other schedules: this worker takes no more jobs of these sinks. Stop it, or give all workers the same config',
        );
      }
      if (outdated.length === 0 && told !== '') log.info({}, 'the configs of all workers agree again');
      if (isNews || outdated.length === 0) told = outdated.length === 0 ? '' : text;
      seen = text;
      return true;
    } catch (error) {
      onError(error instanceof Error ? error : new Error(String(error)));
      return false;
    }
  };
}
