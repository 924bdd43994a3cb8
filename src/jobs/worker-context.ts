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

/** How a run ended, as far as its job is concerned. */
export interface RunEnd {
  /** A run's outcome as reports name it: `ok`, `partial`, `degraded`, `failed`, `interrupted`. */
  readonly outcome: string;
  readonly run: RunId | null;
  readonly error: { readonly code: ErrorCode; readonly recovery: Recovery } | null;
  /** The service asked for a pause until then; the run ended early and is resumed afterwards. */
  readonly resumeAt: Instant | null;
}

export interface RunRequest {
  /** Aborting it ends the run after a checkpoint with the outcome `interrupted`. */
  readonly signal: AbortSignal;
  readonly onEvent: OnRunEvent;
}

/** Runs one connector to its end; `src/app/worker-runs.ts` makes it. Rejects where no run could begin. */
export type RunConnector = (connector: ConnectorName, request: RunRequest) => Promise<RunEnd>;

export interface BackfillRequest extends RunRequest {
  /** Asked between windows: true when something else should run first, or the backfill was withdrawn. */
  readonly shouldYield: () => Promise<boolean>;
}

/** Resumes a backfill until it is done or should yield; made there too. Rejects where no run could begin. */
export type RunBackfill = (
  backfill: string,
  connector: ConnectorName,
  request: BackfillRequest,
) => Promise<RunEnd & { readonly isDone: boolean }>;

/** What the parts of one worker share: its options, everything decided, and what was opened for it. */
export interface WorkerContext {
  readonly connectors: Settings['connectors'];
  readonly serves: (connector: ConnectorName) => boolean;
  readonly sinks: readonly ServedSink[];
  readonly ledger: WorkerLedger;
  readonly runConnector: RunConnector;
  readonly runBackfill: RunBackfill | null;
  readonly concurrency: number;
  readonly timings: WorkerTimings;
  /** Runs of this process, over all sinks. */
  readonly slots: RunSlots;
  /** Connectors that run in this process. */
  readonly running: Set<ConnectorName>;
  readonly clock: Clock;
  readonly log: JobLog;
  readonly observe: (event: WorkerEvent) => void;
  readonly onError: (error: Error) => void;
  /** Called when no run of a sink's waiting job can begin here; `holdQueues` follows. */
  readonly tellFull: (sink: string) => Promise<void>;
  /** Over a connection that fails soon. */
  readonly queues: QueueSet;
  /** Aborted when the worker is told to stop. */
  readonly stopping: AbortSignal;
}

/** What the jobs of one sink's queue need besides. */
export interface JobContext extends WorkerContext {
  readonly sinkName: string;
  /** The sink's queue, over a connection that fails soon. */
  readonly queue: Queue;
  /** Running connectors that took their process with them the last time and have stored no page since. */
  readonly suspects: Set<ConnectorName>;
}
