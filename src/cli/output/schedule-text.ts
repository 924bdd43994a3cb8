import type { Instant } from '../../core/clock.ts';
import type { Backlog } from '../../jobs/worker-state.ts';
import type { WorkerTarget } from '../../settings/chosen-targets.ts';
import { formatDuration } from '../../settings/parse-unit.ts';
import type { ConnectorSettings, Schedule } from '../../settings/settings.ts';
import type { RunFacts } from '../../sinks/ledger-reader.ts';
import { printable, count, counted, duration, comingUp, longAgo } from '../../telemetry/format.ts';
import { fits, textTable, leftColumns } from './text-table.ts';

export interface ShownSchedule {
  readonly connector: ConnectorSettings;
  /** Milliseconds; null where Redis holds none. */
  readonly next: number | null;
  readonly paused: { readonly since: Instant; readonly reason: string } | null;
  readonly lastRun: RunFacts | null;
  /** What was tried since, without a run that could begin. */
  readonly givenUp: { readonly code: string; readonly at: Instant } | null;
}

export interface ShownTarget {
  readonly target: WorkerTarget;
  /** Milliseconds; null where Redis holds none, or where it has no schedule. */
  readonly next: number | null;
  /** The newest publication job failed then; it may be tried again. */
  readonly failure: { readonly code: string; readonly at: Instant } | null;
}

/** A worker takes what is due within a second. */
const overdueMs = 30_000;
const mostNamed = 20;

/** Where four columns are too wide for the screen, the times stand below their connector. */
export function scheduleTable(
  shown: readonly ShownSchedule[],
  isRedisAway: boolean,
  nowMs: number,
  width: number | null,
): readonly string[] {
  const rows = shown.map((one) => [
    one.connector.name,
    scheduleText(one.connector.schedule),
    nextText(one, isRedisAway, nowMs),
    lastRunText(one.lastRun, nowMs),
  ]);
  const whole = textTable(columns, rows);
  if (fits(whole, width)) return whole;
  const [heading = '', ...lines] = textTable(columns.slice(0, 2), rows);
  const below = rows.map(([, , next = '', lastRun = '']) => [
    ...(next === '' ? [] : [`    next: ${next}`]),
    `    last run: ${lastRun}`,
  ]);
  return [heading, ...lines.flatMap((line, at) => [line, ...(below[at] ?? [])])];
}

const columns = leftColumns('connector', 'schedule', 'next', 'last run');

/** Cron patterns with their time zone, because the rest of the table is UTC. */
function scheduleText(schedule: Schedule | null): string {
  if (schedule === null) return 'none';
  const when =
    schedule.kind === 'cron'
      ? `${schedule.pattern} ${schedule.timezone}`
      : `every ${formatDuration(schedule.everyMs)}`;
  return schedule.jitterMs === 0 ? when : `${when}, up to ${formatDuration(schedule.jitterMs)} later`;
}

function nextText({ connector, next, paused }: ShownSchedule, isRedisAway: boolean, nowMs: number): string {
  if (connector.schedule === null) return '';
  if (paused !== null) return 'paused';
  return dueText(next, isRedisAway, nowMs);
}

function dueText(next: number | null, isRedisAway: boolean, nowMs: number): string {
  if (isRedisAway) return '?';
  return next === null ? 'not in Redis' : comingUp(next, nowMs);
}

/** The targets that workers publish into. */
export function targetTable(
  shown: readonly ShownTarget[],
  isRedisAway: boolean,
  nowMs: number,
): readonly string[] {
  const rows = shown.map(({ target: { name, everyMs }, next }) => [
    name,
    everyMs === null ? 'after syncs' : `every ${formatDuration(everyMs)}`,
    everyMs === null ? '' : dueText(next, isRedisAway, nowMs),
  ]);
  return rows.length === 0 ? [] : ['', ...textTable(leftColumns('target', 'schedule', 'next'), rows)];
}

function lastRunText(run: RunFacts | null, nowMs: number): string {
  return run === null ? 'never' : `${run.state} ${longAgo(run.startedAt, nowMs)}`;
}

export function pausedLines(
  shown: readonly ShownSchedule[],
  nowMs: number,
  program: string,
): readonly string[] {
  const paused = shown.flatMap(({ connector: { name }, paused: pause }) => {
    if (pause === null) return [];
    return [`${name} has been paused since ${longAgo(pause.since, nowMs)}: ${printable(pause.reason)}`];
  });
  return paused.length === 0 ? [] : ['', ...paused, `"${program} schedule resume <connector>" ends a pause.`];
}

export function givenUpLines(
  shown: readonly ShownSchedule[],
  targets: readonly ShownTarget[],
  nowMs: number,
  program: string,
): readonly string[] {
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
export function backlogLines(backlogBySink: ReadonlyMap<string, Backlog>): readonly string[] {
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
export function scheduleRemarks(
  shown: readonly ShownSchedule[],
  targets: readonly ShownTarget[],
  problem: string | null,
  nowMs: number,
  program: string,
): readonly string[] {
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
