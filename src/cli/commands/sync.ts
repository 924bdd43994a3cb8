import type { App, AskedRun, EntityGlobs, RunEnd } from '../../app/app.ts';
import { overviewOf, readOverview, type SinkOverview } from '../../app/connector-states.ts';
import { openSharingApp, planSync } from '../../app/open-app.ts';
import { type DoneRun, type SharedWork, shareWork } from '../../app/find-run.ts';
import { type Clock, instant, slept } from '../../core/clock.ts';
import { hasCode, ThrottledError, usage } from '../../core/errors.ts';
import type { OnRunEvent, RunEvent } from '../../core/events.ts';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import { suggestName } from '../../definitions/suggest-name.ts';
import { selectEntities } from '../../engine/chosen-entities.ts';
import { chosenConnectors, sinksOf, targetsAfterSync } from '../../settings/choices.ts';
import type { ConnectorSettings, LocalSettings } from '../../settings/settings.ts';
import { withParts } from '../../settings/load-settings.ts';
import { ConnectorBusyError } from '../../sinks/sink-errors.ts';
import type { RunReport } from '../../sinks/run-report.ts';
import { count, counted } from '../../telemetry/format.ts';
import { allowByAgeText, withheldByAgeText } from '../../wording/connector-text.ts';
import { endText, undatedLines } from '../../wording/run-report-table.ts';
import { command, type CommandContext, durationOf, type FlagsOf, wholeNumber } from '../command.ts';
import { logLevel } from '../environment.ts';
import {
  errorDocument,
  type ExitCode,
  exitCodeOfReport,
  exitCodes,
  gravestExitCode,
  reportFailureOf,
} from '../output/exit-codes.ts';
import { showRun, showRunEnd } from '../output/show-run.ts';
import { indentedTable, leftColumns, rightColumns } from '../output/text-table.ts';

const examples = `
Examples:
  $ connector-sync sync                                  every connector, one after another
  $ connector-sync sync newsletter wiki                  these two
  $ connector-sync sync newsletter --select 'list*'      entities by name, with the parents they are found through
  $ connector-sync sync newsletter --exclude email_activity
  $ connector-sync sync --dry-run                        what would be read, and about how many calls it takes
  $ connector-sync sync --full newsletter                everything again from scratch; also finds deletes
  $ connector-sync sync --max-calls 500 --budget 10m     part of the work; the next sync resumes

A limit of time or calls is for all connectors of the command together: the connector that was read longest ago goes
first. A run that the limit ends is "partial", which is not a failure (exit code 0).
--max-calls counts calls for records, repeated ones included, but not those for tokens and for looking up connectors.

Several connectors: after an interruption (at most half an hour ago) the same command resumes the connector that it was in
and does not read again those that it had finished. Of several commands with the same flags at the same time each takes
what is free, waits for the others, and ends with 0 when all of it was done. A single busy connector is exit code 5.

Deletes: a row that a full read does not find is marked as deleted. More than the limits of the config (guards) are kept
instead, with exit code 6; --allow-deletes deletes them, those that later runs still have to check included:
it need not be repeated.`;

const options = {
  '--select <glob...>': 'only entities that match',
  '--exclude <glob...>': 'leave out entities that match, and what is found through them',
  '--full':
    'read everything again from scratch, ignoring saved progress; rows edited in the sink stay (audit finds them)',
  '--allow-deletes': 'delete rows even beyond the limits of the config (guards)',
  '--budget <duration>': 'stop after this time, for all connectors together: 90s, 10m, 1h30m',
  '--max-calls <n>': 'stop after this many calls for records, for all connectors together',
  '--dry-run': 'print what would be read, with the pages of the last run',
} as const;

export const sync = command({
  argument: ['[connector...]', 'names from the config (default: all)'],
  options,
  help: examples,
  run: runSync,
});

/** Runs the connectors of these names, and publishes what a target follows. */
export async function runSync(
  context: CommandContext,
  flags: FlagsOf<typeof options>,
  names: readonly string[],
): Promise<ExitCode> {
  const local = await context.settings();
  // Checked before anything is read: a mistake would otherwise be reported once for each connector.
  logLevel(context.env);
  const { select, exclude, full, allowDeletes } = flags;
  const all = narrowConnectors(chosenConnectors(local, names), { select, exclude });
  const chosen = all.flatMap(({ connector, globs }): ChosenConnector[] => {
    if (globs !== null) return [{ connector, globs }];
    context.terminal.note(`${connector.name}: skipped, no selected entity`);
    return [];
  });
  const asked = askedRuns(flags, context.clock);
  if (flags.dryRun) {
    await showPlans(chosen, context);
    return exitCodes.ok;
  }
  const settings = withParts(local, 'access', 'redis');
  const connectors = chosen.map(({ connector }) => connector);
  const flagsOfAll = { select, exclude, full, allowDeletes };
  const shared = connectors.length < 2 ? null : await shareWork(connectors, flagsOfAll, context.clock);
  const publications = openPublicationsAfterSync(context, settings);
  await using app = await openSharingApp({
    settings,
    clock: context.clock,
    command: 'connector-sync sync',
    note: (line) => context.terminal.note(line),
    onRunEnd: (end) => {
      showRunEnd(context, end);
      publications.onRunEnd(end);
    },
    ...(shared === null ? {} : { work: shared.work }),
  });
  const ordered = asked.isBudgeted ? await longestAgoFirst(chosen) : chosen;
  const codes = await syncAll({ app, asked, shared, context }, ordered);
  await publications.publish();
  if (!context.signal.aborted) return gravestExitCode(codes);
  context.terminal.note('Stopped; everything read so far is stored. Run the same command again to resume.');
  return gravestExitCode([...codes, exitCodes.interrupted]);
}

/**
 * Orders by the last start. With a budget, the last connectors may get no turn: they must not be the same ones every
 * time.
 */
async function longestAgoFirst(chosen: readonly ChosenConnector[]): Promise<readonly ChosenConnector[]> {
  const overviews = new Map<string, SinkOverview>();
  for (const sink of sinksOf(chosen.map(({ connector }) => connector))) {
    try {
      overviews.set(sink.name, await readOverview(sink));
    } catch {
      // The run that opens the sink reports the error, and migrates a sink with older tables.
    }
  }
  const lastStart = ({ connector }: ChosenConnector): string =>
    overviewOf(overviews, connector)?.lastRun?.startedAt ?? '';
  return chosen.toSorted((left, right) => (lastStart(left) < lastStart(right) ? -1 : 1));
}

/**
 * Applies globs to several connectors, which may be of different types: a glob without a match is USAGE, one that
 * matches in another connector only is no mistake. Null where a connector has nothing to read. Throws USAGE also where
 * no connector has.
 */
function narrowConnectors(connectors: readonly ConnectorSettings[], globs: EntityGlobs) {
  for (const glob of [...globs.select, ...globs.exclude]) {
    if (connectors.some((connector) => matchesIn(connector, glob))) continue;
    const entities = new Set(connectors.flatMap((one) => [...one.entities.keys()]));
    const hint = suggestName(glob, [...entities]) || `; there are ${[...entities].join(', ')}.`;
    throw usage(`No entity matches "${glob}"${hint}`);
  }
  const narrowed = connectors.map((connector) => ({ connector, globs: globsOf(connector, globs) }));
  if (narrowed.some((one) => one.globs !== null)) return narrowed;
  throw usage('Nothing to read: every selected entity, or its parent, is excluded.');
}

function globsOf(connector: ConnectorSettings, globs: EntityGlobs): EntityGlobs | null {
  const select = globs.select.filter((glob) => matchesIn(connector, glob));
  const exclude = globs.exclude.filter((glob) => matchesIn(connector, glob));
  if (select.length === 0 && globs.select.length > 0) return null;
  // Each glob matches here, so a failed selection means that nothing remains.
  return canSelect(connector, { select, exclude }) ? { select, exclude } : null;
}

function matchesIn(connector: ConnectorSettings, glob: string): boolean {
  return canSelect(connector, { select: [glob], exclude: [] });
}

function canSelect({ definition, entities }: ConnectorSettings, globs: EntityGlobs): boolean {
  try {
    selectEntities(definition, entities, globs);
    return true;
  } catch (error) {
    if (hasCode(error, 'USAGE')) return false;
    throw error;
  }
}

/** Shows the plan of a sync without reading anything. */
async function showPlans(chosen: readonly ChosenConnector[], { terminal }: CommandContext) {
  const plans = await Promise.all(
    chosen.map(async ({ connector, globs }) => ({ connector, plan: await planSync(connector, globs) })),
  );
  const pagesOf = ({ ended }: (typeof plans)[number]['plan'], entity: EntityName): number | null =>
    ended.find((one) => one.entity === entity)?.pages ?? null;
  terminal.printJson({
    connectors: plans.map(({ connector, plan }) => ({
      connector: connector.name,
      entities: plan.entities.map((entity) => ({ entity, lastPages: pagesOf(plan, entity) })),
      addedParents: plan.addedParents,
    })),
  });
  for (const { connector, plan } of plans) {
    terminal.print(
      `${connector.name}: would read ${counted(plan.entities.length, 'entity', 'entities')} into ${connector.sink.name}`,
    );
    const rows = plan.entities.map((entity) => [
      entity,
      count(pagesOf(plan, entity) ?? 0),
      plan.addedParents.includes(entity) ? 'added as a parent' : '',
    ]);
    const notes = undatedLines(plan.ended).map((line) => `  ${line}`);
    terminal.print(...indentedTable(planColumns, rows), ...notes);
  }
}

const planColumns = [...leftColumns('entity'), ...rightColumns('last pages'), ...leftColumns('notes')];

/** A connector, with the entities that a person named. */
interface ChosenConnector {
  readonly connector: ConnectorSettings;
  readonly globs: EntityGlobs;
}

interface SyncAllOptions {
  readonly app: App;
  readonly asked: AskedRuns;
  /** Null if a single connector is synced. */
  readonly shared: SharedWork | null;
  readonly context: CommandContext;
}

const lookEveryMs = 1000;
/** A process that was killed on another machine leaves a run that never ends, so the sync tries again. */
const tryEveryMs = 5 * 60_000;
/** After this time the connector counts as busy, as it does for a command that does not wait. */
const longestWaitMs = 6 * 3_600_000;

/**
 * Syncs one connector after another: first those in which the same command was interrupted; last, and after waiting,
 * those that other processes hold. Work that another command has done meanwhile is not repeated. Returns a code for
 * each connector that was tried.
 */
async function syncAll(options: SyncAllOptions, chosen: readonly ChosenConnector[]) {
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
      const { holder } = end;
      const { name } = one.connector;
      const by = holder === null ? 'another process' : `process ${holder.pid} (${holder.command})`;
      context.terminal.printJson({ kind: 'run-waiting', connector: name, holder });
      context.terminal.print(`${name}: being read by ${by}; waiting for it after the other connectors`);
    }
  }
  for (const one of held) {
    if (context.signal.aborted) return codes;
    codes.push(await syncWhenFree(options, one));
  }
  return codes;
}

/** Another process may do the connector's part meanwhile; otherwise this one does it when the connector is free. */
async function syncWhenFree(options: SyncAllOptions, one: ChosenConnector): Promise<ExitCode> {
  const { shared, context } = options;
  const { clock, signal } = context;
  const endMs = clock.now() + longestWaitMs;
  for (let triedMs = clock.now(); ;) {
    if (!(await slept(clock, lookEveryMs, signal))) return exitCodes.interrupted;
    if ((await shared?.isRunning(one.connector)) === true && clock.now() - triedMs < tryEveryMs) continue;
    triedMs = clock.now();
    const end = await syncOne(options, one);
    if (!(end instanceof ConnectorBusyError)) return end;
    if (clock.now() >= endMs) return tellError(context, one.connector.name, end);
  }
}

/**
 * Syncs one connector, and reports a run that cannot begin without rejecting. With `shared`, the error of a busy
 * connector is returned.
 */
async function syncOne({ app, asked, shared, context }: SyncAllOptions, one: ChosenConnector) {
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
    const report = await showRun(context, connector.name, {}, ({ onEvent }) => {
      const onAny: OnRunEvent = (event) => {
        asked.onEvent(event);
        onEvent(event);
        if (event.kind !== 'retention-withheld') return;
        terminal.print(
          `  ${withheldByAgeText(event)}`,
          `  ${allowByAgeText(connector.name, context.program)}`,
        );
      };
      return app.sync(connector, { globs, run, onEvent: onAny, signal });
    });
    asked.ended(report);
    if (report.outcome === 'interrupted' && !signal.aborted) {
      terminal.note(`${connector.name}: cancelled on request; what is stored stays, the next run resumes.`);
    }
    return exitCodeOfReport(report);
  } catch (error) {
    asked.ended(null);
    // Before a run has begun, an interrupt appears as the error of the call that it ended.
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

function tellError(context: CommandContext, name: ConnectorName, error: unknown): ExitCode {
  const marks = { kind: 'run-error', connector: name };
  return reportFailureOf(context, name, error, marks, pauseText(error, context.clock));
}

function pauseText(error: unknown, clock: Clock): string {
  if (!(error instanceof ThrottledError)) return '';
  const until = instant(clock.now() + error.retryAfterMs);
  return error.because === null
    ? `; the API asked to wait until ${until}, run it again then`
    : `; run it again after ${until}`;
}

/** Flags for the runs of one command, as they came from the command line. */
interface RunFlags {
  readonly full?: boolean;
  readonly allowDeletes?: boolean;
  readonly budget?: string | undefined;
  readonly maxCalls?: string | undefined;
}

/** Limits that several consecutive runs share. */
type AskedRuns = ReturnType<typeof askedRuns>;

/** Reads the limits; time counts from now on. Throws USAGE for invalid values. */
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
    /** The request for the next run; null when the time or the calls are used up. */
    next: (): AskedRun | null => {
      const msLeft = endMs === null ? null : endMs - clock.now();
      const callsLeft = maxCalls === null ? null : maxCalls - callsUsed;
      if ((msLeft !== null && msLeft <= 0) || (callsLeft !== null && callsLeft <= 0)) return null;
      return { isFull, allowDeletes, budgetMs: msLeft, maxCalls: callsLeft };
    },
    /** Takes the events of a run: they count its calls if it ends without a report. */
    onEvent: (event: RunEvent): void => {
      if (event.kind === 'call-ended' && event.entity !== null) callsSeen += 1;
    },
    /** Ends the accounting of a run; without a report it could not begin, or its end could not be stored. */
    ended: (report: RunReport | null): void => {
      callsUsed += report?.calls ?? callsSeen;
      callsSeen = 0;
    },
  };
}

/** Outcomes of runs that may have stored something. */
const hasRead: readonly RunReport['outcome'][] = ['ok', 'partial', 'degraded'];

/** Publishes the data that a syncing command has read. */
export function openPublicationsAfterSync(context: CommandContext, settings: LocalSettings) {
  const { terminal, signal, program } = context;
  const read = new Set<string>();
  return {
    /** Called at the end of each run. */
    onRunEnd: (end: RunEnd): void => {
      if (end.kind === 'ended' && hasRead.includes(end.report.outcome)) read.add(end.connector.name);
    },
    /**
     * Publishes each target that follows a connector with new data; none after an interrupt. Never rejects: synced data
     * stays synced, and the sync keeps its exit code.
     */
    async publish(): Promise<void> {
      for (const target of targetsAfterSync(settings, read)) {
        if (signal.aborted) return;
        try {
          // Loaded on demand: most syncs publish nothing.
          const { showPublication } = await import('./publish/show-publication.ts');
          await showPublication(context, settings, target, 'after-sync');
        } catch (error) {
          const document = errorDocument(error);
          terminal.printJson({ kind: 'publication-error', target: target.name, error: document });
          const why = hasCode(error, 'INTERRUPTED') ? 'interrupted' : document.message;
          terminal.note(
            `Warning: target ${target.name} was not published to, what was synced is stored: ${why}\n  To publish: ${program} publish ${target.name}`,
          );
        }
      }
    },
  };
}
