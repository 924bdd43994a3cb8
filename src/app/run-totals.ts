import type { RunReport } from '../sinks/run-report.ts';

/** Records that were compared, including elements that became separate rows: the sum in a report's table. */
export function recordsRead({ entities }: RunReport): number {
  return entities.reduce((sum, { counts }) => sum + counts.fetched, 0);
}

export function rowsWritten({ entities }: RunReport): number {
  return entities.reduce((sum, { counts }) => sum + counts.inserted + counts.updated, 0);
}

export function tookMs({ startedAt, finishedAt }: RunReport): number {
  return Date.parse(finishedAt) - Date.parse(startedAt);
}
