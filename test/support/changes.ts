/**
 * Rows for `it.each`: what is said of a text in which `from → to` was changed, as `[change, from, to, said]`. Not for
 * texts that hold an arrow themselves.
 */
export function changes(saidOf: Readonly<Record<string, string>>) {
  return Object.entries(saidOf).map(([change, said]) => {
    const [from = '', to = ''] = change.split(' → ');
    return [change, from, to, said] as const;
  });
}
