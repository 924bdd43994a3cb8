import { readFileSync } from 'node:fs';
import { html, type SafeHtml } from '@remix-run/html-template';
import * as z from 'zod';
import { copiedFile } from '../../core/program-files.ts';
import { ago, badge, disclosed, page, pageHeaders, wideTable } from '../../page/layout.ts';
import { count, counted, printable } from '../../telemetry/format.ts';
import type { LocalConnector } from '../local-connectors.ts';
import type { Readiness, StoreStatus } from '../store/context-stores.ts';
import { type Endpoint, endpoint } from './endpoint.ts';
import { warningsOf } from './show-connectors.ts';

const headers = { 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' };

const query = z.object({
  q: z.string().max(200).default('').describe('Only connectors whose name, id or type contains it.'),
  page: z.coerce.number().int().min(1).max(1_000_000).default(1).describe('Each has 100 connectors.'),
});
type Query = z.output<typeof query>;

const perPage = 100;

const showConnectors = endpoint({
  method: 'GET',
  path: '/connectors',
  operationId: 'getConnectorsPage',
  tag: 'Reference',
  summary: 'See the connectors and their readiness',
  description:
    'A page for people: each connector with its type, its account, and what `inspect` says of its indexed store. A browser asks for ' +
    "a user and a password: an application's client id and client secret.",
  access: 'browser',
  request: { query },
  success: { status: 200, description: 'The page.', body: z.string(), mediaType: 'text/html' },
  handle({ query: wanted }, { principal }, { connectors, clock }) {
    const part = wanted.q.toLowerCase();
    const found = connectors
      .seenBy(principal)
      .filter(({ name, id, definition }) =>
        [name, id, definition].some((text) => text.toLowerCase().includes(part)),
      );
    const first = (wanted.page - 1) * perPage;
    const shown = found.slice(first, first + perPage).map((stored) => {
      const connector = connectors.complete(stored);
      return { connector, status: connectors.status(connector) };
    });
    return {
      kind: 'text',
      text: connectorsPage({ shown, total: found.length, query: wanted }, clock.now()),
      headers: { ...headers, ...pageHeaders, 'content-type': 'text/html; charset=utf-8' },
    };
  },
});

interface ShownConnector {
  readonly connector: LocalConnector;
  readonly status: StoreStatus;
}

interface Shown {
  readonly shown: readonly ShownConnector[];
  readonly total: number;
  readonly query: Query;
}

const columns = [
  { title: 'Connector' },
  { title: 'Indexed store' },
  { title: 'Last sync' },
  { title: 'What is wrong' },
  { title: 'Entities ready' },
  { title: 'Records', align: 'right' },
  { title: 'Type' },
  { title: 'Account' },
  { title: 'Workspace' },
] as const;

function connectorsPage({ shown, total, query: wanted }: Shown, nowMs: number): string {
  const main = html`<h1>Connectors</h1>
    <search class="filters">
      <form method="get" action="connectors">
        <label for="q">Name, id or type contains</label>
        <input id="q" name="q" type="search" value="${wanted.q}" autocomplete="off" />
        <button>Filter</button>
      </form>
    </search>
    ${
      shown.length === 0
        ? html`<p>No connector to show. <a href="connectors">Show all</a></p>`
        : wideTable(
            'Connectors',
            columns,
            shown.map((one) => cells(one, nowMs)),
          )
    }
    <p class="faint">
      ${total === shown.length ? counted(total, 'connector') : `${shown.length} of ${counted(total, 'connector')}`}
      ${pageLink(wanted, total, -1, 'Previous page')} ${pageLink(wanted, total, 1, 'Next page')}
    </p>`;
  return page(
    { title: 'Connectors', root: './', main, isLive: false },
    {
      nowMs,
      config: null,
      program: 'connector-sync',
      nav: [
        ['docs', 'Reference'],
        ['connectors', 'Connectors'],
      ],
      links: ['openapi.json'],
      visitor: null,
      problem: null,
    },
  );
}

function cells({ connector, status }: ShownConnector, nowMs: number): readonly (SafeHtml | string)[] {
  const { stored, definition, workspace } = connector;
  const { readiness, entities, syncedAt } = status;
  const isUpdating = entities.some((one) => one.status === 'Updating');
  const ready = entities.filter((one) => one.isSearchable);
  return [
    html`${printable(stored.name)}
      <div class="faint">${stored.id}</div>`,
    html`${badge(readiness.toLowerCase(), badgeOf[readiness])}
    ${isUpdating ? html`<span class="faint">being refreshed</span>` : ''}`,
    ago(syncedAt, nowMs),
    warningsOf(connector, status).join(' '),
    entities.length === 0
      ? ''
      : disclosed(
          `${ready.length} of ${entities.length}`,
          html`<ul>
            ${entities.map((one) => html`<li>${one.entity}: ${one.status.toLowerCase()}</li>`)}
          </ul>`,
        ),
    ready.length === 0 ? '' : count(ready.reduce((sum, { records }) => sum + (records ?? 0), 0)),
    definition.name,
    stored.account === null ? 'sample data' : html`real ${printable(stored.account)}`,
    printable(workspace.name),
  ];
}

/** As the pages of `ui` colour what is the same. */
const badgeOf: Readonly<Record<Readiness, string>> = {
  Ready: 'ok',
  Preview: 'incomplete',
  'Building Preview': 'running',
  Loading: 'waiting',
};

function pageLink({ q, page: at }: Query, total: number, step: 1 | -1, text: string): SafeHtml | string {
  const to = at + step;
  if (to < 1 || (to - 1) * perPage >= total) return '';
  const given = new URLSearchParams({ ...(q === '' ? {} : { q }), page: String(to) });
  return html`<a href="connectors?${given.toString()}">${text}</a>`;
}

/** What the page consists of besides. */
const file = (name: string, type: string, operationId: string, summary: string): Endpoint =>
  endpoint({
    method: 'GET',
    path: `/${name}`,
    operationId,
    tag: 'Reference',
    summary,
    description: 'Part of the page of connectors.',
    access: 'public',
    success: { status: 200, description: 'The file.', body: z.string(), mediaType: type },
    handle: () => ({
      kind: 'text',
      text: readFileSync(copiedFile(`page/files/${name}`), 'utf8'),
      headers: { ...headers, 'content-type': `${type}; charset=utf-8` },
    }),
  });

export const connectorsPageEndpoints: readonly Endpoint[] = [
  showConnectors,
  file('style.css', 'text/css', 'getStyleSheet', 'Get the style sheet'),
  file('icon.svg', 'image/svg+xml', 'getIcon', 'Get the icon'),
];
