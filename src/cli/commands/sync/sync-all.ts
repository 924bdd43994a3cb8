import type { App, AskedRun, EntityGlobs } from '../../../app/app.ts';
import type { DoneRun, SharedWork } from '../../../app/shared-work.ts';
import { type Clock, instant } from '../../../core/clock.ts';
import { ThrottledError } from '../../../core/errors.ts';
import type { OnRunEvent, RunEvent } from '../../../core/events.ts';
import type { ConnectorName } from '../../../core/names.ts';
import type { ConnectorSettings } from '../../../settings/settings.ts';
import { ConnectorBusyError } from '../../../sinks/acquire-errors.ts';
import type { RunReport } from '../../../sinks/run-report.ts';
import { type CommandContext, durationOf, wholeNumber } from '../../command.ts';
import { type ExitCode, exitCodeOfReport, exitCodes, reportFailureOf } from '../../output/exit-codes.ts';
import { endText } from '../../../wording/run-report-table.ts';
import { allowByAgeText, withheldByAgeText } from '../../../wording/withheld-by-age.ts';
import { showRun } from '../../output/show-run.ts';

/** A connector, and which of its entities a person named. */
export interface ChosenConnector {
  readonly connector: ConnectorSettings;
  readonly globs: EntityGlobs;
}

interface SyncAllOptions {
  readonly app: App;
  readonly asked: AskedRuns;
  /** Null where a single connector is asked for. */
  readonly shared: SharedWork | null;
  readonly context: CommandContext;
}

const lookEveryMs = 1000;
/** A process that was killed on another machine leaves a run that never ends. */
const tryEveryMs = 5 * 60_000;
/** Then the connector is busy, as it is for a command that does not wait. */
const longestWaitMs = 6 * 3_600_000;

/**
 * Syncs one connector after another: first those in which the same command was interrupted; last, and after waiting,
 * those that other processes hold. What another command has done of the same work is not done again. Gives a code for
 * each that it came to.
 */
export async function syncAll(
  options: SyncAllOptions,
  chosen: readonly ChosenConnector[],
): Promise<readonly ExitCode[]> {
  const { shared, context } = options;
  const isFirst = ({ connector }: ChosenConnector): boolean =>
    shared?.interrupted.has(connector.name) === true;
  const codes: ExitCode[] = [];
  const held: ChosenConnector[] = [];
  for (const one of [...chosen.filter(isFirst), ...chosen.filter((other) => !isFirst(other))]) {
    if (context.signal.aborted) return codes;
    const end = await syncOne(options, one);
    if (!(end instanceof ConnectorBusyError)) codes.push(end);
    else {
      held.push(one);
      tellHeld(context, one.connector.name, end);
    }
  }
  for (const one of held) {
    if (context.signal.aborted) return codes;
    codes.push(await syncWhenFree(options, one));
  }
  return codes;
}

/** Another process may do the connector's part meanwhile; where it does not, this one does it when it is free. */
async function syncWhenFree(options: SyncAllOptions, one: ChosenConnector): Promise<ExitCode> {
  const { shared, context } = options;
  const { clock, signal } = context;
  const endMs = clock.now() + longestWaitMs;
  for (let triedMs = clock.now(); ;) {
    try {
      await clock.sleep(lookEveryMs, signal);
    } catch {
      return exitCodes.interrupted; // Only the signal ends a sleep early.
    }
    if ((await shared?.isRunning(one.connector)) === true && clock.now() - triedMs < tryEveryMs) continue;
    triedMs = clock.now();
    const end = await syncOne(options, one);
    if (!(end instanceof ConnectorBusyError)) return end;
    if (clock.now() >= endMs) return tellError(context, one.connector.name, end);
  }
}

/**
 * A connector whose run cannot even begin does not keep the others from theirs. Of several, one that is busy is given
 * back.
 */
async function syncOne(
  { app, asked, shared, context }: SyncAllOptions,
  one: ChosenConnector,
): Promise<ExitCode | ConnectorBusyError> {
  const { connector, globs } = one;
  const { terminal, signal } = context;
  const done = (await shared?.done(connector)) ?? null;
  if (done !== null) return tellDone(context, connector.name, done);
  const run = asked.next();
  if (run === null) {
    terminal.printJson({ kind: 'run-skipped', connector: connector.name, because: 'budget' });
    terminal.print(`${connector.name}: not started: budget used up`);
    return exitCodes.ok;
  }
  try {
    const report = await showRun(context, connector.name, {}, ({ onEvent, onStatus }) => {
      const onAny: OnRunEvent = (event) => {
        asked.onEvent(event);
        onEvent(event);
        if (event.kind !== 'retention-withheld') return;
        terminal.print(
          `  ${withheldByAgeText(event)}`,
          `  ${allowByAgeText(connector.name, context.program)}`,
        );
      };
      return app.sync(connector, { globs, run, onEvent: onAny, onStatus, signal });
    });
    asked.ended(report);
    if (report.outcome === 'interrupted' && !signal.aborted) {
      terminal.note(`${connector.name}: cancelled on request; what is stored stays, the next run resumes.`);
    }
    return exitCodeOfReport(report);
  } catch (error) {
    asked.ended(null);
    // Before a run has begun an interrupt surfaces as whatever call it broke off.
    if (signal.aborted) return exitCodes.interrupted;
    if (shared !== null && error instanceof ConnectorBusyError) return error;
    return tellError(context, connector.name, error);
  }
}

function tellDone({ terminal, program }: CommandContext, name: ConnectorName, done: DoneRun): ExitCode {
  const { because, report, pid } = done;
  const { run, outcome, finishedAt } = report;
  terminal.printJson({ kind: 'run-skipped', connector: name, because, run, outcome, pid });
  terminal.print(
    because === 'done-by-another-sync'
      ? `${name}: done by another sync (pid ${pid}), ${endText(report)}  run ${run}`
      : `${name}: finished at ${finishedAt}, before the interruption; "${program} sync ${name}" reads it again`,
  );
  return exitCodeOfReport(report);
}

function tellHeld({ terminal }: CommandContext, name: ConnectorName, { holder }: ConnectorBusyError): void {
  const by = holder === null ? 'another process' : `process ${holder.pid} (${holder.command})`;
  terminal.printJson({ kind: 'run-waiting', connector: name, holder });
  terminal.print(`${name}: being read by ${by}; waiting for it after the other connectors`);
}

function tellError(context: CommandContext, name: ConnectorName, error: unknown): ExitCode {
  const marks = { kind: 'run-error', connector: name } as const;
  return reportFailureOf(context, name, error, marks, pauseText(error, context.clock));
}

function pauseText(error: unknown, clock: Clock): string {
  if (!(error instanceof ThrottledError)) return '';
  const until = instant(clock.now() + error.retryAfterMs);
  return error.because === null
    ? `; the API asked to wait until ${until}, run it again then`
    : `; run it again after ${until}`;
}

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
