import { html, type SafeHtml } from '@remix-run/html-template';
import type { FastifyReply } from 'fastify';
import type { Trouble } from '../app/connector-health.ts';
import { instant, type Instant } from '../core/clock.ts';
import type { TokenHolder } from '../monitor/page-access.ts';
import type { PublishSettings } from '../settings/settings.ts';
import { printable, roughly } from '../telemetry/format.ts';
import { troubleParts } from '../wording/connector-text.ts';

/** Facts about the server that every page shows. */
export interface PageWorld {
  /** The time when the page was read, by this machine's clock. */
  readonly nowMs: number;
  /** The config file; null: not for this reader. */
  readonly config: string | null;
  /** The command that starts this program, for commands in texts. */
  readonly program: string;
  /** The pages that each page leads to: their address and their name. */
  readonly nav: readonly (readonly [string, string])[];
  /** Further pages of this server, such as `metrics`. */
  readonly links: readonly string[];
  /** The logged-in visitor; null: there is no token, or the page asks for it. */
  readonly visitor: TokenHolder | null;
  /** A problem of the whole process that people should know about; null: none. */
  readonly problem: string | null;
}

interface Page {
  readonly title: string;
  /** The link from this page to the overview. It also works below the path prefix of a proxy. */
  readonly root: string;
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
export function page({ title, root, main, isLive = true }: Page, world: PageWorld): string {
  const { config, nowMs, nav, links, visitor, problem } = world;
  return `<!doctype html>\n${String(
    html`<html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>${title} - connector-sync</title>
        <link rel="stylesheet" href="${root}style.css" />
        <link rel="icon" href="${root}icon.svg" type="image/svg+xml" />
        ${isLive ? html`<script src="${root}live.js" data-live="${root}live" defer></script>` : ''}
      </head>
      <body>
        <header class="top">
          <a class="brand" href="${root}">connector-sync</a>
          <nav aria-label="Pages">
            ${nav.map(([path, name]) => html`<a href="${root}${path}">${name}</a> `)}
          </nav>
          ${visitor === null ? '' : visitorForm(visitor, root)}
        </header>
        ${problem === null || config === null ? '' : html`<div class="notice failed" role="alert">${textLines(problem.split('\n'))}</div>`}
        <main id="main">${main}</main>
        <footer>
          <p>
            Read ${exactly(nowMs)}${config === null ? '' : html` from <code>${config}</code>`}
            <span id="live-state" role="status"></span>
          </p>
          <p>${links.map((link) => html`<a href="${root}${link}">/${link}</a> `)}</p>
        </footer>
      </body>
    </html> `,
  )}`;
}

function visitorForm({ name, may }: TokenHolder, root: string): SafeHtml {
  return html`<form method="post" action="${root}logout">
    <span class="faint">${name}${may === 'act' ? '' : ', may read'}</span>
    <button>Log out</button>
  </form>`;
}

export async function sendPage(reply: FastifyReply, text: string): Promise<FastifyReply> {
  return await reply.type('text/html; charset=utf-8').send(text);
}

/** Acts that a page offers, as addresses name them. */
export const actNames = [
  'run-now',
  'pause',
  'resume',
  'cancel',
  'allow-deletes',
  'undo',
  'publish-now',
] as const;
export type ActName = (typeof actNames)[number];

/** Links to the page that asks for confirmation; empty for a visitor who may not act. */
export function actLink(
  { visitor }: PageWorld,
  root: string,
  [name, text]: readonly [ActName, string],
  of: Readonly<Record<string, string>>,
): SafeHtml | '' {
  if (visitor?.may !== 'act') return '';
  return html`<a class="act" href="${root}act/${name}?${new URLSearchParams(of).toString()}">${text}</a>`;
}

/** `2026-11-21 15:30:05 UTC`, for programs too. */
export function exactly(at: Instant | number): SafeHtml {
  const text = instant(typeof at === 'number' ? at : Date.parse(at));
  return html`<time datetime="${text}">${text.slice(0, 19).replace('T', ' ')} UTC</time>`;
}

/** The age, and on a click the exact time. A time in the future, written by a clock that is ahead, counts as now. */
export function ago(at: Instant | null, nowMs: number, never = 'never'): SafeHtml {
  if (at === null) return html`<span class="faint">${never}</span>`;
  return disclosed(`${roughly(Math.max(0, nowMs - Date.parse(at)))} ago`, exactly(at));
}

/** A short text that shows more on a click. */
export function disclosed(text: string, more: SafeHtml): SafeHtml {
  return html`<details class="more">
    <summary>${text}</summary>
    ${more}
  </details>`;
}

/** A state by its word, with the colour of the state of that name, or of `state`. */
export function badge(word: string, state = word): SafeHtml {
  return html`<span class="badge ${/^[a-z]+$/.test(state) ? state : ''}">${word}</span>`;
}

/** Trouble of a connector and what to do, with commands as code. */
export function troubleText(
  trouble: Trouble,
  connector: string,
  world: Pick<PageWorld, 'program' | 'nowMs'>,
): SafeHtml {
  return html`${troubleParts(trouble, connector, world).map((part, index) =>
    index % 2 === 0 ? part : html`<code>${part}</code>`,
  )}`;
}

/** Lines as the terminal shows them, each a paragraph. */
export function textLines(lines: readonly string[]): SafeHtml {
  return html`${lines.map((line) => html`<p>${printable(line.replace(/^\s*(! )?/, ''))}</p>`)}`;
}

/** The title of a column, and whether it holds numbers. */
interface TableColumn {
  readonly title: string;
  readonly align?: 'left' | 'right';
}

type Cell = SafeHtml | string;

/** Columns that hold numbers. */
export function numbers(...titles: readonly string[]): readonly TableColumn[] {
  return titles.map((title) => ({ title, align: 'right' }));
}

/**
 * A table in a box that scrolls on screens that are too narrow for it, by keyboard too; on a phone each row is a block.
 * Columns without content are left out.
 */
export function wideTable(
  caption: string,
  columns: readonly (string | TableColumn)[],
  rows: readonly (readonly Cell[])[],
): SafeHtml {
  const used = columns
    .map((column, index) => ({ index, ...(typeof column === 'string' ? { title: column } : column) }))
    .filter(({ index }) => rows.some((row) => String(row[index] ?? '') !== ''));
  const [first, ...others] = used;
  const cell = (
    row: readonly Cell[],
    { index, title, align }: TableColumn & { readonly index: number },
  ): SafeHtml => {
    const content = row[index] ?? '';
    const classes = [
      ...(align === 'right' ? ['number'] : []),
      ...(content === '0' ? ['zero'] : []),
      ...(String(content) === '' ? ['none'] : []),
    ];
    return html`<td data-title="${title}" ${classes.length === 0 ? '' : html`class="${classes.join(' ')}"`}>
      ${content}
    </td>`;
  };
  return html`<div class="wide" tabindex="0" role="region" aria-label="${caption}">
    <table>
      <thead>
        <tr>
          ${used.map(
            ({ title, align }) =>
              html`<th scope="col" ${align === 'right' ? html`class="number"` : ''}>${title}</th>`,
          )}
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          (row) =>
            html`<tr>
              ${first === undefined ? '' : html`<th scope="row">${row[first.index] ?? ''}</th>`}
              ${others.map((column) => cell(row, column))}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

/** Facts by name; those without a text are left out. */
export function facts(list: readonly (readonly [string, SafeHtml | string | null])[]): SafeHtml {
  return html`<dl>
    ${list.map(([what, text]) =>
      text === null
        ? ''
        : html`<dt>${what}</dt>
            <dd>${text}</dd>`,
    )}
  </dl>`;
}

/** The targets of `publish`. */
export function targetLinks(targets: readonly Pick<PublishSettings, 'name' | 'type'>[], root: string) {
  if (targets.length === 0) return html``;
  return html`<h2>Published to</h2>
    <ul>
      ${targets.map(
        ({ name, type }) =>
          html`<li><a href="${root}targets/${name}">${name}</a> <span class="faint">${type}</span></li>`,
      )}
    </ul>`;
}

/** A page that says why there is none. */
export function problemPage(root: string, title: string, message: string, world: PageWorld): string {
  const main = html`<h1>${title}</h1>
    <p>${printable(message)}</p>
    <p><a href="${root}">All connectors</a></p>`;
  return page({ title, root, main, isLive: false }, world);
}
