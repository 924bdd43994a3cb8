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

/** What the runs of all connectors of this process did together. */
export function openRunMetrics(registry: Registry) {
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
