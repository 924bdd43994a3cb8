import { collectDefaultMetrics, Registry } from 'prom-client';
import { systemClock, type Clock } from '../core/clock.ts';
import { jobEnds, type WorkerEvent } from '../core/events.ts';
import { countRunEvents, openConnectorSeries, type ConnectorSeries } from './metrics-run-events.ts';
import { sampleGauges, type SampleOptions } from './metrics-sample.ts';
import { labelText, metricsIn, oneOf } from './series.ts';

/** What has happened since the process began, and how things stand, for Prometheus. */
export type Metrics = ReturnType<typeof openMetrics>;

export interface MetricsOptions
  extends Pick<SampleOptions, 'sample'>, Partial<Omit<SampleOptions, 'sample'>> {
  /** The program's own. */
  readonly version: string;
}

/** Metrics in a separate registry; two of them share nothing but the process. */
export function openMetrics({
  version,
  sample,
  connectorSeries = 'all',
  clock = systemClock,
}: MetricsOptions) {
  const registry = new Registry();
  const each = openConnectorSeries();
  const counted = connectorSeries === 'all' ? each : null;
  const runs = countRunEvents(registry, counted, clock);
  const onWorkerEvent = countWorkerEvents(registry, counted);
  const onPublication = countPublications(registry, clock);
  const reloads = metricsIn(registry).counter(
    'config_reloads_total',
    'How often the config was read again, by what came of it: applied, refused.',
    ['outcome'],
  );
  const gauges = sampleGauges(registry, runs, { sample, connectorSeries, clock });
  metricsIn(registry)
    .gauge(
      'build_info',
      'Always 1; the labels say which version of the program runs on which version of Node.js.',
      ['version', 'node'],
    )
    .set({ version, node: process.versions.node }, 1);
  collectDefaultMetrics({ register: registry });

  return {
    /** Every event of a run, in order. */
    onRunEvent: runs.onRunEvent,
    onWorkerEvent,
    /** Once for each run that was asked for; `failed` where none could begin. */
    runEnded: runs.runEnded,
    /** Once for each publication that was asked for, however it ended. */
    onPublication,
    onReload: (outcome: 'applied' | 'refused') => reloads.inc({ outcome }),
    /** One scrape. Never rejects because of the sample: without one, its gauges are absent and the error is counted. */
    async text(): Promise<{ readonly contentType: string; readonly text: string }> {
      await gauges.refresh();
      const all = await registry.metrics();
      const ofConnectors = [...Object.values(each), ...gauges.series].map((series) => series.text());
      return { contentType: registry.contentType, text: [all, ...ofConnectors].join('') };
    },
  };
}

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

function countWorkerEvents(registry: Registry, each: ConnectorSeries | null): (event: WorkerEvent) => void {
  const { counter, histogram } = metricsIn(registry);
  const jobs = counter(
    'worker_jobs_total',
    'Jobs of all connectors taken from the queue, by how that ended.',
    ['end'],
  );
  for (const end of jobEnds) jobs.inc({ end }, 0);
  const lag = histogram(
    'job_lag_seconds',
    lagBucketsS,
    'How long after its due time a job started. It grows when runs take longer than their schedules allow, or too few run at a time.',
  );
  const redisErrors = counter(
    'redis_errors_total',
    'Errors that the connections to Redis reported, by code.',
    ['code'],
  );
  return (event) => {
    switch (event.kind) {
      case 'job-started':
        // Two machines' clocks may disagree about which came first.
        return lag.observe(Math.max(0, event.lagMs) / 1000);
      case 'job-ended': {
        const end = jobEnd(event.end);
        jobs.inc({ end });
        return each?.jobs_total.add(labelText({ connector: event.connector, end }), 1);
      }
      case 'publication-ended':
        return;
      case 'redis-error':
        return redisErrors.inc({ code: redisCode(event.code) });
      case 'tick':
    }
  };
}

/**
 * How a publication that a worker was asked for ended. `createdAtMs`: of the newest publication that the target holds.
 */
type EndedPublication =
  | (NewestPublication & { readonly kind: 'published'; readonly rows: number; readonly ms: number })
  | (NewestPublication & { readonly kind: 'unchanged' })
  /** The sink holds nothing to publish yet. */
  | { readonly kind: 'nothing-stored' }
  | { readonly kind: 'failed' };

interface NewestPublication {
  readonly publication: number;
  readonly createdAtMs: number;
}

/** A config has few targets, so each has separate series. They begin with the first publication of this process. */
function countPublications(
  registry: Registry,
  clock: Clock,
): (target: string, ended: EndedPublication) => void {
  const { counter, gauge } = metricsIn(registry);
  const ofTarget = (name: string, help: string) => gauge(`publication_${name}`, help, ['target']);
  const results = counter(
    'publications_total',
    'Publications that were asked for, by how they ended: published, unchanged (nothing was new), nothing-stored, failed.',
    ['target', 'result'],
  );
  const rows = counter('published_rows_total', 'Changed rows that were published, deletes included.', [
    'target',
  ]);
  const number = ofTarget('newest_number', 'Number of the newest publication of the target.');
  const createdAt = ofTarget('newest_timestamp_seconds', 'When the newest publication was made.');
  const upToDateAt = ofTarget(
    'up_to_date_timestamp_seconds',
    'When the target last had everything that is stored: something was published, or nothing was new.',
  );
  const duration = ofTarget('duration_seconds', 'How long the last publication took.');
  return (target, ended) => {
    // A rate cannot see a counter that begins at one.
    for (const result of ['published', 'unchanged', 'failed']) results.inc({ target, result }, 0);
    results.inc({ target, result: ended.kind });
    if (ended.kind === 'failed' || ended.kind === 'nothing-stored') return;
    number.set({ target }, ended.publication);
    createdAt.set({ target }, ended.createdAtMs / 1000);
    upToDateAt.set({ target }, clock.now() / 1000);
    if (ended.kind === 'unchanged') return;
    rows.inc({ target }, ended.rows);
    duration.set({ target }, Math.max(0, ended.ms) / 1000);
  };
}
