import type { Queue } from 'bullmq';
import type { Clock, Instant } from '../core/clock.ts';
import type { ErrorCode, Recovery } from '../core/errors.ts';
import type { OnRunEvent } from '../core/events.ts';
import type { ConnectorName, RunId } from '../core/names.ts';
import type { Settings } from '../settings/settings.ts';
import type { JobLog } from './job-log.ts';
import type { QueueSet } from './open-queue-set.ts';
import type { RunSlots } from './run-slots.ts';
import type { ServedSink } from './served-sink.ts';
import type { WorkerEvent } from './worker-event.ts';
import type { WorkerLedger } from './worker-ledger.ts';
import type { WorkerTimings } from './worker-timings.ts';

/** What a job needs to know of how its run ended. */
export interface RunResult {
  /** The outcome in the run's report: `ok`, `partial`, `degraded`, `failed`, `interrupted`. */
  readonly outcome: string;
  readonly run: RunId | null;
  readonly error: { readonly code: ErrorCode; readonly recovery: Recovery } | null;
  /** The service asked for a pause until then; the run ended early and resumes afterwards. */
  readonly resumeAt: Instant | null;
}

export interface RunRequest {
  /** Aborting it ends the run after a checkpoint with the outcome `interrupted`. */
  readonly signal: AbortSignal;
  readonly onEvent: OnRunEvent;
}

/** Runs one connector to its end; implemented in `src/app/worker-runs.ts`. Rejects if no run could start. */
export type RunConnector = (connector: ConnectorName, request: RunRequest) => Promise<RunResult>;

export interface BackfillRequest extends RunRequest {
  /** Called between windows: true if another job should run first, or the backfill was cancelled. */
  readonly shouldYield: () => Promise<boolean>;
}

/** Resumes a backfill until it is done or should yield; implemented there too. Rejects if no run could start. */
export type RunBackfill = (
  backfill: string,
  connector: ConnectorName,
  request: BackfillRequest,
) => Promise<RunResult & { readonly isDone: boolean }>;

/** What the parts of one worker share: its options with their defaults, and what it opened. */
export interface WorkerContext {
  readonly connectors: Settings['connectors'];
  readonly serves: (connector: ConnectorName) => boolean;
  readonly sinks: readonly ServedSink[];
  readonly ledger: WorkerLedger;
  readonly runConnector: RunConnector;
  readonly runBackfill: RunBackfill | null;
  readonly concurrency: number;
  readonly timings: WorkerTimings;
  /** Limits the runs of this process, over all sinks. */
  readonly slots: RunSlots;
  /** Connectors that run in this process. */
  readonly running: Set<ConnectorName>;
  readonly clock: Clock;
  readonly log: JobLog;
  readonly observe: (event: WorkerEvent) => void;
  readonly onError: (error: Error) => void;
  /** Called when a job of the sink found no free slot; holds the sink's queue. */
  readonly onFull: (sink: string) => Promise<void>;
  /** Over a connection that fails fast. */
  readonly queues: QueueSet;
  /** Aborted when the worker stops. */
  readonly stopping: AbortSignal;
}

/** What the jobs of one sink's queue need in addition. */
export interface JobContext extends WorkerContext {
  readonly sinkName: string;
  /** The sink's queue, over a connection that fails fast. */
  readonly queue: Queue;
  /** Running connectors whose last start crashed the process and that have stored no page since. */
  readonly suspects: Set<ConnectorName>;
}
