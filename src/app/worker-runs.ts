import type { App, SyncRequest } from './app.ts';
import { instant, type Clock } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import type { RunConnector, RunRequest } from '../jobs/run-connector.ts';
import { connectorNamed } from '../settings/chosen-connectors.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import type { RunReport } from '../sinks/run-report.ts';
import { logRunEvent } from '../telemetry/log-run-event.ts';
import type { Log } from '../telemetry/log.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { recordsRead } from '../cli/output/run-end-text.ts';
import { rowsWritten } from '../cli/output/run-report-text.ts';
import { tellProgress } from './tell-progress.ts';

export interface EndedRun {
  readonly connector: ConnectorSettings;
  readonly report: RunReport;
  /** When its schedule comes next, in milliseconds; null where that is not known. */
  readonly next: number | null;
}

export interface WorkerRunsOptions {
  readonly app: App;
  readonly metrics: Metrics;
  readonly log: Log;
  readonly clock: Clock;
  readonly nextRun: (connector: ConnectorSettings) => Promise<number | null>;
  readonly onRunEnd: (ended: EndedRun) => void;
}

/** A worker's way to run a connector. */
export function workerRuns(options: WorkerRunsOptions): RunConnector {
  return (name, request) =>
    loggedRun(options, connectorNamed(options.app.settings, name), request, {
      globs: { select: [], exclude: [] },
    });
}

/** One run, each event of which is logged and counted, and its end told in a line of its own. */
export async function loggedRun(
  options: WorkerRunsOptions,
  connector: ConnectorSettings,
  { signal, onEvent }: RunRequest,
  what: Pick<SyncRequest, 'globs' | 'run'>,
): Promise<RunReport> {
  const { app, metrics, log, clock } = options;
  const { name } = connector;
  const onProgress = tellProgress(log, name, clock);
  try {
    const report = await app.sync(connector, {
      ...what,
      onEvent: (event) => {
        logRunEvent(log, name, event);
        onProgress(event);
        metrics.onRunEvent(name, event);
        onEvent(event);
      },
      signal,
    });
    metrics.runEnded(name, report.outcome);
    // Not waited for: the job must not stay open because Redis is slow to say when the next one comes.
    void tellEnd(options, connector, report);
    return report;
  } catch (error) {
    if (!isPutOff(error)) metrics.runEnded(name, 'failed');
    throw error;
  }
}

/** Never rejects, as `nextRun` does not. */
async function tellEnd(
  { log, nextRun, onRunEnd }: WorkerRunsOptions,
  connector: ConnectorSettings,
  report: RunReport,
): Promise<void> {
  const next = await nextRun(connector);
  const { run, outcome, error, resumeAt } = report;
  const withheld = report.entities.reduce((sum, entity) => sum + entity.withheld, 0);
  log[levels[outcome]](
    {
      connector: connector.name,
      outcome,
      run,
      ...(report.kind === 'sync' ? {} : { kind: report.kind }),
      read: recordsRead(report),
      written: rowsWritten(report),
      ms: Date.parse(report.finishedAt) - Date.parse(report.startedAt),
      next: next === null ? null : instant(next),
      ...(error === null ? {} : { code: error.code, error: error.message }),
      ...(resumeAt === null ? {} : { resumeAt }),
      ...(withheld === 0 ? {} : { withheld }),
    },
    'run ended',
  );
  onRunEnd({ connector, report, next });
}

const levels = {
  ok: 'info',
  partial: 'info',
  interrupted: 'info',
  degraded: 'warn',
  failed: 'error',
} as const;

/** No run was begun, or the sink's file was taken away from it; none has failed: the job comes again by itself. */
function isPutOff(error: unknown): boolean {
  return (
    error instanceof SyncError &&
    (error.code === 'CONNECTOR_BUSY' ||
      error.code === 'INTERRUPTED' ||
      error.code === 'THROTTLED' ||
      error.code === 'SINK_MOVED')
  );
}
