import type { CopyProgress } from '../../../app/copy-connector.ts';
import type { Clock } from '../../../core/clock.ts';
import type { ConnectorName } from '../../../core/names.ts';
import { count, duration } from '../../../telemetry/progress-text.ts';
import type { ProgressScreen } from '../../../telemetry/show-progress.ts';

interface CopyDisplay extends Disposable {
  readonly onProgress: (progress: CopyProgress) => void;
}

const redrawMs = 100;
const lineMs = 10_000;

/** How far a copy is: redrawn in place on a terminal, elsewhere a line every ten seconds. Disposing it removes the live line. */
export function showCopying(connector: ConnectorName, screen: ProgressScreen, clock: Clock): CopyDisplay {
  const { style } = screen;
  const startedMs = clock.now();
  let shownMs = style === null ? startedMs : -Infinity;
  return {
    onProgress: (progress) => {
      const now = clock.now();
      if (now - shownMs < (style === null ? lineMs : redrawMs)) return;
      shownMs = now;
      const line = copyingText(connector, progress, now - startedMs);
      if (style === null) screen.addLine(line);
      else screen.redraw([line.slice(0, style().columns - 1)]);
    },
    [Symbol.dispose]: () => {
      if (style !== null) screen.redraw([]);
    },
  };
}

function copyingText(connector: ConnectorName, { entity, rows, allRows }: CopyProgress, ms: number): string {
  const what = entity === null ? 'the sync state' : `rows of ${entity}`;
  return `${connector}  ${duration(ms)}  ${count(rows)} of ${count(allRows)} rows copied, now ${what}`;
}
