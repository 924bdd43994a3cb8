import { openSeries, type Series } from './series.ts';

/**
 * What the runs of single connectors did. A series starts with the first event that it counts. For all
 * connectors together use the metrics of the worker, which start at 0 and are complete whatever is shown here.
 */
export function openConnectorSeries() {
  const counter = (name: string, help: string): Series =>
    openSeries(`connector_sync_${name}`, 'counter', help);
  const gauge = (name: string, help: string): Series => openSeries(`connector_sync_${name}`, 'gauge', help);
  return {
    runs: counter(
      'runs_total',
      'Runs that ended here, by outcome. "degraded" left something out and names it; "partial" and "interrupted" are resumed by the next run.',
    ),
    running: gauge('running_runs', '1 during a run in this process; absent otherwise.'),
    lastRun: gauge(
      'last_run_timestamp_seconds',
      'When the last run of this process that had this outcome started, in seconds since 1970.',
    ),
    records: counter(
      'records_total',
      'Records stored or accounted for, by what they changed. "quarantined" ones could not be stored and are kept apart for a person to look at.',
    ),
    deleted: counter('deleted_rows_total', 'Rows marked as deleted, because the API no longer has them.'),
    pages: counter('pages_total', 'Pages whose records are stored.'),
    inFlight: gauge(
      'in_flight_bytes',
      'Bytes of pages that were fetched and are not stored yet: what a crash would fetch again. Absent while nothing runs.',
    ),
    requests: counter(
      'requests_total',
      'Requests for records, repeated ones included (those for tokens and the catalog belong to no connector and are not here), by what the answer asked for. Anything but "ok" is a failure of that request, not of the run.',
    ),
    waited: counter(
      'wait_seconds_total',
      'Seconds that requests waited for the rate limit, for a back-off or because the service asked for it. Requests wait side by side, so this may grow faster than time.',
    ),
    retries: counter('retries_total', 'Requests that were sent again, by what was wrong.'),
    throttled: counter(
      'throttled_total',
      'Times the service asked for fewer requests. If it keeps growing, lower requestsPerSecond.',
    ),
    files: counter(
      'files_total',
      'Files that were asked for, by what came of it. "failed" ones stay wanted and make the run degraded.',
    ),
    fileBytes: counter('file_bytes_total', 'Bytes of the files that were stored.'),
    setAside: counter(
      'walks_set_aside_total',
      'Walks given up for this run because of an error. They stay due and make the run degraded.',
    ),
    jobs: counter(
      'jobs_total',
      'Jobs taken from the queue, by how that ended. "retry" is tried again by itself; "failed" and "poison" need a person.',
    ),
  };
}

export type ConnectorSeries = ReturnType<typeof openConnectorSeries>;
