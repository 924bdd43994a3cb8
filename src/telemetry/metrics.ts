import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import { answeredWithin, systemClock, type Clock, type Instant } from '../core/clock.ts';
import type { ErrorCode } from '../core/errors.ts';
import { handledBy, jobEnds, type RunEvent, type SinkDepth, type WorkerEvent } from '../core/events.ts';
import { healthWords, type Health } from '../core/health.ts';
import type { ConnectorName, EntityName } from '../core/names.ts';

const prefix = 'connector_sync_';

/**
 * The series of single connectors, and what each means. Counters start with the first event that they count; for all
 * connectors together use the metrics of the worker, which start at 0 and are complete whatever is shown here.
 */
const connectorSeries = {
  runs_total:
    'Runs that ended here, by outcome. "degraded" left something out and names it; "partial" and "interrupted" are resumed by the next run.',
  running_runs: '1 during a run in this process; absent otherwise.',
  last_run_timestamp_seconds:
    'When the last run of this process that had this outcome started, in seconds since 1970.',
  records_total:
    'Records stored or accounted for, by what they changed. "quarantined" ones could not be stored and are kept apart for a person to look at.',
  deleted_rows_total: 'Rows marked as deleted, because the API no longer has them.',
  pages_total: 'Pages whose records are stored.',
  in_flight_bytes:
    'Bytes of pages that were fetched and are not stored yet: what a crash would fetch again. Absent while nothing runs.',
  requests_total:
    'Requests for records, repeated ones included (those for tokens and the catalog belong to no connector and are not here), by what the answer asked for. Anything but "ok" is a failure of that request, not of the run.',
  wait_seconds_total:
    'Seconds that requests waited for the rate limit, for a back-off or because the service asked for it. Requests wait side by side, so this may grow faster than time.',
  retries_total: 'Requests that were sent again, by what was wrong.',
  throttled_total:
    'Times the service asked for fewer requests. If it keeps growing, lower requestsPerSecond.',
  files_total:
    'Files that were asked for, by what came of it. "failed" ones stay wanted and make the run degraded.',
  file_bytes_total: 'Bytes of the files that were stored.',
  walks_set_aside_total:
    'Walks given up for this run because of an error. They stay due and make the run degraded.',
  jobs_total:
    'Jobs taken from the queue, by how that ended. "retry" is tried again by itself; "failed" and "poison" need a person.',
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
} as const;

/** A label of the counter of all connectors together, `worker_` before the name, for those series that have one. */
const labelOfTotal = {
  runs_total: 'outcome',
  records_total: 'change',
  requests_total: 'answer',
  wait_seconds_total: null,
  retries_total: 'code',
  throttled_total: null,
  walks_set_aside_total: 'code',
  jobs_total: 'end',
} as const;

/** Gauges that a scrape adds up over all connectors. */
const summed = [
  'withheld_deletes',
  'pending_deletes',
  'part_missing_listings',
  'unconfirmed_listings',
] as const;

/** Series whose values a scrape replaces. */
const sampledSeries = [
  'connector_state',
  'connector_paused',
  'freshness_seconds',
  'fresh_within_seconds',
  'is_fresh',
  ...summed,
] as const;

const outcomes = ['ok', 'partial', 'degraded', 'failed', 'interrupted'];
const outcomeLabel = oneOf(outcomes);
const answers = [
  'ok',
  'retry',
  'throttle',
  'smaller-page',
  'restart-walk',
  'skip-partition',
  'skip-entity',
  'stop',
  'refresh-auth',
];
const answerLabel = oneOf(answers);
const changes = ['inserted', 'updated', 'unchanged', 'duplicate', 'filtered', 'quarantined'] as const;
const jobEnd = oneOf(jobEnds);
/** The wait before such a retry is spent in the budget, and counted when the next attempt has ended. */
const waitedForInBudget: readonly ErrorCode[] = ['THROTTLED', 'FORBIDDEN'];

const minutesS = [1, 2, 5, 15, 30].map((minutes) => minutes * 60);
const hoursS = [1, 2, 4].map((hours) => hours * 3600);
const runBucketsS = [1, 5, 15, 30, ...minutesS, ...hoursS];
/** A call may take minutes: the service retries inside. */
const requestBucketsS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];
const lagBucketsS = [0.1, 0.5, 1, 5, 15, 30, 60, 300, 900, 3600, 14_400];

export interface SampledConnector {
  readonly name: ConnectorName;
  /** Every condition that applies; empty while the connector is `ok`. */
  readonly words: ReadonlySet<Health>;
  readonly freshness: readonly {
    readonly entity: EntityName;
    /** Everything that was there then has been read; null: never read wholly. */
    readonly asOf: Instant | null;
    readonly freshWithinMs: number | null;
  }[];
  /** Counts of the newest run that ended; entities without such rows are left out. */
  readonly missing: readonly {
    readonly entity: EntityName;
    readonly withheld: number;
    readonly pending: number;
  }[];
  /** Counts as that run found them; entities without such listings are left out. */
  readonly partMissing: readonly { readonly entity: EntityName; readonly listings: number }[];
  readonly unconfirmed: readonly { readonly entity: EntityName; readonly listings: number }[];
}

/** Current state at one moment. */
export interface MetricSample {
  readonly connectors: readonly SampledConnector[];
  readonly depth: readonly SinkDepth[];
  readonly isRedisUp: boolean;
}

export interface MetricsOptions {
  /** The program's own. */
  readonly version: string;
  /** Reads the current state; called at each scrape, and given up after eight seconds. */
  readonly sample: () => Promise<MetricSample>;
  /** Connectors with separate series: `all`, or `attention`, those that need it. All are counted either way. */
  readonly connectorSeries?: 'all' | 'attention';
  readonly clock?: Clock;
}

/** Counters since the process began and current state, for Prometheus. */
export type Metrics = ReturnType<typeof openMetrics>;

/** Metrics in a separate registry; two of them share nothing but the process. */
export function openMetrics({
  version,
  sample,
  connectorSeries = 'all',
  clock = systemClock,
}: MetricsOptions) {
  const registry = new Registry();
  const { counter, gauge } = metricsIn(registry);
  const series = openSeries();
  const counted = connectorSeries === 'all' ? series : null;
  const count = openCounts(registry, counted);
  const runs = countRunEvents(registry, count, counted, clock);
  const onWorkerEvent = countWorkerEvents(registry, count);
  const onPublication = countPublications(registry, clock);
  const reloads = counter(
    'config_reloads_total',
    'How often the config was read again, by what came of it: applied, refused.',
    ['outcome'],
  );
  const refresh = openGauges(registry, series, { sample, connectorSeries, clock });
  gauge(
    'build_info',
    'Always 1; the labels say which version of the program runs on which version of Node.js.',
    ['version', 'node'],
  ).set({ version, node: process.versions.node }, 1);
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
      await refresh();
      const all = await registry.metrics();
      const ofConnectors = Object.values(series).map((one) => one.text());
      return { contentType: registry.contentType, text: [all, ...ofConnectors].join('') };
    },
  };
}

type Labels = Readonly<Record<string, string>> & { readonly connector: string; readonly entity?: string };

/** Counts for all connectors together and, where `each` is given, for each. */
type Count = (name: keyof typeof connectorSeries, labels: Labels, value?: number) => void;

function openCounts(registry: Registry, each: Series | null): Count {
  const { counter } = metricsIn(registry);
  const totals = new Map<string, Counter>();
  // `as`: the entries have these names.
  for (const [name, label] of Object.entries(labelOfTotal) as [keyof typeof labelOfTotal, string | null][]) {
    const help = `Over all connectors: ${connectorSeries[name]}`;
    totals.set(name, counter(`worker_${name}`, help, label === null ? [] : [label]));
  }
  // A rate cannot see a counter that begins at one.
  for (const outcome of outcomes) totals.get('runs_total')?.inc({ outcome }, 0);
  for (const change of changes) totals.get('records_total')?.inc({ change }, 0);
  for (const answer of answers) totals.get('requests_total')?.inc({ answer }, 0);
  for (const end of jobEnds) totals.get('jobs_total')?.inc({ end }, 0);
  return (name, labels, value = 1) => {
    const { connector: _connector, entity: _entity, ...ofAll } = labels;
    totals.get(name)?.inc(ofAll, value);
    each?.[name].add(labelText(labels), value);
  };
}

/** Counts the events of runs. The connector of an event is the one that is passed with it. */
function countRunEvents(registry: Registry, count: Count, each: Series | null, clock: Clock) {
  const { gauge, histogram } = metricsIn(registry);
  const runDuration = histogram('run_duration_seconds', runBucketsS, 'How long runs took, waits included.');
  const requestDuration = histogram(
    'request_duration_seconds',
    requestBucketsS,
    'How long answers took, without waits before the request.',
  );
  const running = trackRunning(gauge('worker_running_runs', 'Runs in progress in this process.'), each);
  const startedMsByConnector = new Map<ConnectorName, number>();

  const onEvent = handledBy<[ConnectorName]>({
    'run-started': (_event, connector) => {
      startedMsByConnector.set(connector, clock.now());
      running.started(connector);
    },
    'run-finished': ({ ms }, connector) => {
      runDuration.observe(seconds(ms));
      running.ended(connector);
    },
    'page-fetched': ({ bytes }, connector) => running.inFlight(connector, bytes),
    'page-dropped': ({ bytes }, connector) => running.inFlight(connector, -bytes),
    'page-committed': ({ entity, counts, bytes }, connector) => {
      running.inFlight(connector, -bytes);
      // An entity made of another one's elements comes without a page, and without bytes.
      if (bytes > 0) count('pages_total', { connector, entity });
      for (const change of changes) count('records_total', { connector, entity, change }, counts[change]);
    },
    'call-ended': ({ answer, ms, waitedMs }, connector) => {
      count('requests_total', { connector, answer: answerLabel(answer) });
      requestDuration.observe(seconds(ms));
      count('wait_seconds_total', { connector }, seconds(waitedMs));
    },
    'call-retried': ({ code, waitMs }, connector) => {
      count('retries_total', { connector, code });
      if (!waitedForInBudget.includes(code)) count('wait_seconds_total', { connector }, seconds(waitMs));
    },
    throttled: (_event, connector) => count('throttled_total', { connector }),
    'walk-set-aside': ({ entity, code }, connector) =>
      count('walks_set_aside_total', { connector, entity, code }),
    'rows-deleted': ({ entity, rows }, connector) => count('deleted_rows_total', { connector, entity }, rows),
    'file-stored': ({ entity, bytes }, connector) => {
      count('files_total', { connector, entity, result: 'stored' });
      count('file_bytes_total', { connector, entity }, bytes);
    },
    'file-set-aside': ({ entity }, connector) =>
      count('files_total', { connector, entity, result: 'failed' }),
  });

  return {
    onRunEvent: (connector: ConnectorName, event: RunEvent): void => onEvent(event, connector),
    runEnded: (connector: ConnectorName, name: string): void => {
      const outcome = outcomeLabel(name);
      // A run that could not begin started when it ended.
      const startedMs = startedMsByConnector.get(connector) ?? clock.now();
      startedMsByConnector.delete(connector);
      count('runs_total', { connector, outcome });
      each?.last_run_timestamp_seconds.set(labelText({ connector, outcome }), startedMs / 1000);
      running.ended(connector);
    },
  };
}

/** The runs of this process that have started and not ended. */
function trackRunning(number: Gauge, each: Series | null) {
  const running = new Set<ConnectorName>();
  return {
    started: (connector: ConnectorName): void => {
      running.add(connector);
      number.set(running.size);
      each?.running_runs.set(labelText({ connector }), 1);
      each?.in_flight_bytes.set(labelText({ connector }), 0);
    },
    ended: (connector: ConnectorName): void => {
      running.delete(connector);
      number.set(running.size);
      each?.running_runs.remove(labelText({ connector }));
      each?.in_flight_bytes.remove(labelText({ connector }));
    },
    inFlight: (connector: ConnectorName, bytes: number): void => {
      // Pages that a run drops after its end are not reported.
      if (running.has(connector)) each?.in_flight_bytes.add(labelText({ connector }), bytes);
    },
  };
}

/** A clock that is set back must not make a counter refuse: the caller that reports a run would get the error. */
function seconds(ms: number): number {
  return Math.max(0, ms) / 1000;
}

function countWorkerEvents(registry: Registry, count: Count): (event: WorkerEvent) => void {
  const { counter, histogram } = metricsIn(registry);
  const lag = histogram(
    'job_lag_seconds',
    lagBucketsS,
    'How long after its due time a job started. It grows when runs take longer than their schedules allow, or too few run at a time.',
  );
  const redisErrors = counter('redis_errors_total', 'Errors that the connections to Redis reported.');
  return (event) => {
    switch (event.kind) {
      case 'job-started':
        // Two machines' clocks may disagree about which came first.
        return lag.observe(seconds(event.lagMs));
      case 'job-ended':
        return count('jobs_total', { connector: event.connector, end: jobEnd(event.end) });
      case 'redis-error':
        return redisErrors.inc();
      case 'publication-ended':
      case 'tick':
    }
  };
}

/**
 * End of a publication that a worker was asked for. `createdAtMs`: time of the newest publication that the target
 * holds.
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
    duration.set({ target }, seconds(ended.ms));
  };
}

/**
 * Longer than the two seconds after which the queue gives a silent Redis up, and than a busy worker takes for ten
 * thousand connectors: those answers are worth waiting for. Prometheus waits ten.
 */
const sampleWithinMs = 8000;
const queueStates = ['waiting', 'delayed', 'active', 'failed'] as const;
const needAttention: readonly Health[] = ['failed', 'late', 'incomplete', 'paused'];

/**
 * Gauges that are correct at the moment of a scrape, and absent if the state is unknown. The result refreshes them: it
 * never rejects, and takes eight seconds at most.
 */
function openGauges(
  registry: Registry,
  series: Series,
  { sample, connectorSeries: shown, clock }: Required<Omit<MetricsOptions, 'version'>>,
): () => Promise<void> {
  const { counter, gauge } = metricsIn(registry);
  const connectors = gauge(
    'connectors',
    'Connectors of this process by state, each counted in every state that it is in; "ok": in none that needs attention.',
    ['state'],
  );
  const queue = gauge(
    'queue_jobs',
    'Jobs in the queue of a sink. "waiting" ones are due and have no worker; "failed" ones are kept for inspection.',
    ['sink', 'state'],
  );
  const redisUp = gauge(
    'redis_up',
    '1 while Redis answers this process, else 0. Without it no schedule fires.',
  );
  const totals = summed.map((name) => {
    const help = `Over all connectors: ${connectorSeries[name]}`;
    return { name, total: gauge(`worker_${name}`, help) };
  });
  const errors = counter(
    'scrape_errors_total',
    'Scrapes that could not read the state of queues and connectors; their gauges were left out.',
  );
  let pending: Promise<MetricSample | null> | null = null;

  /** Null where it takes too long. Scrapes at the same time share one sample. */
  const take = (): Promise<MetricSample | null> => {
    pending ??= answeredWithin(sample(), null, sampleWithinMs, clock).finally(() => (pending = null));
    return pending;
  };
  const clear = (): void => {
    for (const one of [connectors, queue]) one.reset();
    // A reset gauge without labels is 0, which would be a statement.
    for (const one of [redisUp, ...totals.map(({ total }) => total)]) one.remove();
    for (const name of sampledSeries) series[name].clear();
  };
  const show = (found: MetricSample): void => {
    const nowMs = clock.now();
    const counts = new Map<string, number>(['all', ...healthWords].map((state) => [state, 0]));
    const count = (state: string): void => void counts.set(state, (counts.get(state) ?? 0) + 1);
    for (const connector of found.connectors) {
      const { words } = connector;
      count('all');
      if (words.size === 0) count('ok');
      for (const word of words) count(word);
      const isInNeed = needAttention.some((word) => words.has(word));
      if (isInNeed || shown === 'all') showConnector(series, connector, nowMs);
    }
    for (const [state, number] of counts) connectors.set({ state }, number);
    const held = found.connectors.flatMap(heldOf);
    for (const { name, total } of totals) {
      total.set(held.reduce((sum, one) => sum + (one.name === name ? one.number : 0), 0));
    }
    for (const { sink, ...jobs } of found.depth) {
      for (const state of queueStates) queue.set({ sink, state }, jobs[state]);
    }
    redisUp.set(found.isRedisUp ? 1 : 0);
  };

  return async () => {
    // The cause is logged where it failed; here it is counted, and no old values are shown.
    const found = await Promise.resolve()
      .then(take)
      .catch(() => null);
    clear();
    if (found === null) errors.inc();
    else show(found);
  };
}

/** Rows and listings that wait for a person or a later run. */
function heldOf({ missing, partMissing, unconfirmed }: SampledConnector) {
  const listingsOf = (name: (typeof summed)[number], of: SampledConnector['partMissing']) =>
    of.map(({ entity, listings: number }) => ({ name, entity, number }));
  return [
    ...missing.map(({ entity, withheld: number }) => ({ name: 'withheld_deletes', entity, number }) as const),
    ...missing.map(({ entity, pending: number }) => ({ name: 'pending_deletes', entity, number }) as const),
    ...listingsOf('part_missing_listings', partMissing),
    ...listingsOf('unconfirmed_listings', unconfirmed),
  ];
}

function showConnector(series: Series, sampled: SampledConnector, nowMs: number): void {
  const { name: connector, freshness, words } = sampled;
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
  for (const { name, entity, number } of heldOf(sampled)) {
    if (number > 0) series[name].set(labelText({ connector, entity }), number);
  }
}

/** The end of an agent's call, for the log and the metrics, without any values. */
export interface EndedCall {
  /** Name from a closed set. */
  readonly tool: string;
  readonly result: 'ok' | 'refused' | 'failed' | 'cancelled';
  readonly ms: number;
  readonly chars: number;
}

/** Metrics of `mcp --http`, for Prometheus. */
export function openMcpMetrics() {
  const registry = new Registry();
  const { counter, histogram } = metricsIn(registry);
  const calls = counter(
    'mcp_calls_total',
    'Calls of agents, by tool and by how they ended: ok, refused, failed, cancelled. Only of mcp --http, as all that begin with mcp.',
    ['tool', 'result'],
  );
  const seconds = histogram(
    'mcp_call_seconds',
    [0.01, 0.05, 0.2, 1, 5, 20],
    'How long calls took, with their wait.',
  );
  const characters = counter('mcp_answer_characters_total', 'Characters that answers had, by tool.', [
    'tool',
  ]);
  collectDefaultMetrics({ register: registry });
  return {
    onCall: ({ tool, result, ms, chars }: EndedCall): void => {
      calls.inc({ tool, result });
      seconds.observe(ms / 1000);
      characters.inc({ tool }, chars);
    },
    text: async () => ({ contentType: registry.contentType, text: await registry.metrics() }),
  };
}

/** Makes metrics in a registry. Each has the program's prefix. */
function metricsIn(registry: Registry) {
  const described = (name: string, help: string) => ({ name: prefix + name, help, registers: [registry] });
  return {
    counter: (name: string, help: string, labelNames: readonly string[] = []) =>
      new Counter({ ...described(name, help), labelNames }),
    gauge: (name: string, help: string, labelNames: readonly string[] = []) =>
      new Gauge({ ...described(name, help), labelNames }),
    histogram: (name: string, buckets: readonly number[], help: string) =>
      new Histogram({ ...described(name, help), buckets: [...buckets] }),
  };
}

type Series = ReturnType<typeof openSeries>;

/** Opens the series of the connectors. As in Prometheus, a metric whose name ends in `_total` is a counter. */
export function openSeries() {
  const series = Object.entries(connectorSeries).map(([name, help]) => [name, openOne(name, help)]);
  // `as`: the entries have the same names.
  return Object.fromEntries(series) as Record<keyof typeof connectorSeries, ReturnType<typeof openOne>>;
}

/**
 * The series of one metric that has a label for each connector: some hundred thousand of them in a large config, so
 * each is a text and a number. Names and labels are as in Prometheus's text format.
 */
function openOne(shortName: string, help: string) {
  const name = prefix + shortName;
  const type = name.endsWith('_total') ? 'counter' : 'gauge';
  const valueByLabels = new Map<string, number>();
  return {
    /** A counter that has not begun stays away until it does: 0 begins none. */
    add: (labels: string, value: number): void => {
      const known = valueByLabels.get(labels);
      if (known !== undefined) valueByLabels.set(labels, known + value);
      else if (value !== 0) valueByLabels.set(labels, value);
    },
    set: (labels: string, value: number): void => void valueByLabels.set(labels, value),
    remove: (labels: string): void => void valueByLabels.delete(labels),
    clear: (): void => valueByLabels.clear(),
    /** The series with the lines that describe them; those lines stand even without any series. */
    text: (): string => {
      const lines = [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`];
      for (const [labels, value] of valueByLabels) lines.push(`${name}{${labels}} ${value}`);
      return `${lines.join('\n')}\n`;
    },
  };
}

/** Values are names of a config or a definition, and codes: none holds a quotation mark or a line end. */
function labelText(labels: Readonly<Record<string, string>>): string {
  let text = '';
  for (const name in labels) text += `${text === '' ? '' : ','}${name}="${labels[name]}"`;
  return text;
}

/**
 * Turns a value into one that may be a label: a value of the closed set, or `other`. Every value that was ever seen
 * stays in memory and in the operator's store.
 */
function oneOf(known: readonly string[]): (value: string) => string {
  const values = new Set(known);
  return (value) => (values.has(value) ? value : 'other');
}
