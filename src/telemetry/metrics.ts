import { collectDefaultMetrics, Gauge, Registry, Counter, Histogram } from 'prom-client';
import { systemClock, type Clock } from '../core/clock.ts';
import type { RunEvent } from '../core/events.ts';
import type { ConnectorName } from '../core/names.ts';
import { oneOf, labelText } from './series.ts';
import { openConnectorSeries, type ConnectorSeries } from './metrics-of-connectors.ts';
import { countRunEvents } from './metrics-run-events.ts';
import { countPublications, type EndedPublication } from './metrics-of-publications.ts';
import { sampleGauges, type MetricSample } from './metrics-sample.ts';

/** What has happened since the process began, and how things stand, for Prometheus. */
export interface Metrics {
  /** Every event of a run, in order. */
  onRunEvent(connector: ConnectorName, event: RunEvent): void;
  onWorkerEvent(event: ObservedWorkerEvent): void;
  /** Once for each run that was asked for; `failed` where none could begin. */
  runEnded(connector: ConnectorName, outcome: string): void;
  /** Once for each publication that was asked for, however it ended. */
  onPublication(target: string, ended: EndedPublication): void;
  /** One scrape. Never rejects because of the sample: without one, its gauges are left out and the error is counted. */
  text(): Promise<{ readonly contentType: string; readonly text: string }>;
}

export interface MetricsOptions {
  /** The program's own. */
  readonly version: string;
  /** How things stand now; asked for at each scrape, and given up after eight seconds. */
  readonly sample: () => Promise<MetricSample>;
  /**
   * Which connectors have series of their own: `all`, or `attention`, those that need it. All are counted either way.
   */
  readonly connectorSeries?: 'all' | 'attention';
  readonly clock?: Clock;
}

/** Metrics in a registry of their own; nothing is shared between two of them but the process. */
export function openMetrics(options: MetricsOptions): Metrics {
  const { clock = systemClock, connectorSeries = 'all' } = options;
  const registry = new Registry();
  const each = openConnectorSeries();
  const counted = connectorSeries === 'all' ? each : null;
  const runs = countRunEvents(registry, counted, clock);
  const worker = countWorkerEvents(registry, counted);
  const publications = countPublications(registry, clock);
  const gauges = sampleGauges(registry, runs, { sample: options.sample, connectorSeries, clock });
  new Gauge({
    name: 'connector_sync_build_info',
    help: 'Always 1; the labels say which version of the program runs on which version of Node.js.',
    labelNames: ['version', 'node'],
    registers: [registry],
  }).set({ version: options.version, node: process.versions.node }, 1);
  collectDefaultMetrics({ register: registry });

  return {
    onRunEvent: (connector, event) => runs.onRunEvent(connector, event),
    onWorkerEvent: (event) => worker.onWorkerEvent(event),
    runEnded: (connector, outcome) => runs.runEnded(connector, outcome),
    onPublication: (target, ended) => publications.onPublication(target, ended),
    async text() {
      await gauges.refresh();
      const all = await registry.metrics();
      const ofConnectors = [...Object.values(each), ...gauges.series].map((series) => series.text());
      return { contentType: registry.contentType, text: [all, ...ofConnectors].join('') };
    },
  };
}

/** What the worker says about its jobs, as far as it is counted here. */
type ObservedWorkerEvent =
  | {
      readonly kind: 'job-started';
      readonly connector: ConnectorName;
      readonly reason: string;
      /** Start minus due time. */
      readonly lagMs: number;
    }
  | { readonly kind: 'job-ended'; readonly connector: ConnectorName; readonly end: string }
  | { readonly kind: 'publication-ended'; readonly target: string; readonly end: string }
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

function countWorkerEvents(
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
        case 'publication-ended':
          return;
        case 'redis-error':
          return redisErrors.inc({ code: redisCode(event.code) });
        case 'tick':
      }
    },
  };
}
