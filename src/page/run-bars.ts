import { html, type SafeHtml } from '@remix-run/html-template';
import { type RowChanges, sumOf } from '../app/watch-sinks.ts';
import type { DayOfEntity, RunFacts } from '../sinks/ledger-reader.ts';
import { count, duration } from '../telemetry/format.ts';

export const shownRuns = 30;

interface BarChart {
  readonly kind: 'bars' | 'bars days';
  readonly role: 'group' | 'img';
  readonly label: string;
  readonly width: number;
}

const height = 24;

function barChart({ kind, role, label, width }: BarChart, bars: (SafeHtml | string)[]): SafeHtml {
  return html`<svg
    class="${kind}"
    role="${role}"
    aria-label="${label}"
    viewBox="0 0 ${width} ${height}"
    width="${width}"
    height="${height}"
  >
    ${bars}
  </svg>`;
}

/** By the square root of the share: a quarter of the maximum is half as high. */
function barHeight(leastHeight: number, share: number): number {
  return Math.round(leastHeight + (height - leastHeight) * Math.sqrt(share));
}

/**
 * The last runs as bars, the newest on the right: colour and title by outcome, height by duration. Each leads to its
 * run. The keyboard passes over them: the page of the connector lists the same runs.
 */
export function runBars(runs: readonly RunFacts[], root: string): SafeHtml {
  const [barWidth, gap] = [6, 2];
  const shown = runs.slice(0, shownRuns);
  const width = Math.max(1, shown.length) * (barWidth + gap) - gap;
  const longestMs = Math.max(1, ...shown.map((run) => tookMs(run) ?? 0));
  const bars = shown.map((run, index) => {
    const x = width - barWidth - index * (barWidth + gap);
    const tall = barHeight(4, (tookMs(run) ?? longestMs) / longestMs);
    return html`<a href="${root}runs/${run.run}" tabindex="-1" aria-label="${barText(run)}">
      <title>${barText(run)}</title>
      <rect class="hit" x="${x - 1}" y="0" width="${barWidth + gap}" height="${height}" />
      <rect class="${run.state}" x="${x}" y="${height - tall}" width="${barWidth}" height="${tall}" rx="1" />
    </a>`;
  });
  return barChart({ kind: 'bars', role: 'group', label: summary(shown), width }, bars);
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
  const counts = new Map<string, number>();
  for (const { state } of runs) counts.set(state, (counts.get(state) ?? 0) + 1);
  return `Last ${runs.length} runs: ${[...counts].map(([state, number]) => `${number} ${state}`).join(', ')}`;
}

/** Changes of an entity's rows on each of these days, oldest first: one bar a day, with deleted rows on top. */
export function dayBars(days: readonly string[], changes: readonly DayOfEntity[]): SafeHtml | string {
  if (changes.length === 0) return '';
  const [barWidth, gap] = [4, 1];
  const changesByDay = new Map(changes.map((one) => [one.day, one]));
  const most = Math.max(1, ...changes.map(total));
  const width = days.length * (barWidth + gap) - gap;
  const label = `Last ${days.length} days: ${changesText(sumOf(changes))}`;
  const bars = days.map((day, index) => {
    const change = changesByDay.get(day);
    if (change === undefined) return '';
    const [x, rows] = [index * (barWidth + gap), total(change)];
    const tall = barHeight(3, rows / most);
    const red = change.deleted === 0 ? 0 : Math.max(2, Math.round((tall * change.deleted) / rows));
    const green = Math.max(0, tall - red);
    return html`<g>
      <title>${dayText(day)}: ${changesText(change)}</title>
      <rect class="hit" x="${x}" y="0" width="${barWidth + gap}" height="${height}" />
      <rect class="ok" x="${x}" y="${height - tall + red}" width="${barWidth}" height="${green}" />
      <rect class="failed" x="${x}" y="${height - tall}" width="${barWidth}" height="${red}" />
    </g>`;
  });
  const base = html`<rect class="base" x="0" y="${height - 1}" width="${width}" height="1" />`;
  return barChart({ kind: 'bars days', role: 'img', label, width }, [base, ...bars]);
}

/** `Tue 2026-11-24`. */
function dayText(day: string): string {
  const weekday = new Date(`${day}T00:00:00Z`).toLocaleDateString('en', {
    weekday: 'short',
    timeZone: 'UTC',
  });
  return `${weekday} ${day}`;
}

/** `12 added, 1 deleted`. */
export function changesText({ added, changed, deleted, revived }: RowChanges): string {
  const parts = [
    [added, 'added'],
    [changed, 'changed'],
    [deleted, 'deleted'],
    [revived, 'restored'],
  ] as const;
  const some = parts.filter(([rows]) => rows > 0).map(([rows, what]) => `${count(rows)} ${what}`);
  return some.length === 0 ? 'no changes' : some.join(', ');
}

export function total({ added, changed, deleted, revived }: RowChanges): number {
  return added + changed + deleted + revived;
}
