import { Counter, Histogram, type Registry } from 'prom-client';
import type { ConnectorName } from '../core/names.ts';
import { oneOf, type NameLabels } from './metrics-labels.ts';

/** What the worker says about its jobs, as far as it is counted here. */
export type ObservedWorkerEvent =
  | {
      readonly kind: 'job-started';
      readonly connector: ConnectorName;
      readonly reason: string;
      /** Start minus due time. */
      readonly lagMs: number;
    }
  | { readonly kind: 'job-ended'; readonly connector: ConnectorName; readonly end: string }
  | { readonly kind: 'redis-error'; readonly code: string }
  | { readonly kind: 'tick'; readonly connector: ConnectorName };

const jobEnd = oneOf([
  'done',
  'retry',
  'given-back',
  'delayed',
  'busy',
  'paused',
  'failed',
  'poison',
  'unknown',
]);

/** Redis answers with a word, the system with a code. */
const redisCode = oneOf([
  'OOM',
  'READONLY',
  'NOAUTH',
  'WRONGPASS',
  'NOPERM',
  'LOADING',
  'MISCONF',
  'BUSY',
  'NOSCRIPT',
  'MASTERDOWN',
  'CLUSTERDOWN',
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
]);

const lagBucketsS = [0.1, 0.5, 1, 5, 15, 30, 60, 300, 900, 3600, 14_400];

export function countWorkerEvents(
  registry: Registry,
  labels: NameLabels,
): { onWorkerEvent(event: ObservedWorkerEvent): void } {
  const registers = [registry];
  const jobs = new Counter({
    name: 'connector_sync_jobs_total',
    help: 'Jobs taken from the queue, by how that ended. "retry" is tried again by itself; "failed" and "poison" need a person.',
    labelNames: ['connector', 'end'],
    registers,
  });
  const lag = new Histogram({
    name: 'connector_sync_job_lag_seconds',
    help: 'How long after its due time a job started. It grows when runs take longer than their schedules allow, or too few run at a time.',
    labelNames: ['connector'],
    buckets: lagBucketsS,
    registers,
  });
  const redisErrors = new Counter({
    name: 'connector_sync_redis_errors_total',
    help: 'Errors that the connections to Redis reported, by code.',
    labelNames: ['code'],
    registers,
  });

  return {
    onWorkerEvent(event) {
      switch (event.kind) {
        case 'job-started':
          // Two machines' clocks may disagree about which came first.
          return lag.observe(
            { connector: labels.connector(event.connector) },
            Math.max(0, event.lagMs) / 1000,
          );
        case 'job-ended':
          return jobs.inc({ connector: labels.connector(event.connector), end: jobEnd(event.end) });
        case 'redis-error':
          return redisErrors.inc({ code: redisCode(event.code) });
        case 'tick':
      }
    },
  };
}
