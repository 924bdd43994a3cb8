import type { CellColumn } from '../ledger/driver.ts';

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

/** The sink's own columns of closed versions, beside those of records. */
export const versionOwn: readonly CellColumn[] = [
  { name: '_seq_to', type: 'integer' },
  { name: '_row', type: 'integer' },
  { name: '_seq', type: 'integer' },
  { name: '_valid_from', type: 'time' },
  { name: '_valid_to', type: 'time' },
  { name: '_run_id', type: 'string' },
  { name: '_deleted_at', type: 'time' },
  { name: '_hash', type: 'string' },
  { name: '_extra', type: 'any' },
];
