import { overviewOf, type SinkOverview } from '../../../app/connector-states.ts';
import { reachQueues } from '../../../app/reach-queues.ts';
import { hasCode } from '../../../core/errors.ts';
import type { Queues } from '../../../jobs/open-queues.ts';
import type { Backlog } from '../../../jobs/worker-state.ts';
import { chosenConnectors, workerTargets, type WorkerTarget } from '../../../settings/choices.ts';
import type { ConnectorSettings, LocalSettings } from '../../../settings/settings.ts';
import { toTheSecond } from '../../../telemetry/format.ts';
import { reasonLine } from '../../../wording/trouble-text.ts';
import { command } from '../../command.ts';
import { listOptions, openListPage } from '../../list-page.ts';
import { picked } from '../../output/json-text.ts';
import { scheduleLines, scheduleRemarks, type ShownSchedule } from '../../output/schedule-text.ts';

/** Ends with 0 also where Redis is away: the rest is right all the same, and a note says what is missing. */
export const listSchedules = command({
  description:
    'List connectors with their schedule, next run, last run and pause; and the targets that workers publish into.',
  argument: ['[connector...]', 'names from the config, * stands for any text (default: all)'],
  options: listOptions,
  help: "\nExample:\n  $ connector-sync schedule list --json | jq '.connectors[] | {connector, next}'",
  run: async (context, flags, names) => {
    const { terminal, clock, program } = context;
    const settings = await context.settings();
    const chosen = chosenConnectors(settings, names);
    const page = await openListPage(chosen, flags, clock.now());
    const { overviews } = page;
    const targets = workerTargets(settings, new Set(chosen.map(({ name }) => name)));
    const queued = await askRedis(settings, { shown: page.connectors, chosen, targets }, overviews);
    const { backlogBySink, problem } = queued;
    const shown = page.connectors.map((connector): ShownSchedule => {
      const { paused, lastRun } = overviewOf(overviews, connector) ?? { paused: null, lastRun: null };
      const { name, sink } = connector;
      const failure = queued.failure('connectors', sink.name, name);
      const isNews = failure !== null && failure.at > (lastRun?.finishedAt ?? '');
      const next = queued.next('connectors', sink.name, name);
      const health = page.healthOf(connector);
      return { connector, health, next, paused, lastRun, givenUp: isNews ? failure : null };
    });
    const shownTargets = targets.map((target) => ({
      target,
      next: queued.next('targets', target.sink, target.name),
      failure: queued.failure('targets', target.sink, target.name),
    }));
    const style = { program, nowMs: clock.now() };
    terminal.printJson({
      connectors: shown.map((one) => documentOf(one, style)),
      ...page.sums,
      targets: shownTargets.map(({ target: { name, sink, everyMs }, next, failure }) => ({
        target: name,
        sink,
        everyMs,
        next: next === null ? null : toTheSecond(next),
        failure,
      })),
      unreadableSinks: page.unreadableSinks,
      backlog: [...backlogBySink].map(([sink, { endsInMs, ...backlog }]) => ({
        sink,
        ...backlog,
        // JSON has no Infinity.
        endsInMs: Number.isFinite(endsInMs) ? endsInMs : null,
      })),
      redis: { isReachable: problem === null, problem },
    });
    const list = { shown, targets: shownTargets, backlogBySink, problem, ...style };
    terminal.print(...scheduleLines(list, terminal.columns()));
    terminal.note(...scheduleRemarks(list), ...page.remarks);
    return page.exitCode;
  },
});

interface Listed {
  readonly shown: readonly ConnectorSettings[];
  readonly chosen: readonly ConnectorSettings[];
  readonly targets: readonly WorkerTarget[];
}

/** What Redis knows of all schedules; `problem`: why it cannot be asked. */
async function askRedis(
  settings: LocalSettings,
  listed: Listed,
  overviews: ReadonlyMap<string, SinkOverview>,
): Promise<Queued & { readonly problem: string | null }> {
  await using reached = await reachQueues(settings);
  const { queues, problem } = reached;
  const nothing = { next: () => null, failure: () => null, backlogBySink: new Map() };
  if (queues === null) return { ...nothing, problem };
  try {
    return { ...(await readQueued(listed, overviews, queues)), problem: null };
  } catch (error) {
    if (!hasCode(error, 'QUEUE_UNAVAILABLE')) throw error;
    return { ...nothing, problem: error.message };
  }
}

type Queued = Awaited<ReturnType<typeof readQueued>>;

async function readQueued(
  { shown, chosen, targets }: Listed,
  overviews: ReadonlyMap<string, SinkOverview>,
  queues: Queues,
) {
  const idBySink = new Map<string, string>();
  const scheduled = shown.filter(({ schedule }) => schedule !== null);
  const sinkNames = [...scheduled.map(({ sink }) => sink.name), ...targets.map(({ sink }) => sink)];
  for (const name of new Set(sinkNames)) {
    const id = overviews.get(name)?.id ?? (await queues.registeredSink(name))?.id;
    if (id !== undefined) idBySink.set(name, id);
  }
  const sinkIds = [...idBySink.values()];
  const due = await queues.schedules(sinkIds);
  const failures = {
    connectors: await queues.failures(sinkIds),
    targets: await queues.publicationFailures(sinkIds),
  };
  const backlogBySink = new Map<string, Backlog>();
  for (const [sink, id] of idBySink) {
    const schedules = chosen.flatMap((one) =>
      one.sink.name === sink && one.schedule !== null ? [one.schedule] : [],
    );
    const backlog = await queues.backlog(id, schedules);
    if (backlog.waiting > 0) backlogBySink.set(sink, backlog);
  }
  const key = (sink: string, name: string): string => `${idBySink.get(sink) ?? ''}:${name}`;
  return {
    /** Milliseconds; null where it holds none. */
    next: (kind: keyof typeof due, sink: string, name: string) => due[kind].get(key(sink, name)) ?? null,
    failure: (kind: keyof typeof due, sink: string, name: string) =>
      failures[kind].get(key(sink, name)) ?? null,
    /** Of the sinks in which jobs wait. */
    backlogBySink,
  };
}

function documentOf(
  { connector, health, next, paused, lastRun, givenUp }: ShownSchedule,
  style: Parameters<typeof reasonLine>[2],
) {
  return {
    connector: connector.name,
    sink: connector.sink.name,
    health: health.word,
    reason: reasonLine(health, connector.name, style),
    schedule: connector.schedule,
    next: next === null ? null : toTheSecond(next),
    paused: paused === null ? null : picked(paused, 'since', 'reason'),
    lastRun: lastRun === null ? null : picked(lastRun, 'run', 'state', 'startedAt', 'finishedAt'),
    givenUp,
  };
}
