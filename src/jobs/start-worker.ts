import { createHash } from 'node:crypto';
import { type Job, type Queue, Worker } from 'bullmq';
import type { Redis } from 'ioredis';
import PQueue from 'p-queue';
import { type Clock, slept, systemClock } from '../core/clock.ts';
import type { ConnectorName } from '../core/names.ts';
import type { Schedule } from '../settings/settings.ts';
import { errorKind, gateErrors, openWorkerConnections, type WorkerConnections } from './connect-redis.ts';
import {
  addPublication,
  addSync,
  type ConnectorTick,
  openQueueSet,
  parseTickJob,
  type QueueSet,
  tickSettings,
} from './open-queue-set.ts';
import {
  createJobProcessor,
  createPublicationProcessor,
  type JobProcessor,
  lockLost,
  mostAtATime,
  openPublicationRequests,
} from './process-job.ts';
import { beginClaim, reconcileSchedules, registerSinks, type ScheduleClaim } from './reconcile-schedules.ts';
import {
  defaultConcurrency,
  defaultTimings,
  mostRuns,
  openRunSlots,
  type RunningWorker,
  type ServedSink,
  sinkOfTarget,
  type WorkerContext,
  type WorkerOptions,
  type WorkerState,
} from './worker-context.ts';

/**
 * Keeps the schedules of the settings in Redis and runs connectors when they are due, until it is stopped. Resolves
 * when it takes jobs. Throws `SyncError` QUEUE_UNAVAILABLE within two seconds if Redis does not answer, and
 * SINK_INCOMPATIBLE if a sink's name is registered in Redis for another file.
 */
export async function startWorker(options: WorkerOptions): Promise<RunningWorker> {
  const connections = await openWorkerConnections(options.settings.redis);
  const stopping = new AbortController();
  const closing = new AbortController();
  stopping.signal.addEventListener('abort', () => closing.abort(), { once: true });
  try {
    return await work(options, connections, { stopping, closing });
  } catch (error) {
    stopping.abort();
    connections.disconnect();
    throw error;
  }
}

async function work(
  options: WorkerOptions,
  connections: WorkerConnections,
  { stopping, closing }: Readonly<Record<'stopping' | 'closing', AbortController>>,
): Promise<RunningWorker> {
  const signals = { stopping: stopping.signal, closing: closing.signal };
  const { context, backoff, holds, served } = openContext(options, connections, signals);
  const { log, clock, onError, concurrency } = context;
  const { graceMs = 25_000 } = options;
  const { forQueues, forWorkers } = connections;
  const replaced = await registerSinks(context.queues, context.sinks, { takeOver: [], clock });
  for (const sink of replaced) {
    log.warn({ sink }, 'this sink was replaced by another one; the queued jobs of the old one were removed');
  }
  const claim = await beginClaim(forQueues.redis);
  const reconcile = openReconcile(context, claim, holds.outdated);
  const schedules = keepSchedules(context, reconcile, await reconcile());
  forQueues.redis.on('ready', schedules.soon);
  served.push(...serveQueues(context, { redis: forWorkers.redis, onLockLost: schedules.soon }));
  const workers = served.map(({ worker }) => worker);
  const queues = served.map(({ queue }) => queue);

  const sinksWatched = watchSinks(context, () => holds.renew().catch(onError));
  const stop = once(async () => {
    // A worker that was drained has no runs.
    if (!closing.signal.aborted) log.info({}, 'worker is stopping: runs finish their page');
    stopping.abort();
    if (!(await closeWorkers(context, workers, graceMs))) {
      log.warn(
        { graceMs },
        'worker stopped without returning its jobs: Redis did not answer, or a run took longer than the grace period',
      );
    }
    connections.disconnect();
    await Promise.all([schedules.ended, sinksWatched]);
  });
  const drain = async (isGone: (job: unknown) => boolean): Promise<void> => {
    closing.abort();
    for (const { worker, activeJobs } of served) {
      for (const { id = '', data } of activeJobs()) {
        if (isGone(data)) worker.cancelJob(id, 'the config no longer has it');
      }
    }
    // Each ends its connection that waits for jobs at once, and itself with its last job.
    await Promise.all(workers.map((worker) => worker.close()));
    await stop();
  };
  const state = async (): Promise<WorkerState> => {
    const lost = await lostSinks(context);
    const problems = problemsOf(stopping.signal, backoff.why());
    return await readState(context, [...problems, ...holds.problems(), ...lost]);
  };
  try {
    await options.beforeJobs?.({ queues, state });
  } catch (error) {
    await stop();
    throw error;
  }
  for (const worker of workers) worker.run().catch(onError);
  log.info({ queues: queues.map(({ name }) => name), concurrency }, 'worker started');
  return { queues, redis: forQueues.redis, state, drain, stop };
}

function openContext(
  options: WorkerOptions,
  { forQueues }: WorkerConnections,
  signals: Pick<WorkerContext, 'stopping' | 'closing'>,
) {
  const { log, clock = systemClock, targets = [], observe = () => undefined } = options;
  const { concurrency = defaultConcurrency, slots = openRunSlots(mostRuns(concurrency)) } = options;
  const { publish = () => Promise.reject(new Error('no target was given')) } = options;
  const tellError = options.tellError ?? gateErrors(log, clock);
  /** Filled when the queues are served. */
  const served: ServedQueue[] = [];
  const backoff = openWorkerBackoff(served, clock, signals.closing);
  const onError = (error: Error): void => {
    tellError(error);
    observe({ kind: 'redis-error', code: errorKind(error) });
    backoff.notice(error);
  };
  const timings = { ...defaultTimings, ...options.timings };
  const queues = openQueueSet(forQueues.redis, options.settings.redis.prefix, onError);
  const holds = openHolds(options, queues, served, () => backoff.why() !== null);
  const context: WorkerContext = {
    ...options,
    targets,
    publish,
    publications: openPublicationRequests({ ...options, targets, queues, timings, onError }),
    publishing: new Set(),
    connectors: options.settings.connectors,
    concurrency,
    slots,
    onFull: holds.full,
    timings,
    clock,
    observe,
    onError,
    running: new Set(),
    queues,
    ...signals,
  };
  slots.onFree(() => void holds.notFull().catch(onError), signals.closing);
  return { context, backoff, holds, served };
}

const lookEveryMs = 50;
/** Returning the jobs takes milliseconds when Redis answers, and never ends during an outage. */
const unregisterMs = 2000;

/**
 * Ends the runs of all workers and closes them. Resolves with true if that was done in time. Otherwise, as always while
 * Redis is down, resolves with false two seconds after the last run ended and after `graceMs` at the latest; the next
 * worker then takes over the active jobs.
 */
async function closeWorkers(
  { clock, running, publishing }: WorkerContext,
  workers: readonly Worker[],
  graceMs: number,
): Promise<boolean> {
  for (const worker of workers) worker.cancelAllJobs('the worker is stopping');
  const inTime = new AbortController();
  const closing = Promise.all(workers.map((worker) => worker.close()));
  const late = async (): Promise<boolean> => {
    const endMs = clock.now() + graceMs;
    // Only runs and publications get the whole grace period.
    const isBusy = (): boolean => running.size + publishing.size > 0;
    while (isBusy() && clock.now() < endMs) await clock.sleep(lookEveryMs, inTime.signal);
    await clock.sleep(Math.max(0, Math.min(unregisterMs, endMs - clock.now())), inTime.signal);
    return false;
  };
  const hasClosed = await Promise.race([closing.then(() => true), late()]).catch(() => false);
  inTime.abort();
  return hasClosed;
}

function problemsOf(stopping: AbortSignal, refusal: string | null): readonly string[] {
  return [
    ...(stopping.aborted ? ['the worker is stopping'] : []),
    ...(refusal === null ? [] : [`Redis rejects commands (${refusal}); the worker waits`]),
  ];
}

/** Reads the depth of each queue, which also checks that Redis answers. */
async function readState(context: WorkerContext, problems: readonly string[]): Promise<WorkerState> {
  try {
    const depth = await Promise.all(context.sinks.map((sink) => depthOf(context, sink)));
    return { isReady: problems.length === 0, problems, depth };
  } catch {
    // The connection logs why Redis does not answer.
    return { isReady: false, problems: ['Redis does not answer', ...problems], depth: [] };
  }
}

async function depthOf({ queues }: WorkerContext, sink: ServedSink) {
  const counts = await queues
    .syncs(sink.id)
    .getJobCounts('waiting', 'prioritized', 'delayed', 'active', 'failed');
  const { delayed = 0, active = 0, failed = 0 } = counts;
  const waiting = (counts['waiting'] ?? 0) + (counts['prioritized'] ?? 0);
  return { sink: sink.name, waiting, delayed, active, failed };
}

function once(run: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | null = null;
  return () => (running ??= run());
}

/**
 * Holds the queues of each sink that cannot be served now: a newer config has it or its file is missing; where every
 * slot is taken, that of its runs alone.
 */
function openHolds(
  { sinks, ledger }: Pick<WorkerOptions, 'sinks' | 'ledger'>,
  queues: QueueSet,
  served: readonly ServedQueue[],
  isBackingOff: () => boolean,
) {
  let outdated: readonly string[] = [];
  const full = new Set<string>();

  const holdUnserved = async (): Promise<void> => {
    // During backoff all queues are paused; `backoff` resumes them.
    if (isBackingOff()) return;
    for (const { id, name } of sinks) {
      const isAway = (await ledger.lost(name)) !== null || outdated.includes(name);
      const isHeld = new Map([
        [queues.syncs(id), isAway || full.has(name)],
        [queues.publications(id), isAway],
      ]);
      for (const { queue, hold } of served) {
        const isToHold = isHeld.get(queue);
        if (isToHold !== undefined) await hold(isToHold);
      }
    }
  };
  let holding: Promise<void> = Promise.resolve();
  // One call at a time, so that the last call decides from the latest state.
  const renew = (): Promise<void> => (holding = holding.catch(() => undefined).then(holdUnserved));

  return {
    renew,
    /** These sinks belong to a newer config, and no others do. */
    outdated: async (names: readonly string[]): Promise<void> => {
      outdated = names;
      await renew();
    },
    /** A job of the sink found no free slot. */
    full: async (sink: string): Promise<void> => {
      full.add(sink);
      await renew();
    },
    /** A slot is free again. */
    notFull: async (): Promise<void> => {
      if (full.size === 0) return;
      full.clear();
      await renew();
    },
    /** For people. */
    problems: (): readonly string[] =>
      outdated.map(
        (sink) => `another worker has a newer config for sink ${sink}; this one takes no more of its jobs`,
      ),
  };
}

const againAfterFailureMs = 5000;

/**
 * Reconciles at every interval, because a Redis that lost its data has lost the schedules too and does not report it.
 * Each interval varies by a tenth, so that processes do not act at the same time. `reconcile` resolves with whether it
 * succeeded; `isInPlace`: whether the last reconciliation did.
 */
function keepSchedules(
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
function openReconcile(
  context: WorkerContext,
  claim: ScheduleClaim,
  onOutdated: (sinks: readonly string[]) => Promise<void>,
): () => Promise<boolean> {
  const { timings, log, onError } = context;
  let logged = '';
  let seen = '';
  return async () => {
    try {
      const { written, kept, removed, outdated } = await reconcileSchedules({
        ...context,
        claim,
        retryDelayMs: timings.retryDelayMs,
      });
      if (written.length + removed.length > 0) log.info({ written, kept, removed }, 'schedules updated');
      await onOutdated(outdated);
      await context.publications.retry();
      const text = outdated.join();
      // Logged only if seen twice in a row: the other worker may be writing its schedules now.
      const isNews = outdated.length > 0 && text === seen && text !== logged;
      if (isNews) {
        log.warn(
          { sinks: outdated },
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

/**
 * Checks at an interval whether each sink is still in place, and logs once when it disappears and when it is
 * back. Calls `holdQueues` after every check. Resolves when the worker stops.
 */
async function watchSinks(
  { sinks, ledger, log, clock, closing, timings }: WorkerContext,
  holdQueues: () => Promise<void>,
): Promise<void> {
  const logged = new Set<string>();
  while (await slept(clock, timings.sinkWatchMs, closing)) {
    for (const { name: sink } of sinks) {
      const found = await ledger.lost(sink);
      if (found === null && logged.delete(sink)) log.info({ sink }, 'this sink is back in place');
      if (found === null || logged.has(sink)) continue;
      logged.add(sink);
      log.error(
        { sink, found },
        'this sink was moved or replaced, or is out of reach: its jobs wait until it is back. Restart the worker to use what is in its place',
      );
    }
    await holdQueues();
  }
}

/** For people, without paths: a problem for each sink that is not served because it is not in its place. */
async function lostSinks({ sinks, ledger }: WorkerContext): Promise<readonly string[]> {
  const found = await Promise.all(sinks.map(({ name }) => ledger.lost(name)));
  return sinks
    .filter((_, index) => found[index] !== null)
    .map(
      ({ name }) =>
        `sink ${name} was moved or replaced, or is out of reach; its jobs wait until it is back, or the worker is restarted to use what is in its place`,
    );
}

/** While Redis refuses commands: the first wait, which doubles up to the longest. */
const firstRestMs = 1000;
const longestRestMs = 30_000;
/**
 * Out of memory, replica, invalid credentials or rights, disk not writable, failover, loading: all may pass without a
 * restart.
 */
const refusals = ['OOM', 'READONLY', 'NOAUTH', 'NOPERM', 'MISCONF', 'MASTERDOWN', 'LOADING', 'CLUSTERDOWN'];

/** The error code if Redis refused the command for one of these reasons, else null. */
function refusalOf(error: Error): string | null {
  const code = errorKind(error);
  return refusals.includes(code) ? code : null;
}

/**
 * Backoff for a Redis that refuses commands: without it a worker retries tens of thousands of times in seconds. Pauses
 * grow from 1 s to 30 s; active runs continue.
 */
function openWorkerBackoff(served: readonly ServedQueue[], clock: Clock, signal: AbortSignal) {
  let why: string | null = null;
  let restMs = firstRestMs;
  let resumedAtMs = Number.NEGATIVE_INFINITY;

  const rest = async (): Promise<void> => {
    await Promise.all(served.map(({ worker }) => worker.pause(true)));
    // When the worker stops, the workers stay paused.
    if (!(await slept(clock, restMs, signal))) return;
    restMs = Math.min(restMs * 2, longestRestMs);
    resumedAtMs = clock.now();
    why = null;
    await Promise.all(served.flatMap(({ worker, isHeld }) => (isHeld() ? [] : [worker.resume()])));
  };

  return {
    /** Called with every Redis error; a refusal pauses the workers. */
    notice(error: Error): void {
      const refusal = refusalOf(error);
      if (why !== null || signal.aborted || refusal === null) return;
      if (clock.now() - resumedAtMs > longestRestMs) restMs = firstRestMs;
      why = refusal;
      void rest();
    },
    /** The error code of Redis while the workers are paused, else null. */
    why: () => why,
  };
}

type ServedQueue = ReturnType<typeof serveQueue>;

interface ServeOptions {
  /** Without a command timeout. */
  readonly redis: Redis;
  readonly onLockLost: () => void;
}

/** The queue of ticks, then those of publications, then the queue of each sink. */
function serveQueues(context: WorkerContext, options: ServeOptions): readonly ServedQueue[] {
  const { queues, concurrency } = context;
  const suspects = new Set<ConnectorName>();
  const turns = new PQueue({ concurrency: mostAtATime });
  // A scheduler adds a new job even after a crash, so the crash limit must count starts.
  const ofTicks = { concurrency: 1, maxStartedAttempts: 3 };
  return [
    serveQueue(context, options, queues.ticks, createTickProcessor(context), ofTicks),
    ...context.sinks
      .filter(({ name }) => context.targets.some((target) => sinkOfTarget(target) === name))
      .map((sink) => {
        const queue = queues.publications(sink.id);
        const processor = createPublicationProcessor({ ...context, sinkName: sink.name, queue }, turns);
        return serveQueue(context, options, queue, processor, { concurrency: mostAtATime });
      }),
    ...context.sinks.map((sink) => {
      const queue = queues.syncs(sink.id);
      const processor = createJobProcessor({ ...context, sinkName: sink.name, queue, suspects });
      return serveQueue(context, options, queue, processor, { concurrency });
    }),
  ];
}

/** Lock errors are no faults of Redis: the lock expired, or the job ended or moved. `attemptJob` logs a lost lock. */
const lockErrors = /^(could not renew lock|Missing lock|Lock mismatch) for job /;

/**
 * Takes a queue's jobs once `worker.run()` is called. `maxStartedAttempts`: BullMQ fails a job after that many starts
 * that crashed the process; absent: the processor counts them.
 */
function serveQueue(
  { queues, timings, onError }: WorkerContext,
  { redis, onLockLost }: ServeOptions,
  queue: Queue,
  processor: JobProcessor,
  limits: { readonly concurrency: number; readonly maxStartedAttempts?: number },
) {
  let isHeld = false;
  const active = new Set<Job>();
  const counted: JobProcessor = async (job, token, signal) => {
    active.add(job);
    try {
      return await processor(job, token, signal);
    } finally {
      active.delete(job);
    }
  };
  const worker = new Worker(queue.name, counted, {
    ...limits,
    connection: redis,
    prefix: queues.prefix,
    settings: tickSettings,
    autorun: false,
    lockDuration: timings.lockMs,
    stalledInterval: timings.stalledMs,
    drainDelay: timings.drainDelayS,
    // A job that stalled in several deploys or crashes but made progress is not poison; the processor counts starts
    // instead.
    maxStalledCount: 1000,
  });
  worker.on('error', (error) => {
    if (!lockErrors.test(error.message)) onError(error);
  });
  // Without the lock another worker may start the same run, so this one must stop writing soon. A job that has ended
  // or that this worker has just moved has no lock either; nothing listens to its signal any longer.
  worker.on('lockRenewalFailed', (jobIds) => {
    for (const id of jobIds) worker.cancelJob(id, lockLost);
    onLockLost();
  });
  return {
    worker,
    queue,
    activeJobs: (): readonly Job[] => [...active],
    /** While held, it takes no new jobs; active jobs continue. */
    hold: async (hold: boolean): Promise<void> => {
      if (hold === isHeld) return;
      isHeld = hold;
      if (hold) await worker.pause(true);
      else await worker.resume();
    },
    isHeld: () => isHeld,
  };
}

/** The part of the worker's context that ticks need. */
type TickContext = Pick<WorkerContext, 'sinks' | 'connectors' | 'queues' | 'ledger' | 'timings'> &
  Pick<WorkerContext, 'closing' | 'onError' | 'clock' | 'log' | 'observe'>;

const missedAfterMs = 60_000;
const hourMs = 60 * 60 * 1000;

/**
 * Turns a tick into a job in a queue of its sink, unless a job of the same connector or target already waits or runs
 * there. The worker need not serve that sink: a worker that does takes the job.
 */
export function createTickProcessor(context: TickContext): (job: Job) => Promise<void> {
  const { queues, timings, clock, log, observe } = context;
  return async (job) => {
    const tick = parseTickJob(job.data);
    if ('target' in tick) {
      await untilTaken(context, () => addPublication(queues.publications(tick.sink), tick.target, timings));
      return;
    }
    const { sink, connector } = tick;
    observe({ kind: 'tick', connector });
    const schedule = scheduleOf(context, sink, connector);
    // The scheduler adds each job ahead of time, delayed until the due time. A retry changes the job's delay, not its
    // options.
    const due = job.timestamp + (job.opts.delay ?? 0);
    if (schedule?.missed === 'skip' && clock.now() - due > missedAfterMs) {
      log.info({ connector, due: new Date(due).toISOString() }, 'missed run skipped');
      return;
    }
    const delayMs = jitterOffset(connector, schedule?.jitterMs ?? 0);
    const deadlineMs = await deadlineOf(context, tick, schedule, due);
    await untilTaken(context, () =>
      addSync(
        queues.syncs(sink),
        { connector, reason: 'schedule', due: due + delayMs },
        { delayMs, retryDelayMs: timings.retryDelayMs, deadlineMs },
      ),
    );
  };
}

/**
 * When the connector's data should be renewed: at the end of its `freshWithin` limit; without a limit, or if the sink
 * is on another machine, when the next run is due. A deadline lies at most an hour before the due time: connectors that
 * are never read because their runs fail must not starve all others.
 */
async function deadlineOf(
  { ledger, sinks }: TickContext,
  { sink, connector }: ConnectorTick,
  schedule: Schedule | null,
  due: number,
): Promise<number> {
  // If the ledger cannot be read, the run still starts; only its priority is less exact.
  const freshUntil = sinks.some(({ id }) => id === sink)
    ? await ledger.freshUntil(connector).catch(() => null)
    : null;
  if (freshUntil !== null) return Math.max(freshUntil, due - hourMs);
  return due + (schedule?.kind === 'every' ? schedule.everyMs : hourMs);
}

/**
 * Null if the config has no such connector or no schedule for it, or if the tick belongs to another deployment on the
 * same Redis that has a connector of the same name.
 */
function scheduleOf({ connectors, sinks }: TickContext, sink: string, name: ConnectorName): Schedule | null {
  const connector = connectors.get(name);
  const served = sinks.find((one) => one.name === connector?.sink.name);
  return served === undefined || served.id === sink ? (connector?.schedule ?? null) : null;
}

/**
 * Waits while Redis refuses commands. A Redis that is full or in a failover would otherwise use up the tick's attempts
 * in seconds, and a daily run would be lost silently.
 */
async function untilTaken({ clock, closing, onError }: TickContext, put: () => Promise<unknown>) {
  for (let waitMs = firstRestMs; ; waitMs = Math.min(waitMs * 2, longestRestMs)) {
    try {
      await put();
      return;
    } catch (error) {
      if (!(error instanceof Error) || refusalOf(error) === null || closing.aborted) throw error;
      onError(error);
      // The next worker retries the tick.
      if (!(await slept(clock, waitMs, closing))) throw error;
    }
  }
}

/**
 * How long after its due time this connector starts, within [0, jitterMs): derived from its name, so always the same.
 */
export function jitterOffset(connector: ConnectorName, jitterMs: number): number {
  const share = createHash('sha256').update(connector).digest().readUInt32BE(0) / 2 ** 32;
  return Math.floor(share * jitterMs);
}
