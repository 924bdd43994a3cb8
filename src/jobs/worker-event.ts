import type { ConnectorName } from '../core/names.ts';

/** What a worker reports to its observer, which must not throw. */
export type WorkerEvent =
  /** A run starts; `lagMs` is the time since it was due or, without a due time, since it was queued. */
  | {
      readonly kind: 'job-started';
      readonly connector: ConnectorName;
      readonly reason: 'schedule' | 'manual' | 'catch-up' | 'backfill';
      readonly lagMs: number;
    }
  /** A job has been processed, even if it started no run. */
  | { readonly kind: 'job-ended'; readonly connector: ConnectorName; readonly end: JobEnd }
  | { readonly kind: 'redis-error'; readonly code: string }
  | { readonly kind: 'tick'; readonly connector: ConnectorName };

export type JobEnd =
  'done' | 'retry' | 'given-back' | 'delayed' | 'busy' | 'paused' | 'failed' | 'poison' | 'unknown';
