import { checkNotPaused, sinkIdOf, openQueuesOf } from '../../app/reach-queues.ts';
import { chosenConnectors } from '../../settings/chosen-connectors.ts';
import type { SinkSettings } from '../../settings/settings.ts';
import { command } from '../command.ts';
import { applySchedules, pause, resume } from './schedule/change-schedules.ts';
import { listSchedules } from './schedule/schedule-list.ts';

export const schedule = command({
  help: `
Examples:
  $ connector-sync schedule list                     next and last runs
  $ connector-sync schedule run newsletter           run now, by a worker
  $ connector-sync schedule pause wiki --reason 'the service is being moved'
  $ connector-sync schedule resume wiki

Schedules are set in the config; workers copy them to Redis once a minute.`,
  commands: {
    list: listSchedules,
    apply: applySchedules,
    pause,
    resume,
    /** Throws QUEUE_UNAVAILABLE within two seconds, USAGE for a paused connector; then nothing was asked for. */
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
      },
    }),
  },
});

function stateText(isNew: boolean, state: string): string {
  if (isNew) return state === 'active' ? 'a worker has taken it' : 'waiting for a worker to take it';
  if (state === 'active') return 'already running';
  return state === 'delayed' ? 'already waiting for its next attempt' : 'already waiting';
}
