import { html, type SafeHtml } from '@remix-run/html-template';
import { grouped } from '../core/grouped.ts';
import type { RunFacts } from '../sinks/ledger-reader.ts';
import { duration } from '../telemetry/format.ts';

export const shownRuns = 30;

/**
 * The last runs as bars, the newest on the right: colour and title by outcome, height by duration. Each leads to its
 * run. The keyboard passes over them: the page of the connector lists the same runs.
 */
export function runBars(runs: readonly RunFacts[], root: string): SafeHtml {
  const [height, barWidth, gap] = [24, 6, 2];
  const shown = runs.slice(0, shownRuns);
  const width = Math.max(1, shown.length) * (barWidth + gap) - gap;
  const longestMs = Math.max(1, ...shown.map((run) => tookMs(run) ?? 0));
  const bars = shown.map((run, index) => {
    const x = width - barWidth - index * (barWidth + gap);
    // By the square root of the share: a quarter of the maximum is half as high.
    const tall = Math.round(4 + (height - 4) * Math.sqrt((tookMs(run) ?? longestMs) / longestMs));
    return html`<a href="${root}runs/${run.run}" tabindex="-1" aria-label="${barText(run)}">
      <title>${barText(run)}</title>
      <rect class="hit" x="${x - 1}" y="0" width="${barWidth + gap}" height="${height}" />
      <rect class="${run.state}" x="${x}" y="${height - tall}" width="${barWidth}" height="${tall}" rx="1" />
    </a>`;
  });
  return html`<svg
    class="bars"
    role="group"
    aria-label="${summary(shown)}"
    viewBox="0 0 ${width} ${height}"
    width="${width}"
    height="${height}"
  >
    ${bars}
  </svg>`;
}

export const barsLegend =
  'A bar stands for a run, the newest on the right: its colour for how it ended, its height for how long it took.';

/** Duration by one clock: that of the process that made the run. Null while it is in progress. */
export function tookMs({ startedAt, finishedAt }: Pick<RunFacts, 'startedAt' | 'finishedAt'>): number | null {
  return finishedAt === null ? null : Math.max(0, Date.parse(finishedAt) - Date.parse(startedAt));
}

function barText(run: RunFacts): string {
  const ms = tookMs(run);
  const kind = run.kind === 'sync' ? '' : `${run.kind} `;
  const took = ms === null ? '' : `, ${duration(ms)}`;
  return `${kind}${run.state}, ${run.startedAt.slice(0, 16).replace('T', ' ')} UTC${took}`;
}

function summary(runs: readonly RunFacts[]): string {
  if (runs.length === 0) return 'No runs yet';
  const counts = [...grouped(runs, ({ state }) => state)].map(([state, some]) => `${some.length} ${state}`);
  return `Last ${runs.length} runs: ${counts.join(', ')}`;
}
