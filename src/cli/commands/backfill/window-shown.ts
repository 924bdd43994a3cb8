import type { App } from '../../../app/app.ts';
import { instant } from '../../../core/clock.ts';
import type { EntityName } from '../../../core/names.ts';
import { windowText, type Window } from '../../../engine/run-options.ts';
import type { ConnectorSettings } from '../../../settings/settings.ts';
import type { RunReport } from '../../../sinks/run-report.ts';
import { logRunEvent } from '../../../telemetry/log-run-event.ts';
import { openLog } from '../../../telemetry/log.ts';
import { duration } from '../../../telemetry/progress-text.ts';
import { showProgress } from '../../../telemetry/show-progress.ts';
import { toTheSecond } from '../../output/about-time.ts';
import type { CommandContext } from '../../command-context.ts';
import { logLevel } from '../../environment.ts';
import { endText } from '../../output/run-end-text.ts';

export interface ShownWindow {
  readonly connector: ConnectorSettings;
  readonly backfill: string;
  readonly entities: readonly EntityName[];
  readonly window: Window;
}

/** The run of one window: progress while it goes on, then a line; with `--json` an event per line, then the report. */
export async function windowShown(
  app: App,
  { connector, backfill, entities, window }: ShownWindow,
  { terminal, clock, env, signal }: CommandContext,
): Promise<RunReport> {
  const level = logLevel(env);
  const log =
    level === null ? null : await openLog({ level, write: (line) => terminal.note(line.trimEnd()) });
  const text = windowText(window);
  const report = await withProgress();
  const ms = Date.parse(report.finishedAt) - Date.parse(report.startedAt);
  terminal.printJson({ kind: 'run-report', connector: connector.name, window: text, report });
  terminal.print(`${rangeText(window)}: ${endText(report, duration(ms))}  run ${report.run}`);
  return report;

  async function withProgress(): Promise<RunReport> {
    await using progress = showProgress(connector.name, terminal, clock);
    return await app.sync(connector, {
      globs: { select: entities, exclude: [] },
      run: { kind: 'backfill', window, backfill },
      onEvent: (event) => {
        progress.onEvent(event);
        if (log !== null) logRunEvent(log, connector.name, event);
        const time = instant(clock.now());
        terminal.printJson({ ...event, time, connector: connector.name, window: text });
      },
      signal,
    });
  }
}

/** `2025-01-01 to 2025-02-01`; with the time of day where that is not midnight. */
export function rangeText({ sinceMs, untilMs }: Window): string {
  return `${timeText(sinceMs)} to ${timeText(untilMs)}`;
}

function timeText(ms: number): string {
  return toTheSecond(ms).replace(/T00:00:00Z$/, '');
}
