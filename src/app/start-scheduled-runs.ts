import { slept, type Clock } from '../core/clock.ts';
import type { ConnectorName } from '../core/names.ts';
import { examineRedis } from '../jobs/examine-redis.ts';
import { gateErrors } from '../jobs/gate-errors.ts';
import { openRunSlots } from '../jobs/run-slots.ts';
import { mostRuns, type WorkerOptions } from '../jobs/worker-context.ts';
import { tokensOf } from '../monitor/check-token.ts';
import type { ListenAddress } from '../monitor/listen-address.ts';
import type { Monitor, MonitorContent, ServedPages } from '../monitor/start-monitor.ts';
import type { Log } from '../telemetry/log.ts';
import { openMetrics } from '../telemetry/metrics.ts';
import type { AppOptions } from './app.ts';
import { programVersion } from './program-version.ts';
import { serveConfig, type OpenedConfig, type ServedConfig, type WorkerSettings } from './serve-config.ts';
import type { EndedRun } from './worker-runs.ts';

/** One reading of the config, and what depends on it. */
export interface WorkerConfig {
  readonly settings: WorkerSettings;
  /** Connectors whose runs are made here; all of them unless configured otherwise. */
  readonly serves?: (connector: ConnectorName) => boolean;
  readonly pages?: ServedPages;
}

export interface ScheduledRunsOptions
  extends
    WorkerConfig,
    Pick<WorkerOptions, 'concurrency' | 'graceMs' | 'timings' | 'observe'>,
    Pick<AppOptions, 'command' | 'identityBaseUrl'> {
  readonly clock: Clock;
  readonly log: Log;
  /** Concurrent runs over all sinks; as many as `mostRuns` says unless given. */
  readonly maxRuns?: number;
  /** Where health checks, metrics and pages are served; null: nowhere. */
  readonly listen?: ListenAddress | null;
  readonly onRunEnd?: (ended: EndedRun) => void;
  /** What people are to know of the whole process, on every page; null: nothing. */
  readonly problem?: () => string | null;
}

/**
 * Everything that a worker is, wired together: sinks, budgets, queues, metrics, health checks. Resolves when jobs are
 * taken. Throws CONFIG_INVALID where something of a target is missing here, QUEUE_UNAVAILABLE within two seconds,
 * SINK_INCOMPATIBLE, USAGE for an address that cannot be used.
 */
export async function startScheduledRuns(options: ScheduledRunsOptions) {
  const opened: (() => unknown)[] = [];
  let stopping: Promise<void> | null = null;
  const stop = (): Promise<void> => (stopping ??= closeAll(opened));
  try {
    return {
      ...(await openAll(options, (close) => opened.push(close))),
      /**
       * Runs finish their page and go back to the queue. Idempotent; takes at most `graceMs`, whether Redis answers or
       * not.
       */
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Last opened, first closed. */
async function closeAll(opened: readonly (() => unknown)[]): Promise<void> {
  for (const close of opened.toReversed()) await close();
}

async function openAll(options: ScheduledRunsOptions, onOpened: (close: () => unknown) => void) {
  const { log, clock, concurrency, maxRuns = mostRuns(concurrency), listen = null } = options;
  const { observe = () => undefined, onRunEnd = () => undefined, problem = () => null } = options;
  /** The newest config takes all jobs; runs of the one before continue. */
  let served: ServedConfig | null = null;
  let older: { readonly config: ServedConfig; readonly over: AbortSignal } | null = null;
  const stopping = new AbortController();
  const metrics = openMetrics({
    version: programVersion(),
    clock,
    sample: async () => (await served?.sample()) ?? { connectors: [], depth: [], isRedisUp: false },
    connectorSeries: options.settings.http.connectorSeries,
  });
  const slots = openRunSlots(maxRuns);
  const tellError = gateErrors(log, clock);
  const serve = (config: WorkerConfig, beforeJobs: (opened: OpenedConfig) => Promise<void>) =>
    serveConfig({
      ...options,
      ...config,
      serves: config.serves ?? (() => true),
      slots,
      metrics,
      tellError,
      onError: tellError,
      onRunEnd,
      observe: (event) => {
        metrics.onWorkerEvent(event);
        observe(event);
      },
      beforeJobs,
    });

  let monitor: Monitor | null = null;
  // A worker must find out that a port is taken before it has runs in progress.
  const openMonitor = async (opened: OpenedConfig): Promise<void> => {
    if (listen === null) return;
    // Loaded only where something is served: most workers of a test or a laptop serve nothing.
    const { startMonitor } = await import('../monitor/start-monitor.ts');
    monitor = await startMonitor({
      ...monitorContent(options, opened),
      listen,
      health: {
        worker: () => (served?.worker ?? opened).state(),
        sinks: () => (served?.ledgers ?? opened.ledgers).problems(),
      },
      metrics: () => metrics.text(),
      problem,
      log,
      clock,
    });
    onOpened(() => monitor?.[Symbol.asyncDispose]());
  };
  let onStuck: (error: Error) => void = () => undefined;
  const ended = new Promise<never>((_resolve, reject) => {
    onStuck = reject;
  });
  // Avoid an unhandled rejection when `ended` is not awaited.
  ended.catch(() => undefined);
  const begin = (config: ServedConfig): void => {
    served = config;
    config.worker.ended.catch(onStuck);
  };
  const first = await serve(options, openMonitor);
  begin(first);
  onOpened(async () => {
    stopping.abort();
    await Promise.all([older?.config.stop(), (served ?? first).stop()]);
  });
  const examined = warnOfRedis(options);
  onOpened(() => examined);
  log.info(
    { ...factsOf(first), version: programVersion(), http: urlOf(monitor) },
    'ready for scheduled runs',
  );
  return {
    /** Of the pages, health checks and metrics; null where they are not served. */
    url: urlOf(monitor),
    /** Rejects with `SyncError` WORKER_STUCK when this process can make no more runs. */
    ended,
    /** Of the newest config. */
    redis: () => (served ?? first).worker.redis,
    /** Of the newest config. */
    notifier: () => (served ?? first).notifier,
    metrics,
    /**
     * At most two readings of the config are served at a time. Resolves when runs of the one before the newest are
     * over; after ten minutes they end after their page. Rejects where the worker stops meanwhile.
     */
    makeRoom: async (): Promise<void> => {
      if (older?.over.aborted !== false) return;
      log.info({}, 'the config is read again when the runs of the one before are over');
      const isOver = AbortSignal.any([older.over, stopping.signal]);
      if (await slept(clock, longestWaitMs, isOver)) await older.config.stop();
      stopping.signal.throwIfAborted();
    },
    /**
     * Serves another reading of the config: runs in progress continue to their end as they began, but those of
     * connectors and targets that it lacks end after their page. One at a time, after `makeRoom`. Throws as
     * `startScheduledRuns` does; then what was served before is still served.
     */
    reload: async (config: WorkerConfig): Promise<void> => {
      const next = await serve(config, async (opened) => {
        stopping.signal.throwIfAborted();
        await monitor?.show(monitorContent(config, opened));
      });
      const last = served ?? first;
      const over = new AbortController();
      older = { config: last, over: over.signal };
      begin(next);
      log.info(factsOf(next), 'the config was read again');
      void last
        .giveWay(next)
        .then(() => log.info({}, 'the runs of the older config are over'))
        .catch((error: unknown) =>
          log.error({ err: error }, 'the runs of the older config did not end in order'),
        )
        .finally(() => over.abort());
    },
  };
}

/** How long a reload waits for runs of the config before the newest. */
const longestWaitMs = 10 * 60_000;

function urlOf(monitor: Monitor | null): string | null {
  return monitor?.url ?? null;
}

function monitorContent(
  { settings, pages }: WorkerConfig,
  { queues, ledgers }: OpenedConfig,
): MonitorContent {
  return {
    ...(pages === undefined ? {} : { pages }),
    hosts: settings.http.hosts,
    tokens: tokensOf(settings.http),
    board: { queues, sinks: ledgers.sinks },
  };
}

function factsOf({ connectors, ledgers }: ServedConfig): object {
  return {
    connectors: connectors.map(({ name }) => name),
    sinks: ledgers.sinks.map(({ name, place }) => `${name} (${place})`),
  };
}

/** Warns of a setup that may lose jobs later, while none is lost yet. Not waited for at the start. Never rejects. */
async function warnOfRedis({ settings, clock, log }: ScheduledRunsOptions): Promise<void> {
  for (const { what, state, detail } of await examineRedis(settings.redis, clock)) {
    if (state !== 'ok') log.warn({}, `${what}: ${detail}`);
  }
}
