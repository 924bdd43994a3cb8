import type { App, RunEnd, SyncRequest } from '../../app/app.ts';
import { openApp } from '../../app/open-app.ts';
import { tookMs } from '../../app/run-totals.ts';
import { instant } from '../../core/clock.ts';
import type { OnRunEvent } from '../../core/events.ts';
import type { ConnectorName } from '../../core/names.ts';
import type { SettingsWith } from '../../settings/settings.ts';
import type { RunReport } from '../../sinks/run-report.ts';
import { count, duration, printable, printableWithin } from '../../telemetry/format.ts';
import { logRunEvent } from '../../telemetry/log.ts';
import { retryText, showProgress } from '../../telemetry/progress.ts';
import { deleteLines, failureText, runFacts, runTable } from '../../wording/run-report-table.ts';
import type { CommandContext } from '../command.ts';
import { stderrLog } from '../environment.ts';
import type { Terminal } from './terminal.ts';
import { indentedTable, wrapped } from './text-table.ts';

/**
 * Shows a run in progress: progress for a person, an event per line for a program (with `marks` in each; null:
 * none), log lines where $LOG_LEVEL asks for them.
 */
export async function showRun<T>(
  context: CommandContext,
  connector: ConnectorName,
  marks: { readonly window?: string } | null,
  run: (shown: Pick<SyncRequest, 'onEvent'>) => Promise<T>,
): Promise<T> {
  const { terminal, clock } = context;
  const log = await stderrLog(context);
  await using progress = showProgress(connector, terminal, clock);
  const onEvent: OnRunEvent = (event) => {
    progress.onEvent(event);
    if (log !== null) logRunEvent(log, connector, event);
    if (marks !== null) terminal.printJson({ ...event, time: instant(clock.now()), connector, ...marks });
  };
  return await run({ onEvent });
}

/** Prints how a run ended; if none began, the command explains it. */
export function showRunEnd(context: CommandContext, end: RunEnd): void {
  if (end.kind === 'failed') return;
  const { terminal } = context;
  terminal.printJson({ kind: 'run-report', connector: end.connector.name, report: end.report });
  terminal.print(...runReportText(end.report, terminal.columns(), context));
}

/** Shorter waits are over before a person can read the line. */
const leastMs = 500;

/**
 * Opens an app for a command that makes a few calls and shows no progress. It shows each wait before a retry on stderr,
 * because a missing service would otherwise look like a program that hangs. The caller disposes it.
 */
export async function openPatientApp(
  { clock, terminal }: Pick<CommandContext, 'clock'> & { readonly terminal: Pick<Terminal, 'note'> },
  settings: SettingsWith<'access'>,
  command: string,
  isDetailed = false,
): Promise<App> {
  const onWait = showWaits(terminal, isDetailed);
  return await openApp({ settings, clock, command: `connector-sync ${command}`, onWait });
}

/** Shows each wait before a retry on stderr. */
export function showWaits(terminal: Pick<Terminal, 'note'>, isDetailed = false): OnRunEvent {
  return (event) => {
    if ((event.kind !== 'call-retried' && event.kind !== 'throttled') || event.waitMs < leastMs) return;
    if (event.kind === 'throttled') {
      terminal.note(`rate-limit wait, next call in ${duration(event.waitMs)}`);
    } else if (event.code !== 'THROTTLED') {
      const why = isDetailed ? `: ${printableWithin(event.message, 300)}` : '';
      terminal.note(`${retryText(event, event.waitMs)}${why}`);
    }
  };
}

const shownFailures = 10;
const indent = '  ';

/**
 * Describes a run for people: one line, a table by entity, how to continue, failures. The table has its full width
 * where `width` is null.
 */
export function runReportText(
  report: RunReport,
  width: number | null,
  { program = 'connector-sync', isVerbose = false }: Partial<CommandContext> = {},
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
