import { collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import { systemClock, type Clock } from '../core/clock.ts';
import type { RunEvent } from '../core/events.ts';
import type { ConnectorName } from '../core/names.ts';
import { openConnectorSeries } from './metrics-of-connectors.ts';
import { countRunEvents } from './metrics-run-events.ts';
import { sampleGauges, type MetricSample } from './metrics-sample.ts';
import { countWorkerEvents, type ObservedWorkerEvent } from './metrics-worker-events.ts';

/** What has happened since the process began, and how things stand, for Prometheus. */
export interface Metrics {
  /** Every event of a run, in order. */
  onRunEvent(connector: ConnectorName, event: RunEvent): void;
  onWorkerEvent(event: ObservedWorkerEvent): void;
  /** Once for each run that was asked for; `failed` where none could begin. */
  runEnded(connector: ConnectorName, outcome: string): void;
  /** One scrape. Never rejects because of the sample: without one, its gauges are left out and the error is counted. */
  text(): Promise<{ readonly contentType: string; readonly text: string }>;
}

export interface MetricsOptions {
  /** The program's own. */
  readonly version: string;
  /** How things stand now; asked for at each scrape, and given up after eight seconds. */
  readonly sample: () => Promise<MetricSample>;
  /** Which connectors have series of their own: `all`, or `attention`, those that need it. All are counted either way. */
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
    async text() {
      await gauges.refresh();
      const all = await registry.metrics();
      const ofConnectors = [...Object.values(each), ...gauges.series].map((series) => series.text());
      return { contentType: registry.contentType, text: [all, ...ofConnectors].join('') };
    },
  };
}
