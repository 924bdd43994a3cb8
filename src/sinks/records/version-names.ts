/* Beside the table of an entity. No entity has two underscores in its name; no index of a table has a longer suffix. */

/** The table of closed versions. */
export function versionsName(table: string): string {
  return `${table}__versions`;
}

/** The view of all versions. */
export function historyName(table: string): string {
  return `${table}__history`;
}

/** What shows the rows as they were at a moment. */
export function asOfName(table: string): string {
  return `${table}__as_of`;
}

/** The sink's own columns of closed versions, beside those of records, and their names in a copy. */
export const versionOwn = {
  _seq_to: 'seq_to',
  _row: 'row',
  _seq: 'seq',
  _valid_from: 'valid_from',
  _valid_to: 'valid_to',
  _run_id: 'run',
  _deleted_at: 'deleted_at',
  _hash: 'hash',
  _extra: 'extra',
} as const;
