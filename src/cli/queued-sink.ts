import { usage } from '../core/usage-error.ts';
import type { Queues } from '../jobs/open-queues.ts';
import type { ConnectorSettings, SinkSettings } from '../settings/settings.ts';
import { openExistingHistory } from '../sinks/registry.ts';
import { printable } from '../telemetry/printable.ts';
import type { CommandContext } from './command-context.ts';
import { locateSink } from '../app/locate-sink.ts';

/** Throws USAGE for a paused connector: no worker would run it. */
export async function checkNotPaused(connector: ConnectorSettings, program: string): Promise<void> {
  const { name } = connector;
  await using history = await openExistingHistory(connector.sink);
  const paused = (await history?.pause(name)) ?? null;
  if (paused === null) return;
  throw usage(
    `${name} has been paused since ${paused.since} (${printable(paused.reason)}), so no worker would run it. Resume it with "${program} schedule resume ${name}", or run it here with "${program} sync ${name}".`,
  );
}

/** Whose queue takes the jobs of a sink. Throws USAGE where nobody would take them. */
export async function sinkIdOf(
  sink: SinkSettings,
  queues: Queues,
  { program }: Pick<CommandContext, 'program'>,
): Promise<string> {
  const located = await locateSink(sink, queues);
  if (located.kind !== 'nowhere') return located.id;
  throw usage(
    `No worker has ever used sink ${sink.name}, and it is not on this machine, so no worker would take the job. Start one with "${program} worker", or run the connector here with "${program} sync".`,
  );
}
