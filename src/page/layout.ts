import { html, type SafeHtml } from '@remix-run/html-template';
import type { FastifyReply } from 'fastify';
import * as z from 'zod';
import type { connectorActs, oneConnectorActs, runActs } from '../app/acts.ts';
import type { editActs } from '../app/config-edits.ts';
import { instant, type Instant } from '../core/clock.ts';
import type { Health } from '../core/health.ts';
import type { TokenHolder } from '../monitor/page-access.ts';
import type { RunSummary } from '../sinks/ledger-reader.ts';
import { count, printable } from '../telemetry/format.ts';

/** Facts about the server that every page shows. */
export interface PageWorld {
  /** The time when the page was read, by this machine's clock. */
  readonly nowMs: number;
  /** Number of targets that are behind, as far as it is known. */
  readonly behindTargets: number;
  /** The config file; null: not for this reader. */
  readonly config: string | null;
  /** The command that starts this program, for commands in texts. */
  readonly program: string;
  /** Further pages of this server, such as `metrics`. */
  readonly links: readonly string[];
  /** The logged-in visitor; null: there is no token, or the page asks for it. */
  readonly visitor: TokenHolder | null;
  /** A problem of the whole process that people should know about; null: none. */
  readonly problem: string | null;
  /** The address of this page from the root, to which an act leads back. */
  readonly here: string;
  /** The token that forms of acts carry; empty: the visitor has none. */
  readonly formToken: string;
  /** Progress of the act that the visitor has just asked for; empty: none. */
  readonly flash: SafeHtml | '';
  /** State that the page shows. `live` reports every change after it. */
  readonly live: () => string;
}

/** The pages that each page leads to: their address from the root, and their name. */
const navigation = [
  ['', 'Connectors'],
  ['runs', 'Runs'],
  ['data', 'Data'],
  ['targets', 'Targets'],
  ['actions', 'Actions'],
] as const;

interface Page {
  /** Title of the window; the name of the program follows. */
  readonly title: string;
  /** The link from this page to the first one. It also works below the path prefix of a proxy. */
  readonly root: string;
  /** The page of the navigation that this one belongs to; null: none. */
  readonly at: (typeof navigation)[number][0] | null;
  readonly main: SafeHtml;
  /** Absent: the page shows nothing that changes. */
  readonly isLive?: boolean;
}

/** Its own style, script and data, and nothing from anywhere else; nothing inline. */
export const pageHeaders = {
  'content-security-policy':
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; " +
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
  // Without a referrer, a browser would not tell forms of this server from those of others.
  'referrer-policy': 'same-origin',
};

/** A whole page. It has nothing inline and loads nothing from elsewhere, because the server's policy forbids both. */
export function page({ title, root, at, main, isLive = true }: Page, world: PageWorld): string {
  const { config, nowMs, links, visitor, problem, flash } = world;
  const isOpen = config !== null;
  // A page that changes in nothing else follows an act all the same.
  const address = isLive || flash !== '' ? html`data-live="${root}live?${world.live()}"` : '';
  const footer = html`<footer>
    <span id="live" class="state" role="status">Read, ${moment(nowMs, nowMs)}</span>
    <span>All times in UTC</span>
    <span>Config <code>${config ?? ''}</code></span>
    <span class="end"
      >${links.map((link) => html`<a href="${root}${link}">${linkNames[link] ?? link}</a> `)}</span
    >
  </footer>`;
  return `<!doctype html>\n${String(
    html`<html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>${title} · connector-sync</title>
        <link rel="stylesheet" href="${root}style.css" />
        <link rel="icon" href="${root}icon.svg" type="image/svg+xml" />
        <script src="${root}console.js" defer></script>
      </head>
      <body ${isOpen ? address : ''}>
        <a class="skip btn" href="#main">Skip to content</a>
        <header class="top">
          <a class="brand" href="${root}" aria-label="connector-sync"
            >${sign}<span class="${isOpen ? 'o' : ''}">connector-sync</span></a
          >
          ${isOpen ? topLinks(root, at, world) : ''} ${visitor === null ? '' : visitorMenu(visitor, root)}
        </header>
        <main id="main">
          ${problem === null || !isOpen ? '' : html`<div class="callout bad" role="alert">${textLines(problem.split('\n'))}</div>`}
          ${isOpen ? flash : ''} ${main}
        </main>
        ${isOpen ? footer : ''}
      </body>
    </html> `,
  )}`;
}

const linkNames: Readonly<Record<string, string>> = {
  healthz: 'Alive',
  readyz: 'Ready',
  metrics: 'Metrics',
  board: 'Job queue',
};

const sign = html`<svg viewBox="0 0 24 24" aria-hidden="true">
  <rect width="24" height="24" rx="6" fill="currentColor" />
  <path
    d="M6.5 9.5h8.2m-2.6-2.8 2.8 2.8-2.8 2.8M17.5 15.2H9.3m2.6-2.8-2.8 2.8 2.8 2.8"
    fill="none"
    stroke="var(--surface)"
    stroke-width="1.7"
    stroke-linecap="round"
    stroke-linejoin="round"
  />
</svg>`;

function topLinks(root: string, at: Page['at'], { behindTargets }: PageWorld): SafeHtml {
  const need = behindTargets === 1 ? 'needs' : 'need';
  const behind = html` <span class="bad word" title="${behindTargets} ${need} you">${behindTargets}</span>`;
  return html`<nav aria-label="Pages">
      ${navigation.map(([path, name]) => html`<a href="${root}${path}" ${path === at ? html`aria-current="page"` : ''}>${name}${path === 'targets' && behindTargets > 0 ? behind : ''}</a> `)}
    </nav>
    <form class="find" action="${root}find" role="search" aria-label="Find">
      ${searchBox('find', 'Find a connector or a record', { placeholder: 'Find connector, record', 'aria-keyshortcuts': '/' })}
    </form>`;
}

/** Whether a visitor may act. Without a token no one may. */
export function mayAct(visitor: TokenHolder | null): boolean {
  return visitor?.may.includes('act') ?? false;
}

/** Whether the page may show values of records. Without a token only this machine reaches the pages, and it may. */
export function maySeeValues({ visitor }: PageWorld): boolean {
  return visitor?.may.includes('data') ?? true;
}

function visitorMenu({ name, may }: TokenHolder, root: string): SafeHtml {
  const rights = [...(may.includes('data') ? ['see values'] : []), ...(may.includes('act') ? ['act'] : [])];
  return html`<details class="menu who">
    <summary>${name}</summary>
    <div>
      <p class="soft">Token “${name}”, may ${rights.join(' and ') || 'read'}</p>
      <form method="post" action="${root}logout"><button>Log out</button></form>
    </div>
  </details>`;
}

export async function sendPage(reply: FastifyReply, text: string): Promise<FastifyReply> {
  return await reply.type('text/html; charset=utf-8').send(text);
}

/** Acts that a page offers, as addresses name them. */
export type ActName =
  | keyof typeof connectorActs
  | keyof typeof oneConnectorActs
  | keyof typeof runActs
  | keyof typeof editActs
  | 'publish-now';

/** Acts on one connector that need no confirmation, because they only start what a schedule does too, or only look. */
const pressedActs: ReadonlySet<ActName> = new Set(['run-now', 'check'] as const);

export function isPressed(name: ActName, connector: string | undefined): boolean {
  return pressedActs.has(name) && (connector ?? '') !== '';
}

/**
 * A button that leads to the page which asks for confirmation, or to a dialog with its content; where nothing is to be
 * confirmed, a form that does it. Empty for a visitor who may not act. `look`: `primary` at most once on a page, `low`
 * within lists.
 */
export function actLink(
  { visitor, here, formToken }: PageWorld,
  root: string,
  [name, text]: readonly [ActName, string],
  of: Readonly<Record<string, string>>,
  look: '' | 'low' | 'primary' = '',
): SafeHtml | '' {
  if (!mayAct(visitor)) return '';
  const back = here === homeOf(of) ? {} : { back: here };
  const address = `${root}act/${name}?${new URLSearchParams({ ...of, ...back }).toString()}`;
  if (!isPressed(name, of['connector'])) {
    return html`<a class="btn ${look}" href="${address}" data-dialog>${text}</a>`;
  }
  return html`<form method="post" action="${address}">
    <input type="hidden" name="token" value="${formToken}" /><button class="${look}">${text}</button>
  </form>`;
}

/** The page of the subject of an act, from the root; `./` for that of all connectors. */
export function homeOf({ connector = '', run = '', target = '' }: Readonly<Record<string, string>>): string {
  if (run !== '') return `runs/${run}`;
  if (target !== '') return `targets/${target}`;
  return connector === '' ? './' : `connectors/${connector}`;
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

/** A word of a state, with its colour and shape. */
export type StateLook = 'ok' | 'run' | 'idle' | 'idle paused' | 'warn late' | 'warn part' | 'bad';

export function state(look: StateLook, word: string): SafeHtml {
  return html`<span class="state ${look}">${word}</span>`;
}

const healthLooks: Readonly<Record<Health, readonly [StateLook, string]>> = {
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

/** Word of a health as pages write it. */
export function healthTitle(health: Health): string {
  return healthLooks[health][1];
}

const runLooks: Readonly<Record<RunSummary['state'], readonly [StateLook, string]>> = {
  ok: ['ok', 'OK'],
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

/** Look and word of how a run ended, for bars and summaries. */
export function runLook(of: RunSummary['state']): readonly [StateLook, string] {
  return runLooks[of];
}

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
export function head(
  heading: SafeHtml | string,
  soft: SafeHtml | string,
  acts: SafeHtml | string = '',
): SafeHtml {
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

/** Numbers in a row of boxes: a name, and a value with its unit in `<small>`. */
export function stats(list: readonly (readonly [string, SafeHtml | string])[]): SafeHtml {
  return html`<dl class="stats">
    ${list.map(
      ([name, value]) =>
        html`<div>
          <dt>${name}</dt>
          <dd>${value}</dd>
        </div>`,
    )}
  </dl>`;
}

/** Links that choose a part of a list, each with the number of its members where that is known. */
export function chips(
  label: string,
  list: readonly (readonly [address: string, text: string, isHere: boolean, number?: number])[],
): SafeHtml {
  return html`<nav class="chips" aria-label="${label}">
    ${list.map(([address, text, isHere, number]) => {
      const here = isHere ? html`aria-current="true"` : '';
      const many = number === undefined ? '' : html` <span class="soft">${count(number)}</span>`;
      return html`<a class="chip" href="${address}" ${here}>${text}${many}</a> `;
    })}
  </nav>`;
}

/** Parts of a line, with a comma between them. */
export function joined(parts: readonly (SafeHtml | string)[], between = ', '): SafeHtml {
  return html`${parts.map((part, index) => (index === 0 ? part : html`${between}${part}`))}`;
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

/**
 * The title of a column, the looks of its cells, and the order if rows are sorted by it. Looks are `num`, `cut` (takes
 * the rest of the width), `o` (not on phones), `o2` (wide screens only).
 */
export type TableColumn =
  string | readonly [title: SafeHtml | string, look: string, sorted?: 'ascending' | 'descending' | undefined];

/**
 * The cells of a row, the first of which names it, or a heading of the rows below. `look`: `gone` is struck through;
 * `in1`, `in2` indent the name.
 */
export type TableRow =
  | readonly (SafeHtml | string)[]
  | { readonly group: string }
  | {
      readonly cells: readonly (SafeHtml | string)[];
      readonly look?: string;
      readonly nameLook?: string;
      /** The place of the name; absent: the first. */
      readonly nameAt?: number;
      readonly isChosen?: boolean;
    };

/** A table in a box that scrolls where it is too narrow, by keyboard too. `go`: a row leads where its name leads. */
export function table(
  caption: string,
  columns: readonly TableColumn[],
  rows: readonly TableRow[],
  look: '' | 'go' = '',
): SafeHtml {
  const parts = columns.map((column) => (typeof column === 'string' ? ([column, ''] as const) : column));
  const titles = parts.map(([title, looks, sorted]) => {
    const order = sorted === undefined ? '' : html`aria-sort="${sorted}"`;
    return html`<th scope="col" ${classOf(looks)} ${order}>${title}</th>`;
  });
  return html`<div class="wide ${look}" tabindex="0" role="region" aria-label="${caption}">
    <table>
      <thead>
        <tr>
          ${titles}
        </tr>
      </thead>
      <tbody>
        ${rows.map((row) => tableRow(row, parts))}
      </tbody>
    </table>
  </div>`;
}

function classOf(look: string): SafeHtml | '' {
  return look === '' ? '' : html`class="${look}"`;
}

function tableRow(row: TableRow, columns: readonly Exclude<TableColumn, string>[]): SafeHtml {
  if ('group' in row) {
    return html`<tr class="group">
      <th colspan="${columns.length}" scope="rowgroup">${row.group}</th>
    </tr>`;
  }
  const {
    cells,
    look = '',
    nameLook = '',
    nameAt = 0,
    isChosen = false,
  } = 'cells' in row ? row : { cells: row };
  return html`<tr ${classOf(look)} ${isChosen ? html`aria-current="true"` : ''}>
    ${cells.map((cell, index) => {
      if (index === nameAt) return html`<th scope="row" ${classOf(nameLook)}>${cell}</th>`;
      const shown = cell === '0' ? html`<span class="soft">0</span>` : cell;
      return html`<td ${classOf(columns[index]?.[1] ?? '')}>${shown}</td>`;
    })}
  </tr>`;
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

/** A field to type a search into; only screen readers read its label. */
export function searchBox(
  name: string,
  label: string,
  attributes: Readonly<Record<string, string>>,
): SafeHtml {
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

/** A page that says why there is none. */
export function problemPage(root: string, title: string, message: string, world: PageWorld): string {
  const main = html`<div class="narrow">
    <h1>${title}</h1>
    ${textLines(message.split('\n'))}
    <p><a href="${root}">All connectors</a></p>
  </div>`;
  return page({ title, root, at: null, main, isLive: false }, world);
}
