import { describe, expect } from 'vitest';
import { it } from '../support/it.ts';
import { openMetrics } from '../../src/telemetry/metrics.ts';
import { decreased, seriesIn, undescribed } from '../support/monitor/prometheus-text.ts';
import { builtInDefinition, startSampleService } from '../support/sample-service.ts';
import { sampleSinks } from '../support/sample-sinks.ts';
import { syncOnce } from '../support/sync-once.ts';
import { connector, sampled } from '../support/telemetry/metrics-names.ts';

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
