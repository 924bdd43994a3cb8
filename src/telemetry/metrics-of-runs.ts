import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

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

/** The metrics that runs move, with what each tells an operator. */
export function openRunMetrics(registry: Registry) {
  const registers = [registry];
  const counter = <Label extends string>(name: string, labelNames: readonly Label[], help: string) =>
    new Counter({ name: `connector_sync_${name}`, help, labelNames, registers });
  const gauge = <Label extends string>(name: string, labelNames: readonly Label[], help: string) =>
    new Gauge({ name: `connector_sync_${name}`, help, labelNames, registers });
  const histogram = (name: string, buckets: readonly number[], help: string) =>
    new Histogram({
      name: `connector_sync_${name}`,
      help,
      labelNames: ['connector'],
      buckets: [...buckets],
      registers,
    });

  return {
    runs: counter(
      'runs_total',
      ['connector', 'outcome'],
      'Runs that ended here, by outcome. "degraded" left something out and names it; "partial" and "interrupted" go on with the next run.',
    ),
    runDuration: histogram('run_duration_seconds', runBucketsS, 'How long runs took, waits included.'),
    running: gauge('running_runs', ['connector'], 'Runs going on in this process.'),
    lastRun: gauge(
      'last_run_timestamp_seconds',
      ['connector', 'outcome'],
      'When the last run of this process that had this outcome started, in seconds since 1970.',
    ),
    records: counter(
      'records_total',
      ['connector', 'entity', 'change'],
      'Records stored or accounted for, by what they changed. "quarantined" ones could not be stored and are kept apart for a person to look at.',
    ),
    deleted: counter(
      'deleted_rows_total',
      ['connector', 'entity'],
      'Rows marked as deleted, because the service has them no more.',
    ),
    pages: counter('pages_total', ['connector', 'entity'], 'Pages whose records are stored.'),
    inFlight: gauge(
      'in_flight_bytes',
      ['connector'],
      'Bytes of pages that were fetched and are not stored yet: what a crash would fetch again.',
    ),
    requests: counter(
      'requests_total',
      ['connector', 'answer'],
      'Requests for records, repeated ones included (those for tokens and the catalog belong to no connector and are not here), by what the answer asked for. Anything but "ok" is a failure of that request, not of the run.',
    ),
    requestDuration: histogram(
      'request_duration_seconds',
      requestBucketsS,
      'How long answers took, without waits before the request.',
    ),
    waited: counter(
      'wait_seconds_total',
      ['connector'],
      'Seconds that requests waited for the rate limit, for a back-off or because the service asked for it. Requests wait side by side, so this may grow faster than time.',
    ),
    retries: counter(
      'retries_total',
      ['connector', 'code'],
      'Requests that were sent again, by what was wrong.',
    ),
    throttled: counter(
      'throttled_total',
      ['connector'],
      'Times the service asked for fewer requests. If it keeps growing, lower requestsPerSecond.',
    ),
    files: counter(
      'files_total',
      ['connector', 'entity', 'result'],
      'Files that were asked for, by what came of it. "failed" ones stay wanted and make the run degraded.',
    ),
    fileBytes: counter('file_bytes_total', ['connector', 'entity'], 'Bytes of the files that were stored.'),
    setAside: counter(
      'walks_set_aside_total',
      ['connector', 'entity', 'code'],
      'Walks given up for this run because of an error. They stay due and make the run degraded.',
    ),
  };
}
