import type { ConnectorName } from './names.ts';

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
  /** The same of a job that publishes. */
  | { readonly kind: 'publication-ended'; readonly target: string; readonly end: PublicationEnd }
  | { readonly kind: 'redis-error'; readonly code: string }
  | { readonly kind: 'tick'; readonly connector: ConnectorName };

export const jobEnds = [
  'done',
  'retry',
  'given-back',
  'delayed',
  'busy',
  'paused',
  'failed',
  'poison',
  'unknown',
] as const;

export type JobEnd = (typeof jobEnds)[number];

export type PublicationEnd = Exclude<JobEnd, 'delayed' | 'paused' | 'poison'>;

/** Jobs in the queue of a sink. */
export interface SinkDepth {
  readonly sink: string;
  readonly waiting: number;
  readonly delayed: number;
  readonly active: number;
  readonly failed: number;
  /** Milliseconds until the queue is empty at the current rates; Infinity: never. */
  readonly endsInMs: number;
}
