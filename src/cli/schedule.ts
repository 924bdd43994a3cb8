import type { Command } from 'commander';
import type { Enter } from './command-context.ts';
import { runScheduleApply } from './schedule-apply.ts';
import { runScheduleList } from './schedule-list.ts';
import { runPause, runResume } from './schedule-pause.ts';
import { runScheduleRun } from './schedule-run.ts';

const examples = `
Examples:
  $ connector-sync schedule list                     when does what run next?
  $ connector-sync schedule run newsletter           now, by a worker, without waiting for its time
  $ connector-sync schedule pause wiki --reason 'the service is being moved'
  $ connector-sync schedule resume wiki

A schedule is written in the config; workers keep Redis in step with it by themselves, once a minute.`;

export function addSchedule(program: Command, enter: Enter): void {
  const schedule = program
    .command('schedule')
    .description('When connectors run: look at it, pause it, or have one run now.')
    .addHelpText('after', examples);
  addList(schedule, enter);
  addApply(schedule, enter);
  addPause(schedule, enter);
  addResume(schedule, enter);
  addRun(schedule, enter);
}

function addList(schedule: Command, enter: Enter): void {
  schedule
    .command('list')
    .description('Every connector: its schedule, the next run, the last one, and what is paused.')
    .addHelpText(
      'after',
      "\nExample:\n  $ connector-sync schedule list --json | jq '.connectors[] | {connector, next}'",
    )
    .action(() => enter((context) => runScheduleList(context)));
}

function addApply(schedule: Command, enter: Enter): void {
  schedule
    .command('apply')
    .description(
      'Write the schedules of the config to Redis now; workers do so at their start and every minute.',
    )
    .option(
      '--take-over <sink...>',
      "this machine's file stands for the sink from now on; the one known so far is gone",
    )
    .addHelpText(
      'after',
      `
A sink belongs to the machine that has its files, and Redis knows which. Where that file is gone for good (a lost disk),
--take-over makes the one of this machine the sink's.

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
    .description('Start no further scheduled run of these connectors until they are resumed.')
    .argument('<connector...>', 'names from the config')
    .option('--reason <text>', 'why, for whoever finds it paused', 'paused by hand')
    .addHelpText(
      'after',
      `
The pause is kept in the sink, beside the records: it outlives Redis and every restart. A run in progress goes on, and
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
    .description('Let paused connectors run by their schedules again.')
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
One that waits or runs already is not asked for twice. To run it in this terminal instead, use "connector-sync sync".

Example:
  $ connector-sync schedule run newsletter`,
    )
    .action((names: readonly string[]) => enter((context) => runScheduleRun(context, names)));
}
