import { html, type SafeHtml } from '@remix-run/html-template';
import * as z from 'zod';
import { type Instant, instant } from '../core/clock.ts';
import type { Health } from '../core/health.ts';
import type { RunSummary } from '../sinks/ledger-reader.ts';
import { count, printable } from '../telemetry/format.ts';

/** The way from the first page to this one, whose own name stands last. */
export function crumbs(
  links: readonly (readonly [address: string, text: string])[],
  here: SafeHtml | string,
) {
  return html`<nav class="crumbs soft" aria-label="Path">
    ${links.map(([address, text]) => html`<a href="${address}">${text}</a> / `)}${here}
  </nav>`;
}

/** The head of a page: its answer as the heading, a line of facts, and acts. */
export function head(heading: SafeHtml | string, soft: SafeHtml | string, acts: SafeHtml | string = '') {
  return html`<div class="head">
    <div>
      <h1>${heading}</h1>
      ${String(soft) === '' ? '' : html`<p class="soft">${soft}</p>`}
    </div>
    ${String(acts).trim() === '' ? '' : html`<div class="acts">${acts}</div>`}
  </div>`;
}

/** Box that says what is wrong, why, and what to do; `acts` are the buttons that help. */
export function callout(
  look: 'bad' | 'warn' | 'run' | '',
  label: string,
  content: SafeHtml,
  acts: SafeHtml | string = '',
): SafeHtml {
  return html`<section class="callout ${look}" aria-label="${label}">
    <div>${content}</div>
    ${String(acts).trim() === '' ? '' : html`<div class="acts">${acts}</div>`}
  </section>`;
}

/** Numbers in a row of boxes: a name, and a value with its unit in `<small>`; those without a value are left out. */
export function stats(list: readonly (readonly [string, SafeHtml | string | null])[]): SafeHtml {
  const box = ([name, value]: (typeof list)[number]): SafeHtml =>
    html`<div>
      <dt>${name}</dt>
      <dd>${value}</dd>
    </div>`;
  return html`<dl class="stats">${list.filter(([, value]) => value !== null).map(box)}</dl>`;
}

/** Links that choose a part of a list, each with the number of its members where that is known, after `of`. */
export function chips(
  label: string,
  list: readonly (readonly [address: string, text: string, isHere: boolean, number?: number | null])[],
  of = '',
): SafeHtml {
  return html`<nav class="chips" aria-label="${label}">
    ${list.map(([address, text, isHere, number]) => {
      const here = isHere ? html`aria-current="true"` : '';
      const many = typeof number === 'number' ? html` <span class="soft">${of}${count(number)}</span>` : '';
      return html`<a class="chip" href="${address}" ${here}>${text}${many}</a> `;
    })}
  </nav>`;
}

/** Parts of a line that are not empty, with a comma between them. */
export function joined(parts: readonly (SafeHtml | string)[], between = ', '): SafeHtml {
  const some = parts.filter((part) => part !== '');
  return html`${some.map((part, index) => (index === 0 ? part : html`${between}${part}`))}`;
}

/** Says why sinks are left out. */
export function unreadableSinks(problems: readonly string[]): SafeHtml {
  const box = (one: string): SafeHtml =>
    callout('bad', 'A sink cannot be read', html`<p>${printable(one)}</p>`);
  return html`${problems.map(box)}`;
}

/** A list of what needs a person: its state, its name, why, and what helps. */
export function needs(lines: readonly (readonly (SafeHtml | string)[])[], label = ''): SafeHtml {
  const line = ([shown = '', name = '', why = '', act = '']: (typeof lines)[number]): SafeHtml =>
    html`<li>
      ${shown}${name}
      <p>${why}</p>
      ${act}
    </li>`;
  return html`<ul class="panel needs" ${label === '' ? '' : html`aria-label="${label}"`}>
    ${lines.map(line)}
  </ul>`;
}

/** Lines of a list, each an `<li>`. */
export function list(lines: readonly SafeHtml[], look = ''): SafeHtml {
  return html`<ul ${classOf(look)}>
    ${[...lines]}
  </ul>`;
}

/** A reason in a column that is cut: its title has all of it. */
export function reasonCell(why: string, isSoft: boolean): SafeHtml {
  return html`<span class="${isSoft ? 'soft' : ''}" title="${why}">${why}</span>`;
}

/** A short text that shows more on a click. */
export function disclosed(text: string, more: SafeHtml): SafeHtml {
  return html`<details class="more">
    <summary>${text}</summary>
    ${more}
  </details>`;
}

/** Lines as the terminal shows them, each a paragraph. */
export function textLines(lines: readonly string[]): SafeHtml {
  return html`${lines.map((line) => html`<p>${printable(line.replace(/^\s*(! )?/, ''))}</p>`)}`;
}

export function classOf(look: string): SafeHtml | '' {
  return look === '' ? '' : html`class="${look}"`;
}

/** Facts by name; those without a text are left out. */
export function facts(list: readonly (readonly [string, SafeHtml | string | null])[]): SafeHtml {
  return html`<dl class="facts">
    ${list.map(([what, text]) =>
      text === null
        ? ''
        : html`<dt>${what}</dt>
            <dd>${text}</dd>`,
    )}
  </dl>`;
}

/** A word of a state, with its colour and shape. */
export type StateLook = 'ok' | 'run' | 'idle' | 'idle paused' | 'warn late' | 'warn part' | 'bad';

export function state(look: StateLook, word: string): SafeHtml {
  return html`<span class="state ${look}">${word}</span>`;
}

/** Looks and words of healths. */
export const healthLooks: Readonly<Record<Health, readonly [StateLook, string]>> = {
  failed: ['bad', 'Failed'],
  late: ['warn late', 'Late'],
  incomplete: ['warn part', 'Incomplete'],
  paused: ['idle paused', 'Paused'],
  running: ['run', 'Running'],
  new: ['idle', 'New'],
  ok: ['ok', 'OK'],
};

export function healthState(health: Health): SafeHtml {
  return state(...healthLooks[health]);
}

/** Looks and words of how runs ended, for bars and summaries too. */
export const runLooks: Readonly<Record<RunSummary['state'], readonly [StateLook, string]>> = {
  // Not OK: that is the word of a connector, which may be incomplete after such a run.
  ok: ['ok', 'Done'],
  partial: ['warn part', 'Incomplete'],
  degraded: ['warn part', 'Incomplete'],
  interrupted: ['warn part', 'Interrupted'],
  failed: ['bad', 'Failed'],
  running: ['run', 'Running'],
};

/** How a run ended, or that it is in progress. */
export function runState(of: RunSummary['state']): SafeHtml {
  return state(...runLooks[of]);
}

/**
 * A column: its title, its cell in a row, the look of its cells, and the order if rows are sorted by it. Looks are
 * `num`, `cut` (takes the rest of the width), `o` (not on phones), `o2` (wide screens only).
 */
export type Column<Row> = readonly [
  title: SafeHtml | string,
  cell: (row: Row) => SafeHtml | string,
  look?: string,
  sorted?: 'ascending' | 'descending' | undefined,
];

interface RowLooks<Row> {
  /** `go`: a row leads where its name leads. */
  readonly look?: 'go';
  /** The place of the name; absent: the first. */
  readonly nameAt?: number;
  /** `in1`, `in2` indent the name. */
  readonly name?: (row: Row) => string;
  /** `gone` is struck through. */
  readonly row?: (row: Row) => string;
  readonly isChosen?: (row: Row) => boolean;
  /** The heading above rows that follow each other and have it in common. */
  readonly group?: (row: Row) => string;
}

/** A table in a box that scrolls where it is too narrow, by keyboard too. */
export function table<Row>(
  caption: string,
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  looks: RowLooks<Row> = {},
): SafeHtml {
  const { look = '', nameAt = 0, name, row: lookOf, isChosen, group } = looks;
  const titles = columns.map(([title, , of = '', sorted]) => {
    const order = sorted === undefined ? '' : html`aria-sort="${sorted}"`;
    return html`<th scope="col" ${classOf(of)} ${order}>${title}</th>`;
  });
  const shown = rows.map((row, index) => {
    const before = rows[index - 1];
    const heading = group?.(row);
    const isNew = heading !== undefined && (before === undefined || group?.(before) !== heading);
    const cells = columns.map(([, cellOf, of = ''], at) => {
      const cell = cellOf(row);
      if (at === nameAt) return html`<th scope="row" ${classOf(name?.(row) ?? '')}>${cell}</th>`;
      return html`<td ${classOf(of)}>${cell === '0' ? html`<span class="soft">0</span>` : cell}</td>`;
    });
    return html`${
        isNew
          ? html`<tr class="group">
              <th colspan="${columns.length}" scope="rowgroup">${heading}</th>
            </tr>`
          : ''
      }
      <tr ${classOf(lookOf?.(row) ?? '')} ${isChosen?.(row) === true ? html`aria-current="true"` : ''}>
        ${cells}
      </tr>`;
  });
  return html`<div class="wide ${look}" tabindex="0" role="region" aria-label="${caption}">
    <table>
      <thead>
        <tr>
          ${titles}
        </tr>
      </thead>
      <tbody>
        ${shown}
      </tbody>
    </table>
  </div>`;
}

/** A field of a form. `attributes`: those of its input, besides its name. */
export function inputField(
  name: string,
  label: SafeHtml | string,
  hint: SafeHtml | string = '',
  attributes: Readonly<Record<string, string>> = {},
): SafeHtml {
  const described = String(hint) === '' ? {} : { 'aria-describedby': `${name}-hint` };
  return html`<p class="field">
    <label for="${name}">${label}</label> ${input(name, { ...attributes, ...described })}
    ${String(hint) === '' ? '' : html`<span class="hint" id="${name}-hint">${hint}</span>`}
  </p>`;
}

/** Attributes of a field in which a secret is typed. */
export const typedSecret = { type: 'password', autocomplete: 'new-password' } as const;

/** A field to type a search into; only screen readers read its label. */
export function searchBox(name: string, label: string, attributes: Readonly<Record<string, string>>) {
  return html`<label class="unseen" for="${name}">${label}</label
    >${input(name, { type: 'search', ...attributes })}`;
}

function input(name: string, attributes: Readonly<Record<string, string>>): SafeHtml {
  const all = Object.entries({ id: name, name, autocomplete: 'off', ...attributes });
  return html`<input ${all.map(([key, value]) => html` ${key}="${value}"`)} />`;
}

/** Values that a form sends besides those that a person gives, without the empty ones. */
export function hiddenFields(values: Readonly<Record<string, string>>): SafeHtml {
  const all = Object.entries(values).filter(([, value]) => value !== '');
  return html`${all.map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`)}`;
}

/** Values of an address. An invalid one counts as absent; of several with one name the first counts. */
export const param = {
  text: first(z.string().max(200).catch('')),
  address: first(z.string().max(2_000).catch('')),
  oneOf: <const Name extends string>(names: readonly Name[]) => first(z.enum(names).nullable().catch(null)),
  number: (least: number, most: number) => first(z.coerce.number().int().min(least).max(most).catch(least)),
};

function first<Schema extends z.ZodType>(schema: Schema) {
  return z.preprocess((value: unknown): unknown => (Array.isArray(value) ? value[0] : value), schema);
}

/** `?q=shop&state=late`, of the values that are not empty; without any, an empty text. */
export function searchOf(values: Readonly<Record<string, string | null>>): string {
  const params = new URLSearchParams();
  for (const [name, text] of Object.entries(values)) if (text) params.set(name, text);
  return params.size === 0 ? '' : `?${params.toString()}`;
}

/** `15:32` today, `27 Nov 22:28` this year, `3 Feb 2025` before, with the exact time as its title. */
export function moment(at: Instant | number, nowMs: number): SafeHtml {
  return timeText(at, () => momentText(at, nowMs));
}

/** As `moment`, for titles and labels. */
export function momentText(at: Instant | number, nowMs: number): string {
  const [exact, now] = [exactOf(at), instant(nowMs)];
  if (exact.slice(0, 10) === now.slice(0, 10)) return exact.slice(11, 16);
  const isThisYear = exact.startsWith(now.slice(0, 4));
  return `${dayText(at)} ${isThisYear ? exact.slice(11, 16) : exact.slice(0, 4)}`;
}

/** `27 Nov`. */
export function dayText(at: Instant | number): string {
  // `Fri, 27 Nov 2026 22:28:00 GMT`.
  const [, day, month = ''] = new Date(at).toUTCString().split(' ');
  return `${Number(day)} ${month}`;
}

/** `Today, 28 Nov`, `Friday, 27 Nov`, `27 Nov 2025`: a heading above what happened on that day of UTC. */
export function dayTitle(day: string, nowMs: number): string {
  const now = instant(nowMs);
  if (!now.startsWith(day.slice(0, 4))) return `${dayText(day)} ${day.slice(0, 4)}`;
  const weekday = new Date(day).toLocaleDateString('en', { weekday: 'long', timeZone: 'UTC' });
  return `${now.startsWith(day) ? 'Today' : weekday}, ${dayText(day)}`;
}

/** `15:32`, below the name of its day. */
export function minute(at: Instant): SafeHtml {
  return timeText(at, (exact) => exact.slice(11, 16));
}

/** `15:32:05`, in runs and logs. */
export function second(at: Instant | number): SafeHtml {
  return timeText(at, (exact) => exact.slice(11, 19));
}

/** `40 s`, `36 min`, `26 h`, `8 d`: an age that grows while the page is open. A time in the future counts as now. */
export function age(at: Instant | null, nowMs: number, never = 'never'): SafeHtml {
  if (at === null) return html`<span class="soft">${never}</span>`;
  return timeText(at, (exact) => span(nowMs - Date.parse(exact)), true);
}

/** `40 s`, `36 min`, `26 h`, `8 d`, as the script of the page writes ages. */
export function span(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 120) return `${minutes} min`;
  return minutes < 2880 ? `${Math.round(minutes / 60)} h` : `${Math.round(minutes / 1440)} d`;
}

function timeText(at: Instant | number, textOf: (exact: string) => string, grows = false): SafeHtml {
  const exact = exactOf(at);
  const title = `${exact.slice(0, 19).replace('T', ' ')} UTC`;
  const facts = html`datetime="${exact}" title="${title}" ${grows ? html`data-age` : ''}`;
  return html`<time ${facts}>${textOf(exact)}</time>`;
}

function exactOf(at: Instant | number): Instant {
  return instant(new Date(at).getTime());
}
