import { createRequire } from 'node:module';
import * as z from 'zod';

const sample = z.object({
  labels: z.record(z.string(), z.string()).optional(),
  value: z.string().optional(),
  buckets: z.record(z.string(), z.string()).optional(),
  count: z.string().optional(),
  sum: z.string().optional(),
});

const families = z.array(
  z.object({ name: z.string(), help: z.string(), type: z.string(), metrics: z.array(sample) }),
);

type MetricFamily = z.output<typeof families>[number];

/** Parses the text format with a third-party parser. */
export function parsePrometheusText(text: string): readonly MetricFamily[] {
  const parse: unknown = createRequire(import.meta.url)('parse-prometheus-text-format');
  if (typeof parse !== 'function') throw new Error('the parser is not a function');
  return families.parse(parse(text));
}

/** All samples: series -> value, as written. Throws for a duplicate series. */
export function seriesIn(text: string): ReadonlyMap<string, number> {
  const series = new Map<string, number>();
  for (const line of text.split('\n')) {
    if (line === '' || line.startsWith('#')) continue;
    const at = line.lastIndexOf(' ');
    const name = line.slice(0, at);
    if (series.has(name)) throw new Error(`duplicate series ${name}`);
    series.set(name, Number(line.slice(at + 1)));
  }
  return series;
}

/** Names with a sample but without a TYPE line. Samples of histograms and summaries have longer names. */
export function undescribed(text: string): readonly string[] {
  const described = (keyword: string): ReadonlySet<string> =>
    new Set([...text.matchAll(new RegExp(`^# ${keyword} (\\S+) \\S`, 'gm'))].map(([, name = '']) => name));
  const helps = described('HELP');
  const types = described('TYPE');
  return [...seriesIn(text).keys()]
    .map((series) => series.split('{', 1)[0] ?? '')
    .filter((name) => {
      const family = [name, name.replace(/_(bucket|sum|count)$/, '')];
      return !family.some((known) => helps.has(known)) || !family.some((known) => types.has(known));
    });
}

/** Series of counters (also inside histograms) that are lower or missing in the later text. */
export function decreased(earlier: string, later: string): readonly string[] {
  const types = new Map(
    [...earlier.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, type]) => [name, type]),
  );
  const after = seriesIn(later);
  return [...seriesIn(earlier)].flatMap(([series, value]) => {
    const name = series.split('{', 1)[0] ?? '';
    const type = types.get(name) ?? types.get(name.replace(/_(bucket|sum|count)$/, ''));
    const isCounter = type === 'counter' || type === 'histogram';
    return isCounter && (after.get(series) ?? -1) < value ? [series] : [];
  });
}
