import type { Clock } from '../core/clock.ts';
import { isPutOff } from '../core/errors.ts';
import { windowText } from '../engine/plan-run.ts';
import type { ConnectorJob } from '../jobs/open-queue-set.ts';
import type { RunJob, RunRequest } from '../jobs/worker-context.ts';
import { connectorNamed } from '../settings/choices.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import type { RunReport } from '../sinks/run-report.ts';
import { levelByOutcome, type Log, logRunEvent } from '../telemetry/log.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { App, AskedRun, OnRunEnd, SyncRequest } from './app.ts';
import { finishedWindows, plannedBackfill, runWindows } from './backfill.ts';
import { recordsRead, rowsWritten, tookMs } from './run-totals.ts';

export interface WorkerRunsOptions {
  readonly app: App;
  readonly metrics: Metrics;
  readonly log: Log;
  readonly clock: Clock;
}

/**
 * Makes the run of a job for a worker. A backfill is one run for each window that is not done. A window that had to
 * leave something out is not done, but this process does not retry it: a job that yielded to a sync would otherwise
 * start with the same window forever.
 */
export function workerRuns(options: WorkerRunsOptions): RunJob {
  const tried = new Set<string>();
  return async (work, { shouldYield, ...request }) => {
    const name = work.connector;
    const connector = connectorNamed(options.app.settings, name);
    if (work.kind === 'sync') {
      return await loggedRun(options, connector, request, {
        globs: { select: [], exclude: [] },
        run: askedRun(work),
      });
    }
    const asked = work.backfill;
    const plan = plannedBackfill(connector, asked);
    const keyOf = (window: string): string => `${name} ${plan.id} ${window}`;
    const finished = await finishedWindows(connector, plan);
    const texts = plan.windows.map(windowText);
    const { last, isDone } = await runWindows({
      plan,
      done: new Set(texts.filter((window) => finished.has(window) || tried.has(keyOf(window)))),
      run: async (window) => {
        const report = await loggedRun(options, connector, request, {
          globs: { select: asked.entities, exclude: [] },
          run: { kind: 'backfill', window, backfill: plan.id },
        });
        if (report.outcome === 'degraded') tried.add(keyOf(windowText(window)));
        return report;
      },
      shouldYield,
    });
    // A finished backfill leaves no trace, so that the same one can be requested again.
    if (isDone) for (const window of texts) tried.delete(keyOf(window));
    return last === null ? { ...nothingLeft, isDone } : { ...last, isDone };
  };
}

type AskedSync = Extract<ConnectorJob, { kind: 'sync' }>;

/** The run of a job records the person who requested it, if there was one. */
function askedRun({ by, allowDeletes = false, isFull = false }: AskedSync): AskedRun {
  if (by === undefined) return {};
  const action = allowDeletes ? 'allow-deletes' : isFull ? 'read-in-full' : 'run-now';
  return { allowDeletes, isFull, act: { action, who: by } };
}

const nothingLeft = { outcome: 'ok', error: null, resumeAt: null };

/** Makes one run, and logs and counts each of its events. */
async function loggedRun(
  { app, metrics, log }: WorkerRunsOptions,
  connector: ConnectorSettings,
  { signal, onEvent }: Omit<RunRequest, 'shouldYield'>,
  what: Pick<SyncRequest, 'globs' | 'run'>,
): Promise<RunReport> {
  const { name } = connector;
  return await app.sync(connector, {
    ...what,
    onEvent: (event) => {
      // `workerRunEnd` logs the end.
      if (event.kind !== 'run-finished') logRunEvent(log, name, event);
      metrics.onRunEvent(name, event);
      onEvent(event);
    },
    signal,
  });
}

/** Records the end of each run of a worker: counts it and writes one line to the log. */
export function workerRunEnd(metrics: Metrics, log: Log): OnRunEnd {
  return ({ connector, ...end }) => {
    if (end.kind === 'ended') {
      metrics.runEnded(connector.name, end.report.outcome);
      log[levelByOutcome(end.report.outcome)](endFields(connector, end.report), 'run ended');
    } else if (!isPutOff(end.error)) {
      metrics.runEnded(connector.name, 'failed');
    }
  };
}

function endFields(connector: ConnectorSettings, report: RunReport): object {
  const { run, outcome, error, resumeAt } = report;
  const withheld = report.entities.reduce((sum, entity) => sum + entity.withheld, 0);
  return {
    event: 'run-finished',
    connector: connector.name,
    outcome,
    run,
    ...(report.kind === 'sync' ? {} : { kind: report.kind }),
    read: recordsRead(report),
    written: rowsWritten(report),
    ms: tookMs(report),
    ...(error === null ? {} : { code: error.code, error: error.message }),
    ...(resumeAt === null ? {} : { resumeAt }),
    ...(withheld === 0 ? {} : { withheld }),
  };
}
