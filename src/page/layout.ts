import { html, type SafeHtml } from '@remix-run/html-template';
import type { FastifyReply } from 'fastify';
import type { connectorActs, oneConnectorActs, runActs } from '../app/acts.ts';
import type { editActs } from '../app/config-edits.ts';
import type { TokenHolder } from '../monitor/page-access.ts';
import { callout, moment, searchBox, textLines } from './page-parts.ts';

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
  /** The visitor may type secrets here. */
  readonly canType: boolean;
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

/** A page that says why there is none. `to`: the address from the root, and the text, of its link. */
export function problemPage(
  root: string,
  title: string,
  message: string,
  world: PageWorld,
  [address, text]: readonly [string, string] = ['', 'All connectors'],
): string {
  const main = html`<div class="narrow">
    <h1>${title}</h1>
    ${callout('bad', 'Why', textLines(message.split('\n')))}
    <p><a href="${root}${address}">${text}</a></p>
  </div>`;
  return page({ title, root, at: null, main, isLive: false }, world);
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
