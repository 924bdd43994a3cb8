import type { ConnectorName } from '../core/names.ts';

/** What a worker says about itself. Nobody may throw from where it is told. */
export type WorkerEvent =
  /** A run begins; `lagMs` is how long after its due time, or after it was put into the queue where there is none. */
  | {
      readonly kind: 'job-started';
      readonly connector: ConnectorName;
      readonly reason: 'schedule' | 'manual' | 'catch-up' | 'backfill';
      readonly lagMs: number;
    }
  /** A job has been dealt with, also one that led to no run. */
  | { readonly kind: 'job-ended'; readonly connector: ConnectorName; readonly end: JobEnd }
  | { readonly kind: 'redis-error'; readonly code: string }
  | { readonly kind: 'tick'; readonly connector: ConnectorName };

export type JobEnd =
  'done' | 'retry' | 'given-back' | 'delayed' | 'busy' | 'paused' | 'failed' | 'poison' | 'unknown';
