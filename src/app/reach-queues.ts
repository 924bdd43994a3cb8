import { hasCode, type SyncError } from '../core/errors.ts';
import { ProblemsError } from '../core/problems.ts';
import type { Queues } from '../jobs/open-queues.ts';
import { withParts } from '../settings/load-settings.ts';
import type { LocalSettings, SettingsWith, ConnectorSettings, SinkSettings } from '../settings/settings.ts';
import { usage } from '../core/usage-error.ts';
import { sinksOf } from '../settings/choices.ts';
import type { PausedConnector } from '../sinks/ledger-reader.ts';
import { openExistingHistory } from '../sinks/registry.ts';
import { printable } from '../telemetry/format.ts';
import { locateSink } from './locate-sink.ts';

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
export async function checkNotPaused(
  connectors: readonly ConnectorSettings[],
  program: string,
): Promise<void> {
  for (const sink of sinksOf(connectors)) {
    await using history = await openExistingHistory(sink);
    const names = new Set(connectors.flatMap((one) => (one.sink.name === sink.name ? [one.name] : [])));
    const paused = (await history?.pauses())?.find(({ connector }) => names.has(connector));
    if (paused !== undefined) throw pausedError(paused, program);
  }
}

function pausedError({ connector: name, ...paused }: PausedConnector, program: string): SyncError {
  return usage(
    `${name} has been paused since ${paused.since} (${printable(paused.reason)}), so no worker would run it. Resume it with "${program} schedule resume ${name}", or run it here with "${program} sync ${name}".`,
  );
}

/** Whose queue takes the jobs of a sink. Throws USAGE where no worker would take them. */
export async function sinkIdOf(sink: SinkSettings, queues: Queues, program: string): Promise<string> {
  const located = await locateSink(sink, queues);
  if (located.kind !== 'nowhere') return located.id;
  throw usage(
    `No worker has ever used sink ${sink.name}, and it is not on this machine, so no worker would take the job. Start one with "${program} worker", or run the connector here with "${program} sync".`,
  );
}
