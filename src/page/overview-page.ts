import { html, type SafeHtml } from '@remix-run/html-template';
import * as z from 'zod';
import { countWords, healthOf } from '../app/connector-health.ts';
import { nextRunOf, overviewOf, readSignIns } from '../app/connector-states.ts';
import { askSink, type WatchedSinks } from '../app/watch-sinks.ts';
import { instant, type Instant } from '../core/clock.ts';
import { healthWords } from '../core/health.ts';
import type { ConnectorSettings, LocalSettings } from '../settings/settings.ts';
import type { RunFacts } from '../sinks/ledger-reader.ts';
import type { ConnectorOverview } from '../sinks/sink-access.ts';
import { count, counted, printable } from '../telemetry/format.ts';
import { type BarsShape, runBars, tookMs } from './bars.ts';
import {
  actLink,
  age,
  callout,
  chips,
  head,
  healthState,
  healthTitle,
  hiddenFields,
  joined,
  mayAct,
  moment,
  page,
  type PageWorld,
  param,
  reasonCell,
  searchBox,
  searchOf,
  span,
  state,
  table,
  type TableColumn,
  textLines,
} from './layout.ts';
import { type KnownConnector, shortReason, troubleAct, troubleReason } from './trouble-text.ts';

/**
 * The first page: whether all is well, the connectors that need a person with the act that helps, those that resolve on
 * their own, and a line for each.
 */
export function overviewPage(data: OverviewData, world: PageWorld): string {
  const { all, unreadable, needing } = data;
  const title = `${needing === 0 ? '' : `(${needing}) `}Connectors`;
  const add = mayAct(world.visitor) ? html`<a class="btn" href="add">Add connector</a>` : '';
  const away = unreadable.map(({ sink, problem, connectors }) => {
    const what = html`<h2>Sink <code>${sink}</code> cannot be read</h2>`;
    const are = connectors === 1 ? 'is' : 'are';
    const why = html`<p>
      ${counted(connectors, 'connector')} of it ${are} not shown. ${printable(problem)}
    </p>`;
    return callout('bad', `Sink ${sink} cannot be read`, html`${what}${why}`);
  });
  const main = html`${head(answerOf(data), factsOf(data, world), add)} ${away} ${needsSection(data, world)}
  ${all.length === 0 ? '' : listSection(data, world)}`;
  return page({ title, root: './', at: '', main }, world);
}

/** `5 of 40 connectors need you`. */
function answerOf({ all, needing }: OverviewData): string {
  const total = count(all.length);
  if (all.length === 0) return 'No connector can be read';
  if (all.length === 1) return `The connector ${needing === 0 ? 'is fine' : 'needs you'}`;
  if (needing > 0) return `${count(needing)} of ${total} connectors ${needing === 1 ? 'needs' : 'need'} you`;
  return all.every(({ health }) => fineWords.has(health.word))
    ? `All ${total} connectors are fine`
    : `None of ${total} connectors needs you`;
}

const fineWords: ReadonlySet<string> = new Set(['ok', 'new', 'running', 'paused'] as const);

/** The oldest data, the rows, and the next run. */
function factsOf({ all }: OverviewData, { nowMs }: PageWorld): SafeHtml {
  const [oldest] = all
    .filter(({ overview, health }) => health.stalest?.asOf && (overview?.paused ?? null) === null)
    .sort((left, right) => compared(ageKey(left), ageKey(right)));
  const { asOf = null, freshWithinMs = null } = oldest?.health.stalest ?? {};
  const limit = freshWithinMs === null ? '' : `, limit ${span(freshWithinMs)}`;
  const [next] = nextTimes(all, nowMs);
  const rows = all.reduce((sum, { overview }) => sum + (overview?.rows ?? 0), 0);
  const facts = [
    ...(oldest === undefined
      ? []
      : [html`Oldest data ${age(asOf, nowMs)} (${oldest.connector.name}${limit})`]),
    counted(rows, 'row'),
    ...(next === undefined ? [] : [html`next run ${moment(next, nowMs)}`]),
  ];
  return joined(facts, ' · ');
}

/** Times of the next runs that have one, the first run first. */
function nextTimes(all: readonly ListedConnector[], nowMs: number): readonly Instant[] {
  const next = all.map(({ connector, overview }) => nextRunOf(connector, overview, nowMs));
  return next.flatMap((one) => (one.kind === 'at' ? [one.at] : [])).sort();
}

const mostNeeds = 8;

function needsSection({ needs, needing, all, query }: OverviewData, world: PageWorld): SafeHtml | '' {
  const healing = all.filter(
    ({ health }) => !health.needsPerson && !health.words.has('paused') && health.troubles.length > 0,
  );
  const own = healing.length === 0 ? '' : healingLine(healing, needing > 0, world);
  if (needing === 0) return own;
  const more = needing - needs.length;
  const link = linkTo(query, { q: '', state: 'needs-you', page: 1 });
  return html`<section aria-labelledby="needs">
    <h2 id="needs">Needs you</h2>
    <ul class="panel needs">
      ${needs.map((one) => needsLine(one, world))}
    </ul>
    ${more > 0 ? html`<p class="after"><a href="${link}">and ${count(more)} more</a></p>` : ''} ${own}
  </section>`;
}

/** The gravest trouble of a connector that a person has to solve, and the act that does. */
function needsLine(one: KnownConnector, world: PageWorld): SafeHtml {
  const { connector, health } = one;
  const [first, ...others] = health.troubles
    .filter(({ isForPerson }) => isForPerson)
    .sort((left, right) => Number(right === health.reason) - Number(left === health.reason));
  if (first === undefined) return html``;
  const address = `connectors/${connector.name}`;
  const more = others.length === 0 ? '' : html` <a href="${address}">and ${others.length} more</a>`;
  return html`<li>
    ${healthState(health.word)}<a class="name" href="${address}">${connector.name}</a>
    <p>${troubleReason(first, one, world)}${more}</p>
    ${troubleAct(first, one, world, './')}
  </li>`;
}

const mostNamed = 5;

/** `3 more resolve on their own by 15:41: shop-de, ads-search, crm-leads.` */
function healingLine(healing: readonly ListedConnector[], isMore: boolean, { nowMs }: PageWorld): SafeHtml {
  const last = nextTimes(healing, nowMs).at(-1);
  const links = healing
    .slice(0, mostNamed)
    .map(({ connector: { name } }) => html`<a href="connectors/${name}">${name}</a>`);
  const [resolve, own] = healing.length === 1 ? ['resolves', 'its'] : ['resolve', 'their'];
  const by = last === undefined ? '' : html` by ${moment(last, nowMs)}`;
  const rest = healing.length - mostNamed;
  return html`<p class="soft after">
    ${count(healing.length)}${isMore ? ' more' : ''} ${resolve} on ${own} own${by}:
    ${joined(links)}${rest > 0 ? ` and ${count(rest)} more` : ''}.
  </p>`;
}

function listSection(data: OverviewData, world: PageWorld): SafeHtml {
  const { query, total, pages } = data;
  const { state, sort } = kept(query);
  const list = html`${connectorsTable(data, world)} ${pages === 1 ? '' : pageLinks(data)}
    <p class="key after o">
      <span>Line below the age: how much of the limit is used</span>
      <span>
        Bar: one run, newest right; height is how long it took; <b class="warn word">amber</b> incomplete,
        <b class="bad word">red</b> failed
      </span>
    </p>`;
  return html`<section aria-labelledby="all">
    <div class="toolbar">
      <h2 id="all" class="unseen">All connectors</h2>
      ${healthChips(data)}
      <form class="end" action="./" role="search" aria-label="Filter">
        ${searchBox('q', 'Name or type contains', { value: query.q, placeholder: 'Name or type', size: '14' })}
        ${hiddenFields({ state, sort })}
      </form>
      ${total === 0 ? '' : actsMenu(data, world)}
    </div>
    ${total === 0 ? html`<p>No connector matches. <a href="./">Show all</a></p>` : list}
  </section>`;
}

function healthChips({ query, named }: OverviewData): SafeHtml {
  const needing = named.filter(({ health }) => health.needsPerson).length;
  const counts = countWords(named.map(({ health }) => health));
  const all = [
    [null, 'All', named.length],
    ['needs-you', 'Needs you', needing],
    ...healthWords.map((word) => [word, healthTitle(word), counts[word]] as const),
  ] as const;
  const shown = all.filter(([state, , number]) => number > 0 || state === null || state === query.state);
  return chips(
    'By health',
    shown.map(([state, text, number]) => {
      return [linkTo(query, { state, page: 1 }), text, state === query.state, number];
    }),
  );
}

/** Acts on all connectors that the filter matches, for who may act. */
function actsMenu({ query: { q, state: of }, total, paused }: OverviewData, world: PageWorld) {
  if (!mayAct(world.visitor)) return '';
  const subject = { ...(q === '' ? {} : { q }), ...(of === null ? {} : { state: of }) };
  const all = total === 1 ? 'this one' : `all ${count(total)}`;
  const acts = [
    ['run-now', `Run ${all} now…`],
    ['pause', `Pause ${all}…`],
    ...(paused === 0 ? [] : [['resume', `Resume the ${count(paused)} paused…`] as const]),
  ] as const;
  return html`<details class="menu">
    <summary>${q === '' && of === null ? 'All' : 'These'} ${count(total)}</summary>
    <div>${acts.map((act) => actLink(world, './', act, subject))}</div>
  </details>`;
}

const columns: readonly (readonly [title: string, sort: OverviewSort | null, look: string])[] = [
  ['Health', 'health', ''],
  ['Connector', 'name', ''],
  ['Why', null, 'cut o'],
  ['Data age', 'age', 'num'],
  ['Rows', 'rows', 'num o o2'],
  ['Last run', 'run', 'o'],
  ['Next run', 'next', 'o'],
  ['Last 20 runs', null, 'o o2'],
];

function connectorsTable({ shown, query }: OverviewData, world: PageWorld): SafeHtml {
  const titles = columns.map(([title, sort, look]): TableColumn => {
    if (sort === null) return [title, look];
    const order = sort === 'name' || sort === 'next' ? 'ascending' : 'descending';
    const link = html`<a href="${linkTo(query, { sort, page: 1 })}">${title}</a>`;
    return [link, look, query.sort === sort ? order : undefined];
  });
  const barsRoot = shown.length <= mostLinked ? './' : null;
  const rows = shown.map((one) => connectorRow(one, barsRoot, world));
  return table('Connectors', titles, rows, 'go');
}

const bars: BarsShape = { places: 20, height: 20, width: 4, gap: 2 };

/** With more connectors, links of bars would be most of the page: the time of the last run leads to it instead. */
const mostLinked = 10;

function connectorRow(one: KnownConnector, barsRoot: string | null, world: PageWorld) {
  const { connector, overview, health, runs } = one;
  const { name, definition } = connector;
  const { nowMs } = world;
  const cells = [
    healthState(health.word),
    html`<a href="connectors/${name}">${name}</a> <span class="soft o o2">${definition.name}</span>`,
    reasonCell(shortReason(one, world), health.word === 'ok'),
    ageCell(one, nowMs),
    count(overview?.rows ?? 0),
    lastRunText(overview?.lastRun ?? null, nowMs),
    nextRunText(connector, overview, nowMs),
    runs.length === 0 ? '' : runBars(runs, bars, nowMs, barsRoot),
  ];
  return { cells, nameAt: 1 };
}

/** Age of the stalest entity, above the share of its limit that is used. */
function ageCell({ health: { stalest, words } }: KnownConnector, nowMs: number): SafeHtml {
  const { asOf = null, freshWithinMs = null } = stalest ?? {};
  const isLate = words.has('late');
  const line = asOf === null ? '' : limitBar(asOf, freshWithinMs, nowMs, isLate ? 'o bad' : 'o');
  return html`<span class="${isLate ? 'minus' : ''}">${age(asOf, nowMs)}${line}</span>`;
}

/** The share of a limit that an age uses; empty without a limit. */
export function limitBar(asOf: Instant | null, limitMs: number | null, nowMs: number, look: string) {
  if (limitMs === null) return '';
  const minutes = (ms: number): number => Math.max(0, Math.round(ms / 60_000));
  const most = Math.max(1, minutes(limitMs));
  const used = asOf === null ? most : Math.min(most, minutes(nowMs - Date.parse(asOf)));
  const label = `limit ${span(limitMs)}`;
  return html`<progress class="${look}" max="${most}" value="${used}" aria-label="${label}"></progress>`;
}

/** Time of the last run, which leads to it, and its duration. */
function lastRunText(lastRun: RunFacts | null, nowMs: number): SafeHtml {
  if (lastRun === null) return html`<span class="soft">never</span>`;
  const ms = tookMs(lastRun);
  const took = ms === null ? '' : html` <span class="soft">${span(ms)}</span>`;
  return html`<a href="runs/${lastRun.run}">${moment(lastRun.startedAt, nowMs)}</a>${took}`;
}

/** `15:47`, `now`, `paused`, `no schedule`, or the time since which it is overdue. */
export function nextRunText(
  connector: Pick<ConnectorSettings, 'schedule'>,
  overview: ConnectorOverview | null,
  nowMs: number,
): SafeHtml {
  const next = nextRunOf(connector, overview, nowMs);
  if (next.kind === 'at') return moment(next.at, nowMs);
  return next.kind === 'overdue'
    ? html`${moment(next.at, nowMs)} <span class="word warn">overdue</span>`
    : html`<span class="soft">${next.kind.replace('-', ' ')}</span>`;
}

function pageLinks({ query, pages }: OverviewData): SafeHtml {
  const { page: at } = query;
  const link = (to: number, text: string, rel: string): SafeHtml | '' => {
    const address = linkTo(query, { page: to });
    return to < 1 || to > pages ? '' : html`<a class="btn" href="${address}" rel="${rel}">${text}</a>`;
  };
  return html`<nav class="acts after" aria-label="Pages of connectors">
    ${link(at - 1, 'Previous', 'prev')} <span>Page ${at} of ${pages}</span> ${link(at + 1, 'Next', 'next')}
  </nav>`;
}

/** The address of the overview with a changed query. */
function linkTo(query: OverviewQuery, change: Partial<OverviewQuery>): string {
  return `./${searchOf(kept({ ...query, ...change }))}`;
}

/** The parts of an address; default values are empty. */
function kept({ q, state, sort, page: at }: OverviewQuery) {
  return { q, state: state ?? '', sort: sort === 'health' ? '' : sort, page: at === 1 ? '' : String(at) };
}

/** A health word, or the connectors that need a person. */
export const overviewStates = [...healthWords, 'needs-you'] as const;
const sorts = ['health', 'name', 'age', 'rows', 'run', 'next'] as const;

/**
 * The query in the address, as `?q=news&state=failed&sort=age&page=2`. `q`: part of a connector's name, or of its
 * definition's or sink's.
 */
export const overviewQuery = z.object({
  q: param.text,
  state: param.oneOf(overviewStates),
  sort: param.oneOf(sorts).transform((sort) => sort ?? 'health'),
  page: param.number(1, 1_000_000),
});
type OverviewQuery = z.output<typeof overviewQuery>;
type OverviewSort = OverviewQuery['sort'];

const perPage = 50;

export type ListedConnector = Omit<KnownConnector, 'runs'>;

type OverviewData = Awaited<ReturnType<typeof readOverviewPage>>;

/**
 * Connectors that a filter matches, according to the ledgers' overviews and the sign-ins, which are cheap to read for
 * all connectors. `all`: those whose sinks can be read; `named`: those of them that match `q`.
 */
export async function matchingConnectors(
  connectors: readonly ConnectorSettings[],
  watched: WatchedSinks,
  { q, state }: Pick<OverviewQuery, 'q' | 'state'>,
  nowMs: number,
) {
  const { overviews, unreadable } = await watched.overviews();
  const readable = connectors.filter(({ sink }) => overviews.has(sink.name));
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
  const matching = named.filter(
    ({ health }) => state === null || (state === 'needs-you' ? health.needsPerson : health.word === state),
  );
  return { all, named, matching, unreadable };
}

/** Filters and sorts all connectors; everything else is read for the shown ones alone. */
export async function readOverviewPage(
  connectors: readonly ConnectorSettings[],
  watched: WatchedSinks,
  query: OverviewQuery,
  nowMs: number,
) {
  const found = await matchingConnectors(connectors, watched, query, nowMs);
  const { all, named, unreadable } = found;
  const orders = ordersAt(nowMs);
  const matching = found.matching.sort(orders[query.sort]);
  const pages = Math.max(1, Math.ceil(matching.length / perPage));
  const at = Math.min(query.page, pages);
  const shown = matching.slice((at - 1) * perPage, at * perPage);
  const needing = all.filter(({ health }) => health.needsPerson).sort(orders.health);
  const needs = needing.slice(0, mostNeeds);
  const asked = new Set([...shown, ...needs].map(({ connector }) => connector));
  const runs = await watched.recentRuns([...asked], bars.places);
  const withRuns = (one: ListedConnector): KnownConnector => {
    return { ...one, runs: runs.get(one.connector.name) ?? [] };
  };
  return {
    query: { ...query, page: at },
    all,
    /** Connectors that the text matches. */
    named,
    total: matching.length,
    paused: matching.filter(({ overview }) => (overview?.paused ?? null) !== null).length,
    pages,
    shown: shown.map(withRuns),
    needing: needing.length,
    /** The first of those that need a person, whatever the filter. */
    needs: needs.map(withRuns),
    unreadable: unreadable.map(({ sink: { name }, problem }) => {
      return { sink: name, problem, connectors: connectors.filter(({ sink }) => sink.name === name).length };
    }),
  };
}

type Order = (left: ListedConnector, right: ListedConnector) => number;

/** The worst, the oldest, the newest and the largest come first, and the next to run. */
function ordersAt(nowMs: number): Readonly<Record<OverviewSort, Order>> {
  const by =
    (keyOf: (one: ListedConnector) => number | string): Order =>
    (left, right) =>
      compared(keyOf(left), keyOf(right)) || compared(left.connector.name, right.connector.name);
  return {
    health: by(({ health }) => 2 * healthWords.indexOf(health.word) - Number(health.needsPerson)),
    name: by(() => 0),
    age: by(ageKey),
    run: by(({ overview }) => -Date.parse(overview?.lastRun?.startedAt ?? instant(0))),
    rows: by(({ overview }) => -(overview?.rows ?? 0)),
    next: by(({ connector, overview }) => {
      const next = nextRunOf(connector, overview, nowMs);
      if (next.kind === 'now') return instant(nowMs);
      return next.kind === 'at' || next.kind === 'overdue' ? next.at : next.kind;
    }),
  };
}

/** Instants compare as texts; an entity that was never read is the oldest. */
function ageKey({ health: { stalest } }: ListedConnector): string {
  return stalest?.asOf ?? '';
}

/** Both numbers, or both texts. */
function compared(left: number | string, right: number | string): number {
  return left === right ? 0 : left < right ? -1 : 1;
}

/** Without connectors: the steps to the first sync. */
export async function emptyPage({ sinks }: Pick<LocalSettings, 'sinks'>, world: PageWorld): Promise<string> {
  const { program, visitor } = world;
  const add = mayAct(visitor)
    ? html`<p class="acts"><a class="btn primary" href="add">Add connector</a></p>`
    : '';
  const asked = await Promise.all(
    [...sinks.values()].map(async (sink) => ({ sink, ...(await askSink(sink)) })),
  );
  const main = html`<div class="narrow">
    <div>
      <h1>Add your first connector</h1>
      <p class="soft">
        A connector is one account at a service. connector-sync copies everything in it into your database and
        keeps the copy fresh.
      </p>
    </div>
    <ol class="panel checks">
      ${asked.map(({ sink, place, problem }) =>
        problem === null
          ? step(state('ok', 'Done'), `Sink ${sink.name} is ready`, html`<code>${place}</code>`)
          : step(state('bad', 'Failed'), `Sink ${sink.name} cannot be read`, textLines(problem.split('\n'))),
      )}
      ${step(
        state('run', 'Next'),
        'Add a connector',
        html`<p>Choose a type, say where its key is, check it, and start the first sync.</p>
          ${add}`,
      )}
      ${step(state('idle', 'Then'), 'Start a worker', html`<code>${program} worker</code> runs each connector on its schedule.`)}
    </ol>
    <h2>Or from a terminal</h2>
    <div class="panel">
      <div class="toolbar">
        <pre id="cmd" tabindex="0">
${program} definitions list
${program} connectors add NAME --definition TYPE
${program} sync</pre>
        <button class="low end" data-copy="#cmd" hidden>Copy</button>
      </div>
    </div>
    <p class="soft">
      To look around first, <code>${program} demo --ui</code> opens this page with sample data.
    </p>
  </div>`;
  return page({ title: 'Connectors', root: './', at: '', main }, world);
}

function step(done: SafeHtml, title: string, text: SafeHtml): SafeHtml {
  return html`<li>
    <div>${done}</div>
    <div>
      <h2>${title}</h2>
      <div class="soft">${text}</div>
    </div>
  </li>`;
}
