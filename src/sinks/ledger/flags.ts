/** A row whose booleans SQLite holds as 0 and 1. */
export type Flagged<Row> = { readonly [Part in keyof Row]: Row[Part] extends boolean ? 0 | 1 : Row[Part] };

/** The row with its booleans, which are named. */
export function readFlags<Row extends object>(row: Flagged<Row>, ...names: readonly (keyof Row)[]): Row {
  return { ...row, ...Object.fromEntries(names.map((name) => [name, row[name] === 1])) } as Row;
}
