import type { Clock } from '../core/clock.ts';
import { hasCode } from '../core/errors.ts';
import type { FailedJob } from '../jobs/newest-failures.ts';
import type { Queues } from '../jobs/open-queues.ts';
import { chosenConnectors } from '../settings/chosen-connectors.ts';
import type { LocalSettings, SinkSettings } from '../settings/settings.ts';
import { toTheSecond } from './about-time.ts';
import type { CommandContext } from './command-context.ts';
import { exitCodes, type ExitCode } from './exit-codes.ts';
import { loadConfig } from './load-config.ts';
import { locateSink } from './locate-sink.ts';
import { reachQueues } from './reach-queues.ts';
import { readLedger } from './read-ledger.ts';
import {
  givenUpLines,
  pausedLines,
  scheduleRemarks,
  scheduleTable,
  type ShownSchedule,
} from './tables/schedule-text.ts';

/** What Redis says of all schedules: when each comes next, or why it cannot be asked. */
interface NextRuns {
  readonly nextByConnector: ReadonlyMap<string, number | null>;
  readonly failureByConnector: ReadonlyMap<string, FailedJob>;
  readonly problem: string | null;
}

/** Ends with 0 also where Redis is away: the rest is right all the same, and a note says what is missing. */
export async function runScheduleList(context: CommandContext): Promise<ExitCode> {
  const { terminal, clock, program } = context;
  const settings = loadConfig(context);
  const connectors = chosenConnectors(settings, []);
  const { nextByConnector, failureByConnector, problem } = await nextRuns(settings, clock);
  const shown = connectors.map((connector): ShownSchedule => {
    const { paused, lastRun } = readLedger(connector);
    const failure = failureByConnector.get(connector.name);
    const isNews = failure !== undefined && failure.at > (lastRun?.finishedAt ?? '');
    const next = nextByConnector.get(connector.name) ?? null;
    return { connector, next, paused, lastRun, givenUp: isNews ? failure : null };
  });
  terminal.printJson({
    connectors: shown.map(documentOf),
    redis: { isReachable: problem === null, problem },
  });
  const nowMs = clock.now();
  for (const line of scheduleTable(shown, problem !== null, nowMs, terminal.columns())) terminal.print(line);
  for (const line of pausedLines(shown, nowMs, program)) terminal.print(line);
  for (const line of givenUpLines(shown, nowMs, program)) terminal.print(line);
  for (const line of scheduleRemarks(shown, problem, { program, nowMs })) terminal.note(line);
  return exitCodes.ok;
}

async function nextRuns(settings: LocalSettings, clock: Clock): Promise<NextRuns> {
  await using reached = await reachQueues(settings);
  const { queues, problem } = reached;
  const nothing = { nextByConnector: new Map(), failureByConnector: new Map() };
  if (queues === null) return { ...nothing, problem };
  try {
    return { ...(await readNext(settings, queues, clock)), problem: null };
  } catch (error) {
    if (!hasCode(error, 'QUEUE_UNAVAILABLE')) throw error;
    return { ...nothing, problem: error.message };
  }
}

async function readNext(
  settings: LocalSettings,
  queues: Queues,
  clock: Clock,
): Promise<Omit<NextRuns, 'problem'>> {
  const idBySink = new Map<SinkSettings, string>();
  for (const sink of scheduledSinks(settings)) {
    const located = await locateSink(sink, queues, clock);
    if (located.kind !== 'nowhere') idBySink.set(sink, located.id);
  }
  const sinkIds = [...idBySink.values()];
  const schedules = await queues.schedules(sinkIds);
  const failures = await queues.failures(sinkIds);
  const nextByConnector = new Map<string, number | null>();
  const failureByConnector = new Map<string, FailedJob>();
  for (const { name, sink } of settings.connectors.values()) {
    const key = `${idBySink.get(sink) ?? ''}:${name}`;
    const schedule = schedules.get(key);
    const failure = failures.get(key);
    if (schedule !== undefined) nextByConnector.set(name, schedule.next);
    if (failure !== undefined) failureByConnector.set(name, failure);
  }
  return { nextByConnector, failureByConnector };
}

function scheduledSinks({ connectors }: LocalSettings): readonly SinkSettings[] {
  return [
    ...new Set([...connectors.values()].flatMap(({ schedule, sink }) => (schedule === null ? [] : [sink]))),
  ];
}

function documentOf({ connector, next, paused, lastRun, givenUp }: ShownSchedule): object {
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
    givenUp,
  };
}
