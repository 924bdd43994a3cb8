import { html, type SafeHtml } from '@remix-run/html-template';
import type { DayChanges } from '../app/connector-history.ts';
import { grouped } from '../core/grouped.ts';
import type { RunFacts } from '../sinks/ledger-reader.ts';
import { count, duration } from '../telemetry/format.ts';
import { runMs } from '../app/run-totals.ts';
import { momentText, runLooks } from './page-parts.ts';

/** Sizes in pixels. */
interface BarsSize {
  readonly height: number;
  readonly width: number;
  readonly gap: number;
}

/** `places`: the number of bars that there is room for. */
export interface BarsShape extends BarsSize {
  readonly places: number;
}

/**
 * The last runs as bars, the newest on the right: colour by outcome, height by duration. Each leads to its run where
 * `root` is the way to the first page; null draws one path for each outcome, which is smaller. The keyboard passes over
 * the links: another list on the page or behind it has the same runs.
 */
export function runBars(
  runs: readonly RunFacts[],
  shape: BarsShape,
  nowMs: number,
  root: string | null = null,
): SafeHtml {
  const shown = runs.slice(0, shape.places);
  const longestMs = Math.max(1, ...shown.map((run) => runMs(run) ?? 0));
  const bars = shown.map((run, index) => {
    // By the square root of the share: a quarter of the maximum is half as high.
    const share = Math.sqrt((runMs(run) ?? longestMs) / longestMs);
    const x = placeOf(shape, shape.places - 1 - index);
    return { run, path: `M${x} ${shape.height}v-${Math.round(4 + (shape.height - 4) * share)}` };
  });
  const paths = [...grouped(bars, ({ run }) => runLooks[run.state][0])].map(
    ([look, some]) => html`<path class="${look}" d="${some.map(({ path }) => path).join('')}" />`,
  );
  const links = bars.map(
    ({ run, path }) =>
      html`<a href="${root}runs/${run.run}" tabindex="-1"
        ><title>${barText(run, nowMs)}</title><path class="${runLooks[run.state][0]}" d="${path}"
      /></a>`,
  );
  return svg(shape, runsText(shown), root === null ? paths : links, root !== null);
}

const parts = [
  ['added', 'ok', 'new'],
  ['changed', 'idle', 'changed'],
  ['deleted', 'bad', 'deleted'],
] as const;

/** Changes by day, the last on the right. A day without runs is undefined, and empty. `label`: `Changes of lists`. */
export function changeBars(days: readonly (DayChanges | undefined)[], size: BarsSize, label: string) {
  const { height } = size;
  const shape = { ...size, places: days.length };
  const most = Math.max(1, ...days.map((day) => (day === undefined ? 0 : allOf(day))));
  const drawn = parts.map(([name, look]) => {
    const bars = days.flatMap((day, index) => {
      if (day === undefined || day[name] === 0) return [];
      // A first load must not hide the days after it: the whole bar goes by the square root of the share.
      const scale = (height * Math.sqrt(allOf(day) / most)) / allOf(day);
      const below = name === 'added' ? 0 : name === 'changed' ? day.added : day.added + day.changed;
      const exact = [height - below * scale, Math.max(1, day[name] * scale)];
      const [from, tall] = exact.map((value) => Math.round(value * 2) / 2);
      return [`M${placeOf(shape, index)} ${from}v-${tall}`];
    });
    return bars.length === 0 ? '' : html`<path class="${look}" d="${bars.join('')}" />`;
  });
  const base = html`<path class="base" stroke-width="1" d="M0 ${height}h${widthOf(shape)}" />`;
  const sums = parts.flatMap(([name, , word]) => {
    const sum = days.reduce((all, day) => all + (day?.[name] ?? 0), 0);
    return sum === 0 ? [] : [`${count(sum)} ${word}`];
  });
  const text = `${label} in ${days.length} days: ${sums.length === 0 ? 'none' : sums.join(', ')}`;
  return svg(shape, text, [base, ...drawn], false);
}

/** The colours of `changeBars`. */
export const changeKey = html`${parts.map(([, look, word]) => html`<span><i class="${look}"></i>${word}</span> `)}`;

function allOf({ added, changed, deleted }: DayChanges): number {
  return added + changed + deleted;
}

function svg(shape: BarsShape, label: string, bars: (SafeHtml | '')[], hasLinks: boolean): SafeHtml {
  const [width, height] = [widthOf(shape), shape.height];
  return html`<svg
    class="bars"
    viewBox="0 0 ${width} ${height}"
    width="${width}"
    height="${height}"
    stroke-width="${shape.width}"
    role="${hasLinks ? 'group' : 'img'}"
    aria-label="${label}"
  >
    ${bars}
  </svg>`;
}

/** The middle of a bar, from the left. */
function placeOf({ width, gap }: BarsShape, index: number): number {
  return index * (width + gap) + width / 2;
}

function widthOf({ places, width, gap }: BarsShape): number {
  return places * (width + gap) - gap;
}

/** `27 Nov 15:58, OK, 13.2 s`. */
function barText(run: RunFacts, nowMs: number): string {
  const ms = runMs(run);
  const took = ms === null ? '' : `, ${duration(ms)}`;
  const kind = run.kind === 'sync' ? '' : `${run.kind}, `;
  return `${momentText(run.startedAt, nowMs)}, ${kind}${runLooks[run.state][1]}${took}`;
}

/** `Last 20 runs: 16 OK, 1 incomplete, 3 failed`. */
function runsText(runs: readonly RunFacts[]): string {
  if (runs.length === 0) return 'No runs yet';
  const counts = [...grouped(runs, ({ state }) => runLooks[state][1])].map(
    ([word, some]) => `${some.length} ${word.toLowerCase()}`,
  );
  return `Last ${runs.length === 1 ? 'run' : `${runs.length} runs`}: ${counts.join(', ')}`;
}
