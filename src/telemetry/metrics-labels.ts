/** Turns a value into one that may be a label: every value that was ever seen stays in memory and in the operator's store. */
export type Label = (value: string) => string;

/** Values of a closed set; anything else is `other`. */
export function oneOf(known: readonly string[]): Label {
  const values = new Set(known);
  return (value) => (values.has(value) ? value : 'other');
}
