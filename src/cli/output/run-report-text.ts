import { tookMs } from '../../app/run-totals.ts';
import type { RunReport } from '../../sinks/run-report.ts';
import { count, duration, printable } from '../../telemetry/format.ts';
import { deleteLines, failureText, runFacts, runTable } from '../../wording/run-report-table.ts';
import { indentedTable, wrapped } from './text-table.ts';

const shownFailures = 10;
const indent = '  ';

interface RunTextStyle {
  /** How this program is called, for commands in the text. */
  readonly program?: string;
  /** Also the names of the proofs that listings were read completely. */
  readonly isVerbose?: boolean;
}

/**
 * A run for people: one line, a table by entity, how to continue, what failed. The table is as wide as it gets where
 * `width` is null.
 */
export function runReportText(
  report: RunReport,
  width: number | null,
  { program = 'connector-sync', isVerbose = false }: RunTextStyle = {},
): readonly string[] {
  const { columns, rows } = runTable(report, isVerbose);
  return [
    heading(report),
    ...(report.outcome === 'failed' ? failureLines(report) : []),
    ...(rows.length === 0 ? [] : indentedTable(columns, rows, width)),
    ...runFacts(report).flatMap((line) => wrapped(`${indent}${line}`, width)),
    ...deleteLines(report, program).map((line) => `${indent}${line}`),
    ...(report.outcome === 'failed' ? [] : failureLines(report)),
  ];
}

function heading(report: RunReport): string {
  const ms = tookMs(report);
  const resumed = report.continues === null ? '' : `, resumed ${report.continues}; finished parts skipped`;
  const error = report.error === null ? '' : ` (${report.error.code}: ${printable(report.error.message)})`;
  return `${report.connector}: ${report.outcome} in ${duration(ms)}${error}  run ${report.run}${resumed}`;
}

function failureLines(report: RunReport): readonly string[] {
  const shown = report.failures.slice(0, shownFailures);
  const omitted = report.failures.length + report.failuresOmitted - shown.length;
  return [
    ...shown.map((failure) => `  ! ${failureText(failure)}`),
    ...(omitted > 0 ? [`  ! and ${count(omitted)} more`] : []),
  ];
}
