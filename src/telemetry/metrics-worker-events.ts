import { Counter, Histogram, type Registry } from 'prom-client';
import type { ConnectorName } from '../core/names.ts';
import { oneOf } from './metrics-labels.ts';
import type { ConnectorSeries } from './metrics-of-connectors.ts';
import { labelText } from './series.ts';

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

const jobEnds = ['done', 'retry', 'given-back', 'delayed', 'busy', 'paused', 'failed', 'poison', 'unknown'];
const jobEnd = oneOf(jobEnds);

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
  each: ConnectorSeries | null,
): { onWorkerEvent(event: ObservedWorkerEvent): void } {
  const registers = [registry];
  const jobs = new Counter({
    name: 'connector_sync_worker_jobs_total',
    help: 'Jobs of all connectors taken from the queue, by how that ended.',
    labelNames: ['end'],
    registers,
  });
  for (const end of jobEnds) jobs.inc({ end }, 0);
  const lag = new Histogram({
    name: 'connector_sync_job_lag_seconds',
    help: 'How long after its due time a job started. It grows when runs take longer than their schedules allow, or too few run at a time.',
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
          return lag.observe(Math.max(0, event.lagMs) / 1000);
        case 'job-ended': {
          const end = jobEnd(event.end);
          jobs.inc({ end });
          return each?.jobs.add(labelText({ connector: event.connector, end }), 1);
        }
        case 'redis-error':
          return redisErrors.inc({ code: redisCode(event.code) });
        case 'tick':
      }
    },
  };
}
