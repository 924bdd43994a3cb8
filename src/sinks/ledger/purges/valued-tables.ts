import { numbered } from '../driver.ts';

/** Tables of the ledger that may have held values of records: their files are rewritten after a purge. */
export const valuedTables = [
  '_sync_quarantine',
  '_sync_downloads',
  '_sync_actions',
  '_sync_conditions',
  '_sync_outbox',
  numbered.partitions.table,
  numbered.runs.table,
] as const;
