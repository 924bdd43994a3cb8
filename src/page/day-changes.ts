import { html, type SafeHtml } from '@remix-run/html-template';
import { sumOf, type RowChanges } from '../app/read-history.ts';
import { grouped } from '../core/grouped.ts';
import type { DayOfEntity } from '../sinks/ledger-reader.ts';
import { count } from '../telemetry/format.ts';
import { disclosed, wideTable } from './layout.ts';

const [barWidth, gap, height] = [4, 1, 24];

/** What became of an entity's rows on each of these days, oldest first: a bar each, the deleted ones on top. */
export function dayBars(days: readonly string[], changes: readonly DayOfEntity[]): SafeHtml | string {
  if (changes.length === 0) return '';
  const changesByDay = new Map(changes.map((one) => [one.day, one]));
  const most = Math.max(1, ...changes.map(total));
  const width = days.length * (barWidth + gap) - gap;
  return html`<svg
    class="bars days"
    role="img"
    aria-label="Last ${days.length} days: ${changesText(sumOf(changes))}"
    viewBox="0 0 ${width} ${height}"
    width="${width}"
    height="${height}"
  >
    <rect class="base" x="0" y="${height - 1}" width="${width}" height="1" />
    ${days.map((day, index) => {
      const change = changesByDay.get(day);
      if (change === undefined) return '';
      const [x, rows] = [index * (barWidth + gap), total(change)];
      const tall = barHeight(rows, most);
      const red = change.deleted === 0 ? 0 : Math.max(2, Math.round((tall * change.deleted) / rows));
      return html`<g>
        <title>${dayText(day)}: ${changesText(change)}</title>
        <rect class="hit" x="${x}" y="0" width="${barWidth + gap}" height="${height}" />
        <rect
          class="ok"
          x="${x}"
          y="${height - tall + red}"
          width="${barWidth}"
          height="${Math.max(0, tall - red)}"
        />
        <rect class="failed" x="${x}" y="${height - tall}" width="${barWidth}" height="${red}" />
      </g>`;
    })}
  </svg>`;
}

/** By its root, as the bars of runs. */
function barHeight(rows: number, most: number): number {
  return Math.round(3 + (height - 3) * Math.sqrt(rows / most));
}

const dayColumns = [
  { title: 'day' },
  ...(['added', 'changed', 'deleted', 'restored'] as const).map(
    (title) => ({ title, align: 'right' }) as const,
  ),
  { title: 'by entity' },
];

/** As many days as a person looks back at without asking for more. */
const mostDays = 7;

/** How many rows were added, changed and deleted on each day. */
export function dayChanges(changes: readonly DayOfEntity[]): SafeHtml {
  const rows = [...grouped(changes, ({ day }) => day)]
    .sort(([left], [right]) => (left < right ? 1 : -1))
    .map(([day, entities]) => {
      const { added, changed, deleted, revived } = sumOf(entities);
      return [dayText(day), count(added), count(changed), count(deleted), count(revived), ofWhich(entities)];
    });
  if (rows.length === 0) return html`<p>No rows have changed in the last 30 days.</p>`;
  const [newest, older] = [rows.slice(0, mostDays), rows.slice(mostDays)];
  return html`${wideTable('Changes by day', dayColumns, newest)}
    ${
      older.length === 0
        ? ''
        : html`<details class="older">
            <summary>${older.length} older days</summary>
            ${wideTable('Changes by day, older', dayColumns, older)}
          </details>`
    }
    <p class="faint">Days of UTC, without those on which nothing changed.</p>`;
}

function ofWhich(entities: readonly DayOfEntity[]): SafeHtml | string {
  const [first] = entities;
  if (first !== undefined && entities.length === 1) return first.entity;
  return disclosed(
    `${entities.length} entities`,
    html`<span
      >${entities.map((one, index) => `${index === 0 ? '' : '; '}${one.entity}: ${changesText(one)}`)}</span
    >`,
  );
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
