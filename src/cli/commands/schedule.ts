import type { Command } from 'commander';
import type { Enter, CommandContext } from '../command-context.ts';
import { addListFlags, type ListFlags } from '../list-page.ts';
import { runScheduleApply } from './schedule/schedule-apply.ts';
import { runScheduleList } from './schedule/schedule-list.ts';
import { runPause, runResume } from './schedule/schedule-pause.ts';
import { chosenConnectors } from '../../settings/chosen-connectors.ts';
import type { SinkSettings } from '../../settings/settings.ts';
import { exitCodes, type ExitCode } from '../output/exit-codes.ts';
import { loadConfig } from '../load-config.ts';
import { checkNotPaused, sinkIdOf, openQueuesOf } from '../../app/reach-queues.ts';

const examples = `
Examples:
  $ connector-sync schedule list                     next and last runs
  $ connector-sync schedule run newsletter           run now, by a worker
  $ connector-sync schedule pause wiki --reason 'the service is being moved'
  $ connector-sync schedule resume wiki

Schedules are set in the config; workers copy them to Redis once a minute.`;

export function addSchedule(schedule: Command, enter: Enter): void {
  schedule.addHelpText('after', examples);
  addList(schedule, enter);
  addApply(schedule, enter);
  addPause(schedule, enter);
  addResume(schedule, enter);
  addRun(schedule, enter);
}

function addList(schedule: Command, enter: Enter): void {
  addListFlags(
    schedule
      .command('list')
      .description(
        'List connectors with their schedule, next run, last run and pause; and the targets that workers publish into.',
      )
      .argument('[connector...]', 'names from the config, * stands for any text (default: all)'),
  )
    .addHelpText(
      'after',
      "\nExample:\n  $ connector-sync schedule list --json | jq '.connectors[] | {connector, next}'",
    )
    .action((names: readonly string[], flags: ListFlags) =>
      enter((context) => runScheduleList(context, names, flags)),
    );
}

function addApply(schedule: Command, enter: Enter): void {
  schedule
    .command('apply')
    .description(
      'Write the schedules of the config to Redis now; workers do so when they start and every minute.',
    )
    .option(
      '--take-over <sink...>',
      "use this machine's file for the sink from now on; the previous one is lost",
    )
    .addHelpText(
      'after',
      `
A sink belongs to the machine that has its files, and Redis knows which. If that file is lost (a broken disk),
--take-over makes this machine's file the sink's.

Examples:
  $ connector-sync schedule apply
  $ connector-sync schedule apply --take-over main`,
    )
    .action((flags: { readonly takeOver?: readonly string[] }) =>
      enter((context) => runScheduleApply(context, flags.takeOver ?? [])),
    );
}

function addPause(schedule: Command, enter: Enter): void {
  schedule
    .command('pause')
    .description('Stop starting scheduled runs of these connectors until they are resumed.')
    .argument('<connector...>', 'names from the config')
    .option('--reason <text>', 'shown wherever the pause is shown', 'paused by hand')
    .addHelpText(
      'after',
      `
The pause is stored in the sink, beside the records: it outlives Redis and every restart. A run in progress continues, and
"connector-sync sync" still works.

Example:
  $ connector-sync schedule pause newsletter wiki --reason 'the service is being moved'`,
    )
    .action((names: readonly string[], flags: { readonly reason: string }) =>
      enter((context) => runPause(context, names, flags.reason)),
    );
}

function addResume(schedule: Command, enter: Enter): void {
  schedule
    .command('resume')
    .description('Let paused connectors run on their schedules again.')
    .argument('<connector...>', 'names from the config')
    .addHelpText('after', '\nExample:\n  $ connector-sync schedule resume newsletter wiki')
    .action((names: readonly string[]) => enter((context) => runResume(context, names)));
}

function addRun(schedule: Command, enter: Enter): void {
  schedule
    .command('run')
    .description('Have a worker run these connectors now.')
    .argument('<connector...>', 'names from the config')
    .addHelpText(
      'after',
      `
A run that is already waiting or running is not started twice. To run it in this terminal instead, use "connector-sync sync".

Example:
  $ connector-sync schedule run newsletter`,
    )
    .action((names: readonly string[]) => enter((context) => runScheduleRun(context, names)));
}

/** Throws QUEUE_UNAVAILABLE within two seconds, USAGE for a paused connector; then nothing was asked for. */
async function runScheduleRun(context: CommandContext, names: readonly string[]): Promise<ExitCode> {
  const { terminal, program } = context;
  const settings = loadConfig(context, 'redis');
  const connectors = chosenConnectors(settings, names);
  for (const connector of connectors) await checkNotPaused(connector, program);
  await using queues = await openQueuesOf(settings);
  const idBySink = new Map<SinkSettings, string>();
  for (const { sink } of connectors) {
    if (!idBySink.has(sink)) idBySink.set(sink, await sinkIdOf(sink, queues, program));
  }
  for (const { name, sink } of connectors) {
    const { isNew, state } = await queues.enqueue(idBySink.get(sink) ?? '', name, 'manual');
    terminal.printJson({ connector: name, isNew, state });
    terminal.print(`${name}: ${stateText(isNew, state)}`);
  }
  terminal.print(`\n"${program} runs --follow" shows its progress.`);
  return exitCodes.ok;
}

function stateText(isNew: boolean, state: string): string {
  if (isNew) return state === 'active' ? 'a worker has taken it' : 'waiting for a worker to take it';
  if (state === 'active') return 'already running';
  return state === 'delayed' ? 'already waiting for its next attempt' : 'already waiting';
}
