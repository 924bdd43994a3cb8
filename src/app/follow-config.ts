import { answerReloads } from '../jobs/reload-requests.ts';
import { openReloads } from './open-reloads.ts';
import { startScheduledRuns, type ScheduledRunsOptions, type WorkerConfig } from './start-scheduled-runs.ts';

interface FollowConfigOptions extends Omit<ScheduledRunsOptions, 'problem'> {
  /** Reads the config again. Rejects where it cannot be used. */
  readonly read: () => Promise<WorkerConfig>;
  /** Aborted when the worker is to stop. */
  readonly signal: AbortSignal;
}

/**
 * A worker that follows its config: it reads it again when asked (`reload`), when `connector-sync reload` asks, and,
 * with `watch: true`, when its files change. A config that cannot be used changes nothing: the one before stays in
 * force, and the log, the pages, the metrics and a notification say so. As `startScheduledRuns`.
 */
export async function followConfig({ read, signal, ...options }: FollowConfigOptions) {
  const { log, clock, settings } = options;
  const { file } = settings;
  const runs = await startScheduledRuns({ ...options, problem: () => reloads.problem() });
  const reloads = openReloads({
    first: options,
    read,
    makeRoom: async () => await runs.makeRoom(),
    apply: async (next) => await runs.reload(next),
    onReload: ({ outcome, text }) => {
      if (signal.aborted) return;
      runs.metrics.onReload(outcome);
      const refusal = outcome === 'refused' ? text : null;
      void runs.notifier().configRead({ file, refusal });
    },
    log,
    clock,
    signal,
  });
  // What an earlier process refused is over: this one has begun with the config.
  void runs.notifier().configRead({ file, refusal: null, isStart: true });

  const place = () => ({ redis: runs.redis(), prefix: reloads.settings().redis.prefix });
  const answer = async () => ({ config: file, ...(await reloads.reload()) });
  const following = Promise.all([answerReloads(place, answer, clock, signal), reloads.followFiles()]).catch(
    (error: unknown) =>
      log.error({ err: error }, 'the config is no longer followed; restart the worker to use a new one'),
  );
  return {
    ...runs,
    reload: reloads.reload,
    stop: async (): Promise<void> => {
      await runs.stop();
      await following;
    },
  };
}
