import type { Command } from 'commander';
import { openApp, type App, type EntityGlobs } from '../app.ts';
import { instant, type Clock } from '../core/clock.ts';
import { ThrottledError } from '../core/errors.ts';
import { chosenConnectors } from './chosen-connectors.ts';
import type { CommandContext, Enter } from './command-context.ts';
import {
  exitCodeOfError,
  exitCodeOfReport,
  exitCodes,
  gravestExitCode,
  type ExitCode,
} from './exit-codes.ts';
import { loadConfig, logLevel } from './load-config.ts';
import { narrowConnectors } from './narrow-connectors.ts';
import { openConfiguredBudgets } from './open-run-budgets.ts';
import { readLedger } from './read-ledger.ts';
import { errorDocument } from './report-error.ts';
import { askedRuns, type AskedRuns, type RunFlags } from './run-flags.ts';
import { showPlans, type ChosenConnector } from './show-plans.ts';
import { syncShown } from './sync-shown.ts';

interface SyncFlags extends Partial<EntityGlobs>, RunFlags {
  readonly dryRun?: boolean;
}

const examples = `
Examples:
  $ connector-sync sync                                  every connector, one after another
  $ connector-sync sync newsletter wiki                  these two
  $ connector-sync sync newsletter --select 'list*'      entities by name, with the parents they are found through
  $ connector-sync sync newsletter --exclude email_activity
  $ connector-sync sync --dry-run                        what would be read, and about how many calls it takes
  $ connector-sync sync --full newsletter                everything anew, which also finds what was deleted
  $ connector-sync sync --max-calls 500 --budget 10m     a piece of the work; the next sync goes on

A budget of time or calls is for all connectors of the command together: the one that was begun longest ago goes
first, and in it what was not read for longest. A run that it ends is "partial", which is no failure (exit code 0).
--max-calls counts calls for records, repeated ones included, but not those for tokens and for looking up connectors.

Deletes: what full reads no longer meet is marked as deleted, unless it is suspiciously much (guards in the config).
Then it is kept, the exit code is 6, and --allow-deletes lets it pass.`;

export function addSync(program: Command, enter: Enter): void {
  program
    .command('sync')
    .description('Read connectors into their sinks, going on where the last run stopped.')
    .argument('[connector...]', 'names from the config; all of them where none is given')
    .option('--select <glob...>', 'only entities that match')
    .option('--exclude <glob...>', 'no entities that match, nor what is found through them')
    .option('--full', 'read everything from the start, whatever is known')
    .option('--allow-deletes', 'mark as deleted what the guards of the config would withhold')
    .option('--budget <duration>', 'end after so long, for all connectors together: 90s, 10m, 1h30m')
    .option('--max-calls <n>', 'end after so many calls for records, for all connectors together')
    .option('--dry-run', 'print the plan with an estimate of calls, read nothing')
    .addHelpText('after', examples)
    .action((names: readonly string[], flags: SyncFlags) =>
      enter((context) => runSync(context, names, flags)),
    );
}

async function runSync(
  context: CommandContext,
  names: readonly string[],
  flags: SyncFlags,
): Promise<ExitCode> {
  const settings = loadConfig(context);
  // Before anything is read: a mistake in it would otherwise be told once for each connector.
  logLevel(context.env);
  const all = narrowConnectors(chosenConnectors(settings, names), {
    select: flags.select ?? [],
    exclude: flags.exclude ?? [],
  });
  const chosen = all.flatMap(({ connector, globs }): ChosenConnector[] => {
    if (globs !== null) return [{ connector, globs }];
    context.terminal.note(`${connector.name}: skipped, nothing of it is selected`);
    return [];
  });
  const asked = askedRuns(flags, context.clock);
  const command = 'connector-sync sync';
  if (flags.dryRun === true) {
    await using app = openApp({ settings, clock: context.clock, command });
    return showPlans(app, chosen, flags.full === true, context);
  }
  await using budgets = await openConfiguredBudgets(settings, context);
  const sharing = budgets === null ? {} : { openBudget: budgets.openBudget };
  await using app = openApp({ settings, clock: context.clock, command, ...sharing });
  const codes: ExitCode[] = [];
  for (const one of asked.isBudgeted ? longestAgoFirst(chosen) : chosen) {
    if (context.signal.aborted) break;
    codes.push(await syncOne(app, one, asked, context));
  }
  if (!context.signal.aborted) return gravestExitCode(codes);
  context.terminal.note(
    'Stopped; everything committed so far is kept. Run the same command again to go on from there.',
  );
  return gravestExitCode([...codes, exitCodes.interrupted]);
}

/** With a budget, the last of them may get no turn: it shall not be the same one every time. */
function longestAgoFirst(chosen: readonly ChosenConnector[]): readonly ChosenConnector[] {
  return chosen
    .map((one) => ({ one, startedAt: lastStart(one) }))
    .toSorted((left, right) => (left.startedAt < right.startedAt ? -1 : 1))
    .map(({ one }) => one);
}

function lastStart({ connector }: ChosenConnector): string {
  try {
    return readLedger(connector).lastRun?.startedAt ?? '';
  } catch {
    return ''; // A sink that cannot be read is met again by the run, which says what is wrong with it.
  }
}

/** A connector whose run cannot even begin does not keep the others from theirs. */
async function syncOne(
  app: App,
  { connector, globs }: ChosenConnector,
  asked: AskedRuns,
  context: CommandContext,
): Promise<ExitCode> {
  const { terminal, signal, clock } = context;
  const run = asked.next();
  if (run === null) {
    terminal.printJson({ kind: 'run-skipped', connector: connector.name, because: 'budget' });
    terminal.print(`${connector.name}: not begun, the budget is spent`);
    return exitCodes.ok;
  }
  try {
    const report = await syncShown(app, connector, globs, context, { run, onEvent: asked.onEvent });
    asked.ended(report);
    if (report.outcome === 'interrupted' && !signal.aborted)
      terminal.note(`${connector.name}: cancelled by a request; what is stored stays, the next run goes on.`);
    return exitCodeOfReport(report);
  } catch (error) {
    asked.ended(null);
    // Before a run has begun an interrupt surfaces as whatever call it broke off.
    if (signal.aborted) return exitCodes.interrupted;
    const document = errorDocument(error);
    terminal.printJson({ kind: 'run-error', connector: connector.name, error: document });
    if (!terminal.isJson) terminal.note(`${connector.name}: ${document.message}${pauseText(error, clock)}`);
    return exitCodeOfError(error);
  }
}

function pauseText(error: unknown, clock: Clock): string {
  if (!(error instanceof ThrottledError)) return '';
  return `; the service asked to wait until ${instant(clock.now() + error.retryAfterMs)}, run it again then`;
}
