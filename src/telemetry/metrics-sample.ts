import type { Registry } from 'prom-client';
import { answeredWithin, type Clock, type Instant } from '../core/clock.ts';
import { healthWords, type Health } from '../core/health.ts';
import type { ConnectorName, EntityName } from '../core/names.ts';
import type { SinkDepth } from '../core/events.ts';
import type { RunCounts } from './metrics-run-events.ts';
import { labelText, metricsIn, openSeries } from './series.ts';

export interface SampledConnector {
  readonly name: ConnectorName;
  /** All that are true of it; empty while it is `ok`. */
  readonly words: ReadonlySet<Health>;
  /** When the newest run of any process ended that has a report; null: none has. */
  readonly endedAt: Instant | null;
  readonly freshness: readonly {
    readonly entity: EntityName;
    /** Everything that was there then has been read; null: never read wholly. */
    readonly asOf: Instant | null;
    readonly freshWithinMs: number | null;
  }[];
  /** Of the newest run that came to an end; entities without such rows are left out. */
  readonly missing: readonly {
    readonly entity: EntityName;
    readonly withheld: number;
    readonly pending: number;
  }[];
  /** As that run found them; entities without such listings are left out. */
  readonly partMissing: readonly { readonly entity: EntityName; readonly listings: number }[];
  readonly unconfirmed: readonly { readonly entity: EntityName; readonly listings: number }[];
}

/** How things stand at one moment. */
export interface MetricSample {
  readonly connectors: readonly SampledConnector[];
  readonly depth: readonly SinkDepth[];
  readonly isRedisUp: boolean;
}

export interface SampleOptions {
  /** How things stand now; asked for at each scrape, and given up after eight seconds. */
  readonly sample: () => Promise<MetricSample>;
  /** Which connectors have separate series: `all`, or `attention`, those that need it. All are counted either way. */
  readonly connectorSeries: 'all' | 'attention';
  readonly clock: Clock;
}

/**
 * Longer than the two seconds after which the queue gives a silent Redis up, and than a busy worker takes for ten
 * thousand connectors: those answers are worth waiting for. Prometheus waits ten.
 */
const sampleWithinMs = 8000;
const queueStates = ['waiting', 'delayed', 'active', 'failed'] as const;
const needAttention: readonly Health[] = ['failed', 'late', 'incomplete', 'paused'];

/** Gauges that are correct at the moment of a scrape, and absent if the state is unknown. */
export function sampleGauges(
  registry: Registry,
  runs: Pick<RunCounts, 'failedAtMs'>,
  options: SampleOptions,
) {
  const gauges = openSampleGauges(registry);
  const series = openSampleSeries();
  const errors = metricsIn(registry).counter(
    'scrape_errors_total',
    'Scrapes that could not read the state of queues and connectors; their gauges were left out.',
  );
  let pending: Promise<MetricSample | null> | null = null;

  /** Null where it takes too long. Scrapes at the same time share one sample. */
  const take = (): Promise<MetricSample | null> => {
    pending ??= answeredWithin(options.sample(), null, sampleWithinMs, options.clock).finally(
      () => (pending = null),
    );
    return pending;
  };
  const clear = (): void => {
    for (const gauge of Object.values(gauges)) gauge.reset();
    // A reset gauge without labels is 0, which would be a statement.
    const { redisUp, withheld, pending: waiting, partMissing, unconfirmed } = gauges;
    for (const gauge of [redisUp, withheld, waiting, partMissing, unconfirmed]) gauge.remove();
    for (const one of Object.values(series)) one.clear();
  };
  const show = ({ connectors, depth, isRedisUp }: MetricSample): void => {
    const nowMs = options.clock.now();
    const counts = new Map<string, number>(['all', ...healthWords].map((state) => [state, 0]));
    const rows = { withheld: 0, pending: 0 };
    const listings = { partMissing: 0, unconfirmed: 0 };
    const count = (state: string): void => void counts.set(state, (counts.get(state) ?? 0) + 1);
    for (const connector of connectors) {
      const words = withFailure(connector, runs.failedAtMs(connector.name));
      count('all');
      if (words.size === 0) count('ok');
      for (const word of words) count(word);
      for (const { withheld, pending: waiting } of connector.missing) {
        rows.withheld += withheld;
        rows.pending += waiting;
      }
      for (const one of connector.partMissing) listings.partMissing += one.listings;
      for (const one of connector.unconfirmed) listings.unconfirmed += one.listings;
      const isInNeed = needAttention.some((word) => words.has(word));
      if (isInNeed || options.connectorSeries === 'all') showConnector(series, connector, words, nowMs);
    }
    for (const [state, number] of counts) gauges.connectors.set({ state }, number);
    gauges.withheld.set(rows.withheld);
    gauges.pending.set(rows.pending);
    gauges.partMissing.set(listings.partMissing);
    gauges.unconfirmed.set(listings.unconfirmed);
    for (const { sink, endsInMs, ...jobs } of depth) {
      for (const state of queueStates) gauges.queue.set({ sink, state }, jobs[state]);
      gauges.backlog.set({ sink }, endsInMs / 1000);
    }
    gauges.redisUp.set(isRedisUp ? 1 : 0);
  };

  return {
    /** Never rejects; takes eight seconds at most. */
    async refresh(): Promise<void> {
      // The cause is logged where it failed; here it is counted, and no old values are shown.
      const sample = await Promise.resolve()
        .then(take)
        .catch(() => null);
      clear();
      if (sample === null) errors.inc();
      else show(sample);
    },
    /** Those of single connectors. */
    series: Object.values(series),
  };
}

/** While the ledger is away, this process alone knows that a run failed. */
function withFailure({ words, endedAt }: SampledConnector, failedAtMs: number | null): ReadonlySet<Health> {
  const isNews = failedAtMs !== null && (endedAt === null || Date.parse(endedAt) <= failedAtMs);
  return isNews ? new Set([...words, 'failed']) : words;
}

/** `words`: those of the sample, and what this process alone knows. */
function showConnector(
  series: ReturnType<typeof openSampleSeries>,
  { name: connector, freshness, missing, partMissing, unconfirmed }: SampledConnector,
  words: ReadonlySet<Health>,
  nowMs: number,
): void {
  for (const state of words) series.connector_state.set(labelText({ connector, state }), 1);
  series.connector_paused.set(labelText({ connector }), words.has('paused') ? 1 : 0);
  for (const { entity, asOf, freshWithinMs } of freshness) {
    const labels = labelText({ connector, entity });
    const ageMs = asOf === null ? null : Math.max(0, nowMs - Date.parse(asOf));
    if (ageMs !== null) series.freshness_seconds.set(labels, ageMs / 1000);
    if (freshWithinMs === null) continue;
    series.fresh_within_seconds.set(labels, freshWithinMs / 1000);
    series.is_fresh.set(labels, ageMs !== null && ageMs <= freshWithinMs ? 1 : 0);
  }
  for (const { entity, withheld, pending } of missing) {
    const labels = labelText({ connector, entity });
    if (withheld > 0) series.withheld_deletes.set(labels, withheld);
    if (pending > 0) series.pending_deletes.set(labels, pending);
  }
  for (const { entity, listings } of partMissing) {
    series.part_missing_listings.set(labelText({ connector, entity }), listings);
  }
  for (const { entity, listings } of unconfirmed) {
    series.unconfirmed_listings.set(labelText({ connector, entity }), listings);
  }
}

/** How single connectors stand at a scrape. */
export function openSampleSeries() {
  return openSeries({
    connector_state: '1 for each state of "connectors" that the connector is in; absent while it is ok.',
    connector_paused: '1 while the connector is paused, else 0.',
    freshness_seconds:
      'Age of what is stored: how long ago the last run started that read the entity completely. Absent if none did.',
    fresh_within_seconds: 'How old what is stored may be, as the config says in freshWithin.',
    is_fresh:
      '1 while what is stored is younger than freshWithin, else 0; also 0 if the entity was never read completely.',
    withheld_deletes:
      'Rows that were missing in the last run and are withheld by a guard until a person allows the deletes. Absent where there are none.',
    pending_deletes:
      'Rows that were missing in the last run and are not confirmed as deleted yet. Absent where there are none.',
    part_missing_listings:
      'Listings that may have records which they did not show when they were read last: the API counts more, for example. Absent where there are none.',
    unconfirmed_listings:
      'Listings that were read to their end, and that the service offers no proof for: no action is needed. Absent where there are none.',
  });
}

function openSampleGauges(registry: Registry) {
  const { gauge } = metricsIn(registry);
  return {
    connectors: gauge(
      'connectors',
      'Connectors of this process by state, each counted in every state that it is in; "ok": in none that needs attention.',
      ['state'],
    ),
    withheld: gauge(
      'worker_withheld_deletes',
      'Rows of all connectors that were missing in their last run and are withheld by a guard.',
    ),
    pending: gauge(
      'worker_pending_deletes',
      'Rows of all connectors that were missing in their last run and are not confirmed as deleted yet.',
    ),
    partMissing: gauge(
      'worker_part_missing_listings',
      'Listings of all connectors that may have records which they did not show in their last run.',
    ),
    unconfirmed: gauge(
      'worker_unconfirmed_listings',
      'Listings of all connectors that were read to their end, and that the service offers no proof for.',
    ),
    queue: gauge(
      'queue_jobs',
      'Jobs in the queue of a sink. "waiting" ones are due and have no worker; "failed" ones are kept for inspection.',
      ['sink', 'state'],
    ),
    backlog: gauge(
      'queue_backlog_seconds',
      'Time until the queue is empty, from the jobs of the last ten minutes and the rate of the schedules; +Inf: never at this rate.',
      ['sink'],
    ),
    redisUp: gauge('redis_up', '1 while Redis answers this process, else 0. Without it no schedule fires.'),
  };
}
