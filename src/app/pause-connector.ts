import type { RunId } from '../core/names.ts';
import { usage } from '../core/usage-error.ts';
import type { Queues } from '../jobs/open-queues.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import type { Pause } from '../sinks/lease.ts';
import { openSink } from '../sinks/registry.ts';
import type { OpenHow } from '../sinks/sink-access.ts';
import { locateSink, sinkIsElsewhere } from './locate-sink.ts';

type How = Pick<OpenHow, 'clock' | 'signal'>;

/** Returns the sink's id, and the run that is still in progress according to the ledger. */
export async function pauseConnector(
  { name, sink: settings }: ConnectorSettings,
  why: Pause,
  how: How,
): Promise<{ readonly sinkId: string; readonly running: RunId | null }> {
  await using sink = await openSink(settings, how);
  await sink.pause(name, why);
  const [last] = await sink.history.runs({ connector: name, limit: 1 });
  return { sinkId: sink.id, running: last?.state === 'running' ? last.run : null };
}

/** Whether it was paused. */
export async function resumeConnector(
  { name, sink: settings }: ConnectorSettings,
  how: How,
): Promise<boolean> {
  await using sink = await openSink(settings, how);
  return await sink.resume(name);
}

/** A pause written beside a sink that is somewhere else would pause nothing: throws USAGE. */
export async function checkHere({ sink }: ConnectorSettings, queues: Queues | null): Promise<void> {
  const located = await locateSink(sink, queues);
  if (located.kind === 'elsewhere') throw sinkIsElsewhere(sink, located);
  if (located.kind === 'here' || queues !== null) return;
  throw usage(
    `Sink ${sink.name} is not on this machine, and Redis, which knows where it is, does not answer. Run the command on the sink's machine.`,
  );
}
