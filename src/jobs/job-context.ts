import type { Queue } from 'bullmq';
import type { Clock } from '../core/clock.ts';
import type { ConnectorName } from '../core/names.ts';
import type { JobLog } from './job-log.ts';
import type { ScheduledConnector } from './reconcile-schedules.ts';
import type { RunSlots } from './run-slots.ts';
import type { RunBackfill, RunConnector } from './run-connector.ts';
import type { WorkerEvent } from './worker-event.ts';
import type { WorkerLedger } from './worker-ledger.ts';

/** What the jobs of one sink's queue need. */
export interface JobContext {
  readonly sinkName: string;
  /** The sink's queue, over a connection that fails soon. */
  readonly queue: Queue;
  readonly connectors: ReadonlyMap<ConnectorName, ScheduledConnector>;
  readonly serves: (connector: ConnectorName) => boolean;
  readonly ledger: WorkerLedger;
  readonly runConnector: RunConnector;
  readonly runBackfill: RunBackfill | null;
  readonly slots: RunSlots;
  /** Takes no more jobs of the sink until a slot is free. */
  readonly tellFull: (sink: string) => Promise<void>;
  /** Connectors that run in this process. */
  readonly running: Set<ConnectorName>;
  /** Those of them that took their process with them the last time and have stored no page since. */
  readonly suspects: Set<ConnectorName>;
  /** The worker's end: a job that arrives after it goes back unstarted. */
  readonly stopping: AbortSignal;
  readonly clock: Clock;
  readonly log: JobLog;
  readonly observe: (event: WorkerEvent) => void;
  readonly onError: (error: Error) => void;
  readonly busyDelayMs: number;
  /** How long a job waits here for a slot before it goes back to the queue, where another worker may take it. */
  readonly slotPatienceMs: number;
}
