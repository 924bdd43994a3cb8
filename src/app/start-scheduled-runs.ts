import { openApp, openRunBudgets } from './open-app.ts';
import type { AppOptions } from './app.ts';
import type { Clock } from '../core/clock.ts';
import type { ConnectorName } from '../core/names.ts';
import { examineRedis } from '../jobs/examine-redis.ts';
import { gateErrors } from '../jobs/gate-errors.ts';
import { startWorker } from '../jobs/start-worker.ts';
import type { RunningWorker, WorkerOptions } from '../jobs/worker-context.ts';
import type { ListenAddress } from '../monitor/listen-address.ts';
import type { ConnectorSettings, SettingsWith } from '../settings/settings.ts';
import type { Log } from '../telemetry/log.ts';
import { openMetrics } from '../telemetry/metrics.ts';
import { openServedLedgers, type ServedLedgers } from './open-served-ledgers.ts';
import { programVersion } from './program-version.ts';
import { workerRunEnd, workerRuns, type EndedRun } from './worker-runs.ts';
import { targetsOf, workerPublications } from './publish-target.ts';
import { schedulerId } from '../jobs/open-queue-set.ts';
import type { MetricSample } from '../telemetry/metrics-sample.ts';
import { freshnessOf, statesOf, overviewOf } from './connector-states.ts';

interface ScheduledRunsOptions
  extends
    Pick<WorkerOptions, 'concurrency' | 'maxRuns' | 'graceMs' | 'timings' | 'observe'>,
    Pick<AppOptions, 'clock' | 'command' | 'identityBaseUrl'> {
  readonly settings: SettingsWith<'access' | 'redis' | 'http'>;
  readonly log: Log;
  /** Connectors whose runs are made here; all of them unless configured otherwise. */
  readonly serves?: (connector: ConnectorName) => boolean;
  /** Where health checks and metrics are served; null: nowhere. */
  readonly listen?: ListenAddress | null;
  readonly onRunEnd?: (ended: EndedRun) => void;
}

/** A run that waits keeps other connectors waiting for its place: after a longer pause its job comes back by itself. */
const maxThrottleWaitMs = 5_000;

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
  const { settings, log, clock, command, identityBaseUrl, serves = () => true, listen = null } = options;
  const { observe = () => undefined, onRunEnd = () => undefined, ...limits } = options;
  const connectors = [...settings.connectors.values()].filter(({ name }) => serves(name));
  const targets = targetsOf(settings, connectors);
  const tellError = gateErrors(log, clock);
  const budgets = await openRunBudgets({ settings, clock, onError: tellError, maxThrottleWaitMs });
  onOpened(() => budgets[Symbol.asyncDispose]());
  const ledgers = await openServedLedgers(connectors, clock);
  onOpened(() => ledgers[Symbol.asyncDispose]());
  const started: StartedWorker = { worker: null };
  const sample = (): ReturnType<typeof sampleWorker> => sampleWorker(connectors, ledgers, started, clock);
  const { connectorSeries } = settings.http;
  const metrics = openMetrics({ version: programVersion(), clock, sample, connectorSeries });
  const app = await openApp({
    settings,
    clock,
    command,
    openBudget: budgets.openBudget,
    sinkIdOf: (sink) => ledgers.sinkIdOf(sink),
    maxThrottleWaitMs,
    onRunEnd: workerRunEnd({ metrics, log, nextRun: nextRunOf(ledgers, started), onRunEnd }),
    ...(identityBaseUrl === undefined ? {} : { identityBaseUrl }),
  });
  onOpened(() => app[Symbol.asyncDispose]());
  const runs = { settings, app, metrics, log, clock };
  let url: string | null = null;
  const worker = await startWorker({
    ...limits,
    settings,
    serves,
    sinks: ledgers.sinks,
    ledger: ledgers.ledger,
    run: workerRuns(runs),
    targets,
    publish: workerPublications(runs),
    log,
    clock,
    tellError,
    // A worker must find out that a port is taken before it has runs in progress.
    beforeJobs: async ({ queues, state }) => {
      if (listen === null) return;
      // Loaded only where something is served: most workers of a test or a laptop serve nothing.
      const { startMonitor } = await import('../monitor/start-monitor.ts');
      const { token } = settings.http;
      const monitor = await startMonitor({
        listen,
        health: { worker: state, sinks: ledgers.problems },
        metrics: () => metrics.text(),
        board: token === null ? null : { queues, token, sinks: ledgers.sinks },
        log,
        clock,
      });
      onOpened(() => monitor[Symbol.asyncDispose]());
      ({ url } = monitor);
    },
    observe: (event) => {
      metrics.onWorkerEvent(event);
      observe(event);
    },
  });
  onOpened(() => worker.stop());
  const examined = warnOfRedis(options);
  onOpened(() => examined);
  started.worker = worker;
  log.info(
    {
      version: programVersion(),
      connectors: connectors.map(({ name }) => name),
      sinks: ledgers.sinks.map(({ name, place }) => `${name} (${place})`),
      http: url,
    },
    'ready for scheduled runs',
  );
  return {
    /** Of the health checks and metrics; null where they are not served. */
    url,
    /** Rejects with `SyncError` WORKER_STUCK when this process can make no more runs. */
    ended: worker.ended,
  };
}

/** Warns of a setup that may lose jobs later, while none is lost yet. Not waited for at the start. Never rejects. */
async function warnOfRedis({ settings, clock, log }: ScheduledRunsOptions): Promise<void> {
  for (const { what, state, detail } of await examineRedis(settings.redis, clock)) {
    if (state !== 'ok') log.warn({}, `${what}: ${detail}`);
  }
}

/** The worker, once it has started: its parts may be queried before. */
interface StartedWorker {
  worker: RunningWorker | null;
}

/** The current state, for a scrape. Rejects where a sink or the queue cannot be read. */
async function sampleWorker(
  connectors: readonly ConnectorSettings[],
  ledgers: ServedLedgers,
  { worker }: StartedWorker,
  clock: Clock,
): Promise<MetricSample> {
  const { depth } = (await worker?.state()) ?? { depth: [] };
  const overviews = await ledgers.overviews();
  const nowMs = clock.now();
  return {
    connectors: connectors.map((connector) => {
      const overview = overviewOf(overviews, connector);
      return {
        name: connector.name,
        states: statesOf(connector, overview, nowMs),
        endedAt: overview?.lastEnded?.finishedAt ?? null,
        freshness: freshnessOf(connector, overview?.freshness),
        missing: overview?.missing ?? [],
        unproven: overview?.unproven ?? [],
      };
    }),
    depth,
    // Only Redis knows the depth.
    isRedisUp: depth.length > 0,
  };
}

/**
 * When a connector's schedule comes next, in milliseconds; null where that is unknown, also while Redis is unreachable.
 */
function nextRunOf(
  ledgers: ServedLedgers,
  started: StartedWorker,
): (connector: ConnectorSettings) => Promise<number | null> {
  return async (connector) => {
    const sinkId = ledgers.sinkIdOf(connector.sink);
    const ticks = started.worker?.queues[0];
    if (sinkId === null || ticks === undefined) return null;
    return await ticks.getJobScheduler(schedulerId(sinkId, connector.name)).then(
      (scheduler) => scheduler?.next ?? null,
      () => null,
    );
  };
}
