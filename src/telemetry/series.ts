import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

const prefix = 'connector_sync_';

/** Makes metrics in a registry. Each has the program's prefix. */
export function metricsIn(registry: Registry) {
  const described = (name: string, help: string) => ({ name: prefix + name, help, registers: [registry] });
  return {
    counter: <Label extends string = never>(name: string, help: string, labelNames: readonly Label[] = []) =>
      new Counter({ ...described(name, help), labelNames }),
    gauge: <Label extends string = never>(name: string, help: string, labelNames: readonly Label[] = []) =>
      new Gauge({ ...described(name, help), labelNames }),
    histogram: (name: string, buckets: readonly number[], help: string) =>
      new Histogram({ ...described(name, help), buckets: [...buckets] }),
  };
}

/** Series by the names of their metrics. As in Prometheus, a metric whose name ends in `_total` is a counter. */
export function openSeries<Name extends string>(
  helpByName: Readonly<Record<Name, string>>,
): Readonly<Record<Name, Series>> {
  const series = Object.entries<string>(helpByName).map(([name, help]) => [name, openOne(name, help)]);
  // `as`: the entries have the same names.
  return Object.fromEntries(series) as Record<Name, Series>;
}

/**
 * The series of one metric that has a label for each connector: some hundred thousand of them in a large config, so
 * each is a text and a number. Names and labels are as in Prometheus's text format.
 */
export type Series = ReturnType<typeof openOne>;

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
    /** With the lines that describe it, which are there also where no series is. */
    text: (): string => {
      const lines = [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`];
      for (const [labels, value] of valueByLabels) lines.push(`${name}{${labels}} ${value}`);
      return `${lines.join('\n')}\n`;
    },
  };
}

/** Values are names of a config or a definition, and codes: none holds a quotation mark or a line end. */
export function labelText(labels: Readonly<Record<string, string>>): string {
  let text = '';
  for (const name in labels) text += `${text === '' ? '' : ','}${name}="${labels[name]}"`;
  return text;
}

/**
 * Turns a value into one that may be a label: a value of the closed set, or `other`. Every value that was ever seen
 * stays in memory and in the operator's store.
 */
export function oneOf(known: readonly string[]): (value: string) => string {
  const values = new Set(known);
  return (value) => (values.has(value) ? value : 'other');
}
