import { instant } from '../core/clock.ts';
import type { RunKind } from '../sinks/run-report.ts';
import type { RunPlan } from '../sinks/sink.ts';

export interface RunOptions {
  readonly kind: Extract<RunKind, 'sync' | 'backfill'>;
  /** Of a backfill: change values from `sinceMs` up to, not including, `untilMs`. Null in a sync. */
  readonly window: Window | null;
  /** The backfill that the window belongs to: `RunPlan.backfill`. Null in a sync. */
  readonly backfill: string | null;
  /** Everything is read in full, whatever is known. */
  readonly isFull: boolean;
  /** What a guard withholds is let pass. */
  readonly allowDeletes: boolean;
  /** Neither time nor calls without end: what was not read for longest goes first, and the run ends as `partial`. */
  readonly budgetMs: number | null;
  readonly maxCalls: number | null;
  readonly guards: Guards;
  /** What a person asked for with it: `RunPlan.act`. */
  readonly act?: RunPlan['act'];
}

export interface Window {
  readonly sinceMs: number;
  readonly untilMs: number;
}

/** As the ledger has it: `2026-01-01T00:00:00.000Z/2026-02-01T00:00:00.000Z`. */
export function windowText({ sinceMs, untilMs }: Window): string {
  return `${instant(sinceMs)}/${instant(untilMs)}`;
}

/**
 * In 24 hours, more than this share of an entity's rows **and** more than this many are not deleted without being
 * allowed to.
 */
export interface Guards {
  readonly maxDeleteShare: number;
  readonly minDeleteRows: number;
}

export const ordinaryRun: RunOptions = {
  kind: 'sync',
  window: null,
  backfill: null,
  isFull: false,
  allowDeletes: false,
  budgetMs: null,
  maxCalls: null,
  guards: { maxDeleteShare: 0.2, minDeleteRows: 20 },
};
