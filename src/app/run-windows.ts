import type { BackfillPlan } from '../engine/plan-backfill.ts';
import { windowText, type Window } from '../engine/run-options.ts';
import type { RunReport } from '../sinks/run-report.ts';

export interface RunWindowsOptions {
  readonly plan: BackfillPlan;
  /** Texts of windows that are passed over. */
  readonly done: ReadonlySet<string>;
  readonly run: (window: Window) => Promise<RunReport>;
  /** Asked before each window but the first; true ends the work there. */
  readonly shouldYield: () => Promise<boolean>;
}

export interface RunWindows {
  /** Of the last window that was run; null where none had to be. */
  readonly last: RunReport | null;
  /** Every window was read to its end. */
  readonly isDone: boolean;
}

/**
 * Runs the windows that are not done, newest first, one run each. A run that did not come to its end ends the work: the next call
 * goes on inside that window. One that had to leave something out (`degraded`) does not; its window is read again by the next call.
 */
export async function runWindows({ plan, done, run, shouldYield }: RunWindowsOptions): Promise<RunWindows> {
  let last: RunReport | null = null;
  for (const window of plan.windows) {
    if (done.has(windowText(window))) continue;
    if (last !== null && (await shouldYield())) return { last, isDone: false };
    last = await run(window);
    if (last.outcome !== 'ok' && last.outcome !== 'degraded') return { last, isDone: false };
  }
  return { last, isDone: true };
}
