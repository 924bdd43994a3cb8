import { slept, type Clock } from '../core/clock.ts';
import type { ConnectorName } from '../core/names.ts';
import { subjectOf } from '../jobs/job-payloads.ts';
import { schedulerId } from '../jobs/open-queue-set.ts';
import { startWorker } from '../jobs/start-worker.ts';
import type { RunningWorker, WorkerOptions } from '../jobs/worker-context.ts';
import type { ConnectorSettings, SettingsWith } from '../settings/settings.ts';
import type { Log } from '../telemetry/log.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { MetricSample } from '../telemetry/metrics-sample.ts';
import type { App, AppOptions } from './app.ts';
import { healthOf } from './connector-health.ts';
import { freshnessOf, overviewOf } from './connector-states.ts';
import { openApp, openRunBudgets } from './open-app.ts';
import { openServedLedgers, type ServedLedgers } from './open-served-ledgers.ts';
import { targetsOf, workerPublications } from './publish-target.ts';
import { workerRunEnd, workerRuns, type EndedRun } from './worker-runs.ts';

export type WorkerSettings = SettingsWith<'access' | 'redis' | 'http'>;

interface ServeConfigOptions
  extends
    Pick<WorkerOptions, 'concurrency' | 'slots' | 'graceMs' | 'timings' | 'observe' | 'tellError'>,
    Required<Pick<WorkerOptions, 'clock'>>,
    Pick<AppOptions, 'command' | 'identityBaseUrl'> {
  readonly settings: WorkerSettings;
  readonly serves: (connector: ConnectorName) => boolean;
  readonly metrics: Metrics;
  readonly log: Log;
  readonly onError: (error: Error) => void;
  readonly onRunEnd: (ended: EndedRun) => void;
  /** As of a worker. */
  readonly beforeJobs?: (opened: OpenedConfig) => Promise<void>;
}

/** What there is before jobs are taken. */
export interface OpenedConfig extends Pick<RunningWorker, 'queues' | 'state'> {
  readonly ledgers: ServedLedgers;
}

/** What runs the connectors of one reading of the config. */
export type ServedConfig = Awaited<ReturnType<typeof serveConfig>>;

/** A run that waits keeps other connectors waiting for its place: after a longer pause its job comes back by itself. */
const maxThrottleWaitMs = 5_000;

/**
 * Opens sinks, budgets and queues of the settings, and takes jobs. Resolves when it does; until then nothing of what
 * serves an older config has changed. Throws CONFIG_INVALID where something of a target is missing here,
 * QUEUE_UNAVAILABLE within two seconds, SINK_INCOMPATIBLE.
 */
export async function serveConfig(options: ServeConfigOptions) {
  const opened: (() => unknown)[] = [];
  /** Last opened, first closed. */
  const close = async (): Promise<void> => {
    for (const one of opened.splice(0).toReversed()) await one();
  };
  try {
    return await open(options, (one) => opened.push(one), close);
  } catch (error) {
    await close();
    throw error;
  }
}

async function open(
  options: ServeConfigOptions,
  onOpened: (close: () => unknown) => void,
  close: () => Promise<void>,
) {
  const { settings, log, clock, metrics, serves, command, identityBaseUrl, onError } = options;
  const connectors = [...settings.connectors.values()].filter(({ name }) => serves(name));
  const targets = targetsOf(settings, connectors);
  const budgets = await openRunBudgets({ settings, clock, onError, maxThrottleWaitMs });
  onOpened(() => budgets[Symbol.asyncDispose]());
  const ledgers = await openServedLedgers(connectors, clock);
  onOpened(() => ledgers[Symbol.asyncDispose]());
  const started: StartedWorker = { worker: null };
  const app = await openApp({
    settings,
    clock,
    command,
    openBudget: budgets.openBudget,
    sinkIdOf: (sink) => ledgers.sinkIdOf(sink),
    maxThrottleWaitMs,
    onRunEnd: workerRunEnd({
      metrics,
      log,
      nextRun: nextRunOf(ledgers, started),
      onRunEnd: options.onRunEnd,
    }),
    noteTrouble: (line) => log.warn({}, line),
    ...(identityBaseUrl === undefined ? {} : { identityBaseUrl }),
  });
  onOpened(() => app[Symbol.asyncDispose]());
  const looking = lookEachMinute(app, connectors, clock);
  onOpened(() => looking.stop());
  const runs = { settings, app, metrics, log, clock };
  const worker = await startWorker({
    ...options,
    sinks: ledgers.sinks,
    ledger: ledgers.ledger,
    run: workerRuns(runs),
    targets,
    publish: workerPublications(runs),
    beforeJobs: async (worker) => await options.beforeJobs?.({ ...worker, ledgers }),
  });
  onOpened(() => worker.stop());
  started.worker = worker;
  return {
    settings,
    connectors,
    ledgers,
    worker,
    notifier: app.notifier,
    sample: () => sampleWorker(connectors, ledgers, started, options),
    /** Runs finish their page and go back to the queue. Takes at most `graceMs`. Idempotent. */
    stop: close,
    /**
     * Makes place for a newer config, which is served already: runs continue to their end, but those of connectors and
     * publications into targets that the newer one lacks end after their page. Resolves when the last has ended.
     */
    giveWay: async ({ settings: newer }: Pick<ServeConfigOptions, 'settings'>): Promise<void> => {
      // The newer one looks, by its own limits.
      looking.stop();
      await worker.drain((job) => isGone(job, newer));
      await close();
    },
  };
}

const minuteMs = 60_000;

/** Nothing ends when data gets too old: it has to be looked for. The first look also sends what was left. */
function lookEachMinute({ notifier, settings }: App, connectors: readonly ConnectorSettings[], clock: Clock) {
  const over = new AbortController();
  const look = async (): Promise<void> => {
    do await notifier.look(connectors);
    while (await slept(clock, minuteMs, over.signal));
  };
  if (settings.notify.size > 0) void look();
  return { stop: () => over.abort() };
}

function isGone(job: unknown, { connectors, publish }: WorkerSettings): boolean {
  const subject = subjectOf(job);
  if (subject === null) return false;
  return 'connector' in subject ? !connectors.has(subject.connector) : !publish.has(subject.target);
}

/** The worker, once it has started: its parts may be queried before. */
interface StartedWorker {
  worker: RunningWorker | null;
}

/** The current state, for a scrape. Rejects where a sink or the queue cannot be read. */
export async function sampleWorker(
  connectors: readonly ConnectorSettings[],
  ledgers: ServedLedgers,
  { worker }: StartedWorker,
  { clock }: Pick<ServeConfigOptions, 'clock'>,
): Promise<MetricSample> {
  const { depth } = (await worker?.state()) ?? { depth: [] };
  const overviews = await ledgers.overviews();
  const nowMs = clock.now();
  return {
    connectors: connectors.map((connector) => {
      const overview = overviewOf(overviews, connector);
      return {
        name: connector.name,
        words: healthOf(connector, overview, nowMs).words,
        endedAt: overview?.lastEnded?.finishedAt ?? null,
        freshness: freshnessOf(connector, overview?.freshness),
        missing: overview?.missing ?? [],
        partMissing: overview?.partMissing ?? [],
        unconfirmed: overview?.unconfirmed ?? [],
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
