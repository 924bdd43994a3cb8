import { instant } from '../core/clock.ts';
import { html, type SafeHtml } from '@remix-run/html-template';
import { type ConnectorHealth, countWords, healthOf } from '../app/connector-health.ts';
import { overviewOf, readSignIns } from '../app/connector-states.ts';
import type { WatchedSinks } from '../app/watch-sinks.ts';
import { healthWords } from '../core/health.ts';
import { nextSlots } from '../settings/cron.ts';
import { formatDuration } from '../settings/texts.ts';
import type { ConnectorSettings, PublishSettings } from '../settings/settings.ts';
import type { ConnectorOverview } from '../sinks/ledger-reader.ts';
import { count, counted, printable, roughly } from '../telemetry/format.ts';
import {
  actLink,
  age,
  healthState,
  disclosed,
  moment,
  page,
  type PageWorld,
  targetLinks,
  troubleText,
} from './layout.ts';
import { type BarsShape, runBars } from './bars.ts';

/**
 * All connectors at a glance: problems for a person, problems that heal by themselves, and a line for each connector.
 */
export function overviewPage(data: OverviewData, targets: readonly PublishSettings[], world: PageWorld) {
  const { shown, total, unreadable, query } = data;
  const nothing =
    query.q === '' && query.state === null
      ? html`<p>No connectors to show. <code>${world.program} init</code> writes a config to start from.</p>`
      : html`<p>No connector matches. <a href="./">Show all</a></p>`;
  const main = html`<h1>Connectors</h1>
    ${unreadable.map(
      ({ sink, problem, connectors }) =>
        html`<section class="callout bad" aria-label="Sink ${sink} cannot be read">
          <p>
            <strong>Sink ${sink} cannot be read</strong>, so ${counted(connectors, 'connector')} of it
            ${connectors === 1 ? 'is' : 'are'} not shown. ${printable(problem)}
          </p>
        </section>`,
    )}
    ${troubleSection(data, true, world)} ${troubleSection(data, false, world)} ${filters(data)}
    ${shown.length === 0 ? nothing : connectorsTable(data, world)} ${pageLinks(data)}
    <p class="acts">${total === 0 ? '' : matchingActs(data, world)}</p>
    <p class="soft">
      ${total === shown.length ? counted(total, 'connector') : `${shown.length} of ${count(total)} connectors`}.
    </p>
    ${targetLinks(targets, './')}`;
  return page({ title: 'Connectors', root: './', at: '', main }, world);
}

/** Links to the acts on all connectors that the filter matches. */
function matchingActs({ query: { q, state }, total }: OverviewData, world: PageWorld) {
  const of = { ...(q === '' ? {} : { q }), ...(state === null ? {} : { state }) };
  const all = total === 1 ? 'this one' : `all ${count(total)}`;
  return (
    [
      ['run-now', `Run ${all} now`],
      ['pause', `Pause ${all}`],
      ['resume', `Resume ${all}`],
    ] as const
  ).map((act) => actLink(world, './', act, of));
}

const mostTroubles = 5;

function troubleSection({ named, query }: OverviewData, isForPerson: boolean, world: PageWorld) {
  const found = named.flatMap(({ connector, health }) =>
    health.troubles
      .filter((trouble) => trouble.isForPerson === isForPerson)
      .map((trouble) => ({ connector, trouble })),
  );
  if (found.length === 0) return '';
  const state = isForPerson ? 'attention' : 'healing';
  const more = found.length - mostTroubles;
  return html`<section class="notice ${isForPerson ? 'attention' : ''}" aria-labelledby="${state}">
    <h2 id="${state}">${isForPerson ? 'Needs a person' : 'Heals by itself'}</h2>
    <ul>
      ${found
        .slice(0, mostTroubles)
        .map(
          ({ connector: { name }, trouble }) =>
            html`<li>
              <a href="connectors/${name}">${name}</a> ${troubleText(trouble, name, world)}
              ${trouble.kind === 'withheld' ? actLink(world, './', ['allow-deletes', 'Allow once'], { connector: name }) : ''}
            </li>`,
        )}
    </ul>
    ${more > 0 ? html`<p><a href="${linkTo(query, { state, page: 1 })}">and ${count(more)} more</a></p>` : ''}
  </section>`;
}

const besides = [
  ['attention', 'needs a person'],
  ['healing', 'heals by itself'],
] as const;

function filters({ query, counts, named }: OverviewData): SafeHtml {
  const chip = (state: OverviewQuery['state'], text: string, number: number): SafeHtml =>
    html`<a
      class="chip ${state ?? ''}"
      href="${linkTo(query, { state, page: 1 })}"
      ${query.state === state ? html`aria-current="true"` : ''}
      >${text} <b>${count(number)}</b></a
    >`;
  return html`<search class="filters">
    <form method="get" action="./">
      <label for="q">Name contains</label>
      <input id="q" name="q" type="search" value="${query.q}" autocomplete="off" />
      ${query.state === null ? '' : html`<input type="hidden" name="state" value="${query.state}" />`}
      ${query.sort === 'health' ? '' : html`<input type="hidden" name="sort" value="${query.sort}" />`}
      <button>Filter</button>
    </form>
    <nav class="chips" aria-label="By state">
      ${chip(null, 'all', named.length)}
      ${healthWords.map((word) => {
        const number = counts[word];
        return number === 0 && query.state !== word ? '' : chip(word, word, number);
      })}
      ${besides.map(([state, text]) => {
        const number = named.filter(({ health }) => matchesState(health, state)).length;
        return number === 0 && query.state !== state ? '' : chip(state, text, number);
      })}
    </nav>
  </search>`;
}

const columns: readonly { readonly title: string; readonly sort: OverviewSort | null }[] = [
  { title: 'Connector', sort: 'name' },
  { title: 'Health', sort: 'health' },
  { title: 'Data as of', sort: 'age' },
  { title: 'Last run', sort: 'run' },
  { title: 'Next run', sort: null },
  { title: 'Rows', sort: 'rows' },
  { title: 'Last runs', sort: null },
];

function connectorsTable({ shown, query }: OverviewData, world: PageWorld): SafeHtml {
  const heading = ({ title, sort }: (typeof columns)[number]): SafeHtml => {
    if (sort === null) return html`<th scope="col">${title}</th>`;
    const align = sort === 'rows' ? html`class="number"` : '';
    const isSorted = query.sort === sort;
    const order = sort === 'name' || sort === 'age' ? 'ascending' : 'descending';
    return html`<th scope="col" ${align} ${isSorted ? html`aria-sort="${order}"` : ''}>
      <a href="${linkTo(query, { sort, page: 1 })}">${title}</a>
    </th>`;
  };
  return html`<table class="list">
    <caption class="unseen">
      Connectors
    </caption>
    <thead>
      <tr>
        ${columns.map(heading)}
      </tr>
    </thead>
    <tbody>
      ${shown.map((one) => connectorRow(one, world))}
    </tbody>
  </table>`;
}

const barsShape: BarsShape = { places: 20, height: 20, width: 4, gap: 2 };

function connectorRow(one: OverviewData['shown'][number], { nowMs }: PageWorld): SafeHtml {
  const { connector, overview, health, runs } = one;
  const { name, definition, sink } = connector;
  return html`<tr>
    <th scope="row">
      <a href="connectors/${name}">${name}</a>
      <span class="soft">${definition.name}, sink ${sink.name}</span>
    </th>
    <td data-title="Health">
      ${healthState(health.word)}
      ${health.isRunning && health.word !== 'running' ? healthState('running') : ''}
    </td>
    <td data-title="Data as of">${ageCell(one, nowMs)}</td>
    <td data-title="Last run">
      ${lastRunText(overview, './', nowMs) ?? html`<span class="soft">never</span>`}
    </td>
    <td data-title="Next run">${nextRunText(connector, overview, nowMs)}</td>
    <td data-title="Rows" class="number">${count(overview?.rows ?? 0)}</td>
    <td data-title="Last runs">${runs.length === 0 ? '' : runBars(runs, barsShape, nowMs, './')}</td>
  </tr>`;
}

/** Result and time of the last run; null: there was none. */
export function lastRunText(overview: ConnectorOverview | null, root: string, nowMs: number) {
  const lastRun = overview?.lastRun ?? null;
  if (lastRun === null) return null;
  return html`<a href="${root}runs/${lastRun.run}">${lastRun.state}</a>
    ${age(lastRun.finishedAt ?? lastRun.startedAt, nowMs)}`;
}

/** Age of the stalest entity, and its limit. */
function ageCell({ health: { stalest, words }, overview }: ListedConnector, nowMs: number): SafeHtml {
  if (overview === null || stalest === null) return html`<span class="soft">nothing read yet</span>`;
  const { entity, asOf, freshWithinMs } = stalest;
  const limit = freshWithinMs === null ? '' : `, limit ${formatDuration(freshWithinMs)}`;
  return html`<span class="${words.has('late') ? 'late' : ''}">${age(asOf, nowMs, 'never complete')}</span>
    <span class="soft">${entity}${limit}</span>`;
}

function pageLinks({ query, pages }: OverviewData) {
  if (pages === 1) return '';
  const { page: at } = query;
  return html`<nav class="pages" aria-label="Pages of connectors">
    ${at > 1 ? html`<a href="${linkTo(query, { page: at - 1 })}" rel="prev">Previous</a>` : ''}
    <span>Page ${at} of ${pages}</span>
    ${at < pages ? html`<a href="${linkTo(query, { page: at + 1 })}" rel="next">Next</a>` : ''}
  </nav>`;
}

/** The address of the overview with a changed query; default values are left out. */
function linkTo(query: OverviewQuery, change: Partial<OverviewQuery>): string {
  const { q, state, sort, page: at } = { ...query, ...change };
  const params = new URLSearchParams({
    ...(q === '' ? {} : { q }),
    ...(state === null ? {} : { state }),
    ...(sort === 'health' ? {} : { sort }),
    ...(at === 1 ? {} : { page: String(at) }),
  });
  const text = params.toString();
  return text === '' ? './' : `./?${text}`;
}

/** The query in the address, as `?q=news&state=failed&sort=age&page=2`. */
export interface OverviewQuery {
  /** Part of a connector's name, or of its definition's or sink's; empty: all. */
  readonly q: string;
  readonly state: OverviewState | null;
  readonly sort: OverviewSort;
  /** From 1. */
  readonly page: number;
}

/** A health word, or connectors with something that needs a person, or that heals by itself. */
export const overviewStates = [...healthWords, 'attention', 'healing'] as const;
type OverviewState = (typeof overviewStates)[number];
export const overviewSorts = ['health', 'name', 'age', 'run', 'rows'] as const;
type OverviewSort = (typeof overviewSorts)[number];

const perPage = 50;

export interface ListedConnector {
  readonly connector: ConnectorSettings;
  readonly overview: ConnectorOverview | null;
  readonly health: ConnectorHealth;
}

type OverviewData = Awaited<ReturnType<typeof readOverviewPage>>;

/**
 * Connectors that a filter matches, according to the ledgers' overviews and the sign-ins, which are cheap to read for
 * all connectors. `named`: those that match `q`.
 */
export async function matchingConnectors(
  connectors: readonly ConnectorSettings[],
  watched: WatchedSinks,
  { q, state }: Pick<OverviewQuery, 'q' | 'state'>,
  nowMs: number,
) {
  const { overviews, ...sinks } = await watched.overviews();
  const away = new Set(sinks.unreadable.map(({ sink }) => sink.name));
  const readable = connectors.filter(({ sink }) => !away.has(sink.name));
  const signIns = await readSignIns(readable);
  const all = readable.map((connector): ListedConnector => {
    const overview = overviewOf(overviews, connector);
    const health = healthOf(connector, overview, nowMs, signIns.get(connector.name));
    return { connector, overview, health };
  });
  const text = q.trim().toLowerCase();
  const named = all.filter(({ connector: { name, definition, sink } }) =>
    [name, definition.name, sink.name].some((one) => one.toLowerCase().includes(text)),
  );
  return {
    named,
    matching: named.filter(({ health }) => matchesState(health, state)),
    unreadable: sinks.unreadable,
  };
}

/** Filters and sorts all connectors; everything else is read for the shown ones alone. */
export async function readOverviewPage(
  connectors: readonly ConnectorSettings[],
  watched: WatchedSinks,
  query: OverviewQuery,
  nowMs: number,
) {
  const { named, unreadable, ...found } = await matchingConnectors(connectors, watched, query, nowMs);
  const matching = found.matching.sort(
    (left, right) => orders[query.sort](left, right) || byName(left, right),
  );
  const pages = Math.max(1, Math.ceil(matching.length / perPage));
  const page = Math.min(query.page, pages);
  const shown = matching.slice((page - 1) * perPage, page * perPage);
  const runs = await watched.recentRuns(
    shown.map(({ connector }) => connector),
    barsShape.places,
  );
  return {
    query: { ...query, page },
    shown: shown.map((one) => ({ ...one, runs: runs.get(one.connector.name) ?? [] })),
    total: matching.length,
    pages,
    /** Numbers of connectors that the text matches, by health word. */
    counts: countWords(named.map(({ health }) => health)),
    /** Connectors that the text matches. */
    named,
    unreadable: unreadable.map(({ sink, problem }) => ({
      sink: sink.name,
      problem,
      connectors: connectors.filter((one) => one.sink.name === sink.name).length,
    })),
  };
}

function matchesState(health: ConnectorHealth, state: OverviewState | null): boolean {
  if (state === null) return true;
  if (state === 'attention') return health.needsPerson;
  if (state === 'healing') return health.troubles.some(({ isForPerson }) => !isForPerson);
  return health.word === state || (state === 'running' && health.isRunning);
}

type Order = (left: ListedConnector, right: ListedConnector) => number;

const byName: Order = (left, right) => (left.connector.name < right.connector.name ? -1 : 1);

/** The worst, the oldest, the newest and the largest come first. */
const orders: Readonly<Record<OverviewSort, Order>> = {
  health: (left, right) => severity(right) - severity(left),
  name: () => 0,
  age: (left, right) => compared(ageKey(left), ageKey(right)),
  run: (left, right) => compared(runKey(right), runKey(left)),
  rows: (left, right) => (right.overview?.rows ?? 0) - (left.overview?.rows ?? 0),
};

function severity({ health }: ListedConnector): number {
  return (health.needsPerson ? healthWords.length : 0) - healthWords.indexOf(health.word);
}

/** Instants compare as texts; an entity that was never read is the oldest. */
function ageKey({ health: { stalest } }: ListedConnector): string {
  return stalest?.asOf ?? '';
}

function runKey({ overview }: ListedConnector): string {
  return overview?.lastRun?.startedAt ?? '';
}

function compared(left: string, right: string): number {
  return left === right ? 0 : left < right ? -1 : 1;
}

/** A worker may be busy, or start again. */
const graceMs = 5 * 60_000;

/** The time of a connector's next run, before the jitter of its schedule, or the time since which it is overdue. */
export function nextRunText(
  { schedule }: Pick<ConnectorSettings, 'schedule'>,
  overview: ConnectorOverview | null,
  nowMs: number,
): SafeHtml {
  if (schedule === null) return html`<span class="soft">by hand</span>`;
  const paused = overview?.paused ?? null;
  if (paused !== null) {
    return html`<span>paused</span> <span class="soft">${printable(paused.reason)}</span>`;
  }
  const endedMs = Date.parse(overview?.lastRun?.finishedAt ?? instant(nowMs));
  // A pattern that never comes again is never overdue.
  const [dueMs = nowMs] =
    schedule.kind === 'every' ? [endedMs + schedule.everyMs] : nextSlots(schedule, endedMs, 1);
  if (nowMs - dueMs > graceMs + schedule.jitterMs) {
    return html`<span class="late"
        >${disclosed(`due ${roughly(nowMs - dueMs)} ago`, moment(dueMs, nowMs))}</span
      >
      <span class="soft">is a worker running?</span>`;
  }
  if (schedule.kind === 'every') return html`every ${formatDuration(schedule.everyMs)}`;
  const [nextMs] = nextSlots(schedule, nowMs, 1);
  return nextMs === undefined
    ? html`never`
    : disclosed(`in ${roughly(nextMs - nowMs)}`, moment(nextMs, nowMs));
}
