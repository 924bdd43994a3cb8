import type { Clock } from '../core/clock.ts';
import type { OnRunEvent } from '../core/events.ts';
import type { ConnectorName, EntityName } from '../core/names.ts';
import { advanceProgress, startProgress } from './progress.ts';
import { progressLines, progressSummary, type ProgressStyle } from './progress-text.ts';

/** Where progress is shown. `style` is null where lines can only be added, else it is asked before every redraw. */
export interface ProgressScreen {
  readonly style: (() => ProgressStyle) | null;
  /** Takes the place of the lines drawn before; none: only removes them. */
  redraw(lines: readonly string[]): void;
  addLine(line: string): void;
}

export interface ProgressDisplay extends AsyncDisposable {
  readonly onEvent: OnRunEvent;
  /** What the sink held before the run, once it is known. */
  expect(rows: ReadonlyMap<EntityName, number>): void;
}

const redrawMs = 100;
const lineMs = 10_000;

/**
 * Shows a run while it goes on: redrawn in place ten times a second on a terminal, elsewhere one line every ten seconds.
 * Disposing it removes the live lines and stops; nothing is drawn afterwards.
 */
export function showProgress(
  connector: ConnectorName,
  screen: ProgressScreen,
  clock: Clock,
): ProgressDisplay {
  const { style } = screen;
  let progress = startProgress(connector, clock.now());
  const stop = new AbortController();
  const show = (): void => {
    if (style === null) screen.addLine(progressSummary(progress, clock.now()));
    else screen.redraw(progressLines(progress, clock.now(), style()));
  };
  const showing = repeat(clock, style === null ? lineMs : redrawMs, stop.signal, show);
  return {
    onEvent: (event) => {
      progress = advanceProgress(progress, event, clock.now());
    },
    expect: (rows) => {
      progress = startProgress(connector, progress.startedAtMs, rows);
    },
    [Symbol.asyncDispose]: async () => {
      if (stop.signal.aborted) return;
      stop.abort();
      await showing;
      if (style !== null) screen.redraw([]);
    },
  };
}

async function repeat(clock: Clock, everyMs: number, signal: AbortSignal, act: () => void): Promise<void> {
  while (!signal.aborted) {
    try {
      await clock.sleep(everyMs, signal);
    } catch {
      return; // Only the signal ends a sleep early, and then there is nothing left to show.
    }
    act();
  }
}
