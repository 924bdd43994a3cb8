import { type Clock, slept, otherTurn } from '../core/clock.ts';
import type { ConnectorName } from '../core/names.ts';
import { examineRedis, gateErrors } from '../jobs/connect-redis.ts';
import { subjectOf } from '../jobs/open-queue-set.ts';
import { answerReloads } from '../jobs/open-queues.ts';
import {
  mostRuns,
  openRunSlots,
  type RunningWorker,
  type ServedSink,
  type WorkerLedger,
  type WorkerOptions,
} from '../jobs/worker-context.ts';
import { startWorker } from '../jobs/start-worker.ts';
import type { ListenAddress } from '../monitor/listen-address.ts';
import { tokensOf } from '../monitor/page-access.ts';
import type { Monitor, ServedPages } from '../monitor/start-monitor.ts';
import { sinksOf } from '../settings/choices.ts';
import type { ConnectorSettings, SettingsWith, SinkSettings } from '../settings/settings.ts';
import { accessSink, openServed } from '../sinks/registry.ts';
import type { ServedLedger } from '../sinks/sink-access.ts';
import type { Log } from '../telemetry/log.ts';
import { type MetricSample, type Metrics, openMetrics } from '../telemetry/metrics.ts';
import type { App, AppOptions } from './app.ts';
import { healthOf } from './connector-health.ts';
import { freshnessOf, freshUntilMs, overviewOf, type SinkOverview } from './connector-states.ts';
import { openApp, openRunBudgets } from './open-app.ts';
import { openReloads } from './open-reloads.ts';
import { programVersion } from './program-version.ts';
import { targetsOf, workerPublications } from './publish-target.ts';
import { workerRunEnd, workerRuns } from './worker-runs.ts';

type WorkerSettings = SettingsWith<'access' | 'redis' | 'http'>;

type ServeConfigOptions = ScheduledRunsOptions &
  Required<Pick<WorkerOptions, 'serves' | 'slots' | 'observe' | 'tellError'>> & {
    readonly metrics: Metrics;
    /** As `beforeJobs` of a worker. */
    readonly beforeJobs: (opened: OpenedConfig) => Promise<void>;
  };

/** Parts that are open before jobs are taken. */
interface OpenedConfig extends Pick<RunningWorker, 'queues' | 'state'> {
  readonly ledgers: ServedLedgers;
}

/** Runs the connectors of one reading of the config. */
type ServedConfig = Awaited<ReturnType<typeof serveConfig>>;

/**
 * A waiting run occupies a slot that other connectors need: a longer pause ends the run, and its job is tried again
 * later.
 */
const maxThrottleWaitMs = 5_000;

/**
 * Opens sinks, budgets and queues of the settings, and takes jobs. Resolves when it takes jobs; until then an older
 * config is served unchanged. Throws CONFIG_INVALID if something that a target needs is missing here, QUEUE_UNAVAILABLE
 * within two seconds, SINK_INCOMPATIBLE.
 */
async function serveConfig(options: ServeConfigOptions) {
  return await closable(async (onOpened, close) => await openConfig(options, onOpened, close));
}

type OnOpened = (close: () => unknown) => void;

/**
 * Gives `open` a function that closes everything it has opened, in reverse order; this is also closed if `open`
 * rejects. If one part fails to close, the others are closed all the same; then `close` rejects for each caller.
 */
export async function closable<Opened>(
  open: (onOpened: OnOpened, close: () => Promise<void>) => Promise<Opened>,
): Promise<Opened> {
  const opened: (() => unknown)[] = [];
  let closing: Promise<void> | null = null;
  const closeAll = async (): Promise<void> => {
    const last = opened.pop();
    if (last === undefined) return;
    try {
      await last();
    } finally {
      await closeAll();
    }
  };
  const close = (): Promise<void> => (closing ??= closeAll());
  try {
    return await open((one) => void opened.push(one), close);
  } catch (error) {
    // The reason why it did not open is more important than a failure to close.
    await close().catch(() => undefined);
    throw error;
  }
}

async function openConfig(options: ServeConfigOptions, onOpened: OnOpened, close: () => Promise<void>) {
  const { settings, log, clock, metrics, serves, command, tellError } = options;
  const connectors = [...settings.connectors.values()].filter(({ name }) => serves(name));
  const targets = targetsOf(settings, connectors);
  const budgets = await openRunBudgets({ settings, clock, onError: tellError, maxThrottleWaitMs });
  onOpened(() => budgets[Symbol.asyncDispose]());
  const ledgers = await openServedLedgers(connectors, clock);
  onOpened(() => ledgers[Symbol.asyncDispose]());
  const app = await openApp({
    settings,
    clock,
    command,
    openBudget: budgets.openBudget,
    sinkIdOf: (sink) => ledgers.sinkIdOf(sink),
    maxThrottleWaitMs,
    onRunEnd: workerRunEnd(metrics, log),
    noteTrouble: (line) => log.warn({}, line),
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
    beforeJobs: async (worker) => await options.beforeJobs({ ...worker, ledgers }),
  });
  onOpened(() => worker.stop());
  return {
    settings,
    connectors,
    ledgers,
    worker,
    notifier: app.notifier,
    sample: async () => await sampleWorker(connectors, ledgers, (await worker.state()).depth, clock.now()),
    /** Runs finish their page and go back to the queue. Takes at most `graceMs`. Idempotent. */
    stop: close,
    /**
     * Makes place for a newer config, which is served already: runs continue to their end, but those of connectors and
     * publications into targets that the newer one lacks end after their page. Resolves when the last has ended.
     */
    giveWay: async ({ settings: newer }: Pick<ServeConfigOptions, 'settings'>): Promise<void> => {
      // The newer config checks by its own limits.
      looking.stop();
      try {
        await worker.drain((job) => {
          const subject = subjectOf(job);
          if (subject === null) return false;
          const isKept =
            'connector' in subject
              ? newer.connectors.has(subject.connector)
              : newer.publish.has(subject.target);
          return !isKept;
        });
      } finally {
        await close();
      }
    },
  };
}

const minuteMs = 60_000;

/**
 * Checks every minute for data that is too old, because no event reports it. The first check also sends unsent
 * notifications.
 */
function lookEachMinute({ notifier, settings }: App, connectors: readonly ConnectorSettings[], clock: Clock) {
  const over = new AbortController();
  const look = async (): Promise<void> => {
    do await notifier.look(connectors);
    while (await slept(clock, minuteMs, over.signal));
  };
  if (settings.notify.size > 0) void look();
  return { stop: () => over.abort() };
}

/** The current state, for a scrape. Rejects where a sink or the queue cannot be read. */
export async function sampleWorker(
  connectors: readonly ConnectorSettings[],
  ledgers: ServedLedgers,
  depth: MetricSample['depth'],
  nowMs: number,
): Promise<MetricSample> {
  const overviews = await ledgers.overviews();
  return {
    connectors: connectors.map((connector) => {
      const overview = overviewOf(overviews, connector);
      const { missing = [], partMissing = [], unconfirmed = [] } = overview ?? {};
      const { words } = healthOf(connector, overview, nowMs);
      const freshness = freshnessOf(connector, overview?.freshness);
      return { name: connector.name, words, freshness, missing, partMissing, unconfirmed };
    }),
    depth,
    // Only Redis knows the depth.
    isRedisUp: depth.length > 0,
  };
}

/** The sinks of some connectors as a worker needs them: their ids and their ledgers. */
type ServedLedgers = Awaited<ReturnType<typeof openServedLedgers>>;

/**
 * Opens each sink once, which makes it where there is none, and keeps its ledger open for reading. Throws what
 * `openSink` throws.
 */
export async function openServedLedgers(connectors: readonly ConnectorSettings[], clock: Clock) {
  const bySink = new Map<string, ServedLedger>();
  const close = async (): Promise<void> => {
    for (const ledger of bySink.values()) await ledger[Symbol.asyncDispose]();
  };
  try {
    for (const sink of sinksOf(connectors)) {
      bySink.set(sink.name, await openServed(sink, { ...sink, clock }));
    }
  } catch (error) {
    await close();
    throw error;
  }
  const byName = new Map(connectors.map((connector) => [connector.name, connector]));
  const found = (name: ConnectorName): ServedLedger | undefined =>
    bySink.get(byName.get(name)?.sink.name ?? '');
  return {
    sinks: sinksOf(connectors).map((sink): ServedSink => ({
      name: sink.name,
      id: bySink.get(sink.name)?.sinkId ?? '',
      place: accessSink(sink).place,
    })),
    ledger: {
      pause: async (name) => (await found(name)?.pause(name)) ?? null,
      paused: async (sink) => (await bySink.get(sink)?.paused()) ?? new Set(),
      lastRun: async (name) => (await found(name)?.lastRun(name)) ?? null,
      freshUntil: (name) => freshUntil(byName.get(name), found(name)),
      lost: async (sink) => (await bySink.get(sink)?.lost()) ?? null,
    } satisfies WorkerLedger,
    /**
     * The states of all connectors, by sink. A sink that has not changed since the last time is not read again; other
     * work gets a turn every 200 ms. Rejects where one cannot be read.
     */
    overviews: async (): Promise<ReadonlyMap<string, SinkOverview>> => {
      const overviews = new Map<string, SinkOverview>();
      let sinceMs = performance.now();
      for (const [name, ledger] of bySink) {
        overviews.set(name, { id: ledger.sinkId, connectors: await ledger.overview() });
        // Not after each sink: in a busy worker one turn of all other work may take as much time as all sinks together.
        if (performance.now() - sinceMs > turnMs) {
          await otherTurn();
          sinceMs = performance.now();
        }
      }
      return overviews;
    },
    /** The id of a sink; null where it is not served. */
    sinkIdOf: ({ name }: SinkSettings): string | null => bySink.get(name)?.sinkId ?? null,
    /** The reason why each sink cannot be read, checked now; `ledger` reports sinks that are not at their place. */
    problems: () =>
      Promise.all([...bySink].map(async ([name, ledger]) => ({ name, problem: await ledger.problem() }))),
    [Symbol.asyncDispose]: close,
  };
}

async function freshUntil(connector: ConnectorSettings | undefined, ledger: ServedLedger | undefined) {
  if (connector === undefined || ledger === undefined) return null;
  if ([...connector.entities.values()].every(({ freshWithinMs }) => freshWithinMs === null)) return null;
  return freshUntilMs(connector, await ledger.freshness(connector.name));
}

/** How long other work may wait: renewals of locks and answers of health checks have seconds to spare. */
const turnMs = 200;

/** One reading of the config, and what depends on it. */
export interface WorkerConfig {
  readonly settings: WorkerSettings;
  /** Connectors whose runs are made here; all of them unless configured otherwise. */
  readonly serves?: (connector: ConnectorName) => boolean;
  readonly pages?: ServedPages;
}

interface ScheduledRunsOptions
  extends
    WorkerConfig,
    Pick<WorkerOptions, 'concurrency' | 'graceMs' | 'timings' | 'observe'>,
    Pick<AppOptions, 'command'> {
  readonly clock: Clock;
  readonly log: Log;
  /** Concurrent runs over all sinks; as many as `mostRuns` says unless given. */
  readonly maxRuns?: number;
  /** Where health checks, metrics and pages are served; null: nowhere. */
  readonly listen?: ListenAddress | null;
  /** A problem of the whole process to show on every page; null: none. */
  readonly problem?: () => string | null;
}

/**
 * Everything that a worker is, wired together: sinks, budgets, queues, metrics, health checks. Resolves when jobs are
 * taken. Throws CONFIG_INVALID where something of a target is missing here, QUEUE_UNAVAILABLE within two seconds,
 * SINK_INCOMPATIBLE, USAGE for an address that cannot be used.
 */
export async function startScheduledRuns(options: ScheduledRunsOptions) {
  return await closable(async (onOpened, stop) => ({
    ...(await openAll(options, onOpened)),
    /**
     * Runs finish their page and go back to the queue. Idempotent; takes at most `graceMs`, whether Redis answers or
     * not.
     */
    stop,
  }));
}

async function openAll(options: ScheduledRunsOptions, onOpened: OnOpened) {
  const { log, clock, concurrency, maxRuns = mostRuns(concurrency), listen = null } = options;
  const { observe = () => undefined, problem = () => null } = options;
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
  const first = await serve(options, openMonitor);
  served = first;
  onOpened(async () => {
    stopping.abort();
    // A config that is over is closed already, and its failures are logged.
    const closing = older?.over.aborted === false ? older.config : null;
    await Promise.all([closing?.stop(), (served ?? first).stop()]);
  });
  // Warns of a setup that may lose jobs later, while none is lost yet. Never rejects.
  const examined = examineRedis(options.settings.redis, clock).then((findings) => {
    for (const { what, state, detail } of findings) if (state !== 'ok') log.warn({}, `${what}: ${detail}`);
  });
  onOpened(() => examined);
  log.info(
    { ...factsOf(first), version: programVersion(), http: urlOf(monitor) },
    'ready for scheduled runs',
  );
  return {
    /** Address of the pages, health checks and metrics; null if they are not served. */
    url: urlOf(monitor),
    /** Redis of the newest config. */
    redis: () => (served ?? first).worker.redis,
    /** Notifier of the newest config. */
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
     * Serves another reading of the config. Runs in progress continue to their end as they began, except that runs of
     * connectors and targets that it lacks end after their page. One call at a time, after `makeRoom`. Throws as
     * `startScheduledRuns` does; then the previous config is still served.
     */
    reload: async (config: WorkerConfig): Promise<void> => {
      const next = await serve(config, async (opened) => {
        stopping.signal.throwIfAborted();
        await monitor?.show(monitorContent(config, opened));
      });
      const last = served ?? first;
      const over = new AbortController();
      older = { config: last, over: over.signal };
      served = next;
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

function monitorContent({ settings, pages }: WorkerConfig, { queues, ledgers }: OpenedConfig) {
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
      void runs.notifier().configRead({ file, refusal: outcome === 'refused' ? text : null });
    },
    log,
    clock,
    signal,
  });
  // A refusal by an earlier process is over: this process has started with the config.
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
