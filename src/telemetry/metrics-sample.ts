import { Counter, Gauge, type Registry } from 'prom-client';
import type { Clock } from '../core/clock.ts';
import {
  openSampleSeries,
  showConnector,
  type SampledConnector,
  type SampledState,
} from './metrics-of-states.ts';
import type { RunCounts } from './metrics-run-events.ts';
import type { Series } from './series.ts';

/** How things stand at one moment. */
export interface MetricSample {
  readonly connectors: readonly SampledConnector[];
  readonly depth: readonly {
    readonly sink: string;
    readonly waiting: number;
    readonly delayed: number;
    readonly active: number;
    readonly failed: number;
    readonly endsInMs: number;
  }[];
  readonly isRedisUp: boolean;
}

interface SampleOptions {
  readonly sample: () => Promise<MetricSample>;
  readonly connectorSeries: 'all' | 'attention';
  readonly clock: Clock;
}

/**
 * Longer than the two seconds after which the queue gives a silent Redis up, and than a busy worker takes for ten
 * thousand connectors: those answers are worth waiting for. Prometheus waits ten.
 */
const sampleWithinMs = 8000;
const queueStates = ['waiting', 'delayed', 'active', 'failed'] as const;
const troubles = ['failing', 'stale', 'withheld', 'paused', 'never-synced'] as const;
/** A connector that has not run yet needs no attention, unless it is stale. */
const needAttention: readonly SampledState[] = ['failing', 'stale', 'withheld', 'paused'];

/** Gauges that are correct at the moment of a scrape, and absent if the state is unknown. */
export function sampleGauges(
  registry: Registry,
  runs: Pick<RunCounts, 'isRunning' | 'failedAtMs'>,
  options: SampleOptions,
): {
  /** Never rejects; takes eight seconds at most. */
  refresh(): Promise<void>;
  /** Those of single connectors. */
  readonly series: readonly Series[];
} {
  const gauges = openSampleGauges(registry);
  const series = openSampleSeries();
  const errors = new Counter({
    name: 'connector_sync_scrape_errors_total',
    help: 'Scrapes that could not read the state of queues and connectors; their gauges were left out.',
    registers: [registry],
  });
  let pending: Promise<MetricSample> | null = null;

  // Scrapes at the same time share one sample.
  const take = (): Promise<MetricSample> => {
    pending ??= withinDeadline(options.sample, options.clock).finally(() => (pending = null));
    return pending;
  };
  const clear = (): void => {
    for (const gauge of Object.values(gauges)) gauge.reset();
    // A reset gauge without labels is 0, which would be a statement.
    for (const gauge of [gauges.redisUp, gauges.withheld, gauges.pending, gauges.unproven]) gauge.remove();
    for (const one of Object.values(series)) one.clear();
  };
  const show = ({ connectors, depth, isRedisUp }: MetricSample): void => {
    const nowMs = options.clock.now();
    const counts = new Map<string, number>(['all', 'ok', 'running', ...troubles].map((state) => [state, 0]));
    const rows = { withheld: 0, pending: 0 };
    let unproven = 0;
    const count = (state: string): void => void counts.set(state, (counts.get(state) ?? 0) + 1);
    for (const connector of connectors) {
      const states = withFailure(connector, runs.failedAtMs(connector.name));
      count('all');
      if (states.size === 0) count('ok');
      for (const state of states) count(state);
      if (runs.isRunning(connector.name)) count('running');
      for (const { withheld, pending: waiting } of connector.missing) {
        rows.withheld += withheld;
        rows.pending += waiting;
      }
      for (const { listings } of connector.unproven) unproven += listings;
      const isInNeed = needAttention.some((state) => states.has(state));
      if (isInNeed || options.connectorSeries === 'all') showConnector(series, connector, states, nowMs);
    }
    for (const [state, number] of counts) gauges.connectors.set({ state }, number);
    gauges.withheld.set(rows.withheld);
    gauges.pending.set(rows.pending);
    gauges.unproven.set(unproven);
    for (const { sink, endsInMs, ...jobs } of depth) {
      for (const state of queueStates) gauges.queue.set({ sink, state }, jobs[state]);
      gauges.backlog.set({ sink }, endsInMs / 1000);
    }
    gauges.redisUp.set(isRedisUp ? 1 : 0);
  };

  return {
    async refresh() {
      try {
        const sample = await take();
        clear();
        show(sample);
      } catch {
        // The cause is logged where it failed; here it is counted, and no old values are shown.
        clear();
        errors.inc();
      }
    },
    series: Object.values(series),
  };
}

/** A run that could not begin is in no ledger: this process alone knows that it failed. */
function withFailure(
  { states, endedAt }: SampledConnector,
  failedAtMs: number | null,
): ReadonlySet<SampledState> {
  const isNews = failedAtMs !== null && (endedAt === null || Date.parse(endedAt) <= failedAtMs);
  return isNews ? new Set([...states, 'failing']) : states;
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
    // Avoid an unhandled rejection when it is aborted.
    late.catch(() => undefined);
  }
}

function openSampleGauges(registry: Registry) {
  const gauge = <Label extends string>(name: string, labelNames: readonly Label[], help: string) =>
    new Gauge({ name: `connector_sync_${name}`, help, labelNames, registers: [registry] });
  return {
    connectors: gauge(
      'connectors',
      ['state'],
      'Connectors of this process by state, each counted in every state that it is in; "ok": in none that needs attention.',
    ),
    withheld: gauge(
      'worker_withheld_deletes',
      [],
      'Rows of all connectors that were missing in their last run and are withheld by a guard.',
    ),
    pending: gauge(
      'worker_pending_deletes',
      [],
      'Rows of all connectors that were missing in their last run and are not confirmed as deleted yet.',
    ),
    unproven: gauge(
      'worker_unproven_listings',
      [],
      'Listings of all connectors that may have records which they did not show in their last run.',
    ),
    queue: gauge(
      'queue_jobs',
      ['sink', 'state'],
      'Jobs in the queue of a sink. "waiting" ones are due and have no worker; "failed" ones are kept for inspection.',
    ),
    backlog: gauge(
      'queue_backlog_seconds',
      ['sink'],
      'Time until the queue is empty, from the jobs of the last ten minutes and the rate of the schedules; +Inf: never at this rate.',
    ),
    redisUp: gauge(
      'redis_up',
      [],
      '1 while Redis answers this process, else 0. Without it no schedule fires.',
    ),
  };
}
