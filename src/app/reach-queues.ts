import type { Clock } from '../core/clock.ts';
import { hasCode, SyncError, usage } from '../core/errors.ts';
import { ProblemsError } from '../core/problems.ts';
import type { Queues } from '../jobs/open-queues.ts';
import type { ServedSink } from '../jobs/worker-context.ts';
import { connectorsBySink } from '../settings/choices.ts';
import type { ConnectorSettings, LocalSettings, SettingsWith, SinkSettings } from '../settings/settings.ts';
import { withParts } from '../settings/load-settings.ts';
import type { OpenHow } from '../sinks/sink-access.ts';
import { accessSink, openExistingHistory, openSink } from '../sinks/registry.ts';
import { printable } from '../telemetry/format.ts';

/**
 * Where a sink of the config is: on this machine, where a worker registered it in Redis, or at an unknown place.
 * Makes no sink. Without queues only this machine is searched.
 */
export async function locateSink(sink: SinkSettings, queues: Queues | null) {
  await using history = await openExistingHistory(sink);
  if (history !== null) return { kind: 'here', id: history.sinkId } as const;
  const registered = (await queues?.registeredSink(sink.name)) ?? null;
  return registered === null
    ? ({ kind: 'nowhere' } as const)
    : ({ kind: 'elsewhere', ...registered } as const);
}

/**
 * The sink of this machine as a worker would have it, created if it does not exist. Throws the errors of `openSink`.
 */
export async function servedSink(settings: SinkSettings, clock: Clock): Promise<ServedSink> {
  await using sink = await openSink(settings, { clock });
  return { name: settings.name, id: sink.id, place: accessSink(settings).place };
}

/** Opens a sink for writing, which creates it if needed, and says where it is and how many connectors it holds. */
export async function checkWritable(sink: SinkSettings, how: How) {
  await using opened = await openSink(sink, how);
  const known = (await opened.history.overview()).filter(({ identity }) => identity !== null);
  return { place: accessSink(sink).place, connectors: known.length };
}

type How = Pick<OpenHow, 'clock' | 'signal'>;

/** Throws USAGE if the sink is elsewhere: a pause written here would have no effect. */
export async function checkHere(sink: SinkSettings, queues: Queues | null): Promise<void> {
  const located = await locateSink(sink, queues);
  if (located.kind === 'elsewhere') {
    const { host, place } = located;
    throw new SyncError(
      `Sink ${sink.name} is not on this machine: a worker on ${host} has it at ${place}. Run the command there.`,
      { code: 'USAGE', recovery: 'stop', context: { sink: sink.name, host } },
    );
  }
  if (located.kind === 'here' || queues !== null) return;
  throw usage(
    `Sink ${sink.name} is not on this machine, and Redis, which knows where it is, does not answer. Run the command on the sink's machine.`,
  );
}

/** The caller disposes them. Throws QUEUE_UNAVAILABLE within two seconds. */
export async function openQueuesOf(settings: SettingsWith<'redis'>): Promise<Queues> {
  // Loaded only here: the queue's code would double the start of every other command.
  const { openQueues } = await import('../jobs/open-queues.ts');
  return await openQueues(settings);
}

/**
 * For work that is correct without Redis too, also where the config here lacks its address. Answers within two seconds
 * either way. `queues` is null where Redis cannot be reached, and `problem` says why.
 */
export async function reachQueues(settings: LocalSettings) {
  try {
    const queues = await openQueuesOf(withParts(settings, 'redis'));
    return { queues, problem: null, [Symbol.asyncDispose]: () => queues[Symbol.asyncDispose]() };
  } catch (error) {
    if (!hasCode(error, 'QUEUE_UNAVAILABLE') && !(error instanceof ProblemsError)) throw error;
    return { queues: null, problem: error.message, [Symbol.asyncDispose]: () => Promise.resolve() };
  }
}

/** Throws USAGE where one of the connectors is paused: no worker would run it. */
export async function checkNotPaused(connectors: readonly ConnectorSettings[], program: string) {
  for (const [sink, ofSink] of connectorsBySink(connectors)) {
    await using history = await openExistingHistory(sink);
    const names = new Set(ofSink.map(({ name }) => name));
    const paused = (await history?.pauses())?.find(({ connector }) => names.has(connector));
    if (paused === undefined) continue;
    const { connector: name, since, reason } = paused;
    throw usage(
      `${name} has been paused since ${since} (${printable(reason)}), so no worker would run it. Resume it with "${program} schedule resume ${name}", or run it here with "${program} sync ${name}".`,
    );
  }
}

/** The id of the sink, whose queue takes its jobs. Throws USAGE if no worker would take them. */
export async function sinkIdOf(sink: SinkSettings, queues: Queues, program: string): Promise<string> {
  const located = await locateSink(sink, queues);
  if (located.kind !== 'nowhere') return located.id;
  throw usage(
    `No worker has ever used sink ${sink.name}, and it is not on this machine, so no worker would take the job. Start one with "${program} worker", or run the connector here with "${program} sync".`,
  );
}
