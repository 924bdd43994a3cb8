import { describe, expect } from 'vitest';
import type { RunEvent } from '../../src/core/events.ts';
import { healthWords, type Health } from '../../src/core/health.ts';
import { noCounts } from '../../src/core/records.ts';
import {
  openMetrics,
  type MetricSample,
  type Metrics,
  type MetricsOptions,
  type SampledConnector,
} from '../../src/telemetry/metrics.ts';
import { instantClock } from '../support/instant-clock.ts';
import { it } from '../support/it.ts';
import { decreased, parsePrometheusText, seriesIn, undescribed } from '../support/monitor/prometheus-text.ts';
import { builtInDefinition, startSampleService } from '../support/sample-service.ts';
import { sampleSinks } from '../support/sample-sinks.ts';
import { syncOnce } from '../support/sync-once.ts';
import { SyncError } from '../../src/core/errors.ts';
import { Secret } from '../../src/core/secret.ts';
import { logRunEvent, openLog, type Log } from '../../src/telemetry/log.ts';
import { createScrubber } from '../../src/telemetry/scrubber.ts';
import {
  isConnectorName,
  isDeclaredName,
  type ConnectorName,
  type EntityName,
  type RunId,
} from '../../src/core/names.ts';

function connector(name: string): ConnectorName {
  if (!isConnectorName(name)) throw new Error(`${name} is no connector's name`);
  return name;
}

function entity(name: string): EntityName {
  if (!isDeclaredName(name)) throw new Error(`${name} is no entity's name`);
  return name;
}

const run = '20260501T120000000Z-0a1b2c3d' as RunId;

/** A connector of which nothing is known, or what a test says. */
function sampled(name: ConnectorName, part: Partial<SampledConnector> = {}): SampledConnector {
  const nothing = { freshness: [], missing: [], partMissing: [], unconfirmed: [] };
  return { name, words: new Set(), ...nothing, ...part };
}

const emptySample: MetricSample = { connectors: [], depth: [], isRedisUp: true };

const open = (options: Partial<MetricsOptions> = {}): Metrics =>
  openMetrics({
    version: '1.2.3',
    sample: () => Promise.resolve(emptySample),
    clock: instantClock(),
    ...options,
  });

async function series(metrics: Metrics): Promise<(name: string) => number | undefined> {
  const found = seriesIn((await metrics.text()).text);
  return (name) => found.get(`connector_sync_${name}`);
}

const newsletter = connector('newsletter');
const lists = entity('lists');

const fetched = (bytes: number): RunEvent => ({
  kind: 'page-fetched',
  entity: lists,
  records: 1,
  bytes,
  ms: 1,
});
const committed = (bytes: number): RunEvent => ({
  kind: 'page-committed',
  params: {},
  entity: lists,
  counts: { ...noCounts, fetched: 9, inserted: 5, updated: 3, quarantined: 1 },
  newlyDue: 0,
  bytes,
});
const started: RunEvent = { kind: 'run-started', connector: newsletter, run, continues: null, due: 1 };
const finished: RunEvent = {
  kind: 'run-finished',
  connector: newsletter,
  run,
  outcome: 'ok',
  ms: 42_000,
  waitedMs: 0,
};
const called = (part: Partial<Extract<RunEvent, { kind: 'call-ended' }>>): RunEvent => ({
  kind: 'call-ended',
  entity: lists,
  answer: 'ok',
  ms: 300,
  waitedMs: 0,
  ...part,
});

describe('the counters of runs', () => {
  it('count records by what they changed, and pages', async () => {
    const metrics = open();
    metrics.onRunEvent(newsletter, committed(100));
    metrics.onRunEvent(newsletter, committed(100));
    const value = await series(metrics);
    const of = (change: string): number | undefined =>
      value(`records_total{connector="newsletter",entity="lists",change="${change}"}`);
    expect(['inserted', 'updated', 'unchanged', 'quarantined'].map(of)).toEqual([10, 6, undefined, 2]);
    const ofAll = (change: string): number | undefined => value(`worker_records_total{change="${change}"}`);
    expect(['inserted', 'updated', 'unchanged', 'quarantined'].map(ofAll)).toEqual([10, 6, 0, 2]);
    expect(value('pages_total{connector="newsletter",entity="lists"}')).toBe(2);
  });

  it('count files, what came of them, and their bytes', async () => {
    const metrics = open();
    const stored = { kind: 'file-stored', entity: lists, bytes: 100, ms: 5 } as const;
    metrics.onRunEvent(newsletter, stored);
    metrics.onRunEvent(newsletter, stored);
    metrics.onRunEvent(newsletter, {
      kind: 'file-set-aside',
      entity: lists,
      code: 'FILE_INVALID',
      message: 'empty',
    });
    const value = await series(metrics);
    const of = (result: string): number | undefined =>
      value(`files_total{connector="newsletter",entity="lists",result="${result}"}`);
    expect(['stored', 'failed'].map(of)).toEqual([2, 1]);
    expect(value('file_bytes_total{connector="newsletter",entity="lists"}')).toBe(200);
  });

  it('count rows that were marked as deleted', async () => {
    const metrics = open();
    metrics.onRunEvent(newsletter, { kind: 'rows-deleted', entity: lists, rows: 40 });
    metrics.onRunEvent(newsletter, { kind: 'rows-deleted', entity: lists, rows: 2 });
    expect((await series(metrics))('deleted_rows_total{connector="newsletter",entity="lists"}')).toBe(42);
  });

  it('show what the newest runs withheld and left pending, and how much that is together', async () => {
    const missing = [
      { entity: lists, withheld: 300, pending: 0 },
      { entity: entity('campaigns'), withheld: 5, pending: 12 },
    ];
    const connectors = [sampled(newsletter, { missing }), sampled(connector('wiki'))];
    const value = await series(open({ sample: () => Promise.resolve({ ...emptySample, connectors }) }));
    const of = (gauge: string): (number | undefined)[] =>
      ['lists', 'campaigns'].map((name) => value(`${gauge}{connector="newsletter",entity="${name}"}`));
    expect(of('withheld_deletes')).toEqual([300, 5]);
    expect(of('pending_deletes')).toEqual([undefined, 12]);
    expect([value('worker_withheld_deletes'), value('worker_pending_deletes')]).toEqual([305, 12]);
  });

  it('show listings of which part is missing, and those that are unconfirmed, and how many that is together', async () => {
    const partMissing = [{ entity: lists, listings: 3 }];
    const unconfirmed = [
      { entity: lists, listings: 1 },
      { entity: entity('campaigns'), listings: 4 },
    ];
    const connectors = [sampled(newsletter, { partMissing, unconfirmed }), sampled(connector('wiki'))];
    const value = await series(open({ sample: () => Promise.resolve({ ...emptySample, connectors }) }));
    const of = (gauge: string): (number | undefined)[] =>
      ['lists', 'campaigns'].map((name) => value(`${gauge}{connector="newsletter",entity="${name}"}`));
    expect(of('part_missing_listings')).toEqual([3, undefined]);
    expect(of('unconfirmed_listings')).toEqual([1, 4]);
    expect([value('worker_part_missing_listings'), value('worker_unconfirmed_listings')]).toEqual([3, 5]);
  });

  it('count no page for an entity that is made of the elements of another one', async () => {
    const metrics = open();
    metrics.onRunEvent(newsletter, committed(0));
    const value = await series(metrics);
    expect(value('pages_total{connector="newsletter",entity="lists"}')).toBeUndefined();
    expect(value('records_total{connector="newsletter",entity="lists",change="inserted"}')).toBe(5);
  });

  it('show an active run, and afterwards how long it took and how it ended', async () => {
    const clock = instantClock(1_700_000_000_000);
    const metrics = open({ clock });
    metrics.onRunEvent(newsletter, started);
    const during = await series(metrics);
    expect(during('running_runs{connector="newsletter"}')).toBe(1);
    expect(during('worker_running_runs')).toBe(1);
    clock.advance(42_000);
    metrics.onRunEvent(newsletter, finished);
    metrics.runEnded(newsletter, 'ok');
    const value = await series(metrics);
    expect(value('running_runs{connector="newsletter"}')).toBeUndefined();
    expect(value('worker_running_runs')).toBe(0);
    expect(value('runs_total{connector="newsletter",outcome="ok"}')).toBe(1);
    expect(value('worker_runs_total{outcome="ok"}')).toBe(1);
    expect(value('run_duration_seconds_sum')).toBe(42);
    expect(value('last_run_timestamp_seconds{connector="newsletter",outcome="ok"}')).toBeCloseTo(1.7e9, -2);
  });

  it('count a run that could not begin', async () => {
    const metrics = open();
    metrics.runEnded(newsletter, 'failed');
    expect((await series(metrics))('runs_total{connector="newsletter",outcome="failed"}')).toBe(1);
  });

  it('show what is fetched and not yet stored, and forget it with the run', async () => {
    const metrics = open();
    const inFlight = async (): Promise<number | undefined> =>
      (await series(metrics))('in_flight_bytes{connector="newsletter"}');
    metrics.onRunEvent(newsletter, started);
    for (const bytes of [100, 200, 300]) metrics.onRunEvent(newsletter, fetched(bytes));
    expect(await inFlight()).toBe(600);
    metrics.onRunEvent(newsletter, committed(100));
    metrics.onRunEvent(newsletter, { kind: 'page-dropped', entity: lists, bytes: 200 });
    expect(await inFlight()).toBe(300);
    metrics.runEnded(newsletter, 'interrupted');
    expect(await inFlight()).toBeUndefined();
  });

  it('count requests by their answer, and every wait once', async () => {
    const metrics = open();
    metrics.onRunEvent(newsletter, called({ waitedMs: 500 }));
    metrics.onRunEvent(newsletter, called({ answer: 'retry' }));
    metrics.onRunEvent(newsletter, {
      kind: 'call-retried',
      message: 'no answer',
      entity: lists,
      code: 'NETWORK',
      attempt: 1,
      attempts: 6,
      waitMs: 1500,
    });
    // This one's wait comes with the attempt after it.
    metrics.onRunEvent(newsletter, {
      kind: 'call-retried',
      message: 'no answer',
      entity: lists,
      code: 'THROTTLED',
      attempt: 1,
      attempts: 6,
      waitMs: 8000,
    });
    metrics.onRunEvent(newsletter, { kind: 'throttled', waitMs: 8000 });
    metrics.onRunEvent(newsletter, called({ entity: null, waitedMs: 8000 }));
    const value = await series(metrics);
    expect(value('requests_total{connector="newsletter",answer="ok"}')).toBe(2);
    expect(value('requests_total{connector="newsletter",answer="retry"}')).toBe(1);
    expect(value('request_duration_seconds_count')).toBe(3);
    expect(value('wait_seconds_total{connector="newsletter"}')).toBe(10);
    expect(value('retries_total{connector="newsletter",code="NETWORK"}')).toBe(1);
    expect(value('throttled_total{connector="newsletter"}')).toBe(1);
  });

  it('take no harm from a clock that is set back', async () => {
    const metrics = open();
    metrics.onRunEvent(newsletter, called({ ms: -3, waitedMs: -1000 }));
    metrics.onRunEvent(newsletter, { ...finished, ms: -5 });
    metrics.onWorkerEvent({ kind: 'job-started', connector: newsletter, reason: 'schedule', lagMs: -9 });
    const value = await series(metrics);
    expect(value('worker_wait_seconds_total')).toBe(0);
    expect(value('job_lag_seconds_sum')).toBe(0);
  });
});

describe('the metrics of the worker', () => {
  it('count jobs by their end, how late they started, and errors of Redis', async () => {
    const metrics = open();
    metrics.onWorkerEvent({ kind: 'job-started', connector: newsletter, reason: 'schedule', lagMs: 2500 });
    metrics.onWorkerEvent({ kind: 'job-ended', connector: newsletter, end: 'done' });
    metrics.onWorkerEvent({ kind: 'redis-error', code: 'OOM' });
    metrics.onWorkerEvent({ kind: 'redis-error', code: 'something new 4711' });
    const value = await series(metrics);
    expect(value('jobs_total{connector="newsletter",end="done"}')).toBe(1);
    expect(value('job_lag_seconds_sum')).toBe(2.5);
    expect(value('redis_errors_total')).toBe(2);
  });
});

describe('the gauges read at a scrape', () => {
  const nowMs = Date.parse('2026-05-01T12:00:00Z');
  const at = (minutesAgo: number): string => new Date(nowMs - minutesAgo * 60_000).toISOString();

  it('show the age of what is stored, and whether it is fresh enough', async () => {
    const of = (name: string, asOf: string | null, freshWithinMs: number | null) => ({
      entity: entity(name),
      asOf,
      freshWithinMs,
    });
    const hourMs = 3_600_000;
    const freshness = [
      of('lists', at(30), hourMs),
      of('tags', at(90), hourMs),
      of('members', null, hourMs),
      of('notes', at(10), null),
      of('users', null, null),
    ];
    const metrics = open({
      clock: { ...instantClock(), now: () => nowMs },
      sample: () => Promise.resolve({ ...emptySample, connectors: [sampled(newsletter, { freshness })] }),
    });
    const value = await series(metrics);
    const row = (name: string): unknown =>
      ['freshness_seconds', 'fresh_within_seconds', 'is_fresh'].map((metric) =>
        value(`${metric}{connector="newsletter",entity="${name}"}`),
      );
    expect(row('lists')).toEqual([1800, 3600, 1]);
    expect(row('tags')).toEqual([5400, 3600, 0]);
    expect(row('members')).toEqual([undefined, 3600, 0]);
    expect(row('notes')).toEqual([600, undefined, undefined]);
    expect(row('users')).toEqual([undefined, undefined, undefined]);
  });

  it('show pauses, queues and Redis, and counters of all runs from zero on', async () => {
    const wiki = connector('wiki');
    const metrics = open({
      sample: () =>
        Promise.resolve({
          ...emptySample,
          connectors: [sampled(newsletter), sampled(wiki, { words: new Set(['paused']) })],
          depth: [{ sink: 'warehouse', waiting: 1, delayed: 2, active: 3, failed: 4 }],
        }),
    });
    const value = await series(metrics);
    expect(value('connector_paused{connector="newsletter"}')).toBe(0);
    expect(value('connector_paused{connector="wiki"}')).toBe(1);
    const states = ['waiting', 'delayed', 'active', 'failed'];
    expect(states.map((state) => value(`queue_jobs{sink="warehouse",state="${state}"}`))).toEqual([
      1, 2, 3, 4,
    ]);
    expect(value('redis_up')).toBe(1);
    expect(value('worker_runs_total{outcome="failed"}')).toBe(0);
    expect(value('worker_running_runs')).toBe(0);
  });

  it.each([
    ['fails', () => Promise.reject(new Error('no ledger'))],
    [
      'throws',
      () => {
        throw new Error('no ledger');
      },
    ],
    ['never comes', () => new Promise<never>(() => undefined)],
  ])(
    'are left out, not old, when the sample %s; the rest is served and the error counted',
    async (_how, fail) => {
      let sample: () => Promise<MetricSample> = () =>
        Promise.resolve({ ...emptySample, connectors: [sampled(newsletter)] });
      const metrics = open({ sample: () => sample() });
      expect((await series(metrics))('redis_up')).toBe(1);
      sample = fail;
      const value = await series(metrics);
      expect(value('redis_up')).toBeUndefined();
      expect(value('connector_paused{connector="newsletter"}')).toBeUndefined();
      expect(value('connectors{state="ok"}')).toBeUndefined();
      expect(value('worker_withheld_deletes')).toBeUndefined();
      expect(value('worker_runs_total{outcome="ok"}')).toBe(0);
      expect(value('scrape_errors_total')).toBe(1);
    },
  );
});

describe('the text', () => {
  it('is one that another parser reads: described, without duplicates, by the naming rules', async () => {
    const metrics = open({
      sample: () => Promise.resolve({ ...emptySample, connectors: [sampled(newsletter)] }),
    });
    metrics.onRunEvent(newsletter, started);
    metrics.onRunEvent(newsletter, committed(1));
    metrics.onRunEvent(newsletter, called({}));
    const { text, contentType } = await metrics.text();
    expect(contentType).toMatch(/^text\/plain; version=0\.0\.4/);
    expect(undescribed(text)).toEqual([]);
    const families = parsePrometheusText(text);
    expect(new Set(families.map(({ name }) => name)).size).toBe(families.length);
    for (const { name, type } of families) {
      if (type === 'COUNTER') expect(name).toMatch(/_total$/);
      if (name.startsWith('connector_sync_') && type !== 'COUNTER') expect(name).not.toMatch(/_total$/);
      expect(name).not.toMatch(/milliseconds|_ms\b/);
    }
    const names = families.map(({ name }) => name);
    expect(names).toEqual(
      expect.arrayContaining([
        'process_resident_memory_bytes',
        'process_start_time_seconds',
        'nodejs_eventloop_lag_seconds',
      ]),
    );
    expect(
      seriesIn(text).get(`connector_sync_build_info{version="1.2.3",node="${process.versions.node}"}`),
    ).toBe(1);
  });

  it('never shows a counter that went down', async () => {
    const metrics = open();
    metrics.onRunEvent(newsletter, called({ waitedMs: 5 }));
    const earlier = (await metrics.text()).text;
    metrics.onRunEvent(newsletter, called({}));
    metrics.runEnded(newsletter, 'ok');
    expect(decreased(earlier, (await metrics.text()).text)).toEqual([]);
  });

  it('names every connector there is, however many, and takes an unknown outcome for "other"', async () => {
    const metrics = open();
    for (let index = 0; index < 700; index += 1) metrics.runEnded(connector(`c${index}`), 'ok');
    for (let index = 0; index < 50; index += 1) metrics.runEnded(newsletter, `outcome ${index}`);
    const found = [...seriesIn((await metrics.text()).text)];
    const runs = found.filter(([name]) => name.startsWith('connector_sync_runs_total'));
    expect(runs).toHaveLength(701);
    expect(runs.at(-1)).toEqual(['connector_sync_runs_total{connector="newsletter",outcome="other"}', 50]);
  });
});

describe('many connectors', () => {
  const nowMs = Date.parse('2026-05-01T12:00:00Z');
  const hourMs = 3_600_000;
  const names = Array.from({ length: 2000 }, (_, index) => connector(`c${index}`));

  /** The last ones are in need, as a config that grows would have it. */
  const wordsByIndex = new Map<number, readonly Health[]>([
    [1990, ['failed']],
    [1995, ['paused', 'late', 'failed']],
    [1997, ['running']],
    [1998, ['incomplete']],
    [1999, ['new']],
  ]);

  function sampleOf(index: number): SampledConnector {
    const words = new Set(wordsByIndex.get(index));
    const asOf = new Date(nowMs - (words.has('late') ? 2 : 0.5) * hourMs).toISOString();
    return sampled(connector(`c${index}`), {
      words,
      freshness: [{ entity: entity('lists'), asOf, freshWithinMs: hourMs }],
      missing: words.has('incomplete') ? [{ entity: entity('lists'), withheld: 9, pending: 0 }] : [],
    });
  }

  function open(connectorSeries: 'all' | 'attention'): Metrics {
    return openMetrics({
      version: '1',
      connectorSeries,
      clock: { ...instantClock(), now: () => nowMs },
      sample: () =>
        Promise.resolve({ connectors: names.map((_, index) => sampleOf(index)), depth: [], isRedisUp: true }),
    });
  }

  async function textOf(metrics: Metrics): Promise<string> {
    const { text } = await metrics.text();
    expect(undescribed(text)).toEqual([]);
    return text;
  }

  /** Connectors that some series names. */
  function named(text: string): ReadonlySet<string> {
    return new Set([...text.matchAll(/[{,]connector="([^"]+)"/g)].map(([, name = '']) => name));
  }

  function counts(text: string): unknown {
    const value = seriesIn(text);
    return Object.fromEntries(
      ['all', ...healthWords].map((state) => [
        state,
        value.get(`connector_sync_connectors{state="${state}"}`),
      ]),
    );
  }

  describe('the metrics of two thousand connectors', () => {
    // Proves promise 12.1
    it('name each of them, the last one too', async () => {
      const text = await textOf(open('all'));
      expect(named(text).size).toBe(2000);
      const value = seriesIn(text);
      expect(value.get('connector_sync_connector_paused{connector="c1995"}')).toBe(1);
      expect(value.get('connector_sync_is_fresh{connector="c1995",entity="lists"}')).toBe(0);
      expect(value.get('connector_sync_is_fresh{connector="c1994",entity="lists"}')).toBe(1);
    });

    // Proves promise 12.1
    it.each(['all', 'attention'] as const)('count them by state with %s series', async (connectorSeries) => {
      const metrics = open(connectorSeries);
      const text = await textOf(metrics);
      expect(counts(text)).toEqual({
        all: 2000,
        ok: 1995,
        failed: 2,
        late: 1,
        incomplete: 1,
        paused: 1,
        new: 1,
        running: 1,
      });
      expect(seriesIn(text).get('connector_sync_worker_withheld_deletes')).toBe(9);
    });

    it('name only those that need attention, where the setting says so', async () => {
      const text = await textOf(open('attention'));
      expect([...named(text)].toSorted()).toEqual(['c1990', 'c1995', 'c1998']);
      const value = seriesIn(text);
      expect(value.get('connector_sync_connector_state{connector="c1995",state="failed"}')).toBe(1);
      expect(value.get('connector_sync_connector_state{connector="c1995",state="paused"}')).toBe(1);
      expect(value.get('connector_sync_is_fresh{connector="c1995",entity="lists"}')).toBe(0);
      expect(value.get('connector_sync_withheld_deletes{connector="c1998",entity="lists"}')).toBe(9);
    });

    it('count runs and records of all of them alike with either setting', async () => {
      const [all, attention] = [open('all'), open('attention')];
      for (const metrics of [all, attention]) {
        for (const [index, name] of names.entries()) {
          metrics.runEnded(name, index % 10 === 0 ? 'degraded' : 'ok');
        }
      }
      const workerLines = (text: string): readonly string[] =>
        text.split('\n').filter((line) => /^connector_sync_worker_(runs|records|requests)/.test(line));
      const lines = workerLines(await textOf(all));
      expect(lines).toContain('connector_sync_worker_runs_total{outcome="degraded"} 200');
      expect(workerLines(await textOf(attention))).toEqual(lines);
    });
  });
});

describe('the metrics of a real run', () => {
  it('agree with its report, and never decrease during the run', async ({ folder }) => {
    await using service = await startSampleService('tiny');
    const name = connector('mailing');
    const metrics = openMetrics({
      version: '1.2.3',
      sample: () => Promise.resolve({ connectors: [sampled(name)], depth: [], isRedisUp: true }),
    });
    const scrapes: Promise<string>[] = [];
    const scrape = (): void => void scrapes.push(metrics.text().then(({ text }) => text));
    let events = 0;

    scrape();
    const report = await syncOnce({
      baseUrl: service.url,
      definition: builtInDefinition('email-marketing'),
      connectorId: 'mailing',
      connector: 'mailing',
      sink: sampleSinks.sqlite.options(folder),
      onEvent: (event) => {
        metrics.onRunEvent(name, event);
        events += 1;
        if (events % 50 === 0) scrape();
      },
    });
    metrics.runEnded(name, report.outcome);
    scrape();

    const texts = await Promise.all(scrapes);
    expect(texts.length).toBeGreaterThan(3);
    for (const [index, text] of texts.entries()) {
      expect(undescribed(text)).toEqual([]);
      expect(decreased(texts[index - 1] ?? '', text)).toEqual([]);
    }
    const final = seriesIn(texts.at(-1) ?? '');
    const sum = (metric: string, part: string): number =>
      [...final].reduce(
        (total, [series, value]) =>
          series.split('{', 1)[0] === `connector_sync_${metric}` && series.includes(part)
            ? total + value
            : total,
        0,
      );
    for (const { entity, counts, pages } of report.entities) {
      const { fetched: _, ...changes } = counts;
      for (const [change, count] of Object.entries(changes)) {
        expect([entity, change, sum('records_total', `entity="${entity}",change="${change}"`)]).toEqual([
          entity,
          change,
          count,
        ]);
      }
      expect([entity, sum('pages_total', `entity="${entity}"`)]).toEqual([entity, pages]);
    }
    expect(sum('requests_total', 'answer="ok"')).toBeGreaterThanOrEqual(report.calls);
    expect(sum('runs_total', 'outcome="ok"')).toBe(1);
    expect(sum('run_duration_seconds_count', '')).toBe(1);
    expect(sum('in_flight_bytes', '')).toBe(0);
    expect(sum('running_runs', '')).toBe(0);
    // What all connectors did together is here what the one did.
    for (const metric of ['records_total', 'requests_total', 'runs_total', 'wait_seconds_total']) {
      expect([metric, sum(`worker_${metric}`, '')]).toEqual([metric, sum(metric, '')]);
    }
  });
});

describe('log lines', () => {
  it('contain only allow-listed properties of an error', async () => {
    const lines = await collect('trace');
    const hostile = Object.assign(new Error('call failed'), {
      code: 'ECONNRESET',
      config: { headers: { Authorization: 'Bearer planted-1' } },
      options: { auth: 'planted-2' },
      response: { body: ['planted-3'] },
    });
    lines.log.error({ err: hostile }, 'x');
    const failure = new SyncError('refused', {
      code: 'UPSTREAM',
      recovery: 'retry',
      context: { status: 500 },
      cause: hostile,
    });
    lines.log.error({ err: failure }, 'x');
    expect(lines.written.join('')).not.toContain('planted');
    expect(lines.parsed()).toMatchObject([
      { level: 'error', err: { type: 'Error', code: 'ECONNRESET', message: 'call failed' } },
      { err: { type: 'SyncError', code: 'UPSTREAM', recovery: 'retry', context: { status: 500 } } },
    ]);
  });

  it('stay one line each, whatever remote text holds', async () => {
    const lines = await collect('info');
    logRunEvent(lines.log, newsletter, {
      kind: 'walk-set-aside',
      entity: lists,
      params: { id: 'a\nb' },
      code: 'UPSTREAM',
      message: 'x\n{"level":"fatal"}\u001b[31m',
    });
    expect(lines.written).toHaveLength(1);
    expect(lines.written[0]?.trimEnd()).not.toMatch(/\p{Cc}/u);
    expect(lines.parsed()).toMatchObject([{ level: 'warn', event: 'walk-set-aside', connector: newsletter }]);
  });

  it.each<[RunEvent, string]>([
    [{ kind: 'throttled', waitMs: 5 }, 'warn'],
    [{ kind: 'page-requested', entity: lists, params: {} }, 'debug'],
    [finishedAs('ok'), 'info'],
    [finishedAs('degraded'), 'warn'],
    [finishedAs('failed'), 'error'],
  ])('have the level of their urgency: %o', async (event, level) => {
    const lines = await collect('trace');
    logRunEvent(lines.log, newsletter, event);
    expect(lines.parsed()).toMatchObject([{ level }]);
  });

  it('below the chosen level are not written', async () => {
    const lines = await collect('info');
    logRunEvent(lines.log, newsletter, { kind: 'page-requested', entity: lists, params: {} });
    expect(lines.written).toEqual([]);
  });

  it('refuse a level that there is not, and name those there are', async () => {
    await expect(collect('loud')).rejects.toThrow(
      'expected one of trace, debug, info, warn, error, fatal, silent',
    );
  });
});

function finishedAs(outcome: string): RunEvent {
  return {
    kind: 'run-finished',
    connector: newsletter,
    run: 'r' as never,
    outcome,
    ms: 1,
    waitedMs: 0,
  };
}

async function collect(level: string): Promise<{
  readonly log: Log;
  readonly written: string[];
  parsed(): readonly unknown[];
}> {
  const written: string[] = [];
  const log = await openLog({ level, write: (line) => written.push(line) });
  return { log, written, parsed: () => written.map((line) => JSON.parse(line) as unknown) };
}

describe('the scrubber', () => {
  it('removes a secret in every spelling it takes', () => {
    const scrubber = createScrubber();
    const secret = 'p"ä s/s=w+o%rd';
    scrubber.register(new Secret(secret));
    const spellings = [
      secret,
      JSON.stringify({ secret }),
      `https://example.com/?secret=${encodeURIComponent(secret)}`,
      `Basic ${Buffer.from(secret).toString('base64')}`,
    ];
    for (const text of spellings) {
      expect(scrubber.scrub(text)).toContain('[secret]');
      for (const spelling of spellings) expect(scrubber.scrub(text)).not.toContain(spelling);
    }
  });

  it('removes the password of a secret URL wherever it stands alone', () => {
    const scrubber = createScrubber();
    scrubber.register(new Secret('redis://user:hunter%212@host:6379'));
    expect(scrubber.scrub('WRONGPASS hunter!2 or hunter%212')).toBe('WRONGPASS [secret] or [secret]');
  });

  it('removes a secret whole that contains another one', () => {
    const scrubber = createScrubber();
    scrubber.register(new Secret('abcd'));
    scrubber.register(new Secret('abcd-tail'));
    expect(scrubber.scrub('abcd-tail')).toBe('[secret]');
  });

  it('removes unregistered bearer tokens', () => {
    expect(createScrubber().scrub('{"authorization":"Bearer eyJ.x-y_z","next":1}')).toBe(
      '{"authorization":"Bearer [secret]","next":1}',
    );
  });

  it('leaves text alone when a secret is too short to be one', () => {
    const scrubber = createScrubber();
    scrubber.register(new Secret(''));
    scrubber.register(new Secret('a'));
    expect(scrubber.scrub('banana')).toBe('banana');
  });
});
