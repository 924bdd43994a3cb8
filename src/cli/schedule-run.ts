import { openApp, type App } from '../app.ts';
import type { Queues } from '../jobs/open-queues.ts';
import type { ConnectorSettings, SinkSettings } from '../settings/settings.ts';
import { printable } from '../telemetry/printable.ts';
import { chosenConnectors } from './chosen-connectors.ts';
import type { CommandContext } from './command-context.ts';
import { exitCodes, type ExitCode } from './exit-codes.ts';
import { loadConfig } from './load-config.ts';
import { locateSink } from './locate-sink.ts';
import { openQueuesOf } from './reach-queues.ts';
import { readLedger } from './read-ledger.ts';
import { usage } from './usage-error.ts';

/** Throws QUEUE_UNAVAILABLE within two seconds, USAGE for a paused connector; then nothing was asked for. */
export async function runScheduleRun(context: CommandContext, names: readonly string[]): Promise<ExitCode> {
  const { terminal, clock, program } = context;
  const settings = loadConfig(context);
  const connectors = chosenConnectors(settings, names);
  for (const connector of connectors) checkNotPaused(connector, program);
  await using app = openApp({ settings, clock, command: 'connector-sync schedule run' });
  await using queues = await openQueuesOf(settings);
  const idBySink = new Map<SinkSettings, string>();
  for (const { sink } of connectors)
    if (!idBySink.has(sink)) idBySink.set(sink, await sinkIdOf(app, sink, queues, program));
  for (const { name, sink } of connectors) {
    const { isNew, state } = await queues.enqueue(idBySink.get(sink) ?? '', name, 'manual');
    terminal.printJson({ connector: name, isNew, state });
    terminal.print(`${name}: ${stateText(isNew, state)}`);
  }
  terminal.print(`\n"${program} runs --follow" shows what comes of it.`);
  return exitCodes.ok;
}

function checkNotPaused(connector: ConnectorSettings, program: string): void {
  const { name } = connector;
  const { paused } = readLedger(connector);
  if (paused === null) return;
  throw usage(
    `${name} is paused since ${paused.since} (${printable(paused.reason)}), so no worker would run it. Resume it with "${program} schedule resume ${name}", or run it here with "${program} sync ${name}".`,
  );
}

async function sinkIdOf(app: App, sink: SinkSettings, queues: Queues, program: string): Promise<string> {
  const located = await locateSink(app, sink, queues);
  if (located.kind !== 'nowhere') return located.id;
  throw usage(
    `No worker has ever served sink ${sink.name}, and it is not on this machine, so nobody would take the job. Start one with "${program} worker", or run the connector here with "${program} sync".`,
  );
}

function stateText(isNew: boolean, state: string): string {
  if (isNew) return state === 'active' ? 'a worker has taken it' : 'waiting for a worker to take it';
  if (state === 'active') return 'already running';
  return state === 'delayed' ? 'already waiting, for a time that was set before' : 'already waiting';
}
