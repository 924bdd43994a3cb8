import {
  defaultReason,
  pauseConnectors,
  resumeConnectors,
  runNow,
  type Tell,
  writeSchedules,
} from '../../app/control-connectors.ts';
import { locateSink, servedSink, openQueuesOf } from '../../app/reach-queues.ts';
import { usage } from '../../core/errors.ts';
import type { ServedSink } from '../../jobs/worker-context.ts';
import { chosenConnectors, sinksOf } from '../../settings/choices.ts';
import { processUser } from '../../sinks/requests.ts';
import { command, type CommandContext } from '../command.ts';

export const schedule = command({
  help: `
Examples:
  $ connector-sync schedule run newsletter           run now, by a worker
  $ connector-sync schedule pause wiki --reason 'the service is being moved'
  $ connector-sync schedule resume wiki

Schedules are set in the config; workers copy them to Redis once a minute. "connector-sync status" says when each connector
runs next.`,
  commands: {
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
        for (const [what, names] of [
          ['written', written],
          ['unchanged', kept],
          ['removed', removed],
        ] as const) {
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
    /**
     * Writes the pause to the ledger first: workers check it there before every run. Redis then forgets the schedule.
     */
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
        const settings = await context.settings();
        const how = { ...context, tell: telling(context) };
        await pauseConnectors(settings, chosenConnectors(settings, names), reason, how);
      },
    }),
    resume: command({
      description: 'Let paused connectors run on their schedules again.',
      argument: ['<connector...>', 'names from the config'],
      help: '\nExample:\n  $ connector-sync schedule resume newsletter wiki',
      run: async (context, _flags, names) => {
        const settings = await context.settings();
        const how = { ...context, tell: telling(context) };
        await resumeConnectors(settings, chosenConnectors(settings, names), how);
      },
    }),
    /** Throws QUEUE_UNAVAILABLE within two seconds, USAGE for a paused connector; nothing is queued in these cases. */
    run: command({
      description: 'Have a worker run these connectors now.',
      argument: ['<connector...>', 'names from the config'],
      help: `
A run that is already waiting or running is not started twice. To run it in this terminal instead, use "connector-sync sync".

Example:
  $ connector-sync schedule run newsletter`,
      run: async (context, _flags, names) => {
        const { terminal, program } = context;
        const settings = await context.settings('redis');
        const connectors = chosenConnectors(settings, names);
        await runNow(settings, connectors, processUser(), { program, tell: telling(context) });
        terminal.print(`\n"${program} runs" shows it, and "${program} ui" its progress.`);
      },
    }),
  },
});

/** Prints the result of an action; a remark is no result. */
function telling({ terminal }: CommandContext): Tell {
  return (line, document) => {
    if (document === undefined) return terminal.note(line);
    terminal.printJson(document);
    terminal.print(line);
  };
}
