import { SyncError } from '../../../core/errors.ts';
import type { Queues } from '../../../jobs/open-queues.ts';
import type { ServedSink } from '../../../jobs/worker-context.ts';
import { chosenConnectors, sinksOf } from '../../../settings/chosen-connectors.ts';
import type { LocalSettings, SinkSettings } from '../../../settings/settings.ts';
import type { CommandContext } from '../../command-context.ts';
import { exitCodes, type ExitCode } from '../../output/exit-codes.ts';
import { loadConfig } from '../../load-config.ts';
import { locateSink, servedSink } from '../../../app/locate-sink.ts';
import { openQueuesOf } from '../../../app/reach-queues.ts';
import { overviewOf, readOverviews } from '../../../app/connector-states.ts';

/** Writes the schedules of every sink whose files are here; those of a sink elsewhere are its own machine's. */
export async function runScheduleApply(
  context: CommandContext,
  takeOver: readonly string[],
): Promise<ExitCode> {
  const { terminal, clock } = context;
  const settings = loadConfig(context, 'redis');
  const sinks = sinksOf(chosenConnectors(settings, []));
  checkTakeOver(sinks, takeOver);
  await using queues = await openQueuesOf(settings);
  const served: ServedSink[] = [];
  const elsewhere: { readonly sink: string; readonly host: string }[] = [];
  for (const sink of sinks) {
    const located = await locateSink(sink, queues);
    if (located.kind === 'elsewhere' && !takeOver.includes(sink.name)) {
      elsewhere.push({ sink: sink.name, host: located.host });
    } else served.push(await servedSink(sink, clock));
  }
  const { written, kept, removed } = await applySchedules(settings, queues, served, takeOver);
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
    terminal.note(`Skipped sink ${sink}: its files are on ${host}, and its schedules are written there.`);
  }
  return exitCodes.ok;
}

/** Makes Redis hold the config's schedules of these sinks, without those of paused connectors. */
export async function applySchedules(
  settings: LocalSettings,
  queues: Queues,
  sinks: readonly ServedSink[],
  takeOver: readonly string[] = [],
): ReturnType<Queues['apply']> {
  const names = new Set(sinks.map(({ name }) => name));
  const connectors = [...settings.connectors].filter(([, { sink }]) => names.has(sink.name));
  const overviews = await readOverviews(connectors.map(([, connector]) => connector));
  const known = new Map(connectors.map(([name, connector]) => [name, overviewOf(overviews, connector)]));
  return await queues.apply({
    connectors: new Map(connectors),
    targets: [...settings.publish.values()],
    sinks,
    paused: async (sink) =>
      new Set(
        [...(overviews.get(sink)?.connectors.values() ?? [])].flatMap(({ connector, paused }) =>
          paused === null ? [] : [connector],
        ),
      ),
    takeOver,
    lastRun: async (connector) => known.get(connector)?.lastRun ?? null,
  });
}

function checkTakeOver(sinks: readonly SinkSettings[], takeOver: readonly string[]): void {
  const known = sinks.map(({ name }) => name);
  const unknown = takeOver.find((name) => !known.includes(name));
  if (unknown === undefined) return;
  throw new SyncError(`--take-over: expected one of the sinks ${known.join(', ')}, got "${unknown}".`, {
    code: 'USAGE',
    recovery: 'stop',
  });
}
