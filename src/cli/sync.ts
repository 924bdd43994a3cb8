import type { Command } from 'commander';
import { openApp, type App, type EntityGlobs } from '../app.ts';
import { instant, type Clock } from '../core/clock.ts';
import { ThrottledError } from '../core/errors.ts';
import type { CallEstimate } from '../engine/estimate-calls.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import { count, counted } from '../telemetry/progress-text.ts';
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
import { errorDocument } from './report-error.ts';
import { syncShown } from './sync-shown.ts';
import { textTable } from './tables/text-table.ts';

interface ChosenConnector {
  readonly connector: ConnectorSettings;
  readonly globs: EntityGlobs;
}

interface SyncFlags extends Partial<EntityGlobs> {
  readonly dryRun?: boolean;
}

const examples = `
Examples:
  $ connector-sync sync                                  every connector, one after another
  $ connector-sync sync newsletter wiki                  these two
  $ connector-sync sync newsletter --select 'list*'      entities by name, with the parents they are found through
  $ connector-sync sync newsletter --exclude email_activity
  $ connector-sync sync --dry-run                        what would be read, and about how many calls it takes`;

export function addSync(program: Command, enter: Enter): void {
  program
    .command('sync')
    .description('Read connectors into their sinks, going on where the last run stopped.')
    .argument('[connector...]', 'names from the config; all of them where none is given')
    .option('--select <glob...>', 'only entities that match')
    .option('--exclude <glob...>', 'no entities that match, nor what is found through them')
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
  const command = 'connector-sync sync';
  if (flags.dryRun === true) {
    await using app = openApp({ settings, clock: context.clock, command });
    return showPlans(app, chosen, context);
  }
  await using budgets = await openConfiguredBudgets(settings, context);
  const sharing = budgets === null ? {} : { openBudget: budgets.openBudget };
  await using app = openApp({ settings, clock: context.clock, command, ...sharing });
  const codes: ExitCode[] = [];
  for (const one of chosen) {
    if (context.signal.aborted) break;
    codes.push(await syncOne(app, one, context));
  }
  if (!context.signal.aborted) return gravestExitCode(codes);
  context.terminal.note(
    'Stopped; everything committed so far is kept. Run the same command again to go on from there.',
  );
  return gravestExitCode([...codes, exitCodes.interrupted]);
}

/** A connector whose run cannot even begin does not keep the others from theirs. */
async function syncOne(
  app: App,
  { connector, globs }: ChosenConnector,
  context: CommandContext,
): Promise<ExitCode> {
  const { terminal, signal, clock } = context;
  try {
    const report = await syncShown(app, connector, globs, context);
    if (report.outcome === 'interrupted' && !signal.aborted)
      terminal.note(`${connector.name}: cancelled by a request; what is stored stays, the next run goes on.`);
    return exitCodeOfReport(report);
  } catch (error) {
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

function showPlans(app: App, chosen: readonly ChosenConnector[], { terminal }: CommandContext): ExitCode {
  const plans = chosen.map(({ connector, globs }) => ({ connector, plan: app.plan(connector, globs) }));
  terminal.printJson({
    connectors: plans.map(({ connector, plan }) => ({
      connector: connector.name,
      entities: plan.estimates,
      addedParents: plan.addedParents,
    })),
  });
  for (const { connector, plan } of plans) {
    terminal.print(
      `${connector.name}: would read ${counted(plan.estimates.length, 'entity', 'entities')} into ${connector.sink.name}`,
    );
    const rows = plan.estimates.map(({ entity, calls, basis }) => [
      entity,
      calls === null ? '?' : count(calls),
      plan.addedParents.includes(entity) ? `${basis}; added as a parent` : basis,
    ]);
    for (const line of textTable(planColumns, rows)) terminal.print(`  ${line}`);
    terminal.print(`  ${callsText(plan.estimates)}`);
  }
  return exitCodes.ok;
}

function callsText(estimates: readonly CallEstimate[]): string {
  const known = estimates.flatMap(({ calls }) => (calls === null ? [] : [calls]));
  if (known.length === 0) return 'how many calls that takes is known after the first run';
  const sum = known.reduce((left, right) => left + right, 0);
  return `about ${counted(sum, 'call')}${known.length < estimates.length ? ', and those that are not known yet' : ''}`;
}

const planColumns = [
  { title: 'entity', align: 'left' },
  { title: 'calls', align: 'right' },
  { title: 'basis', align: 'left' },
] as const;
