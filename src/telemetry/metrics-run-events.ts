import type { Counter, Gauge, Registry } from 'prom-client';
import type { Clock } from '../core/clock.ts';
import type { ErrorCode } from '../core/errors.ts';
import type { RunEvent } from '../core/events.ts';
import type { ConnectorName } from '../core/names.ts';
import { labelText, metricsIn, oneOf, openSeries } from './series.ts';

/**
 * What the runs of single connectors did. A series starts with the first event that it counts. For all
 * connectors together use the metrics of the worker, which start at 0 and are complete whatever is shown here.
 */
export function openConnectorSeries() {
  return openSeries({
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
  });
}

export type ConnectorSeries = ReturnType<typeof openConnectorSeries>;

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
/** The wait before such a retry is spent in the budget, and counted when the next attempt has ended. */
const waitedForInBudget: readonly ErrorCode[] = ['THROTTLED', 'FORBIDDEN'];

const minutesS = [1, 2, 5, 15, 30].map((minutes) => minutes * 60);
const hoursS = [1, 2, 4].map((hours) => hours * 3600);
const runBucketsS = [1, 5, 15, 30, ...minutesS, ...hoursS];
/** A call may take minutes: the service retries inside. */
const requestBucketsS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];

/** What the runs of all connectors of this process did together; a counter that each connector has too has its name. */
function openRunMetrics(registry: Registry) {
  const { counter, gauge, histogram } = metricsIn(registry);
  const all = {
    runs_total: counter('worker_runs_total', 'Runs of all connectors that ended here, by outcome.', [
      'outcome',
    ]),
    running: gauge('worker_running_runs', 'Runs in progress in this process.'),
    runDuration: histogram('run_duration_seconds', runBucketsS, 'How long runs took, waits included.'),
    records_total: counter('worker_records_total', 'Records of all connectors, by what they changed.', [
      'change',
    ]),
    requests_total: counter(
      'worker_requests_total',
      'Requests for records of all connectors, by what the answer asked for.',
      ['answer'],
    ),
    requestDuration: histogram(
      'request_duration_seconds',
      requestBucketsS,
      'How long answers took, without waits before the request.',
    ),
    wait_seconds_total: counter(
      'worker_wait_seconds_total',
      'Seconds that requests of all connectors waited.',
    ),
    retries_total: counter('worker_retries_total', 'Requests of all connectors that were sent again.', [
      'code',
    ]),
    throttled_total: counter('worker_throttled_total', 'Times any service asked for fewer requests.'),
    walks_set_aside_total: counter(
      'worker_walks_set_aside_total',
      'Walks of all connectors that were given up for a run.',
      ['code'],
    ),
  };
  // A rate cannot see a counter that begins at one.
  for (const outcome of outcomes) all.runs_total.inc({ outcome }, 0);
  for (const change of changes) all.records_total.inc({ change }, 0);
  for (const answer of answers) all.requests_total.inc({ answer }, 0);
  return all;
}

export type RunCounts = ReturnType<typeof countRunEvents>;

/**
 * Counts what runs say about themselves, for all connectors together and, where `each` is given, for each. The
 * connector of an event is the one it is handed in with.
 */
export function countRunEvents(registry: Registry, each: ConnectorSeries | null, clock: Clock) {
  const all = openRunMetrics(registry);
  const totals: Partial<Record<keyof ConnectorSeries, Counter>> = all;
  const running = trackRunning(all.running, each);
  const startedMsByConnector = new Map<ConnectorName, number>();
  const failedMsByConnector = new Map<ConnectorName, number>();

  const count = (name: keyof ConnectorSeries, labels: CountLabels, value = 1): void => {
    const { connector: _connector, entity: _entity, ...ofAll } = labels;
    totals[name]?.inc(ofAll, value);
    each?.[name].add(labelText(labels), value);
  };

  return {
    onRunEvent: (connector: ConnectorName, event: RunEvent): void => {
      switch (event.kind) {
        case 'run-started':
          startedMsByConnector.set(connector, clock.now());
          return running.started(connector);
        case 'run-finished':
          all.runDuration.observe(seconds(event.ms));
          return running.ended(connector);
        case 'page-fetched':
          return running.inFlight(connector, event.bytes);
        case 'page-dropped':
          return running.inFlight(connector, -event.bytes);
        case 'page-committed': {
          const { entity, counts } = event;
          running.inFlight(connector, -event.bytes);
          // An entity made of another one's elements comes without a page, and without bytes.
          if (event.bytes > 0) count('pages_total', { connector, entity });
          for (const change of changes) count('records_total', { connector, entity, change }, counts[change]);
          return;
        }
        case 'call-ended':
          count('requests_total', { connector, answer: answerLabel(event.answer) });
          all.requestDuration.observe(seconds(event.ms));
          return count('wait_seconds_total', { connector }, seconds(event.waitedMs));
        case 'call-retried':
          count('retries_total', { connector, code: event.code });
          if (waitedForInBudget.includes(event.code)) return;
          return count('wait_seconds_total', { connector }, seconds(event.waitMs));
        case 'throttled':
          return count('throttled_total', { connector });
        case 'walk-set-aside':
          return count('walks_set_aside_total', { connector, entity: event.entity, code: event.code });
        case 'rows-deleted':
          return count('deleted_rows_total', { connector, entity: event.entity }, event.rows);
        case 'file-stored':
          count('files_total', { connector, entity: event.entity, result: 'stored' });
          return count('file_bytes_total', { connector, entity: event.entity }, event.bytes);
        case 'file-set-aside':
          return count('files_total', { connector, entity: event.entity, result: 'failed' });
        case 'files-started':
        case 'rate-stated':
        case 'sink-away':
        case 'sink-back':
        case 'sink-made':
        case 'sweep-started':
        case 'record-confirmed':
        case 'deletes-withheld':
        case 'retention-withheld':
        case 'part-missing':
        case 'walk-started':
        case 'listings-found':
        case 'listing-counted':
        case 'walk-restarted':
        case 'walk-sealed':
        case 'page-requested':
        case 'commit-started':
        case 'commit-finished':
      }
    },
    runEnded: (connector: ConnectorName, name: string): void => {
      const outcome = outcomeLabel(name);
      // A run that could not begin started when it ended.
      const startedMs = startedMsByConnector.get(connector) ?? clock.now();
      startedMsByConnector.delete(connector);
      if (outcome === 'failed') failedMsByConnector.set(connector, clock.now());
      else failedMsByConnector.delete(connector);
      count('runs_total', { connector, outcome });
      each?.last_run_timestamp_seconds.set(labelText({ connector, outcome }), startedMs / 1000);
      running.ended(connector);
    },
    isRunning: running.has,
    /** When the last run of this process ended, if it failed; also one that could not begin, which is in no ledger. */
    failedAtMs: (connector: ConnectorName) => failedMsByConnector.get(connector) ?? null,
  };
}

/** The runs of this process that have started and not ended. */
function trackRunning(number: Gauge, each: ConnectorSeries | null) {
  const running = new Set<ConnectorName>();
  return {
    has: (connector: ConnectorName) => running.has(connector),
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
      // What a run drops after its end is no news.
      if (running.has(connector)) each?.in_flight_bytes.add(labelText({ connector }), bytes);
    },
  };
}

/** Those of the series of a connector; the counters of all connectors have the rest. */
type CountLabels = Readonly<Record<string, string>> & {
  readonly connector: string;
  readonly entity?: string;
};

/** A clock that is set back must not make a counter refuse: the caller that reports a run would get the error. */
function seconds(ms: number): number {
  return Math.max(0, ms) / 1000;
}
