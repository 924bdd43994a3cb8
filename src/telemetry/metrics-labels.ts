const other = 'other';

/** Turns a value into one that may be a label: every value that was ever seen stays in memory and in the operator's store. */
export type Label = (value: string) => string;

/** Values of a closed set; anything else is `other`. */
export function oneOf(known: readonly string[]): Label {
  const values = new Set(known);
  return (value) => (values.has(value) ? value : other);
}

/** Names that the config or a definition gives: the first `limit` of them; further ones are `other`. */
export function atMost(limit: number): Label {
  const values = new Set<string>();
  return (value) => {
    if (values.size < limit) values.add(value);
    return values.has(value) ? value : other;
  };
}

/** Far above what one config holds. One pair for all metrics, so that a name is the same everywhere. */
export interface NameLabels {
  readonly connector: Label;
  readonly entity: Label;
}

export function nameLabels(): NameLabels {
  return { connector: atMost(500), entity: atMost(1000) };
}
