import { slept } from '../../core/clock.ts';
import type { Command } from 'commander';
import { noCounts, addCounts } from '../../core/records.ts';
import { usage } from '../../core/usage-error.ts';
import type { RunSummary } from '../../sinks/ledger-reader.ts';
import { count, duration } from '../../telemetry/progress-text.ts';
import type { CommandContext, Enter } from '../command-context.ts';
import { exitCodes, type ExitCode } from '../output/exit-codes.ts';
import { findRun, fromEverySink } from '../../app/find-run.ts';
import { loadConfig } from '../load-config.ts';
import { runReportText, endText } from '../output/run-report-text.ts';
import { displayWidth, textTable, leftColumns, rightColumns } from '../output/text-table.ts';
import { rowSentences } from '../output/fitting-table.ts';
import type { RunId } from '../../core/names.ts';
import type { LocalSettings } from '../../settings/settings.ts';
import { timeOfDay } from '../output/about-time.ts';

const defaultLimit = 20;

interface RunsFlags {
  readonly limit: string;
  readonly follow?: boolean;
}

export function addRuns(command: Command, enter: Enter): void {
  command
    .argument('[id]', "a run's id")
    .option('--limit <n>', 'how many', String(defaultLimit))
    .option('--follow', 'then a line whenever a run starts or ends, until Ctrl-C; times are UTC')
    .addHelpText(
      'after',
      `
Examples:
  $ connector-sync runs --limit 5
  $ connector-sync runs --follow                    what workers and other terminals do, as it happens
  $ connector-sync runs --follow --json | jq 'select(.change == "ended") | .run.state'`,
    )
    .action((id: string | undefined, flags: RunsFlags) =>
      enter((context) => runRuns(context, id ?? null, flags), { isWatching: flags.follow === true }),
    );
}

async function runRuns(context: CommandContext, id: string | null, flags: RunsFlags): Promise<ExitCode> {
  const settings = loadConfig(context);
  const isFollowing = flags.follow === true;
  if (id !== null && isFollowing) throw usage("Expected a run's id or --follow, got both.");
  if (id !== null) return showRun(context, (await findRun(settings, id, context.program)).run);
  const limit = Number(flags.limit);
  if (!/^\d+$/.test(flags.limit) || limit < 1) {
    throw usage(`--limit: expected a whole number from 1, got "${flags.limit}".`);
  }
  const found = await fromEverySink(settings, async (history, sink) =>
    (await history.runs({ limit })).map((run): ShownRun => ({ ...run, sink: sink.name })),
  );
  const runs = found
    .flat()
    .sort((left, right) => (left.startedAt < right.startedAt ? 1 : -1))
    .slice(0, limit);
  context.terminal.printJson({ runs });
  // Followed, the newest stands last: where the next line comes.
  const shown = isFollowing ? runs.toReversed() : runs;
  if (runs.length > 0) {
    for (const line of runsTable(shown, context.terminal.columns())) context.terminal.print(line);
  } else context.terminal.print(`No runs yet${isFollowing ? '' : `; run "${context.program} sync"`}.`);
  if (!isFollowing) return exitCodes.ok;
  context.terminal.print('Waiting for runs to start and end; Ctrl-C stops looking.');
  return await followRuns(context, settings);
}

function showRun(context: CommandContext, run: RunSummary): ExitCode {
  const { terminal } = context;
  terminal.printJson({ run });
  if (run.report === null) {
    terminal.print(`${run.connector}: ${run.state} since ${run.startedAt}, no report (run ${run.run})`);
  } else for (const line of runReportText(run.report, terminal.columns(), context)) terminal.print(line);
  return exitCodes.ok;
}

/** A run that was copied is in two sinks. */
export type ShownRun = RunSummary & { readonly sink: string };

/**
 * The sink is shown where there are several. On a narrow screen without the start, which a run's id begins with; where
 * not even that fits, each run is written as a sentence.
 */
export function runsTable(runs: readonly ShownRun[], width: number | null): readonly string[] {
  const hasSinks = new Set(runs.map(({ sink }) => sink)).size > 1;
  const columns = allColumns.filter(({ title }) => hasSinks || title !== 'sink');
  const rows = runs.map((run) => runRow(run).filter((_, at) => hasSinks || allColumns[at]?.title !== 'sink'));
  const whole = textTable(columns, rows);
  const fits = (lines: readonly string[]): boolean =>
    width === null || lines.every((line) => displayWidth(line) <= width);
  if (fits(whole)) return whole;
  const shorter = columns.filter(({ title }) => title !== 'started');
  const shorterRows = rows.map((row) => row.filter((_, at) => columns[at]?.title !== 'started'));
  const narrow = textTable(shorter, shorterRows);
  return width === null || fits(narrow) ? narrow : rowSentences(shorter, shorterRows, width);
}

function runRow(run: ShownRun): readonly string[] {
  const counts = (run.report?.entities ?? []).reduce(
    (sum, entity) => addCounts(sum, entity.counts),
    noCounts,
  );
  return [
    run.run,
    run.connector,
    run.sink,
    run.kind === 'sync' ? '' : run.kind,
    run.state,
    run.startedAt,
    run.finishedAt === null ? '' : duration(Date.parse(run.finishedAt) - Date.parse(run.startedAt)),
    ...(run.report === null ? ['', ''] : [count(counts.fetched), count(counts.inserted + counts.updated)]),
  ];
}

const allColumns = [
  ...leftColumns('run', 'connector', 'sink', 'kind', 'state', 'started'),
  ...rightColumns('took', 'read', 'written'),
];

const everyMs = 1000;
/** More than can begin in a second. */
const newestLimit = 50;

/** A run that began or ended since the last look. */
interface RunChange {
  readonly change: 'started' | 'ended';
  readonly run: RunSummary;
}

/**
 * A line whenever a run starts or ends in any sink of the config, until the command is interrupted: then it ends with
 * 0.
 */
async function followRuns(context: CommandContext, settings: LocalSettings): Promise<ExitCode> {
  const { terminal, clock, signal } = context;
  const width = Math.max(0, ...[...settings.connectors.keys()].map((name) => name.length));
  let known = statesOf(await newestRuns(settings, new Map()));
  while (await slept(clock, everyMs, signal)) {
    const runs = await newestRuns(settings, known);
    for (const { change, run } of changesSince(known, runs)) {
      terminal.printJson({ change, run });
      terminal.print(changeText(change, run, width));
    }
    known = new Map([...known, ...statesOf(runs)]);
  }
  return exitCodes.ok;
}

type StateByRun = ReadonlyMap<RunId, RunSummary['state']>;

/** Oldest first; with those that were running at the last look, however many have begun since. */
async function newestRuns(settings: LocalSettings, known: StateByRun): Promise<readonly RunSummary[]> {
  const running = [...known].flatMap(([run, state]) => (state === 'running' ? [run] : []));
  const found = await fromEverySink(settings, async (history) => {
    const newest = await history.runs({ limit: newestLimit });
    const known = await Promise.all(running.map((id) => history.run(id)));
    return [...newest, ...known.filter((run) => run !== null)];
  });
  return [...new Map(found.flat().map((run) => [run.run, run])).values()].sort((left, right) =>
    left.startedAt < right.startedAt ? -1 : 1,
  );
}

function statesOf(runs: readonly RunSummary[]): StateByRun {
  return new Map(runs.map(({ run, state }) => [run, state]));
}

function changesSince(known: StateByRun, runs: readonly RunSummary[]): readonly RunChange[] {
  return runs.flatMap((run): readonly RunChange[] => {
    const before = known.get(run.run);
    const started: readonly RunChange[] = before === undefined ? [{ change: 'started', run }] : [];
    const hasEnded = run.state !== 'running' && (before === undefined || before === 'running');
    return hasEnded ? [...started, { change: 'ended', run }] : started;
  });
}

/** The end names no run: of one connector only one goes on at a time, and the line fits a narrow screen. */
function changeText(change: RunChange['change'], run: RunSummary, width: number): string {
  const { startedAt, finishedAt } = run;
  const connector = run.connector.padEnd(width);
  if (change === 'started') {
    const goesOn = run.continues === null ? '' : `, resumed ${run.continues}`;
    return `${timeOfDay(Date.parse(startedAt))}  ${connector}  started: ${run.run}${goesOn}`;
  }
  const endedMs = Date.parse(finishedAt ?? startedAt);
  const what = run.report === null ? `${run.state}, its process ended without a report` : endText(run.report);
  return `${timeOfDay(endedMs)}  ${connector}  ${what}`;
}
