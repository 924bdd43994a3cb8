import type { Command } from 'commander';
import { openExistingHistory } from '../app.ts';
import { SyncError } from '../core/errors.ts';
import { noCounts, addCounts } from '../core/records.ts';
import type { Settings } from '../settings/settings.ts';
import type { LedgerReader, RunSummary } from '../sinks/ledger-reader.ts';
import { count, duration } from '../telemetry/progress-text.ts';
import type { CommandContext, Enter } from './command-context.ts';
import { exitCodes, type ExitCode } from './exit-codes.ts';
import { loadConfig } from './load-config.ts';
import { runReportText } from './tables/run-report-text.ts';
import { textTable } from './tables/text-table.ts';

const defaultLimit = 20;

export function addRuns(program: Command, enter: Enter): void {
  program
    .command('runs')
    .description('The history of runs, newest first; or the report of one.')
    .argument('[id]', "a run's id")
    .option('--limit <n>', 'how many', String(defaultLimit))
    .addHelpText('after', '\nExample:\n  $ connector-sync runs --limit 5')
    .action((id: string | undefined, flags: { readonly limit: string }) =>
      enter((context) => runRuns(context, id ?? null, flags.limit)),
    );
}

async function runRuns(context: CommandContext, id: string | null, limitText: string): Promise<ExitCode> {
  const settings = loadConfig(context);
  if (id !== null) return showRun(context, findRun(settings, id, context.program));
  const limit = Number(limitText);
  if (!Number.isInteger(limit) || limit < 1)
    throw usage(`--limit: expected a whole number from 1, got "${limitText}".`);
  const runs = fromEverySink(settings, (history) => history.runs({ limit }))
    .flat()
    .sort((left, right) => (left.startedAt < right.startedAt ? 1 : -1))
    .slice(0, limit);
  context.terminal.printJson({ runs });
  if (runs.length === 0) context.terminal.print(`No runs yet; run "${context.program} sync".`);
  else for (const line of textTable(columns, runs.map(runRow))) context.terminal.print(line);
  return exitCodes.ok;
}

function showRun({ terminal }: CommandContext, run: RunSummary): ExitCode {
  terminal.printJson({ run });
  if (run.report === null)
    terminal.print(`${run.connector}: ${run.state} since ${run.startedAt}, no report (run ${run.run})`);
  else for (const line of runReportText(run.report, terminal.columns())) terminal.print(line);
  return exitCodes.ok;
}

function findRun(settings: Settings, id: string, program: string): RunSummary {
  const found = fromEverySink(settings, (history) =>
    history.runs({ limit: Number.MAX_SAFE_INTEGER }).find(({ run }) => run === id),
  ).find((run) => run !== undefined);
  if (found === undefined)
    throw usage(`Expected the id of a run, got "${id}". "${program} runs" lists them.`);
  return found;
}

/** Each sink of the config that exists, once. */
function fromEverySink<Result>(
  settings: Settings,
  read: (history: LedgerReader) => Result,
): readonly Result[] {
  return [...settings.sinks.values()].flatMap((sink) => {
    using history = openExistingHistory(sink);
    return history === null ? [] : [read(history)];
  });
}

function runRow(run: RunSummary): readonly string[] {
  const counts = (run.report?.entities ?? []).reduce(
    (sum, entity) => addCounts(sum, entity.counts),
    noCounts,
  );
  return [
    run.run,
    run.connector,
    run.state,
    run.startedAt,
    run.finishedAt === null ? '' : duration(Date.parse(run.finishedAt) - Date.parse(run.startedAt)),
    ...(run.report === null ? ['', ''] : [count(counts.fetched), count(counts.inserted + counts.updated)]),
  ];
}

const columns = [
  { title: 'run', align: 'left' },
  { title: 'connector', align: 'left' },
  { title: 'state', align: 'left' },
  { title: 'started', align: 'left' },
  { title: 'took', align: 'right' },
  { title: 'read', align: 'right' },
  { title: 'written', align: 'right' },
] as const;

function usage(message: string): SyncError {
  return new SyncError(message, { code: 'USAGE', recovery: 'stop' });
}
