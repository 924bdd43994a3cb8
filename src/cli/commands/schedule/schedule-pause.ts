import { checkHere, pauseConnector, resumeConnector } from '../../../app/pause-connector.ts';
import { instant } from '../../../core/clock.ts';
import { usage } from '../../../core/usage-error.ts';
import { chosenConnectors, sinksOf } from '../../../settings/chosen-connectors.ts';
import type { ConnectorSettings } from '../../../settings/settings.ts';
import type { CommandContext } from '../../command-context.ts';
import { exitCodes, type ExitCode } from '../../output/exit-codes.ts';
import { loadConfig } from '../../load-config.ts';
import { servedSink } from '../../../app/locate-sink.ts';
import { reachQueues } from '../../../app/reach-queues.ts';
import { applySchedules } from './schedule-apply.ts';

/**
 * Into the ledger first: what counts is there, and a worker asks it before every run. Redis then forgets the schedule.
 */
export async function runPause(
  context: CommandContext,
  names: readonly string[],
  reason: string,
): Promise<ExitCode> {
  const { terminal, clock, program } = context;
  const settings = loadConfig(context);
  const connectors = chosenConnectors(settings, names);
  const why = checkReason(reason);
  await using reached = await reachQueues(settings);
  const { queues, problem } = reached;
  const since = instant(clock.now());
  for (const connector of connectors) await checkHere(connector, queues);
  for (const connector of connectors) {
    const { sinkId, running } = await pauseConnector(connector, { since, reason: why }, context);
    await queues?.removeSchedule(sinkId, connector.name);
    terminal.printJson({ connector: connector.name, paused: { since, reason: why }, running });
    terminal.print(`${connector.name}: paused, no more scheduled runs start`);
    if (running !== null) {
      terminal.print(
        `  its run ${running} continues; "${program} cancel ${running}" stops it at its next page`,
      );
    }
  }
  if (problem !== null) terminal.note(unreached(problem));
  return exitCodes.ok;
}

export async function runResume(context: CommandContext, names: readonly string[]): Promise<ExitCode> {
  const { terminal, clock } = context;
  const settings = loadConfig(context);
  const connectors = chosenConnectors(settings, names);
  await using reached = await reachQueues(settings);
  const { queues, problem } = reached;
  for (const connector of connectors) await checkHere(connector, queues);
  for (const connector of connectors) {
    const wasPaused = await resumeConnector(connector, context);
    terminal.printJson({ connector: connector.name, wasPaused });
    terminal.print(`${connector.name}: ${resumedText(connector, wasPaused)}`);
  }
  if (queues !== null) {
    const served = [];
    for (const sink of sinksOf(connectors)) served.push(await servedSink(sink, clock));
    await applySchedules(settings, queues, served);
  }
  if (problem !== null) terminal.note(unreached(problem));
  return exitCodes.ok;
}

function checkReason(text: string): string {
  const reason = text.trim();
  if (reason !== '') return reason;
  throw usage('--reason: expected a few words, got none.');
}

function resumedText({ schedule }: ConnectorSettings, wasPaused: boolean): string {
  if (!wasPaused) return 'was not paused';
  return schedule === null ? 'resumed; it has no schedule' : 'resumed, runs on its schedule again';
}

function unreached(problem: string): string {
  return `This is stored in the sink and is in effect. Redis does not answer, so a worker learns of it within a minute: ${problem}`;
}
