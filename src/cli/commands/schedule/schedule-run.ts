import { chosenConnectors } from '../../../settings/chosen-connectors.ts';
import type { SinkSettings } from '../../../settings/settings.ts';
import type { CommandContext } from '../../command-context.ts';
import { exitCodes, type ExitCode } from '../../output/exit-codes.ts';
import { loadConfig } from '../../load-config.ts';
import { checkNotPaused, sinkIdOf } from '../../queued-sink.ts';
import { openQueuesOf } from '../../reach-queues.ts';

/** Throws QUEUE_UNAVAILABLE within two seconds, USAGE for a paused connector; then nothing was asked for. */
export async function runScheduleRun(context: CommandContext, names: readonly string[]): Promise<ExitCode> {
  const { terminal, program } = context;
  const settings = loadConfig(context, 'redis');
  const connectors = chosenConnectors(settings, names);
  for (const connector of connectors) await checkNotPaused(connector, program);
  await using queues = await openQueuesOf(settings);
  const idBySink = new Map<SinkSettings, string>();
  for (const { sink } of connectors) {
    if (!idBySink.has(sink)) idBySink.set(sink, await sinkIdOf(sink, queues, context));
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
