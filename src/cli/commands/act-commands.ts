import {
  type Act,
  connectorActs,
  defaultReason,
  resetConnector,
  runActs,
  wouldReset,
  writeSchedules,
} from '../../app/acts.ts';
import { findRun } from '../../app/find-run.ts';
import { locateSink, servedSink, openQueuesOf } from '../../app/reach-queues.ts';
import { instant } from '../../core/clock.ts';
import { usage } from '../../core/errors.ts';
import type { ServedSink } from '../../jobs/worker-context.ts';
import { chosenConnectors, connectorNamed, entityTarget, sinksOf } from '../../settings/choices.ts';
import type { LocalSettings } from '../../settings/settings.ts';
import { processUser } from '../../sinks/requests.ts';
import { comingUp, counted, printable } from '../../telemetry/format.ts';
import { scheduleText } from '../../wording/connector-text.ts';
import { command, type CommandContext } from '../command.ts';
import { countTable, leftColumns, textTable } from '../output/text-table.ts';

export const schedule = command({
  help: `
Examples:
  $ connector-sync schedule list                     when does each connector run next?
  $ connector-sync schedule run newsletter           run now, by a worker
  $ connector-sync schedule pause wiki --reason 'the service is being moved'
  $ connector-sync schedule resume wiki

Schedules are set in the config; workers copy them to Redis once a minute.`,
  commands: {
    list: command({
      description: 'List connectors with their schedule, and when Redis has each run next.',
      argument: ['[connector...]', 'names from the config, * stands for any text (default: all)'],
      run: async (context, _flags, names) => {
        const settings = await context.settings('redis');
        const connectors = chosenConnectors(settings, names);
        await using queues = await openQueuesOf(settings);
        const nextRunMs = await queues.nextRuns();
        const idOf = new Map<string, string>();
        for (const { name } of sinksOf(connectors)) {
          idOf.set(name, (await queues.registeredSink(name))?.id ?? '');
        }
        const listed = connectors.map(({ name, sink, schedule: times }) => {
          const ms = nextRunMs(idOf.get(sink.name) ?? '', name);
          return {
            connector: name,
            sink: sink.name,
            schedule: times,
            next: ms === null ? null : instant(ms),
          };
        });
        context.terminal.printJson({ connectors: listed });
        const rows = listed.map(({ connector, schedule: times, next }) => {
          const none = times === null ? '' : 'paused, or not in Redis yet';
          const when = next === null ? none : comingUp(Date.parse(next), context.clock.now());
          return [connector, scheduleText(times), when];
        });
        context.terminal.print(...textTable(leftColumns('connector', 'schedule', 'next run'), rows));
      },
    }),
    /**
     * Writes the schedules of every sink whose files are on this machine; other machines write those of their sinks.
     */
    apply: command({
      description:
        'Write the schedules of the config to Redis now; workers do so when they start and every minute.',
      options: {
        '--take-over <sink...>': "use this machine's file for the sink from now on; the previous one is lost",
      },
      help: `
A sink belongs to the machine that has its files, and Redis knows which. If that file is lost (a broken disk),
--take-over makes this machine's file the sink's.

Examples:
  $ connector-sync schedule apply
  $ connector-sync schedule apply --take-over main`,
      run: async (context, { takeOver }) => {
        const { terminal, clock } = context;
        const settings = await context.settings('redis');
        const sinks = sinksOf(chosenConnectors(settings, []));
        const known = sinks.map(({ name }) => name);
        const unknown = takeOver.find((name) => !known.includes(name));
        if (unknown !== undefined) {
          throw usage(`--take-over: expected one of the sinks ${known.join(', ')}, got "${unknown}".`);
        }
        await using queues = await openQueuesOf(settings);
        const served: ServedSink[] = [];
        const elsewhere: { readonly sink: string; readonly host: string }[] = [];
        for (const sink of sinks) {
          const located = await locateSink(sink, queues);
          if (located.kind === 'elsewhere' && !takeOver.includes(sink.name)) {
            elsewhere.push({ sink: sink.name, host: located.host });
          } else served.push(await servedSink(sink, clock));
        }
        const { written, kept, removed } = await writeSchedules(settings, queues, served, takeOver);
        terminal.printJson({ written, kept, removed, elsewhere });
        for (const [what, names] of Object.entries({ written, unchanged: kept, removed })) {
          if (names.length > 0) terminal.print(`${what}: ${names.join(', ')}`);
        }
        if (written.length + kept.length + removed.length === 0) terminal.print('No schedules to write.');
        for (const { sink, host } of elsewhere) {
          terminal.note(
            `Skipped sink ${sink}: its files are on ${host}, and its schedules are written there.`,
          );
        }
      },
    }),
    pause: command({
      description: 'Stop starting scheduled runs of these connectors until they are resumed.',
      argument: ['<connector...>', 'names from the config'],
      options: {
        '--reason <text>': { text: 'shown wherever the pause is shown', default: defaultReason },
      },
      help: `
The pause is stored in the sink, beside the records: it outlives Redis and every restart. A run in progress continues, and
"connector-sync sync" still works.

Example:
  $ connector-sync schedule pause newsletter wiki --reason 'the service is being moved'`,
      run: async (context, { reason }, names) => {
        const connectors = chosenConnectors(await context.settings(), names);
        if (reason.trim() === '') throw usage('Expected a few words as the reason, got none.');
        await perform(context, connectorActs.pause, connectors, reason);
      },
    }),
    resume: command({
      description: 'Let paused connectors run on their schedules again.',
      argument: ['<connector...>', 'names from the config'],
      help: '\nExample:\n  $ connector-sync schedule resume newsletter wiki',
      run: async (context, _flags, names) => {
        await perform(context, connectorActs.resume, chosenConnectors(await context.settings(), names));
      },
    }),
    run: command({
      description: 'Have a worker run these connectors now.',
      argument: ['<connector...>', 'names from the config'],
      help: `
A run that is already waiting or running is not started twice. To run it in this terminal instead, use "connector-sync sync".

Example:
  $ connector-sync schedule run newsletter`,
      run: async (context, _flags, names) => {
        const { terminal, program } = context;
        const connectors = chosenConnectors(await context.settings('redis'), names);
        await perform(context, connectorActs['run-now'], connectors);
        terminal.print(`\n"${program} runs" shows it, and "${program} ui" its progress.`);
      },
    }),
  },
});

export const cancel = command({
  argument: ['<run>', 'its id, as "connector-sync runs" shows it'],
  help: `
What is stored stays, and the next run resumes from there. A scheduled connector runs again when its time comes;
"schedule pause" keeps it from that.

Example:
  $ connector-sync cancel 20261121T152528492Z-4b72c77d`,
  run: async (context, _flags, id) => {
    const found = await findRun(await context.settings(), id, context.program);
    await perform(context, runActs.cancel, found);
  },
});

export const undo = command({
  argument: ['<connector>', 'its name in the config'],
  options: {
    '--run <id>': {
      text: 'the run, as "runs" shows it',
      isRequired: true,
    },
  },
  help: `
Rows that the run inserted are marked as deleted, rows that it deleted are live again, and rows that it updated are
restored where the history (see the config) has their version of before. Other updated rows are named, stay as they are,
and the next run reads all listings that the run has written from in full. Rows that later runs have changed stay.
Nothing is called; an undo that was interrupted is completed by the same command.

Example:
  $ connector-sync undo newsletter --run 20261121T152528492Z-4b72c77d`,
  run: async (context, { run: id }, name) => {
    const settings = await context.settings();
    const connector = connectorNamed(settings, name);
    const found = await findRun(settings, id, context.program);
    if (found.run.connector !== connector.name || found.sink.name !== connector.sink.name) {
      throw usage(`Run ${id} is one of ${found.run.connector} in sink ${found.sink.name}, not of ${name}.`);
    }
    await perform(context, runActs.undo, found);
  },
});

/** Does what the command asks for at once; prints each thing that was done, and remarks on stderr. */
export async function perform<Subject>(
  context: CommandContext,
  prepare: Act<Subject>,
  of: Subject,
  reason = '',
): Promise<void> {
  const { terminal } = context;
  const act = await prepare(of, { ...context, settings: await context.settings() });
  await using _needs = act.needs;
  await act.do({
    who: processUser(),
    reason,
    tell: (line, document, details = []) => {
      if (document === undefined) return terminal.note(line);
      terminal.printJson(document);
      terminal.print(line, ...details.map((one) => `  ${printable(one)}`));
    },
  });
}

export const reset = command({
  argument: ['<connector[/entity]>', 'such as newsletter or newsletter/list_members'],
  options: {
    '--data': 'drop the stored records too; consumers must reload',
    '--yes': 'do it; without this, only show what would be removed',
  },
  help: `
The next sync then reads it in full. Nothing else in the sink changes, and nothing at the API.

Examples:
  $ connector-sync reset newsletter/list_members          what would be discarded?
  $ connector-sync reset newsletter/list_members --yes
  $ connector-sync reset newsletter --data --yes          as if it had never been synced`,
  run: async (context, { data: withData, yes: isSure }, name) => {
    const { terminal } = context;
    const target = targetOf(await context.settings(), name);
    if (!isSure) return await showWhatWouldGo(context, target, withData);
    const went = await resetConnector(target, withData, context);
    if (went === null) throw usage(nothingText(target));
    terminal.printJson({ target: name, isDone: true, withData, ...went });
    const dropped = withData ? ` and ${counted(went.rows, 'row')} dropped` : '; its rows are kept';
    terminal.print(
      `${name}: progress of ${counted(went.partitions, 'listing')} discarded${dropped}. The next sync reads it in full.`,
    );
  },
});

type Target = ReturnType<typeof targetOf>;

function targetOf(settings: LocalSettings, name: string) {
  if (!name.includes('/')) {
    return { name, connector: connectorNamed(settings, name), scope: { entity: null, tables: [] } };
  }
  const { connector, entity, isExploded } = entityTarget(settings, name);
  if (isExploded) {
    throw usage(
      `${name} is made from the records of ${entity.name}; reset ${connector.name}/${entity.name} instead.`,
    );
  }
  const { table, explodedTable } = entity;
  const tables = explodedTable === null ? [table] : [table, explodedTable];
  return { name, connector, scope: { entity: entity.name, tables } };
}

/** Shows the effect without making the change: exit code 0. */
async function showWhatWouldGo({ terminal, program }: CommandContext, target: Target, withData: boolean) {
  const entities = await wouldReset(target);
  if (entities.length === 0) throw usage(nothingText(target));
  const command = `${program} reset ${target.name}${withData ? ' --data' : ''} --yes`;
  terminal.printJson({ target: target.name, isDone: false, withData, entities, command });
  terminal.print(
    `${target.name} in sink ${target.connector.sink.name}: this progress would be discarded${withData ? ', and all rows dropped' : '; rows are kept'}`,
  );
  const stored = entities.map((one) => ({
    ...one,
    listings: one.partitions,
    rows: withData ? one.rows + one.deleted : null,
  }));
  terminal.print(...countTable(stored, 'listings', 'rows'), `Nothing was changed. To do it: ${command}`);
}

function nothingText({ name, connector }: Target): string {
  return `Sink ${connector.sink.name} has no data of ${name}, so there is nothing to reset.`;
}
