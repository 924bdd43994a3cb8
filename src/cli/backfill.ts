import type { Command } from 'commander';
import { openApp, openExistingHistory } from '../app.ts';
import type { Clock } from '../core/clock.ts';
import { windowText, type BackfillSpan } from '../engine/backfill/backfill-windows.ts';
import type { BackfillPlan } from '../engine/backfill/plan-backfill.ts';
import type { ConnectorSettings, Settings } from '../settings/settings.ts';
import { counted } from '../telemetry/progress-text.ts';
import { plannedBackfill, requestedEntities, type BackfillRequest } from './backfill/backfill-request.ts';
import { backfillTable, type EndedWindow } from './backfill/backfill-table.ts';
import { instantExamples, parseInstant } from './backfill/parse-instant.ts';
import { queueBackfill } from './backfill/queue-backfill.ts';
import { runWindows } from './backfill/run-windows.ts';
import { parseWindowLength, windowLengthExamples } from './backfill/window-length.ts';
import { windowShown } from './backfill/window-shown.ts';
import { connectorNamed } from './chosen-connectors.ts';
import type { CommandContext, Enter } from './command-context.ts';
import { exitCodeOfReport, exitCodes, gravestExitCode, type ExitCode } from './exit-codes.ts';
import { loadConfig, logLevel } from './load-config.ts';
import { openConfiguredBudgets } from './open-run-budgets.ts';
import { usage } from './usage-error.ts';

interface BackfillFlags {
  readonly select?: readonly string[];
  readonly since: string;
  readonly until?: string;
  readonly window: string;
  readonly again?: boolean;
  readonly queue?: boolean;
}

export function addBackfill(program: Command, enter: Enter): void {
  program
    .command('backfill')
    .description(
      'Read history in windows of time, newest first, beside the syncs and without touching what they know.',
    )
    .argument('<connector>', 'its name in the config')
    .option('--select <glob...>', 'only entities that match; by default all that take a beginning and an end')
    .requiredOption('--since <time>', `the beginning: ${instantExamples}; UTC unless it has an offset`)
    .option('--until <time>', 'the end, not included (default: the beginning of this day, UTC)')
    .requiredOption(
      '--window <length>',
      `how much one run reads: ${windowLengthExamples}; mo are calendar months`,
    )
    .option('--again', 'read windows that are done once more')
    .option('--queue', 'leave it to the worker, which lets syncs go first')
    .addHelpText(
      'after',
      `
Each window is a run of its own. A window that is done is passed over the next time, and one that was cut short is gone on with:
after a stop, give the same command again.

Examples:
  $ connector-sync backfill newsletter --select list_members --since 2024-01-01 --until 2025-01-01 --window 1mo
  $ connector-sync backfill newsletter --since 2024-01-01 --window 7d --queue`,
    )
    .action((name: string, flags: BackfillFlags) => enter((context) => runBackfill(context, name, flags)));
}

async function runBackfill(context: CommandContext, name: string, flags: BackfillFlags): Promise<ExitCode> {
  const settings = loadConfig(context);
  logLevel(context.env);
  const connector = connectorNamed(settings, name);
  const request: BackfillRequest = {
    entities: requestedEntities(connector, flags.select ?? []),
    span: spanOf(flags, context.clock),
  };
  const plan = plannedBackfill(connector, request);
  if (flags.queue === true) {
    if (flags.again === true)
      throw usage('--again and --queue: a worker passes over what is done; give one of them.');
    return await queueBackfill(context, settings, connector, request);
  }
  const done = flags.again === true ? new Set<string>() : finishedWindows(connector, plan);
  const left = plan.windows.filter((window) => !done.has(windowText(window)));
  context.terminal.print(
    `${name}: ${counted(left.length, 'window')} of ${request.entities.join(', ')} to read${done.size === 0 ? '' : `, ${plan.windows.length - left.length} done before`}`,
  );
  return await runHere(context, settings, { connector, request, plan, done });
}

async function runHere(
  context: CommandContext,
  settings: Settings,
  work: {
    readonly connector: ConnectorSettings;
    readonly request: BackfillRequest;
    readonly plan: BackfillPlan;
    readonly done: ReadonlySet<string>;
  },
): Promise<ExitCode> {
  const { connector, request, plan, done } = work;
  const { terminal, clock, signal } = context;
  await using budgets = await openConfiguredBudgets(settings, context);
  const sharing = budgets === null ? {} : { openBudget: budgets.openBudget };
  await using app = openApp({ settings, clock, command: 'connector-sync backfill', ...sharing });
  const ended: EndedWindow[] = [];
  try {
    const { isDone } = await runWindows({
      plan,
      done,
      run: async (window) => {
        const shown = { connector, backfill: plan.id, entities: request.entities, window };
        const report = await windowShown(app, shown, context);
        ended.push({ window, report });
        return report;
      },
      shouldYield: () => Promise.resolve(signal.aborted),
    });
    terminal.printJson({ kind: 'backfill', connector: connector.name, backfill: plan.id, isDone });
    const codes = ended.flatMap(({ report }) => (report === null ? [] : [exitCodeOfReport(report)]));
    return gravestExitCode(signal.aborted ? [...codes, exitCodes.interrupted] : codes);
  } finally {
    showEnd(context, plan, done, ended);
  }
}

function showEnd(
  { terminal }: CommandContext,
  plan: BackfillPlan,
  done: ReadonlySet<string>,
  ended: readonly EndedWindow[],
): void {
  const windows = plan.windows.flatMap((window): EndedWindow[] => {
    const now = ended.find((one) => one.window === window);
    return now !== undefined ? [now] : done.has(windowText(window)) ? [{ window, report: null }] : [];
  });
  if (ended.length > 0) for (const line of backfillTable(windows, terminal.columns())) terminal.print(line);
  const left = plan.windows.length - windows.length;
  const again = windows.filter(({ report }) => report !== null && report.outcome !== 'ok').length;
  if (left + again > 0)
    terminal.note(
      `${counted(left + again, 'window')} left; give the same command again to go on with ${left + again === 1 ? 'it' : 'them'}.`,
    );
}

function finishedWindows(connector: ConnectorSettings, plan: BackfillPlan): ReadonlySet<string> {
  using history = openExistingHistory(connector.sink);
  return new Set(history?.finishedWindows(connector.name, plan.id) ?? []);
}

function spanOf({ since, until, window }: BackfillFlags, clock: Clock): BackfillSpan {
  const length = parseWindowLength(window);
  if (length === null) throw usage(`--window: expected ${windowLengthExamples}, got "${window}".`);
  return {
    sinceMs: timeOf('--since', since),
    untilMs: until === undefined ? startOfDay(clock.now()) : timeOf('--until', until),
    length,
  };
}

function timeOf(option: string, text: string): number {
  const ms = parseInstant(text);
  if (ms !== null) return Math.floor(ms / 1000) * 1000;
  throw usage(`${option}: expected a date or a time, such as ${instantExamples}, got "${text}".`);
}

/** So that the same command means the same all day, and goes on with what it began; what is newer the syncs bring. */
function startOfDay(ms: number): number {
  const dayMs = 24 * 60 * 60 * 1000;
  return Math.floor(ms / dayMs) * dayMs;
}
