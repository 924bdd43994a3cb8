import { Counter, Gauge, type Registry } from 'prom-client';
import type { Clock, Instant } from '../core/clock.ts';
import type { ConnectorName, EntityName } from '../core/names.ts';
import type { NameLabels } from './metrics-labels.ts';

/** How things stand at one moment. */
export interface MetricSample {
  readonly freshness: readonly {
    readonly connector: ConnectorName;
    readonly entity: EntityName;
    /** Everything that was there then has been read; null: never read wholly. */
    readonly asOf: Instant | null;
    readonly freshWithinMs: number | null;
  }[];
  /** Of each connector's newest run that came to an end. */
  readonly missing: readonly {
    readonly connector: ConnectorName;
    readonly entity: EntityName;
    readonly withheld: number;
    readonly pending: number;
  }[];
  readonly paused: readonly ConnectorName[];
  readonly connectors: readonly ConnectorName[];
  readonly depth: readonly {
    readonly sink: string;
    readonly waiting: number;
    readonly delayed: number;
    readonly active: number;
    readonly failed: number;
  }[];
  readonly isRedisUp: boolean;
}

export interface SampleOptions {
  readonly sample: () => Promise<MetricSample>;
  readonly onConnectors: (connectors: readonly ConnectorName[]) => void;
  readonly clock: Clock;
}

/** Longer than the two seconds after which the queue gives a silent Redis up: that answer is worth waiting for. */
const sampleWithinMs = 4000;
const queueStates = ['waiting', 'delayed', 'active', 'failed'] as const;

/** Gauges that are right at the moment of a scrape and gone where nobody knows. */
export function sampleGauges(
  registry: Registry,
  names: NameLabels,
  options: SampleOptions,
): {
  /** Never rejects; takes four seconds at most. */
  refresh(): Promise<void>;
} {
  const gauges = openSampleGauges(registry);
  const errors = new Counter({
    name: 'connector_sync_scrape_errors_total',
    help: 'Scrapes for which the state of queues and connectors could not be told; the gauges for it were left out.',
    registers: [registry],
  });
  let pending: Promise<MetricSample> | null = null;

  // Scrapes at the same time share one sample.
  const take = (): Promise<MetricSample> => {
    pending ??= withinDeadline(options.sample, options.clock).finally(() => (pending = null));
    return pending;
  };

  return {
    async refresh() {
      try {
        const sample = await take();
        clear(gauges);
        options.onConnectors(sample.connectors);
        showSample(gauges, names, sample, options.clock.now());
      } catch {
        // Why it failed is told by whoever failed; here it is counted, and nothing old is shown.
        clear(gauges);
        errors.inc();
      }
    },
  };
}

async function withinDeadline(sample: () => Promise<MetricSample>, clock: Clock): Promise<MetricSample> {
  const answered = new AbortController();
  const late = clock.sleep(sampleWithinMs, answered.signal).then(() => {
    throw new Error(`no sample within ${sampleWithinMs} ms`);
  });
  try {
    return await Promise.race([sample(), late]);
  } finally {
    answered.abort();
    // Aborted, it rejects with nobody left to wait for it.
    late.catch(() => undefined);
  }
}

function clear(gauges: SampleGauges): void {
  for (const gauge of Object.values(gauges)) gauge.reset();
  // A reset gauge without labels is 0, which would be a statement.
  gauges.redisUp.remove();
}

type SampleGauges = ReturnType<typeof openSampleGauges>;

function showSample(gauges: SampleGauges, names: NameLabels, sample: MetricSample, nowMs: number): void {
  for (const { freshWithinMs, asOf, ...of } of sample.freshness) {
    const labels = { connector: names.connector(of.connector), entity: names.entity(of.entity) };
    const ageMs = asOf === null ? null : Math.max(0, nowMs - Date.parse(asOf));
    if (ageMs !== null) gauges.freshness.set(labels, ageMs / 1000);
    if (freshWithinMs === null) continue;
    gauges.freshWithin.set(labels, freshWithinMs / 1000);
    gauges.isFresh.set(labels, ageMs !== null && ageMs <= freshWithinMs ? 1 : 0);
  }
  for (const { withheld, pending, ...of } of sample.missing) {
    const labels = { connector: names.connector(of.connector), entity: names.entity(of.entity) };
    gauges.withheld.set(labels, withheld);
    gauges.pending.set(labels, pending);
  }
  for (const name of sample.connectors) {
    gauges.paused.set({ connector: names.connector(name) }, sample.paused.includes(name) ? 1 : 0);
  }
  for (const { sink, ...depth } of sample.depth) {
    for (const state of queueStates) gauges.queue.set({ sink, state }, depth[state]);
  }
  gauges.redisUp.set(sample.isRedisUp ? 1 : 0);
}

function openSampleGauges(registry: Registry) {
  const gauge = <Label extends string>(name: string, labelNames: readonly Label[], help: string) =>
    new Gauge({ name: `connector_sync_${name}`, help, labelNames, registers: [registry] });
  return {
    freshness: gauge(
      'freshness_seconds',
      ['connector', 'entity'],
      'Age of what is stored: how long ago the last run began that read the entity wholly. Absent when none ever did.',
    ),
    freshWithin: gauge(
      'fresh_within_seconds',
      ['connector', 'entity'],
      'How old what is stored may be, as the config says in freshWithin.',
    ),
    isFresh: gauge(
      'is_fresh',
      ['connector', 'entity'],
      '1 while what is stored is younger than freshWithin, else 0; also 0 when the entity was never read wholly.',
    ),
    withheld: gauge(
      'withheld_deletes',
      ['connector', 'entity'],
      'Rows that seemed to be gone in the last run and that a guard keeps: somebody must look, and allow the deletes or not.',
    ),
    pending: gauge(
      'pending_deletes',
      ['connector', 'entity'],
      'Rows that seemed to be gone in the last run and that a later one must ask for or miss again before they are marked as deleted.',
    ),
    paused: gauge('connector_paused', ['connector'], '1 while somebody has paused the connector, else 0.'),
    queue: gauge(
      'queue_jobs',
      ['sink', 'state'],
      'Jobs in the queue of a sink. "waiting" ones are due and have no worker; "failed" ones are kept to be looked at.',
    ),
    redisUp: gauge(
      'redis_up',
      [],
      '1 while Redis answers this process, else 0. Without it no schedule fires.',
    ),
  };
}
