import type { Clock } from '../../../core/clock.ts';
import type { RunEvent } from '../../../core/events.ts';
import type { AskedRun } from '../../../app/app.ts';
import type { RunReport } from '../../../sinks/run-report.ts';
import { durationOf, wholeNumber } from '../../command.ts';

/** What a person may say of the runs of one command, as it came from the command line. */
interface RunFlags {
  readonly full?: boolean;
  readonly allowDeletes?: boolean;
  readonly budget?: string | undefined;
  readonly maxCalls?: string | undefined;
}

/** What several runs, one after another, may take together. */
export type AskedRuns = ReturnType<typeof askedRuns>;

/** Time counts from now on. Throws USAGE for values that mean nothing. */
export function askedRuns(flags: RunFlags, clock: Clock) {
  const budgetMs = flags.budget === undefined ? null : durationOf('--budget', flags.budget);
  const maxCalls =
    flags.maxCalls === undefined ? null : wholeNumber('--max-calls', flags.maxCalls, undefined, 1);
  const { full: isFull = false, allowDeletes = false } = flags;
  const endMs = budgetMs === null ? null : clock.now() + budgetMs;
  let callsUsed = 0;
  let callsSeen = 0;

  return {
    isBudgeted: budgetMs !== null || maxCalls !== null,
    /** What the next run is asked for; null when the time or the calls are used up. */
    next: (): AskedRun | null => {
      const msLeft = endMs === null ? null : endMs - clock.now();
      const callsLeft = maxCalls === null ? null : maxCalls - callsUsed;
      if ((msLeft !== null && msLeft <= 0) || (callsLeft !== null && callsLeft <= 0)) return null;
      return { isFull, allowDeletes, budgetMs: msLeft, maxCalls: callsLeft };
    },
    /** Takes the events of a run: the calls of one that brings no report are counted by them. */
    onEvent: (event: RunEvent): void => {
      if (event.kind === 'call-ended' && event.entity !== null) callsSeen += 1;
    },
    /** Ends the account of a run; without a report it could not begin, or its end could not be stored. */
    ended: (report: RunReport | null): void => {
      callsUsed += report?.calls ?? callsSeen;
      callsSeen = 0;
    },
  };
}
