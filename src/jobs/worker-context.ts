import type { Queue } from 'bullmq';
import type { Clock } from '../core/clock.ts';
import type { ConnectorName } from '../core/names.ts';
import type { Settings } from '../settings/settings.ts';
import type { JobLog } from './job-log.ts';
import type { QueueSet } from './open-queue-set.ts';
import type { RunBackfill, RunConnector } from './run-connector.ts';
import type { RunSlots } from './run-slots.ts';
import type { ServedSink } from './served-sink.ts';
import type { WorkerEvent } from './worker-event.ts';
import type { WorkerLedger } from './worker-ledger.ts';
import type { WorkerTimings } from './worker-timings.ts';

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
