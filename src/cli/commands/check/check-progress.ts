import type { CommandContext } from '../../command-context.ts';

const firstMs = 1_000;
const redrawMs = 100;
const lineMs = 10_000;

/** What takes minutes is told: after a second, redrawn in place on a terminal, and elsewhere a line every ten seconds. */
export interface CheckProgress extends Disposable {
  tell(line: () => string): void;
}

export function openCheckProgress({
  terminal,
  clock,
}: Pick<CommandContext, 'terminal' | 'clock'>): CheckProgress {
  const isLive = terminal.style !== null;
  let nextMs = clock.now() + firstMs;
  return {
    tell(line) {
      if (clock.now() < nextMs) return;
      nextMs = clock.now() + (isLive ? redrawMs : lineMs);
      if (isLive) terminal.redraw([line()]);
      else terminal.addLine(line());
    },
    [Symbol.dispose]: () => {
      if (isLive) terminal.redraw([]);
    },
  };
}
