import type { App, EntityGlobs, SyncRequest } from '../app/app.ts';
import type { RunEvent } from '../core/events.ts';
import { instant } from '../core/clock.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import type { RunReport } from '../sinks/run-report.ts';
import { logRunEvent } from '../telemetry/log-run-event.ts';
import { openLog } from '../telemetry/log.ts';
import { showProgress } from '../telemetry/show-progress.ts';
import type { CommandContext } from './command-context.ts';
import { logLevel } from './environment.ts';
import { runReportText } from './output/run-report-text.ts';

/**
 * One run of one connector in front of a person (progress, then a table) or a program (an event per line, then the
 * report). With $LOG_LEVEL set, events also go to stderr as log lines. Throws where no run could begin.
 */
export async function syncShown(
  app: App,
  connector: ConnectorSettings,
  globs: EntityGlobs,
  context: CommandContext,
  more: Partial<Pick<SyncRequest, 'run' | 'onEvent'>> = {},
): Promise<RunReport> {
  const { terminal, clock, env, signal } = context;
  const level = logLevel(env);
  const log = level === null ? null : await openLog({ level, write: addLine(context) });
  const report = await withProgress(connector, context, (onEvent, onStatus) =>
    app.sync(connector, {
      globs,
      onStatus,
      run: more.run ?? {},
      onEvent: (event) => {
        more.onEvent?.(event);
        onEvent(event);
        if (log !== null) logRunEvent(log, connector.name, event);
        terminal.printJson({ ...event, time: instant(clock.now()), connector: connector.name });
      },
      signal,
    }),
  );
  terminal.printJson({ kind: 'run-report', connector: connector.name, report });
  for (const line of runReportText(report, terminal.columns(), context)) terminal.print(line);
  return report;
}

async function withProgress(
  connector: ConnectorSettings,
  { terminal, clock }: CommandContext,
  run: (
    onEvent: (event: RunEvent) => void,
    onStatus: NonNullable<SyncRequest['onStatus']>,
  ) => Promise<RunReport>,
): Promise<RunReport> {
  await using progress = showProgress(connector.name, terminal, clock);
  return await run(progress.onEvent, (status, estimates) => {
    const rows = new Map((status?.entities ?? []).map((known) => [known.entity, known.rows]));
    const expected = estimates.map(
      ({ entity, calls }) => [entity, { rows: rows.get(entity) ?? null, pages: calls }] as const,
    );
    progress.expect(new Map(expected));
  });
}

/** Log lines bring their own line ends. */
function addLine({ terminal }: CommandContext): (line: string) => void {
  return (line) => terminal.note(line.trimEnd());
}
