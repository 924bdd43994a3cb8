import { slept, type Clock } from '../core/clock.ts';
import type { OnRunEvent, RunEvent } from '../core/events.ts';
import type { ConnectorName, EntityName } from '../core/names.ts';
import { duration } from './format.ts';
import {
  progressLines,
  progressSummary,
  retryText,
  sinkAwayText,
  type ProgressStyle,
} from './progress-text.ts';
import { advanceProgress, startProgress, type Expected } from './progress.ts';

/** Where progress is shown. `style` is null where lines can only be added, else it is asked before every redraw. */
export interface ProgressScreen {
  readonly style: (() => ProgressStyle) | null;
  /** Takes the place of the lines drawn before; none: only removes them. */
  redraw(lines: readonly string[]): void;
  addLine(line: string): void;
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
  let progress = startProgress(connector, clock.now());
  const live = showLive(screen, clock, {
    line: () => progressSummary(progress, clock.now()),
    lines: (style) => progressLines(progress, clock.now(), style),
  });
  const tell =
    screen.style === null ? tellOutage((line) => screen.addLine(`${connector}: ${line}`), clock) : null;
  return {
    onEvent: (event: RunEvent): void => {
      progress = advanceProgress(progress, event, clock.now());
      tell?.(event);
    },
    /** What is to be expected of the run, once it is known. Called before the run begins. */
    expect: (expected: ReadonlyMap<EntityName, Expected>): void => {
      progress = { ...progress, entities: startProgress(connector, 0, expected).entities };
    },
    [Symbol.asyncDispose]: () => live[Symbol.asyncDispose](),
  };
}

/** What is shown of work in progress; null or no lines while there is nothing to show. */
interface LiveTexts {
  line(): string | null;
  /** On a terminal: instead of that line and those below it. */
  lines?(style: ProgressStyle): readonly string[];
  linesBelow?(): readonly string[];
}

/**
 * Shows work in progress until it is disposed: lines redrawn in place ten times a second on a terminal, elsewhere one
 * line every ten seconds.
 */
export function showLive(screen: ProgressScreen, clock: Clock, texts: LiveTexts): AsyncDisposable {
  const { style } = screen;
  const stop = new AbortController();
  const linesWithin = ({ columns }: ProgressStyle): readonly string[] => {
    const line = texts.line();
    const all = line === null ? [] : [line, ...(texts.linesBelow?.() ?? [])];
    return all.map((one) => one.slice(0, columns - 1));
  };
  const show = (): void => {
    if (style !== null) return screen.redraw(texts.lines?.(style()) ?? linesWithin(style()));
    const line = texts.line();
    if (line !== null) screen.addLine(line);
  };
  const showing = repeat(clock, style === null ? lineMs : redrawMs, stop.signal, show);
  return {
    [Symbol.asyncDispose]: async () => {
      if (stop.signal.aborted) return;
      stop.abort();
      await showing;
      if (style !== null) screen.redraw([]);
    },
  };
}

/** Acts at every interval until the signal is aborted. */
async function repeat(clock: Clock, everyMs: number, signal: AbortSignal, act: () => void): Promise<void> {
  while (await slept(clock, everyMs, signal)) act();
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
    addLine(retryText({ ...event, nextAtMs: now + event.waitMs }, now));
  };
}
