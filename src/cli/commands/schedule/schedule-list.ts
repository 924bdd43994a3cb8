import { hasCode } from '../../../core/errors.ts';
import type { Backlog } from '../../../jobs/worker-state.ts';
import type { FailedJob, Queues } from '../../../jobs/open-queues.ts';
import { chosenConnectors } from '../../../settings/chosen-connectors.ts';
import { workerTargets, type WorkerTarget } from '../../../settings/chosen-targets.ts';
import type { ConnectorSettings, LocalSettings } from '../../../settings/settings.ts';
import { toTheSecond } from '../../../telemetry/format.ts';
import type { CommandContext } from '../../command-context.ts';
import { exitCodeOfError, gravestExitCode, type ExitCode } from '../../output/exit-codes.ts';
import { unreadableSinkDocuments, unreadableSinkLines } from '../../list-page.ts';
import { pageOf, pageRemarks, type ListFlags } from '../../list-page.ts';
import { loadConfig } from '../../load-config.ts';
import { reachQueues } from '../../../app/reach-queues.ts';
import { overviewOf, readOverviewsOfReadable, type SinkOverview } from '../../../app/connector-states.ts';
import {
  backlogLines,
  givenUpLines,
  pausedLines,
  scheduleRemarks,
  scheduleTable,
  targetTable,
  type ShownSchedule,
} from '../../output/schedule-text.ts';

/** What Redis says of all schedules: when each comes next, or why it cannot be asked. */
interface NextRuns {
  readonly nextByConnector: ReadonlyMap<string, number | null>;
  readonly nextByTarget: ReadonlyMap<string, number | null>;
  readonly failureByConnector: ReadonlyMap<string, FailedJob>;
  readonly failureByTarget: ReadonlyMap<string, FailedJob>;
  /** Of the sinks in which jobs wait. */
  readonly backlogBySink: ReadonlyMap<string, Backlog>;
  readonly problem: string | null;
}

/** Ends with 0 also where Redis is away: the rest is right all the same, and a note says what is missing. */
export async function runScheduleList(
  context: CommandContext,
  flags: ListFlags,
  names: readonly string[],
): Promise<ExitCode> {
  const { terminal, clock, program } = context;
  const settings = loadConfig(context);
  const chosen = chosenConnectors(settings, names);
  const { overviews, readable, unreadable } = await readOverviewsOfReadable(chosen);
  const page = pageOf(readable, overviews, flags, clock.now());
  const targets = workerTargets(settings, new Set(chosen.map(({ name }) => name)));
  const { nextByConnector, nextByTarget, failureByConnector, failureByTarget, backlogBySink, problem } =
    await nextRuns(settings, { shown: page.connectors, chosen, targets }, overviews);
  const shown = page.connectors.map((connector): ShownSchedule => {
    const { paused, lastRun } = overviewOf(overviews, connector) ?? { paused: null, lastRun: null };
    const failure = failureByConnector.get(connector.name);
    const isNews = failure !== undefined && failure.at > (lastRun?.finishedAt ?? '');
    const next = nextByConnector.get(connector.name) ?? null;
    return { connector, next, paused, lastRun, givenUp: isNews ? failure : null };
  });
  const shownTargets = targets.map((target) => ({
    target,
    next: nextByTarget.get(target.name) ?? null,
    failure: failureByTarget.get(target.name) ?? null,
  }));
  terminal.printJson({
    connectors: shown.map(documentOf),
    total: page.total,
    counts: page.counts,
    targets: shownTargets.map(({ target: { name, sink, everyMs }, next, failure }) => ({
      target: name,
      sink,
      everyMs,
      next: next === null ? null : toTheSecond(next),
      failure,
    })),
    unreadableSinks: unreadableSinkDocuments(unreadable),
    backlog: [...backlogBySink].map(([sink, { endsInMs, ...backlog }]) => ({
      sink,
      ...backlog,
      // JSON has no Infinity.
      endsInMs: Number.isFinite(endsInMs) ? endsInMs : null,
    })),
    redis: { isReachable: problem === null, problem },
  });
  const nowMs = clock.now();
  terminal.print(
    ...scheduleTable(shown, problem !== null, nowMs, terminal.columns()),
    ...targetTable(shownTargets, problem !== null, nowMs),
    ...pausedLines(shown, nowMs, program),
    ...givenUpLines(shown, shownTargets, nowMs, program),
    ...backlogLines(backlogBySink),
  );
  for (const line of scheduleRemarks(shown, shownTargets, { problem, program, nowMs })) terminal.note(line);
  terminal.note(...pageRemarks(page, flags), ...unreadableSinkLines(unreadable));
  return gravestExitCode(unreadable.map(({ error }) => exitCodeOfError(error)));
}

interface Listed {
  readonly shown: readonly ConnectorSettings[];
  readonly chosen: readonly ConnectorSettings[];
  readonly targets: readonly WorkerTarget[];
}

async function nextRuns(
  settings: LocalSettings,
  listed: Listed,
  overviews: ReadonlyMap<string, SinkOverview>,
): Promise<NextRuns> {
  await using reached = await reachQueues(settings);
  const { queues, problem } = reached;
  const nothing = {
    nextByConnector: new Map(),
    nextByTarget: new Map(),
    failureByConnector: new Map(),
    failureByTarget: new Map(),
    backlogBySink: new Map(),
  };
  if (queues === null) return { ...nothing, problem };
  try {
    return { ...(await readNext(listed, overviews, queues)), problem: null };
  } catch (error) {
    if (!hasCode(error, 'QUEUE_UNAVAILABLE')) throw error;
    return { ...nothing, problem: error.message };
  }
}

async function readNext(
  { shown, chosen, targets }: Listed,
  overviews: ReadonlyMap<string, SinkOverview>,
  queues: Queues,
): Promise<Omit<NextRuns, 'problem'>> {
  const idBySink = new Map<string, string>();
  const scheduled = shown.filter(({ schedule }) => schedule !== null);
  const sinkNames = [...scheduled.map(({ sink }) => sink.name), ...targets.map(({ sink }) => sink)];
  for (const name of new Set(sinkNames)) {
    const id = overviews.get(name)?.id ?? (await queues.registeredSink(name))?.id;
    if (id !== undefined) idBySink.set(name, id);
  }
  const sinkIds = [...idBySink.values()];
  const due = await queues.schedules(sinkIds);
  const failures = await queues.failures(sinkIds);
  const nextByConnector = new Map<string, number | null>();
  const failureByConnector = new Map<string, FailedJob>();
  for (const { name, sink } of shown) {
    const key = `${idBySink.get(sink.name) ?? ''}:${name}`;
    const failure = failures.get(key);
    nextByConnector.set(name, due.connectors.get(key) ?? null);
    if (failure !== undefined) failureByConnector.set(name, failure);
  }
  const nextByTarget = new Map(
    targets.map(({ name, sink }) => [name, due.targets.get(`${idBySink.get(sink) ?? ''}:${name}`) ?? null]),
  );
  const unpublished = await queues.publicationFailures(sinkIds);
  const failureByTarget = new Map(
    targets.flatMap(({ name, sink }) => {
      const failure = unpublished.get(`${idBySink.get(sink) ?? ''}:${name}`);
      return failure === undefined ? [] : [[name, failure] as const];
    }),
  );
  const backlogBySink = new Map<string, Backlog>();
  for (const [sink, id] of idBySink) {
    const schedules = chosen.flatMap((one) =>
      one.sink.name === sink && one.schedule !== null ? [one.schedule] : [],
    );
    const backlog = await queues.backlog(id, schedules);
    if (backlog.waiting > 0) backlogBySink.set(sink, backlog);
  }
  return { nextByConnector, nextByTarget, failureByConnector, failureByTarget, backlogBySink };
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
