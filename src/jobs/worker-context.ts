import type { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import PQueue from 'p-queue';
import type { Clock, Instant } from '../core/clock.ts';
import type { ErrorCode, Recovery } from '../core/errors.ts';
import type { OnRunEvent, SinkDepth, WorkerEvent } from '../core/events.ts';
import type { ConnectorName } from '../core/names.ts';
import type { ConnectorSettings, PublishSettings, Settings } from '../settings/settings.ts';
import type { ConnectorJob, QueueSet } from './open-queue-set.ts';

/** The end of a run, as far as its job needs it. */
export interface RunResult {
  /** The outcome in the run's report: `ok`, `partial`, `degraded`, `failed`, `interrupted`. */
  readonly outcome: string;
  readonly error: { readonly code: ErrorCode; readonly recovery: Recovery } | null;
  /** The service asked for a pause until then; the run ended early and resumes afterwards. */
  readonly resumeAt: Instant | null;
  /** False: a backfill has windows left. */
  readonly isDone?: boolean;
}

export interface RunRequest {
  /** Aborting it ends the run after a checkpoint with the outcome `interrupted`. */
  readonly signal: AbortSignal;
  readonly onEvent: OnRunEvent;
  /** Called between the windows of a backfill: true if another job should run first. */
  readonly shouldYield: () => Promise<boolean>;
}

/**
 * Makes the run of a job: a sync to its end, or a backfill from where it is until it is done or should yield;
 * implemented in `src/app/worker-runs.ts`. Rejects if no run could start.
 */
export type RunJob = (work: ConnectorJob, request: RunRequest) => Promise<RunResult>;

/**
 * Publishes into a target and resolves with the result in a word; implemented in `src/app/publish-target.ts`. Aborting
 * ends it with nothing published. `by`: the person who requested it, if that was not noted yet.
 */
export type RunPublication = (target: string, signal: AbortSignal, by: string | null) => Promise<string>;

export interface PublicationRequests {
  /**
   * Requests a publication into each target that follows the connector's syncs. Never rejects: requests that Redis does
   * not take are repeated.
   */
  after(connector: ConnectorName): Promise<void>;
  /** Asks for what Redis did not take before. Rejects as Redis does. */
  retry(): Promise<void>;
}

export interface WorkerOptions {
  readonly settings: Pick<Settings, 'redis' | 'connectors'>;
  /** Connectors that this worker runs; the jobs of others wait for other workers. */
  readonly serves: (connector: ConnectorName) => boolean;
  /** Sinks whose files are on this machine. */
  readonly sinks: readonly ServedSink[];
  readonly ledger: WorkerLedger;
  readonly run: RunJob;
  /** Targets to publish into, and the function that publishes; nothing is published without them. */
  readonly targets?: readonly ScheduledTarget[];
  readonly publish?: RunPublication;
  readonly log: JobLog;
  readonly clock?: Clock;
  /** Concurrent runs of each sink, each of a different connector. Default 2. */
  readonly concurrency?: number;
  /** Concurrent runs of this process, over all sinks; bounds its memory. Default: as many as `mostRuns` says. */
  readonly slots?: RunSlots;
  /** How long stopping may take; the next worker then takes over the runs that have not ended. Default 25 s. */
  readonly graceMs?: number;
  /**
   * Awaited after everything is open and before the first job is taken; if it throws, the worker ends without taking a
   * job.
   */
  readonly beforeJobs?: (opened: Pick<RunningWorker, 'queues' | 'state'>) => Promise<void>;
  readonly observe?: (event: WorkerEvent) => void;
  /** Called for each Redis error; by default they are logged, each kind at most once in 30 s. */
  readonly tellError?: (error: Error) => void;
  readonly timings?: Partial<WorkerTimings>;
}

/** Default number of concurrent runs of a process over all sinks. */
export function mostRuns(concurrency = defaultConcurrency): number {
  return Math.max(32, concurrency);
}

export const defaultConcurrency = 2;

/** Limits the concurrent runs of this process. */
export type RunSlots = ReturnType<typeof openRunSlots>;

interface SlotRequest {
  readonly priority: number;
  readonly patienceMs: number;
  readonly signal: AbortSignal;
}

/** At most `limit` runs of this process at a time, over all sinks. */
export function openRunSlots(limit: number) {
  const queue = new PQueue({ concurrency: limit });
  return {
    /** True while every slot is taken; then listeners of `onFree` are called later. */
    isFull: (): boolean => queue.pending >= limit,
    /** Calls the listener, until `signal` is aborted, when a slot is released and no run waits for it. */
    onFree: (listener: () => void, signal: AbortSignal): void => {
      const onNext = (): void => {
        if (queue.pending < limit) listener();
      };
      queue.on('next', onNext);
      signal.addEventListener('abort', () => queue.off('next', onNext), { once: true });
    },
    /**
     * Resolves with a slot, which the caller disposes; waiting requests are served by lowest `priority`. Null if no
     * slot became free within `patienceMs`, or the signal was aborted.
     */
    take: ({ priority, patienceMs, signal }: SlotRequest) =>
      new Promise<Disposable | null>((resolve) => {
        const waiting = new AbortController();
        const giveUp = (): void => waiting.abort();
        const timer = setTimeout(giveUp, patienceMs);
        signal.addEventListener('abort', giveUp, { once: true });
        if (signal.aborted) giveUp();
        const stopWaiting = (): void => {
          clearTimeout(timer);
          signal.removeEventListener('abort', giveUp);
        };
        const hold = (): Promise<void> =>
          new Promise((release) => {
            stopWaiting();
            resolve({ [Symbol.dispose]: release });
          });
        // p-queue runs the highest priority first.
        queue.add(hold, { priority: -priority, signal: waiting.signal }).catch(() => {
          stopWaiting();
          resolve(null);
        });
      }),
  };
}

export interface RunningWorker {
  /** The queue of ticks first, then those of publications and the queue of each sink. */
  readonly queues: readonly Queue[];
  /** Over which it asks for its queues; fails fast. */
  readonly redis: Redis;
  state(): Promise<WorkerState>;
  /**
   * Takes no more jobs, and stops when the last run has ended. Each run continues to its end, except that runs that
   * `isGone` names end after their page. Resolves when it has stopped. Called once.
   */
  drain(isGone: (job: unknown) => boolean): Promise<void>;
  /**
   * Runs finish their page and their jobs go back to the queue. Takes `graceMs` at most, even if Redis does not answer.
   * Idempotent.
   */
  stop(): Promise<void>;
}

export interface WorkerState {
  readonly isReady: boolean;
  /** For people: why it is not ready. */
  readonly problems: readonly string[];
  /** Jobs of each served sink; empty while Redis does not answer. */
  readonly depth: readonly SinkDepth[];
}

/** State that the parts of one worker share: its options with their defaults, and the resources that it opened. */
export interface WorkerContext extends Required<
  Omit<WorkerOptions, 'settings' | 'graceMs' | 'beforeJobs' | 'tellError' | 'timings'>
> {
  readonly connectors: Settings['connectors'];
  readonly publications: PublicationRequests;
  readonly timings: WorkerTimings;
  /** Connectors that run in this process. */
  readonly running: Set<ConnectorName>;
  /** Targets that this process publishes into. */
  readonly publishing: Set<string>;
  readonly onError: (error: Error) => void;
  /** Called when a job of the sink found no free slot; holds the sink's queue. */
  readonly onFull: (sink: string) => Promise<void>;
  /** Over a connection that fails fast. */
  readonly queues: QueueSet;
  /** Aborted when the worker takes no more jobs: it stops, or another one in this process takes its place. */
  readonly closing: AbortSignal;
  /** Aborted when the worker stops, and its runs with it. */
  readonly stopping: AbortSignal;
}

/** Additional context of the jobs of one queue of a sink. */
export interface SinkContext extends WorkerContext {
  readonly sinkName: string;
  /** Over a connection that fails fast. */
  readonly queue: Queue;
}

export interface JobContext extends SinkContext {
  /** Running connectors whose last start crashed the process and that have stored no page since. */
  readonly suspects: Set<ConnectorName>;
}

/** The worker's log: fields first, then the message, as pino and other structured loggers take them. */
export interface JobLog {
  info(facts: object, message: string): void;
  warn(facts: object, message: string): void;
  error(facts: object, message: string): void;
}

/** A sink whose file this machine can open. */
export interface ServedSink {
  /** The name in the config. */
  readonly name: string;
  /** Random; created with the file and stored in it. */
  readonly id: string;
  /** Absolute path of the file or folder. */
  readonly place: string;
}

/** A target of the config, as far as its jobs need it. */
export type ScheduledTarget = Pick<PublishSettings, 'name' | 'when'> & {
  readonly connectors: readonly (Pick<ConnectorSettings, 'name'> & {
    readonly sink: Pick<ConnectorSettings['sink'], 'name'>;
  })[];
};

/**
 * The name of the sink that it is published from; null for a target without connectors, which the config does not
 * allow.
 */
export function sinkOfTarget({ connectors }: Pick<ScheduledTarget, 'connectors'>): string | null {
  return connectors[0]?.sink.name ?? null;
}

/** State that a worker reads from the ledgers of its sinks; each call reads the current state. */
export interface WorkerLedger {
  pause(connector: ConnectorName): Promise<{ readonly since: Instant; readonly reason: string } | null>;
  /** The paused connectors of a sink, by its name. */
  paused(sink: string): Promise<ReadonlySet<ConnectorName>>;
  /** The newest sync; runs of other kinds do not replace a scheduled sync. */
  lastRun(connector: ConnectorName): Promise<LastRun | null>;
  /**
   * The earliest time at which one of its entities exceeds its `freshWithin`, in milliseconds; far in the past if one
   * was never read. Null: no entity has such a limit.
   */
  freshUntil(connector: ConnectorName): Promise<number | null>;
  /** Why a sink is no longer at its place, for the log; null while it is. */
  lost(sink: string): Promise<string | null>;
}

export interface LastRun {
  readonly startedAt: Instant;
  /** A run's outcome, or `running`. */
  readonly state: string;
}

/** True if the last run replaces the one due at `dueMs`: it started no earlier and ended `ok` or `degraded`. */
export function isMadeUpFor(dueMs: number, last: LastRun | null): boolean {
  if (last === null || Date.parse(last.startedAt) < dueMs) return false;
  return last.state === 'ok' || last.state === 'degraded';
}

/** Milliseconds unless the name says otherwise. */
type WorkerTimings = Readonly<typeof defaultTimings>;

export const defaultTimings = {
  /** How long a job's lock lives without renewal. An event loop blocked for half of it would lose its locks. */
  lockMs: 15_000,
  /**
   * Interval of the check for stalled jobs: a killed worker's run is taken over after at most `lockMs` and two
   * intervals.
   */
  stalledMs: 5000,
  reconcileMs: 60_000,
  /** How often to check that the files of the sinks are in place. */
  sinkWatchMs: 5000,
  /** The first backoff of a failed run; each further one doubles, with a jitter of up to minus a half. */
  retryDelayMs: 30_000,
  /** Delay until a job that cannot run yet is checked again. */
  busyDelayMs: 5000,
  /** How long a job waits for a slot before it goes back to the queue. */
  slotPatienceMs: 10_000,
  drainDelayS: 5,
};
