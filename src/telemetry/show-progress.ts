import { slept, type Clock } from '../core/clock.ts';
import type { OnRunEvent, RunEvent } from '../core/events.ts';
import type { ConnectorName } from '../core/names.ts';
import { count, counted, duration, printable, printableWithin, roughly } from './format.ts';
import {
  expectedText,
  openProgress,
  pacedText,
  retryText,
  sinkAwayText,
  type EntitySnapshot,
  type ProgressSnapshot,
} from './progress.ts';

export interface ProgressStyle {
  /** Characters a line may take. */
  readonly columns: number;
  readonly hasColor: boolean;
}

/** Where progress is shown. `style` is null where lines can only be added, else it is asked before every redraw. */
export interface ProgressScreen {
  readonly style: (() => ProgressStyle) | null;
  /** Takes the place of the lines drawn before; none: only removes them. */
  readonly redraw: (lines: readonly string[]) => void;
  readonly addLine: (line: string) => void;
}

const redrawMs = 100;
const lineMs = 10_000;
/** A service that fails every other call would otherwise make two lines of each. */
const leastBetweenMs = 10_000;

/**
 * Shows a run's progress, and outside of a terminal a line for each failed attempt. Disposing it removes the live lines
 * and stops; nothing is drawn afterwards.
 */
export function showProgress(connector: ConnectorName, screen: ProgressScreen, clock: Clock) {
  const progress = openProgress(connector, clock);
  const live = showLive(screen, clock, (style) => progressLines(progress.snapshot(), style));
  const tell =
    screen.style === null ? tellOutage((line) => screen.addLine(`${connector}: ${line}`), clock) : null;
  return {
    onEvent: (event: RunEvent): void => {
      progress.onEvent(event);
      tell?.(event);
    },
    expect: progress.expect,
    [Symbol.asyncDispose]: () => live[Symbol.asyncDispose](),
  };
}

/**
 * Shows work in progress until it is disposed: lines redrawn in place ten times a second on a terminal, elsewhere
 * (where the style is null) the first of them every ten seconds.
 */
export function showLive(
  { style, redraw, addLine }: ProgressScreen,
  clock: Clock,
  linesOf: (style: ProgressStyle | null) => readonly string[],
): AsyncDisposable {
  const stop = new AbortController();
  const show = (): void => {
    if (style === null) for (const line of linesOf(null).slice(0, 1)) addLine(line);
    // A coloured line is clipped already.
    else redraw(linesOf(style()).map((line) => (line.startsWith('\u001b') ? line : clip(line, style()))));
  };
  const repeat = async (): Promise<void> => {
    while (await slept(clock, style === null ? lineMs : redrawMs, stop.signal)) show();
  };
  const showing = repeat();
  return {
    [Symbol.asyncDispose]: async () => {
      if (stop.signal.aborted) return;
      stop.abort();
      await showing;
      if (style !== null) redraw([]);
    },
  };
}

/**
 * The run at a glance: a heading, a line for each entity that has begun, sums, and what the whole is waiting for. One
 * line without a style, for logs and pipes.
 */
export function progressLines(progress: ProgressSnapshot, style: ProgressStyle | null): readonly string[] {
  const { connector, continues, elapsedMs, wait } = progress;
  const resumed = continues === null ? '' : ` (resumed ${continues})`;
  const heading = `${connector}  ${duration(elapsedMs)}${resumed}`;
  const sums = progress.id === null ? [] : totals(progress);
  const waits = wait === null ? [] : [wait];
  if (style !== null) {
    const begun = progress.entities.filter(({ hasBegun }) => hasBegun);
    const nameWidth = Math.max(8, ...begun.map(({ entity }) => entity.length));
    return [
      colored('bold', heading, style),
      ...begun.map((entity) => entityLine(entity, nameWidth, style)),
      ...(sums.length === 0 ? [] : [colored('dim', fitting(sums, ', ', style), style)]),
      ...waits.map((text) => colored('yellow', text, style)),
    ];
  }
  const rows = progress.entities.reduce((sum, entity) => sum + entity.rows, 0);
  const open = progress.entities.filter((entity) => entity.open > 0);
  const reading = open.map(
    (one) => `${printable(one.entity)} (${[recordsText(one), ...pacedText(one)].join(', ')})`,
  );
  const parts = [
    ...(progress.id === null ? [] : [counted(rows, 'record'), ...sums]),
    ...(reading.length === 0 ? [] : [`reading ${reading.join(', ')}`]),
    ...waits,
  ];
  return [`${heading}: ${parts.join(', ')}`];
}

function entityLine(entity: EntitySnapshot, nameWidth: number, style: ProgressStyle): string {
  const { open, setAside, wait, waiting, pages, earlierRows, recordsPerSecond } = entity;
  const mark = open > 0 ? '>' : setAside > 0 ? '!' : '·';
  const parts = [
    `${mark} ${printable(entity.entity).padEnd(nameWidth)}`,
    recordsText(entity),
    ...(wait === null ? [] : [wait]),
    ...(setAside > 0 ? [`${count(setAside)} failed`] : []),
    ...(open > 0 && wait === null ? [`${count(Math.round(recordsPerSecond))}/s`, ...pacedText(entity)] : []),
    ...(open === 0 && waiting > 0 ? [`${counted(waiting, 'listing')} wait for others`] : []),
    pages === 0 && earlierRows > 0 ? 'read before the resume' : counted(pages, 'page'),
  ];
  const line = fitting(parts, '  ', style);
  return setAside > 0 ? colored('yellow', line, style) : line;
}

/** `3,200 of ~12,000 records`: what is estimated has a tilde, what the service has counted has none. */
function recordsText({ rows, expected, isIncremental }: EntitySnapshot): string {
  const all = expectedText(expected, rows);
  const text = all === null ? counted(rows, 'record') : `${count(rows)} of ${all} records`;
  return isIncremental ? `${text} (changes only)` : text;
}

/** The most important first: a narrow screen drops the last ones. */
function totals(progress: ProgressSnapshot): readonly string[] {
  const { walksEnded, walksKnown, retries, files, left } = progress;
  if (files.wanted !== null) {
    const failures = files.failed > 0 ? `, ${count(files.failed)} failed` : '';
    const kibibytes = count(Math.round(files.bytes / 1024));
    return [`files ${count(files.stored)} of ${count(files.wanted)} (${kibibytes} KiB${failures})`];
  }
  if (progress.isSweeping) {
    const { confirmed, deleted } = progress;
    const asked = confirmed > 0 ? [`${count(confirmed)} asked for`] : [];
    const parts = [...asked, ...(deleted > 0 ? [`${count(deleted)} marked`] : [])];
    return [`looking for deletes${parts.length === 0 ? '' : ` (${parts.join(', ')})`}`];
  }
  return [
    `${count(walksEnded)} of ${count(Math.max(walksKnown, walksEnded))} known listings read`,
    `${count(Math.round(progress.recordsPerSecond))} records/s`,
    ...(left === null ? [] : [`${left.isAtLeast ? 'at least' : 'about'} ${roughly(left.ms)} left`]),
    `${progress.pagesPerSecond.toFixed(1)} requests/s`,
    ...(retries > 0 ? [counted(retries, 'retry', 'retries')] : []),
  ];
}

/** As many of the parts as there is room for. */
function fitting([first = '', ...more]: readonly string[], between: string, style: ProgressStyle): string {
  let line = first;
  for (const part of more) {
    if (line.length + between.length + part.length >= style.columns) break;
    line += between + part;
  }
  return clip(line, style);
}

const codes = { bold: 1, dim: 2, yellow: 33 } as const;

function colored(color: keyof typeof codes, line: string, style: ProgressStyle): string {
  const text = clip(line, style);
  return style.hasColor ? `\u001b[${codes[color]}m${text}\u001b[0m` : text;
}

function clip(line: string, style: ProgressStyle): string {
  // One column less than there are: a full last column makes some terminals wrap, and then redrawing climbs too far.
  return printableWithin(line, style.columns - 1);
}

/**
 * Reports in single lines when calls start to fail, each further attempt, and when the API answers again. Calls that
 * fail beside each other are reported once.
 */
export function tellOutage(addLine: (line: string) => void, clock: Clock): OnRunEvent {
  let sinceMs: number | null = null;
  let shownAttempt = 0;
  let shownAtMs = -Infinity;
  return (event) => {
    const now = clock.now();
    if (event.kind === 'sink-away') addLine(sinkAwayText(event.message, event.leftMs));
    if (event.kind === 'sink-made') addLine(`made the sink ${event.sink}: ${event.place}`);
    if (event.kind === 'sink-back') addLine('the sink can be written to again');
    const isAnswered = event.kind === 'run-started' || (event.kind === 'call-ended' && event.answer === 'ok');
    if (isAnswered) {
      if (shownAttempt > 0 && sinceMs !== null) {
        addLine(`calls are answered again after ${duration(now - sinceMs)}`);
      }
      [sinceMs, shownAttempt] = [null, 0];
    }
    if (event.kind !== 'call-retried' || event.code === 'THROTTLED' || event.waitMs === 0) return;
    sinceMs ??= now;
    const isTooSoon = shownAttempt === 0 && now - shownAtMs < leastBetweenMs;
    if (isTooSoon || event.attempt <= shownAttempt) return;
    [shownAttempt, shownAtMs] = [event.attempt, now];
    addLine(retryText(event, event.waitMs));
  };
}
