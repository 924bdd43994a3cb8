import type { ConnectorHealth } from '../../app/connector-health.ts';
import type { Instant } from '../../core/clock.ts';
import type { Backlog } from '../../jobs/worker-state.ts';
import type { WorkerTarget } from '../../settings/choices.ts';
import { formatDuration } from '../../settings/texts.ts';
import type { ConnectorSettings, Schedule } from '../../settings/settings.ts';
import type { RunFacts } from '../../sinks/ledger-reader.ts';
import { printable, count, counted, duration, comingUp, longAgo } from '../../telemetry/format.ts';
import { fits, textTable, leftColumns } from './text-table.ts';

export interface ShownSchedule {
  readonly connector: ConnectorSettings;
  readonly health: ConnectorHealth;
  /** Milliseconds; null where Redis holds none. */
  readonly next: number | null;
  readonly paused: { readonly since: Instant; readonly reason: string } | null;
  readonly lastRun: RunFacts | null;
  /** What was tried since, without a run that could begin. */
  readonly givenUp: { readonly code: string; readonly at: Instant } | null;
}

interface ShownTarget {
  readonly target: WorkerTarget;
  /** Milliseconds; null where Redis holds none, or where it has no schedule. */
  readonly next: number | null;
  /** The newest publication job failed then; it may be tried again. */
  readonly failure: { readonly code: string; readonly at: Instant } | null;
}

/** What a list of schedules shows; `problem`: why Redis cannot be asked. */
interface ScheduleList {
  readonly shown: readonly ShownSchedule[];
  readonly targets: readonly ShownTarget[];
  readonly backlogBySink: ReadonlyMap<string, Backlog>;
  readonly problem: string | null;
  readonly nowMs: number;
  readonly program: string;
}

export function scheduleLines(list: ScheduleList, width: number | null): readonly string[] {
  return [
    ...scheduleTable(list, width),
    ...targetTable(list),
    ...pausedLines(list),
    ...givenUpLines(list),
    ...backlogLines(list),
  ];
}

/** A worker takes what is due within a second. */
const overdueMs = 30_000;
const mostNamed = 20;

/** Where five columns are too wide for the screen, the times stand below their connector. */
function scheduleTable(list: ScheduleList, width: number | null): readonly string[] {
  const rows = list.shown.map(({ connector: { name, schedule }, health, next, paused, lastRun }) => [
    name,
    health.word,
    scheduleText(schedule),
    schedule === null ? '' : paused === null ? dueText(next, list) : 'paused',
    lastRun === null ? 'never' : `${lastRun.state} ${longAgo(lastRun.startedAt, list.nowMs)}`,
  ]);
  const whole = textTable(columns, rows);
  if (fits(whole, width)) return whole;
  const [heading = '', ...lines] = textTable(columns.slice(0, 3), rows);
  const below = rows.map(([, , , next = '', lastRun = '']) => [
    ...(next === '' ? [] : [`    next: ${next}`]),
    `    last run: ${lastRun}`,
  ]);
  return [heading, ...lines.flatMap((line, at) => [line, ...(below[at] ?? [])])];
}

const columns = leftColumns('connector', 'health', 'schedule', 'next', 'last run');

/** Cron patterns with their time zone, because the rest of the table is UTC. */
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
  const paused = shown.flatMap(({ connector: { name }, paused: pause }) => {
    if (pause === null) return [];
    return [`${name} has been paused since ${longAgo(pause.since, nowMs)}: ${printable(pause.reason)}`];
  });
  return paused.length === 0 ? [] : ['', ...paused, `"${program} schedule resume <connector>" ends a pause.`];
}

function givenUpLines({ shown, targets, nowMs, program }: ScheduleList): readonly string[] {
  const failed = shown.flatMap(({ connector: { name }, givenUp }) => {
    if (givenUp === null) return [];
    return [
      `${name} failed ${longAgo(givenUp.at, nowMs)} and will not be retried: ${printable(givenUp.code)}`,
    ];
  });
  const unpublished = targets.flatMap(({ target: { name }, failure }) => {
    if (failure === null) return [];
    return [
      `${name}: the newest publication failed ${longAgo(failure.at, nowMs)}: ${printable(failure.code)}`,
    ];
  });
  return failed.length + unpublished.length === 0
    ? []
    : ['', ...failed, ...unpublished, `"${program} check" and the worker's log say what is wrong.`];
}

/** What is due and waits for a worker, and how long that will take. */
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

/** What a person would otherwise have to find out: why "next" says nothing, or why nothing comes of it. */
export function scheduleRemarks({
  shown,
  targets,
  problem,
  nowMs,
  program,
}: ScheduleList): readonly string[] {
  if (problem !== null) return [`When they run next is not known: ${problem}`];
  const waiting = [
    ...shown.flatMap(({ connector: { name, schedule }, paused, next }) =>
      schedule !== null && paused === null ? [{ name, next }] : [],
    ),
    ...targets.flatMap(({ target: { name, everyMs }, next }) => (everyMs === null ? [] : [{ name, next }])),
  ];
  const missing = namesOf(waiting.filter(({ next }) => next === null));
  const overdue = namesOf(waiting.filter(({ next }) => next !== null && nowMs - next > overdueMs));
  const apply = `"${program} schedule apply" does so now`;
  return [
    ...(missing === ''
      ? []
      : [`Not in Redis yet: ${missing}. A worker writes it there when it starts; ${apply}.`]),
    ...(overdue === ''
      ? []
      : [`Overdue: ${overdue}. No worker is taking runs; "${program} worker" starts one.`]),
  ];
}

function namesOf(shown: readonly { readonly name: string }[]): string {
  const names = shown.slice(0, mostNamed).map(({ name }) => name);
  const more = shown.length - names.length;
  return `${names.join(', ')}${more > 0 ? ` and ${count(more)} more` : ''}`;
}
