import { overviewOf, type SinkOverview } from '../../app/connector-states.ts';
import {
  defaultReason,
  pauseConnectors,
  resumeConnectors,
  runNow,
  type Tell,
  writeSchedules,
} from '../../app/control-connectors.ts';
import { locateSink, servedSink, openQueuesOf, reachQueues } from '../../app/reach-queues.ts';
import { hasCode, usage } from '../../core/errors.ts';
import { firstNames } from '../../definitions/suggest-name.ts';
import type { Queues } from '../../jobs/open-queues.ts';
import type { ServedSink } from '../../jobs/worker-context.ts';
import type { Backlog } from '../../jobs/open-queue-set.ts';
import { chosenConnectors, sinksOf, type WorkerTarget, workerTargets } from '../../settings/choices.ts';
import { formatDuration } from '../../settings/texts.ts';
import type { ConnectorSettings, LocalSettings, Schedule } from '../../settings/settings.ts';
import { processUser } from '../../sinks/requests.ts';
import {
  comingUp,
  count,
  counted,
  duration,
  longAgo,
  printable,
  toTheSecond,
} from '../../telemetry/format.ts';
import { reasonLine } from '../../wording/connector-text.ts';
import { command, type CommandContext } from '../command.ts';
import { listOptions, openListPage } from './status.ts';
import { picked } from '../output/json-text.ts';
import { fits, fittingTable, leftColumns, type Rows, textTable } from '../output/text-table.ts';

/** Exit code 0 also if Redis cannot be reached: the other facts are correct, and a note names the missing ones. */
const listSchedules = command({
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
    const list = await readSchedules(settings, chosen, page, { program, nowMs: clock.now() });
    const { backlogBySink, problem } = list;
    terminal.printJson({
      connectors: list.shown.map((one) => documentOf(one, list)),
      ...page.sums,
      targets: list.targets.map(({ target: { name, sink, everyMs }, next, failure }) => ({
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
    terminal.print(...scheduleLines(list, terminal.columns()));
    terminal.note(...scheduleRemarks(list), ...page.remarks);
    return page.exitCode;
  },
});

export const schedule = command({
  help: `
Examples:
  $ connector-sync schedule list                     next and last runs
  $ connector-sync schedule run newsletter           run now, by a worker
  $ connector-sync schedule pause wiki --reason 'the service is being moved'
  $ connector-sync schedule resume wiki

Schedules are set in the config; workers copy them to Redis once a minute.`,
  commands: {
    list: listSchedules,
    /**
     * Writes the schedules of every sink whose files are on this machine; other machines write those of their sinks.
     */
    apply: command({
      description:
        'Write the schedules of the config to Redis now; workers do so when they start and every minute.',
      options: {
        '--take-over <sink...>': "use this machine's file for the sink from now on; the previous one is lost",
      },
      help: `
A sink belongs to the machine that has its files, and Redis knows which. If that file is lost (a broken disk),
--take-over makes this machine's file the sink's.

Examples:
  $ connector-sync schedule apply
  $ connector-sync schedule apply --take-over main`,
      run: async (context, { takeOver }) => {
        const { terminal, clock } = context;
        const settings = await context.settings('redis');
        const sinks = sinksOf(chosenConnectors(settings, []));
        const known = sinks.map(({ name }) => name);
        const unknown = takeOver.find((name) => !known.includes(name));
        if (unknown !== undefined) {
          throw usage(`--take-over: expected one of the sinks ${known.join(', ')}, got "${unknown}".`);
        }
        await using queues = await openQueuesOf(settings);
        const served: ServedSink[] = [];
        const elsewhere: { readonly sink: string; readonly host: string }[] = [];
        for (const sink of sinks) {
          const located = await locateSink(sink, queues);
          if (located.kind === 'elsewhere' && !takeOver.includes(sink.name)) {
            elsewhere.push({ sink: sink.name, host: located.host });
          } else served.push(await servedSink(sink, clock));
        }
        const { written, kept, removed } = await writeSchedules(settings, queues, served, takeOver);
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
          terminal.note(
            `Skipped sink ${sink}: its files are on ${host}, and its schedules are written there.`,
          );
        }
      },
    }),
    /**
     * Writes the pause to the ledger first: workers check it there before every run. Redis then forgets the schedule.
     */
    pause: command({
      description: 'Stop starting scheduled runs of these connectors until they are resumed.',
      argument: ['<connector...>', 'names from the config'],
      options: {
        '--reason <text>': { text: 'shown wherever the pause is shown', default: defaultReason },
      },
      help: `
The pause is stored in the sink, beside the records: it outlives Redis and every restart. A run in progress continues, and
"connector-sync sync" still works.

Example:
  $ connector-sync schedule pause newsletter wiki --reason 'the service is being moved'`,
      run: async (context, { reason }, names) => {
        const settings = await context.settings();
        const how = { ...context, tell: telling(context) };
        await pauseConnectors(settings, chosenConnectors(settings, names), reason, how);
      },
    }),
    resume: command({
      description: 'Let paused connectors run on their schedules again.',
      argument: ['<connector...>', 'names from the config'],
      help: '\nExample:\n  $ connector-sync schedule resume newsletter wiki',
      run: async (context, _flags, names) => {
        const settings = await context.settings();
        const how = { ...context, tell: telling(context) };
        await resumeConnectors(settings, chosenConnectors(settings, names), how);
      },
    }),
    /** Throws QUEUE_UNAVAILABLE within two seconds, USAGE for a paused connector; nothing is queued in these cases. */
    run: command({
      description: 'Have a worker run these connectors now.',
      argument: ['<connector...>', 'names from the config'],
      help: `
A run that is already waiting or running is not started twice. To run it in this terminal instead, use "connector-sync sync".

Example:
  $ connector-sync schedule run newsletter`,
      run: async (context, _flags, names) => {
        const { terminal, program } = context;
        const settings = await context.settings('redis');
        const connectors = chosenConnectors(settings, names);
        await runNow(settings, connectors, processUser(), { program, tell: telling(context) });
        terminal.print(`\n"${program} runs" shows it, and "${program} ui" its progress.`);
      },
    }),
  },
});

/** Prints the result of an action; a remark is no result. */
function telling({ terminal }: CommandContext): Tell {
  return (line, document) => {
    if (document === undefined) return terminal.note(line);
    terminal.printJson(document);
    terminal.print(line);
  };
}

/** The content of a list of schedules; times are in milliseconds, null where Redis holds none or cannot be reached. */
type ScheduleList = Awaited<ReturnType<typeof readSchedules>>;

async function readSchedules(
  settings: LocalSettings,
  chosen: readonly ConnectorSettings[],
  page: Awaited<ReturnType<typeof openListPage>>,
  style: { readonly program: string; readonly nowMs: number },
) {
  const targets = workerTargets(settings, new Set(chosen.map(({ name }) => name)));
  const listed = { shown: page.connectors, chosen, targets };
  const queued = await askRedis(settings, listed, page.overviews);
  return {
    ...style,
    backlogBySink: queued.backlogBySink,
    /** The reason why Redis cannot be reached. */
    problem: queued.problem,
    shown: page.connectors.map((connector) => {
      const { paused, lastRun } = overviewOf(page.overviews, connector) ?? { paused: null, lastRun: null };
      const { name, sink } = connector;
      const failure = queued.failure('connectors', sink.name, name);
      const isNews = failure !== null && failure.at > (lastRun?.finishedAt ?? '');
      return {
        connector,
        health: page.healthOf(connector),
        next: queued.next('connectors', sink.name, name),
        paused,
        lastRun,
        /** The newest failure since the last run: no run could begin. */
        givenUp: isNews ? failure : null,
      };
    }),
    targets: targets.map((target) => ({
      target,
      next: queued.next('targets', target.sink, target.name),
      /** The time at which the newest publication job failed; it may be tried again. */
      failure: queued.failure('targets', target.sink, target.name),
    })),
  };
}

interface Listed {
  readonly shown: readonly ConnectorSettings[];
  readonly chosen: readonly ConnectorSettings[];
  readonly targets: readonly WorkerTarget[];
}

/** Reads the state of all schedules in Redis; `problem`: why Redis cannot be reached. */
async function askRedis(
  settings: LocalSettings,
  listed: Listed,
  overviews: ReadonlyMap<string, SinkOverview>,
): Promise<Queued & { readonly problem: string | null }> {
  await using reached = await reachQueues(settings);
  const nothing = { next: () => null, failure: () => null, backlogBySink: new Map() };
  if (reached.queues === null) return { ...nothing, problem: reached.problem };
  try {
    return { ...(await readQueued(listed, overviews, reached.queues)), problem: null };
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
  for (const name of new Set(
    [...scheduled, ...targets].map(({ sink }) => (typeof sink === 'string' ? sink : sink.name)),
  )) {
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
    const ofSink = chosen.filter((one) => one.sink.name === sink);
    const backlog = await queues.backlog(
      id,
      ofSink.flatMap(({ schedule }) => schedule ?? []),
    );
    if (backlog.waiting > 0) backlogBySink.set(sink, backlog);
  }
  const key = (sink: string, name: string): string => `${idBySink.get(sink) ?? ''}:${name}`;
  return {
    /** Time in milliseconds; null where Redis holds none. */
    next: (kind: keyof typeof due, sink: string, name: string) => due[kind].get(key(sink, name)) ?? null,
    failure: (kind: keyof typeof due, sink: string, name: string) =>
      failures[kind].get(key(sink, name)) ?? null,
    /** The backlogs of the sinks in which jobs wait. */
    backlogBySink,
  };
}

function documentOf(
  { connector, health, next, paused, lastRun, givenUp }: ScheduleList['shown'][number],
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

function scheduleLines(list: ScheduleList, width: number | null): readonly string[] {
  return [
    ...scheduleTable(list, width),
    ...targetTable(list),
    ...pausedLines(list),
    ...givenUpLines(list),
    ...backlogLines(list),
  ];
}

/** A run is overdue after this time: a worker starts a due run within a second. */
const overdueMs = 30_000;

function scheduleTable(list: ScheduleList, width: number | null): readonly string[] {
  const rowsWith = (label: string): Rows =>
    list.shown.map(({ connector: { name, schedule }, health, next, paused, lastRun }) => [
      name,
      health.word,
      scheduleText(schedule),
      schedule === null ? '' : paused === null ? dueText(next, list) : 'paused',
      label + (lastRun === null ? 'never' : `${lastRun.state} ${longAgo(lastRun.startedAt, list.nowMs)}`),
    ]);
  const whole = textTable(columns, rowsWith(''));
  // The last run is shown below the row, without a title.
  return fits(whole, width) ? whole : fittingTable(columns, rowsWith('last run: '), width);
}

const columns = leftColumns('connector', 'health', 'schedule', 'next', 'last run');

/** Shows cron patterns with their time zone, because the rest of the table is in UTC. */
function scheduleText(schedule: Schedule | null): string {
  if (schedule === null) return 'none';
  const when =
    schedule.kind === 'cron'
      ? `${schedule.pattern} ${schedule.timezone}`
      : `every ${formatDuration(schedule.everyMs)}`;
  return schedule.jitterMs === 0 ? when : `${when}, up to ${formatDuration(schedule.jitterMs)} later`;
}

function dueText(next: number | null, { problem, nowMs }: ScheduleList): string {
  if (problem !== null) return '?';
  return next === null ? 'not in Redis' : comingUp(next, nowMs);
}

/** The targets that workers publish into. */
function targetTable(list: ScheduleList): readonly string[] {
  const rows = list.targets.map(({ target: { name, everyMs }, next }) => [
    name,
    everyMs === null ? 'after syncs' : `every ${formatDuration(everyMs)}`,
    everyMs === null ? '' : dueText(next, list),
  ]);
  return rows.length === 0 ? [] : ['', ...textTable(leftColumns('target', 'schedule', 'next'), rows)];
}

function pausedLines({ shown, nowMs, program }: ScheduleList): readonly string[] {
  const paused = shown.flatMap(({ connector: { name }, paused: pause }) =>
    pause === null
      ? []
      : [`${name} has been paused since ${longAgo(pause.since, nowMs)}: ${printable(pause.reason)}`],
  );
  return paused.length === 0 ? [] : ['', ...paused, `"${program} schedule resume <connector>" ends a pause.`];
}

function givenUpLines({ shown, targets, nowMs, program }: ScheduleList): readonly string[] {
  const lines = [
    ...shown.map(
      ({ connector: { name }, givenUp: one }) =>
        one && `${name} failed ${longAgo(one.at, nowMs)} and will not be retried: ${printable(one.code)}`,
    ),
    ...targets.map(
      ({ target: { name }, failure: one }) =>
        one && `${name}: the newest publication failed ${longAgo(one.at, nowMs)}: ${printable(one.code)}`,
    ),
  ].filter((line) => line !== null);
  return lines.length === 0
    ? []
    : ['', ...lines, `"${program} check" and the worker's log say what is wrong.`];
}

/** Describes the runs that are due and wait for a worker, and how long they will take. */
function backlogLines({ backlogBySink }: ScheduleList): readonly string[] {
  return [...backlogBySink].map(([sink, { waiting, doneAMinute, dueAMinute, endsInMs }]) => {
    const rates = `${perMinute(doneAMinute)} a minute are done, ${perMinute(dueAMinute)} become due`;
    const end = Number.isFinite(endsInMs)
      ? `worked off in about ${duration(endsInMs)}`
      : 'never worked off at this rate: start more workers, raise --concurrency, or make the schedules less frequent';
    return `sink ${sink}: ${counted(waiting, 'run')} waiting; ${rates}: ${end}`;
  });
}

function perMinute(rate: number): string {
  return rate >= 10 ? count(Math.round(rate)) : rate.toFixed(1);
}

/** Explains why "next" is empty, or why a schedule has no effect. */
function scheduleRemarks({ shown, targets, problem, nowMs, program }: ScheduleList): readonly string[] {
  if (problem !== null) return [`When they run next is not known: ${problem}`];
  const waiting = [
    ...shown.flatMap(({ connector: { name, schedule }, paused, next }) =>
      schedule !== null && paused === null ? [{ name, next }] : [],
    ),
    ...targets.flatMap(({ target: { name, everyMs }, next }) => (everyMs === null ? [] : [{ name, next }])),
  ];
  const missing = waiting.filter(({ next }) => next === null).map(({ name }) => name);
  const overdue = waiting.flatMap(({ name, next }) =>
    next !== null && nowMs - next > overdueMs ? [name] : [],
  );
  const apply = `"${program} schedule apply" does so now`;
  return [
    missing.length > 0 &&
      `Not in Redis yet: ${firstNames(missing)}. A worker writes it there when it starts; ${apply}.`,
    overdue.length > 0 &&
      `Overdue: ${firstNames(overdue)}. No worker is taking runs; "${program} worker" starts one.`,
  ].filter((line) => line !== false);
}
