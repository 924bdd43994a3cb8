/**
 * The series of one metric that has a label for each connector: some hundred thousand of them in a large config, so
 * each is a text and a number. Names and labels are as in Prometheus's text format.
 */
export interface Series {
  /** A counter that has not begun stays away until it does: 0 begins none. */
  add(labels: string, value: number): void;
  set(labels: string, value: number): void;
  remove(labels: string): void;
  clear(): void;
  /** With the lines that describe it, which are there also where no series is. */
  text(): string;
}

export function openSeries(name: string, type: 'counter' | 'gauge', help: string): Series {
  const valueByLabels = new Map<string, number>();
  return {
    add(labels, value) {
      const known = valueByLabels.get(labels);
      if (known !== undefined) valueByLabels.set(labels, known + value);
      else if (value !== 0) valueByLabels.set(labels, value);
    },
    set: (labels, value) => void valueByLabels.set(labels, value),
    remove: (labels) => void valueByLabels.delete(labels),
    clear: () => valueByLabels.clear(),
    text() {
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
 * Turns a value into one that may be a label: every value that was ever seen stays in memory and in the operator's
 * store.
 */
type Label = (value: string) => string;

/** Values of a closed set; anything else is `other`. */
export function oneOf(known: readonly string[]): Label {
  const values = new Set(known);
  return (value) => (values.has(value) ? value : 'other');
}
