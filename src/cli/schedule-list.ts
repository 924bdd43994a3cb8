import { openApp, type App } from '../app.ts';
import type { Queues } from '../jobs/open-queues.ts';
import type { Settings, SinkSettings } from '../settings/settings.ts';
import { toTheSecond } from './about-time.ts';
import { chosenConnectors } from './chosen-connectors.ts';
import type { CommandContext } from './command-context.ts';
import { exitCodes, type ExitCode } from './exit-codes.ts';
import { loadConfig } from './load-config.ts';
import { locateSink } from './locate-sink.ts';
import { isUnavailable, reachQueues } from './reach-queues.ts';
import { readLedger } from './read-ledger.ts';
import { pausedLines, scheduleRemarks, scheduleTable, type ShownSchedule } from './tables/schedule-text.ts';

/** What Redis says of all schedules: when each comes next, or why it cannot be asked. */
interface NextRuns {
  readonly nextByConnector: ReadonlyMap<string, number | null>;
  readonly problem: string | null;
}

/** Ends with 0 also where Redis is away: the rest is right all the same, and a note says what is missing. */
export async function runScheduleList(context: CommandContext): Promise<ExitCode> {
  const { terminal, clock, program } = context;
  const settings = loadConfig(context);
  const connectors = chosenConnectors(settings, []);
  await using app = openApp({ settings, clock, command: 'connector-sync schedule list' });
  const { nextByConnector, problem } = await nextRuns(app);
  const shown = connectors.map((connector) => ({
    connector,
    next: nextByConnector.get(connector.name) ?? null,
    ...readLedger(connector),
  }));
  terminal.printJson({
    connectors: shown.map(documentOf),
    redis: { isReachable: problem === null, problem },
  });
  const nowMs = clock.now();
  for (const line of scheduleTable(shown, problem !== null, nowMs, terminal.columns())) terminal.print(line);
  for (const line of pausedLines(shown, nowMs, program)) terminal.print(line);
  for (const line of scheduleRemarks(shown, problem, { program, nowMs })) terminal.note(line);
  return exitCodes.ok;
}

async function nextRuns(app: App): Promise<NextRuns> {
  await using reached = await reachQueues(app.settings);
  const { queues, problem } = reached;
  if (queues === null) return { nextByConnector: new Map(), problem };
  try {
    return { nextByConnector: await readNext(app, queues), problem: null };
  } catch (error) {
    if (!isUnavailable(error)) throw error;
    return { nextByConnector: new Map(), problem: error.message };
  }
}

async function readNext(app: App, queues: Queues): Promise<ReadonlyMap<string, number | null>> {
  const idBySink = new Map<SinkSettings, string>();
  for (const sink of scheduledSinks(app.settings)) {
    const located = await locateSink(app, sink, queues);
    if (located.kind !== 'nowhere') idBySink.set(sink, located.id);
  }
  const schedules = await queues.schedules([...idBySink.values()]);
  return new Map(
    [...app.settings.connectors.values()].flatMap(({ name, sink }) => {
      const found = schedules.get(`${idBySink.get(sink) ?? ''}:${name}`);
      return found === undefined ? [] : [[name, found.next] as const];
    }),
  );
}

function scheduledSinks({ connectors }: Settings): readonly SinkSettings[] {
  return [
    ...new Set([...connectors.values()].flatMap(({ schedule, sink }) => (schedule === null ? [] : [sink]))),
  ];
}

function documentOf({ connector, next, paused, lastRun }: ShownSchedule): object {
  return {
    connector: connector.name,
    sink: connector.sink.name,
    schedule: connector.schedule,
    next: next === null ? null : toTheSecond(next),
    paused: paused === null ? null : { since: paused.since, reason: paused.reason },
    lastRun:
      lastRun === null
        ? null
        : {
            run: lastRun.run,
            state: lastRun.state,
            startedAt: lastRun.startedAt,
            finishedAt: lastRun.finishedAt,
          },
  };
}
