import { openApp, type App } from '../app.ts';
import { instant, type Instant } from '../core/clock.ts';
import type { RunId } from '../core/names.ts';
import type { Queues } from '../jobs/open-queues.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import { openSink } from '../sinks/registry.ts';
import { chosenConnectors } from './chosen-connectors.ts';
import type { CommandContext } from './command-context.ts';
import { exitCodes, type ExitCode } from './exit-codes.ts';
import { loadConfig } from './load-config.ts';
import { locateSink, servedSink, sinkIsElsewhere } from './locate-sink.ts';
import { reachQueues } from './reach-queues.ts';
import { applySchedules, sinksOf } from './schedule-apply.ts';
import { usage } from './usage-error.ts';

/** Into the ledger first: what counts is there, and a worker asks it before every run. Redis then forgets the schedule. */
export async function runPause(
  context: CommandContext,
  names: readonly string[],
  reason: string,
): Promise<ExitCode> {
  const { terminal, clock, program } = context;
  const settings = loadConfig(context);
  const connectors = chosenConnectors(settings, names);
  const why = checkReason(reason);
  await using app = openApp({ settings, clock, command: 'connector-sync schedule pause' });
  await using reached = await reachQueues(settings);
  const { queues, problem } = reached;
  const since = instant(clock.now());
  for (const connector of connectors) await checkHere(app, connector, queues);
  for (const connector of connectors) {
    const running = await pause(connector, { since, reason: why }, context);
    await queues?.removeSchedule(await app.sinkId(connector.sink), connector.name);
    terminal.printJson({ connector: connector.name, paused: { since, reason: why }, running });
    terminal.print(`${connector.name}: paused, no further scheduled run starts`);
    if (running !== null)
      terminal.print(`  its run ${running} goes on; "${program} cancel ${running}" ends it at its next page`);
  }
  if (problem !== null) terminal.note(unreached(problem));
  return exitCodes.ok;
}

export async function runResume(context: CommandContext, names: readonly string[]): Promise<ExitCode> {
  const { terminal, clock } = context;
  const settings = loadConfig(context);
  const connectors = chosenConnectors(settings, names);
  await using app = openApp({ settings, clock, command: 'connector-sync schedule resume' });
  await using reached = await reachQueues(settings);
  const { queues, problem } = reached;
  for (const connector of connectors) await checkHere(app, connector, queues);
  for (const connector of connectors) {
    await using sink = await openSink(connector.sink, { clock });
    const wasPaused = await sink.resume(connector.name);
    terminal.printJson({ connector: connector.name, wasPaused });
    terminal.print(`${connector.name}: ${resumedText(connector, wasPaused)}`);
  }
  if (queues !== null) {
    const served = [];
    for (const sink of sinksOf(connectors)) served.push(await servedSink(app, sink));
    await applySchedules(settings, queues, served);
  }
  if (problem !== null) terminal.note(unreached(problem));
  return exitCodes.ok;
}

/** Returns the run that goes on meanwhile, as the ledger has it. */
async function pause(
  { name, sink: settings }: ConnectorSettings,
  why: { readonly since: Instant; readonly reason: string },
  { clock }: CommandContext,
): Promise<RunId | null> {
  await using sink = await openSink(settings, { clock });
  await sink.pause(name, why);
  const [last] = sink.history.runs({ connector: name, limit: 1 });
  return last?.state === 'running' ? last.run : null;
}

/** A pause written beside a sink that is somewhere else would pause nothing. */
async function checkHere(app: App, { sink }: ConnectorSettings, queues: Queues | null): Promise<void> {
  const located = await locateSink(app, sink, queues);
  if (located.kind === 'elsewhere') throw sinkIsElsewhere(sink, located);
  if (located.kind === 'here' || queues !== null) return;
  throw usage(
    `Sink ${sink.name} is not on this machine, and Redis, which would know where it is, does not answer. Run the command where the sink is.`,
  );
}

function checkReason(text: string): string {
  const reason = text.trim();
  if (reason !== '') return reason;
  throw usage('--reason: expected a few words, got none.');
}

function resumedText({ schedule }: ConnectorSettings, wasPaused: boolean): string {
  if (!wasPaused) return 'was not paused';
  return schedule === null ? 'resumed; it has no schedule' : 'resumed, it runs by its schedule again';
}

function unreached(problem: string): string {
  return `That is kept in the sink and holds. Redis could not be told, so a worker comes to know it within a minute: ${problem}`;
}
