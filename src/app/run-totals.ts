import type { RunFacts } from '../sinks/ledger-reader.ts';
import type { RunReport } from '../sinks/run-report.ts';

/** Records that were compared, including elements that became separate rows: the sum in a report's table. */
export function recordsRead({ entities }: RunReport): number {
  return entities.reduce((sum, { counts }) => sum + counts.fetched, 0);
}

export function rowsWritten({ entities }: RunReport): number {
  return entities.reduce((sum, { counts }) => sum + counts.inserted + counts.updated, 0);
}

export function rowsDeleted({ entities }: RunReport): number {
  return entities.reduce((sum, { deleted }) => sum + deleted, 0);
}

export function tookMs({ startedAt, finishedAt }: Pick<RunReport, 'startedAt' | 'finishedAt'>): number {
  return Date.parse(finishedAt) - Date.parse(startedAt);
}

/** Duration by one clock: that of the process that made the run. Null while it is in progress. */
export function runMs({ startedAt, finishedAt }: Pick<RunFacts, 'startedAt' | 'finishedAt'>): number | null {
  return finishedAt === null ? null : Math.max(0, tookMs({ startedAt, finishedAt }));
}
