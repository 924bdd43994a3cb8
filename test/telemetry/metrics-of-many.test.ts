import { describe, expect, it } from 'vitest';
import { healthWords, type Health } from '../../src/core/health.ts';
import { openMetrics, type Metrics, type SampledConnector } from '../../src/telemetry/metrics.ts';
import { seriesIn, undescribed } from '../support/monitor/prometheus-text.ts';
import { instantClock } from '../support/instant-clock.ts';
import { connector, entity, sampled } from '../support/telemetry/metrics-names.ts';

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
    ['all', ...healthWords].map((state) => [state, value.get(`connector_sync_connectors{state="${state}"}`)]),
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
