import { hasCode } from '../../../core/errors.ts';
import type { Backlog } from '../../../jobs/worker-state.ts';
import type { FailedJob, Queues } from '../../../jobs/open-queues.ts';
import { chosenConnectors } from '../../../settings/chosen-connectors.ts';
import type { ConnectorSettings, LocalSettings } from '../../../settings/settings.ts';
import { toTheSecond } from '../../output/about-time.ts';
import type { CommandContext } from '../../command-context.ts';
import { exitCodes, type ExitCode } from '../../output/exit-codes.ts';
import { pageOf, pageRemarks, type ListFlags } from '../../list-page.ts';
import { loadConfig } from '../../load-config.ts';
import { reachQueues } from '../../../app/reach-queues.ts';
import { overviewOf, readOverviews, type SinkOverview } from '../../../app/connector-states.ts';
import {
  backlogLines,
  givenUpLines,
  pausedLines,
  scheduleRemarks,
  scheduleTable,
  type ShownSchedule,
} from '../../output/schedule-text.ts';

/** What Redis says of all schedules: when each comes next, or why it cannot be asked. */
interface NextRuns {
  readonly nextByConnector: ReadonlyMap<string, number | null>;
  readonly failureByConnector: ReadonlyMap<string, FailedJob>;
  /** Of the sinks in which jobs wait. */
  readonly backlogBySink: ReadonlyMap<string, Backlog>;
  readonly problem: string | null;
}

/** Ends with 0 also where Redis is away: the rest is right all the same, and a note says what is missing. */
export async function runScheduleList(
  context: CommandContext,
  names: readonly string[],
  flags: ListFlags,
): Promise<ExitCode> {
  const { terminal, clock, program } = context;
  const settings = loadConfig(context);
  const chosen = chosenConnectors(settings, names);
  const overviews = await readOverviews(chosen);
  const page = pageOf(chosen, overviews, flags, clock.now());
  const { nextByConnector, failureByConnector, backlogBySink, problem } = await nextRuns(
    settings,
    { shown: page.connectors, chosen },
    overviews,
  );
  const shown = page.connectors.map((connector): ShownSchedule => {
    const { paused, lastRun } = overviewOf(overviews, connector) ?? { paused: null, lastRun: null };
    const failure = failureByConnector.get(connector.name);
    const isNews = failure !== undefined && failure.at > (lastRun?.finishedAt ?? '');
    const next = nextByConnector.get(connector.name) ?? null;
    return { connector, next, paused, lastRun, givenUp: isNews ? failure : null };
  });
  terminal.printJson({
    connectors: shown.map(documentOf),
    total: page.total,
    counts: page.counts,
    backlog: [...backlogBySink].map(([sink, { endsInMs, ...backlog }]) => ({
      sink,
      ...backlog,
      // JSON has no Infinity.
      endsInMs: Number.isFinite(endsInMs) ? endsInMs : null,
    })),
    redis: { isReachable: problem === null, problem },
  });
  const nowMs = clock.now();
  for (const line of scheduleTable(shown, problem !== null, nowMs, terminal.columns())) terminal.print(line);
  for (const line of pausedLines(shown, nowMs, program)) terminal.print(line);
  for (const line of givenUpLines(shown, nowMs, program)) terminal.print(line);
  for (const line of backlogLines(backlogBySink)) terminal.print(line);
  for (const line of scheduleRemarks(shown, problem, { program, nowMs })) terminal.note(line);
  for (const line of pageRemarks(page, flags)) terminal.note(line);
  return exitCodes.ok;
}

async function nextRuns(
  settings: LocalSettings,
  connectors: { readonly shown: readonly ConnectorSettings[]; readonly chosen: readonly ConnectorSettings[] },
  overviews: ReadonlyMap<string, SinkOverview>,
): Promise<NextRuns> {
  await using reached = await reachQueues(settings);
  const { queues, problem } = reached;
  const nothing = { nextByConnector: new Map(), failureByConnector: new Map(), backlogBySink: new Map() };
  if (queues === null) return { ...nothing, problem };
  try {
    return { ...(await readNext(connectors, overviews, queues)), problem: null };
  } catch (error) {
    if (!hasCode(error, 'QUEUE_UNAVAILABLE')) throw error;
    return { ...nothing, problem: error.message };
  }
}

async function readNext(
  {
    shown: connectors,
    chosen,
  }: { readonly shown: readonly ConnectorSettings[]; readonly chosen: readonly ConnectorSettings[] },
  overviews: ReadonlyMap<string, SinkOverview>,
  queues: Queues,
): Promise<Omit<NextRuns, 'problem'>> {
  const idBySink = new Map<string, string>();
  const scheduled = connectors.filter(({ schedule }) => schedule !== null);
  for (const name of new Set(scheduled.map(({ sink }) => sink.name))) {
    const id = overviews.get(name)?.id ?? (await queues.registeredSink(name))?.id;
    if (id !== undefined) idBySink.set(name, id);
  }
  const sinkIds = [...idBySink.values()];
  const schedules = await queues.schedules(sinkIds);
  const failures = await queues.failures(sinkIds);
  const nextByConnector = new Map<string, number | null>();
  const failureByConnector = new Map<string, FailedJob>();
  for (const { name, sink } of connectors) {
    const key = `${idBySink.get(sink.name) ?? ''}:${name}`;
    const schedule = schedules.get(key);
    const failure = failures.get(key);
    if (schedule !== undefined) nextByConnector.set(name, schedule.next);
    if (failure !== undefined) failureByConnector.set(name, failure);
  }
  const backlogBySink = new Map<string, Backlog>();
  for (const [sink, id] of idBySink) {
    const schedules = chosen.flatMap((one) =>
      one.sink.name === sink && one.schedule !== null ? [one.schedule] : [],
    );
    const backlog = await queues.backlog(id, schedules);
    if (backlog.waiting > 0) backlogBySink.set(sink, backlog);
  }
  return { nextByConnector, failureByConnector, backlogBySink };
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
