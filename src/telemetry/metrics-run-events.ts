import { type Registry, Counter, Gauge, Histogram } from 'prom-client';
import type { Clock } from '../core/clock.ts';
import type { ErrorCode } from '../core/errors.ts';
import type { RunEvent } from '../core/events.ts';
import type { ConnectorName } from '../core/names.ts';
import type { ConnectorSeries } from './metrics-of-connectors.ts';
import { oneOf, labelText } from './series.ts';

export interface RunCounts {
  onRunEvent(connector: ConnectorName, event: RunEvent): void;
  runEnded(connector: ConnectorName, outcome: string): void;
  isRunning(connector: ConnectorName): boolean;
  /** When the last run of this process ended, if it failed; also one that could not begin, of which no ledger knows. */
  failedAtMs(connector: ConnectorName): number | null;
}

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

/**
 * Counts what runs say about themselves, for all connectors together and, where `each` is given, for each. The
 * connector of an event is the one it is handed in with.
 */
export function countRunEvents(registry: Registry, each: ConnectorSeries | null, clock: Clock): RunCounts {
  const all = openRunMetrics(registry);
  // A rate cannot see a counter that begins at one.
  for (const outcome of outcomes) all.runs.inc({ outcome }, 0);
  for (const change of changes) all.records.inc({ change }, 0);
  for (const answer of answers) all.requests.inc({ answer }, 0);
  const startedMsByConnector = new Map<ConnectorName, number>();
  const failedMsByConnector = new Map<ConnectorName, number>();
  const running = new Set<ConnectorName>();

  const started = (connector: ConnectorName): void => {
    startedMsByConnector.set(connector, clock.now());
    running.add(connector);
    all.running.set(running.size);
    each?.running.set(labelText({ connector }), 1);
    each?.inFlight.set(labelText({ connector }), 0);
  };

  const ended = (connector: ConnectorName): void => {
    running.delete(connector);
    all.running.set(running.size);
    each?.running.remove(labelText({ connector }));
    each?.inFlight.remove(labelText({ connector }));
  };

  const wait = (connector: ConnectorName, ms: number): void => {
    all.waited.inc(seconds(ms));
    each?.waited.add(labelText({ connector }), seconds(ms));
  };

  const inFlight = (connector: ConnectorName, bytes: number): void => {
    // What a run drops after its end is no news.
    if (running.has(connector)) each?.inFlight.add(labelText({ connector }), bytes);
  };

  return {
    onRunEvent(connector, event) {
      switch (event.kind) {
        case 'run-started':
          return started(connector);
        case 'run-finished':
          all.runDuration.observe(seconds(event.ms));
          return ended(connector);
        case 'page-fetched':
          return inFlight(connector, event.bytes);
        case 'page-dropped':
          return inFlight(connector, -event.bytes);
        case 'page-committed': {
          const { entity, counts } = event;
          inFlight(connector, -event.bytes);
          // An entity made of another one's elements comes without a page, and without bytes, of its own.
          if (event.bytes > 0) each?.pages.add(labelText({ connector, entity }), 1);
          for (const change of changes) {
            if (counts[change] === 0) continue;
            all.records.inc({ change }, counts[change]);
            each?.records.add(labelText({ connector, entity, change }), counts[change]);
          }
          return;
        }
        case 'call-ended': {
          const answer = answerLabel(event.answer);
          all.requests.inc({ answer });
          each?.requests.add(labelText({ connector, answer }), 1);
          all.requestDuration.observe(seconds(event.ms));
          return wait(connector, event.waitedMs);
        }
        case 'call-retried':
          all.retries.inc({ code: event.code });
          each?.retries.add(labelText({ connector, code: event.code }), 1);
          if (!waitedForInBudget.includes(event.code)) wait(connector, event.waitMs);
          return;
        case 'throttled':
          all.throttled.inc();
          return each?.throttled.add(labelText({ connector }), 1);
        case 'walk-set-aside': {
          const { entity, code } = event;
          all.setAside.inc({ code });
          return each?.setAside.add(labelText({ connector, entity, code }), 1);
        }
        case 'rows-deleted':
          return each?.deleted.add(labelText({ connector, entity: event.entity }), event.rows);
        case 'file-stored': {
          const { entity, bytes } = event;
          each?.files.add(labelText({ connector, entity, result: 'stored' }), 1);
          return each?.fileBytes.add(labelText({ connector, entity }), bytes);
        }
        case 'file-set-aside':
          return each?.files.add(labelText({ connector, entity: event.entity, result: 'failed' }), 1);
        case 'files-started':
        case 'sink-away':
        case 'sink-back':
        case 'sweep-started':
        case 'record-confirmed':
        case 'deletes-withheld':
        case 'listings-unproven':
        case 'walk-started':
        case 'walk-restarted':
        case 'walk-sealed':
        case 'page-requested':
        case 'commit-started':
        case 'commit-finished':
      }
    },
    runEnded(connector, name) {
      const outcome = outcomeLabel(name);
      // A run that could not begin started when it ended.
      const startedMs = startedMsByConnector.get(connector) ?? clock.now();
      startedMsByConnector.delete(connector);
      if (outcome === 'failed') failedMsByConnector.set(connector, clock.now());
      else failedMsByConnector.delete(connector);
      all.runs.inc({ outcome });
      each?.runs.add(labelText({ connector, outcome }), 1);
      each?.lastRun.set(labelText({ connector, outcome }), startedMs / 1000);
      ended(connector);
    },
    isRunning: (connector) => running.has(connector),
    failedAtMs: (connector) => failedMsByConnector.get(connector) ?? null,
  };
}

/** A clock that is set back must not make a counter refuse: the caller that reports a run would get the error. */
function seconds(ms: number): number {
  return Math.max(0, ms) / 1000;
}

const minuteS = 60;
const hourS = 60 * minuteS;
const runBucketsS = [
  1,
  5,
  15,
  30,
  minuteS,
  2 * minuteS,
  5 * minuteS,
  15 * minuteS,
  30 * minuteS,
  hourS,
  2 * hourS,
  4 * hourS,
];
/** A call may take minutes: the service retries inside. */
const requestBucketsS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];

/** What the runs of all connectors of this process did together. */
function openRunMetrics(registry: Registry) {
  const registers = [registry];
  const counter = <Label extends string>(name: string, labelNames: readonly Label[], help: string) =>
    new Counter({ name: `connector_sync_worker_${name}`, help, labelNames, registers });
  const histogram = (name: string, buckets: readonly number[], help: string) =>
    new Histogram({ name: `connector_sync_${name}`, help, buckets: [...buckets], registers });

  return {
    runs: counter('runs_total', ['outcome'], 'Runs of all connectors that ended here, by outcome.'),
    running: new Gauge({
      name: 'connector_sync_worker_running_runs',
      help: 'Runs in progress in this process.',
      registers,
    }),
    runDuration: histogram('run_duration_seconds', runBucketsS, 'How long runs took, waits included.'),
    records: counter('records_total', ['change'], 'Records of all connectors, by what they changed.'),
    requests: counter(
      'requests_total',
      ['answer'],
      'Requests for records of all connectors, by what the answer asked for.',
    ),
    requestDuration: histogram(
      'request_duration_seconds',
      requestBucketsS,
      'How long answers took, without waits before the request.',
    ),
    waited: counter('wait_seconds_total', [], 'Seconds that requests of all connectors waited.'),
    retries: counter('retries_total', ['code'], 'Requests of all connectors that were sent again.'),
    throttled: counter('throttled_total', [], 'Times any service asked for fewer requests.'),
    setAside: counter(
      'walks_set_aside_total',
      ['code'],
      'Walks of all connectors that were given up for a run.',
    ),
  };
}
