import { connectorNamed } from '../settings/chosen-connectors.ts';
import { openExistingHistory } from '../sinks/registry.ts';
import { windowText } from '../engine/run-options.ts';
import type { RunBackfill } from '../jobs/run-connector.ts';
import { plannedBackfill, readRequest } from './backfill-request.ts';
import { runWindows } from './run-windows.ts';
import { loggedRun, type WorkerRunsOptions } from './worker-runs.ts';

/**
 * A worker's way to make a backfill: a run for each window that is not done. A window that had to leave something out is not done, yet
 * this process does not try it again: a job that gave way to a sync would otherwise begin with the same one for ever.
 */
export function workerBackfills(options: WorkerRunsOptions): RunBackfill {
  const tried = new Set<string>();
  return async (text, name, { shouldYield, ...request }) => {
    const connector = connectorNamed(options.app.settings, name);
    const asked = readRequest(text);
    const plan = plannedBackfill(connector, asked);
    const keyOf = (window: string): string => `${name} ${plan.id} ${window}`;
    await using history = await openExistingHistory(connector.sink);
    const finished = new Set(await history?.finishedWindows(name, plan.id));
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
    // What is over leaves no trace, so that the same backfill can be asked for again.
    if (isDone) for (const window of texts) tried.delete(keyOf(window));
    return last === null ? { ...nothingLeft, isDone } : { ...last, isDone };
  };
}

const nothingLeft = { outcome: 'ok', run: null, error: null, resumeAt: null };
