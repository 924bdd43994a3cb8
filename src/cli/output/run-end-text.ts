import type { RunReport } from '../../sinks/run-report.ts';
import { count } from '../../telemetry/progress-text.ts';
import { rowsWritten } from './run-report-text.ts';

/** A run's end in one line: `ok in 1.2 s: 45,000 read, 12 written` (records and rows); what went wrong by its code. */
export function endText(report: RunReport, took: string): string {
  const error = report.error === null ? '' : ` (${report.error.code})`;
  const pause = report.resumeAt === null ? '' : `; the service asked for quiet until ${report.resumeAt}`;
  return `${report.outcome}${error} in ${took}: ${count(recordsRead(report))} read, ${count(rowsWritten(report))} written${pause}`;
}

/** Records that were looked at, elements that became rows of their own among them: the sum in a report's table. */
export function recordsRead(report: RunReport): number {
  return report.entities.reduce((sum, { counts }) => sum + counts.fetched, 0);
}
