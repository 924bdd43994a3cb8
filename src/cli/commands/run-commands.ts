import { findRun, fromEverySink } from '../../app/find-run.ts';
import { actionDetail, newestActions } from '../../app/user-actions.ts';
import { recordsRead, rowsWritten } from '../../app/run-totals.ts';
import { isRunId } from '../../core/names.ts';
import { usage } from '../../core/errors.ts';
import { chosenConnectors, connectorNamed } from '../../settings/choices.ts';
import type { RunSummary } from '../../sinks/ledger-reader.ts';
import { count, duration, toTheMinute } from '../../telemetry/format.ts';
import { failureText } from '../../wording/run-report-table.ts';
import { command, type CommandContext, oneOf, wholeNumber } from '../command.ts';
import { runReportText } from '../output/show-run.ts';
import { fittingTable, leftColumns, rightColumns, textTable } from '../output/text-table.ts';

const defaultLimit = 20;
const states = ['running', 'ok', 'partial', 'degraded', 'failed', 'interrupted'] as const;

export const runs = command({
  argument: ['[which...]', "a run's id, or connectors from the config, * stands for any text (default: all)"],
  options: {
    '--state <state>': `only those that are ${states.join(', ')}`,
    '--limit <n>': { text: 'how many', default: String(defaultLimit) },
  },
  help: `
Examples:
  $ connector-sync runs --limit 5
  $ connector-sync runs newsletter --state failed   why it failed, each time`,
  run: async (context, flags, which) => {
    const settings = await context.settings();
    const [id = ''] = which;
    if (isRunId(id)) {
      if (which.length > 1) throw usage("Expected a run's id alone, got more.");
      return showRun(context, (await findRun(settings, id, context.program)).run);
    }
    const limit = wholeNumber('--limit', flags.limit, undefined, 1);
    const state = flags.state === undefined ? undefined : oneOf('--state', flags.state, states);
    const chosen = which.length === 0 ? null : chosenConnectors(settings, which).map(({ name }) => name);
    const found = await fromEverySink(settings, async (history, sink) => {
      const filter = { limit, ...(state === undefined ? {} : { state }) };
      const runs = await Promise.all(
        chosen === null
          ? [history.runs(filter)]
          : chosen.map((connector) => history.runs({ ...filter, connector })),
      );
      return runs.flat().map((run): ShownRun => ({ ...run, sink: sink.name }));
    });
    const newest = found
      .flat()
      .sort((left, right) => (left.startedAt < right.startedAt ? 1 : -1))
      .slice(0, limit);
    context.terminal.printJson({ runs: newest });
    const isNarrowed = state !== undefined || chosen !== null;
    const none = isNarrowed ? 'No such runs.' : `No runs yet; run "${context.program} sync".`;
    context.terminal.print(...(newest.length > 0 ? runsTable(newest, context.terminal.columns()) : [none]));
  },
});

function showRun(context: CommandContext, run: RunSummary): void {
  const { terminal } = context;
  terminal.printJson({ run });
  if (run.report === null) {
    terminal.print(`${run.connector}: ${run.state} since ${run.startedAt}, no report (run ${run.run})`);
  } else terminal.print(...runReportText(run.report, terminal.columns(), context));
}

/** A run; a copied run is in two sinks. */
export type ShownRun = RunSummary & { readonly sink: string };

/** Shows the sink if there are several. A run's id begins with its start. */
export function runsTable(runs: readonly ShownRun[], width: number | null): readonly string[] {
  const hasSinks = new Set(runs.map(({ sink }) => sink)).size > 1;
  const rows = runs.map((run) => [...runRow(run, hasSinks), reasonOf(run)]);
  return fittingTable(columns, rows, width);
}

/** The reason why a run did not succeed. */
function reasonOf({ report }: RunSummary): string {
  const { error = null, failures = [], failuresOmitted = 0 } = report ?? {};
  const [first] = failures;
  if (error !== null) return `! ${error.code}: ${error.message}`;
  if (first === undefined) return '';
  const more = failures.length + failuresOmitted - 1;
  return `! ${failureText(first)}${more > 0 ? `; and ${count(more)} more` : ''}`;
}

function runRow(run: ShownRun, hasSinks: boolean): readonly string[] {
  const { report } = run;
  return [
    run.run,
    run.connector,
    hasSinks ? run.sink : '',
    run.kind === 'sync' ? '' : run.kind,
    run.state,
    run.finishedAt === null ? '' : duration(Date.parse(run.finishedAt) - Date.parse(run.startedAt)),
    ...(report === null ? ['', ''] : [count(recordsRead(report)), count(rowsWritten(report))]),
  ];
}

const columns = [
  ...leftColumns('run', 'connector', 'sink', 'kind', 'state'),
  ...rightColumns('took', 'read', 'written'),
  ...leftColumns('why'),
];

export const actions = command({
  argument: ['[connector]', 'its name in the config (default: all)'],
  options: { '--limit <n>': { text: 'how many', default: String(defaultLimit) } },
  help: `
Pauses, cancelled runs, resets, adopted addresses, undone runs, refetches, copies, syncs with --full or
--allow-deletes, and runs and publications that a worker was asked for; from commands and from the pages. Kept in the sink for 400 days.

Examples:
  $ connector-sync actions
  $ connector-sync actions newsletter --json | jq '.actions[] | select(.action == "pause")'`,
  run: async (context, flags, name) => {
    const settings = await context.settings();
    const limit = wholeNumber('--limit', flags.limit, undefined, 1);
    const only = name === undefined ? {} : { connector: connectorNamed(settings, name).name };
    const { actions: newest, unreadable } = await newestActions(settings, { limit, ...only });
    for (const error of unreadable) throw error;
    context.terminal.printJson({ actions: newest });
    const rows = newest.map((one) => [
      toTheMinute(one.at),
      one.who,
      one.action,
      one.entity === null ? (one.connector ?? '') : `${one.connector ?? ''}/${one.entity}`,
      one.run ?? '',
      actionDetail(one),
    ]);
    context.terminal.print(
      ...(rows.length === 0 ? ['Nothing was done by hand yet.'] : textTable(actionColumns, rows)),
    );
  },
});

const actionColumns = leftColumns('at', 'who', 'action', 'connector', 'run', 'detail');
