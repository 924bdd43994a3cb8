import type { Command } from 'commander';
import { noCounts, addCounts } from '../../core/records.ts';
import { usage } from '../../core/usage-error.ts';
import type { RunSummary } from '../../sinks/ledger-reader.ts';
import { count, duration } from '../../telemetry/progress-text.ts';
import type { CommandContext, Enter } from '../command-context.ts';
import { exitCodes, type ExitCode } from '../output/exit-codes.ts';
import { findRun, fromEverySink } from '../find-run.ts';
import { followRuns } from './runs/follow-runs.ts';
import { loadConfig } from '../load-config.ts';
import { runReportText } from '../output/run-report-text.ts';
import { displayWidth } from '../output/display-width.ts';
import { rowSentences } from '../output/fitting-table.ts';
import { textTable } from '../output/text-table.ts';

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
  const runs = (await fromEverySink(settings, (history) => history.runs({ limit })))
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

/** On a narrow screen without the start, which a run's id begins with; where not even that fits, each run is told as a sentence. */
export function runsTable(runs: readonly RunSummary[], width: number | null): readonly string[] {
  const rows = runs.map(runRow);
  const whole = textTable(columns, rows);
  const fits = (lines: readonly string[]): boolean =>
    width === null || lines.every((line) => displayWidth(line) <= width);
  if (fits(whole)) return whole;
  const shorter = columns.filter(({ title }) => title !== 'started');
  const shorterRows = rows.map((row) => row.filter((_, at) => columns[at]?.title !== 'started'));
  const narrow = textTable(shorter, shorterRows);
  return width === null || fits(narrow) ? narrow : rowSentences(shorter, shorterRows, width);
}

function runRow(run: RunSummary): readonly string[] {
  const counts = (run.report?.entities ?? []).reduce(
    (sum, entity) => addCounts(sum, entity.counts),
    noCounts,
  );
  return [
    run.run,
    run.connector,
    run.kind === 'sync' ? '' : run.kind,
    run.state,
    run.startedAt,
    run.finishedAt === null ? '' : duration(Date.parse(run.finishedAt) - Date.parse(run.startedAt)),
    ...(run.report === null ? ['', ''] : [count(counts.fetched), count(counts.inserted + counts.updated)]),
  ];
}

const columns = [
  { title: 'run', align: 'left' },
  { title: 'connector', align: 'left' },
  { title: 'kind', align: 'left' },
  { title: 'state', align: 'left' },
  { title: 'started', align: 'left' },
  { title: 'took', align: 'right' },
  { title: 'read', align: 'right' },
  { title: 'written', align: 'right' },
] as const;
