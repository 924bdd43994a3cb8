import { html, type SafeHtml } from '@remix-run/html-template';
import { type ConnectorHealth, countWords, healthOf } from '../app/connector-health.ts';
import { nextRunOf, overviewOf, readSignIns } from '../app/connector-states.ts';
import { askSink, type WatchedSinks } from '../app/watch-sinks.ts';
import { instant } from '../core/clock.ts';
import { healthWords } from '../core/health.ts';
import type { ConnectorSettings, LocalSettings } from '../settings/settings.ts';
import type { ConnectorOverview } from '../sinks/ledger-reader.ts';
import { count, counted, printable } from '../telemetry/format.ts';
import { type BarsShape, runBars, tookMs } from './bars.ts';
import {
  actLink,
  age,
  callout,
  head,
  healthState,
  healthTitle,
  mayAct,
  moment,
  page,
  type PageWorld,
  span,
  state,
  textLines,
} from './layout.ts';
import { type KnownConnector, shortReason, troubleAct, troubleReason } from './trouble-text.ts';

/**
 * The first page: whether all is well, the connectors that need a person with the act that helps, those that resolve on
 * their own, and a line for each.
 */
export function overviewPage(data: OverviewData, world: PageWorld): string {
  const { all, unreadable } = data;
  const number = all.filter(({ health }) => health.needsPerson).length;
  const title = `${number === 0 ? '' : `(${number}) `}Connectors`;
  const add = mayAct(world.visitor) ? html`<a class="btn" href="add">Add connector</a>` : '';
  const main = html`${head(answerOf(data, number), factsOf(data, world), add)}
  ${unreadable.map(({ sink, problem, connectors }) =>
    callout(
      'bad',
      `Sink ${sink} cannot be read`,
      html`<h2>Sink <code>${sink}</code> cannot be read</h2>
        <p>
          ${counted(connectors, 'connector')} of it ${connectors === 1 ? 'is' : 'are'} not shown.
          ${printable(problem)}
        </p>`,
    ),
  )}
  ${needsSection(data, world)} ${all.length === 0 ? '' : listSection(data, world)}`;
  return page({ title, root: './', at: '', main }, world);
}

/** `5 of 40 connectors need you`. */
function answerOf({ all }: OverviewData, number: number): string {
  const total = count(all.length);
  if (all.length === 0) return 'No connector can be read';
  if (all.length === 1) return `The connector ${number === 0 ? 'is fine' : 'needs you'}`;
  if (number > 0) return `${count(number)} of ${total} connectors ${number === 1 ? 'needs' : 'need'} you`;
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
  const next = all
    .flatMap((one) => {
      const run = nextRunOf(one.connector, one.overview, nowMs);
      return run.kind === 'at' ? [run.at] : [];
    })
    .sort()[0];
  return html`${
    oldest === undefined ? '' : html`Oldest data ${age(asOf, nowMs)} (${oldest.connector.name}${limit}) · `
  }${counted(
    all.reduce((sum, { overview }) => sum + (overview?.rows ?? 0), 0),
    'row',
  )}${next === undefined ? '' : html` · next run ${moment(next, nowMs)}`}`;
}

const mostNeeds = 8;

function needsSection({ needs, all, query }: OverviewData, world: PageWorld): SafeHtml | '' {
  const healing = all.filter(
    ({ health }) => !health.needsPerson && !health.words.has('paused') && health.troubles.length > 0,
  );
  const number = all.filter(({ health }) => health.needsPerson).length;
  const own = healing.length === 0 ? '' : healingLine(healing, number > 0, world);
  if (number === 0) return own;
  const more = number - needs.length;
  return html`<section aria-labelledby="needs">
    <h2 id="needs">Needs you</h2>
    <ul class="panel needs">
      ${needs.map((one) => needsLine(one, world))}
    </ul>
    ${more > 0 ? html`<p class="after"><a href="${linkTo(query, { q: '', state: 'needs-you', page: 1 })}">and ${count(more)} more</a></p>` : ''}
    ${own}
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
  const next = healing.map(({ connector, overview }) => nextRunOf(connector, overview, nowMs));
  const last = next
    .flatMap((one) => (one.kind === 'at' ? [one.at] : []))
    .sort()
    .at(-1);
  const links = healing
    .slice(0, mostNamed)
    .map(
      ({ connector: { name } }, at) => html`${at === 0 ? '' : ', '}<a href="connectors/${name}">${name}</a>`,
    );
  const [resolve, own] = healing.length === 1 ? ['resolves', 'its'] : ['resolve', 'their'];
  const rest = healing.length - mostNamed;
  return html`<p class="soft after">
    ${count(healing.length)}${isMore ? ' more' : ''} ${resolve} on ${own}
    own${last === undefined ? '' : html` by ${moment(last, nowMs)}`}:
    ${links}${rest > 0 ? ` and ${count(rest)} more` : ''}.
  </p>`;
}

function listSection(data: OverviewData, world: PageWorld): SafeHtml {
  const { query, total, pages } = data;
  const hidden = Object.entries({
    state: query.state ?? '',
    sort: query.sort === 'health' ? '' : query.sort,
  });
  return html`<section aria-labelledby="all">
    <div class="toolbar">
      <h2 id="all" class="unseen">All connectors</h2>
      ${chips(data)}
      <form class="end" action="./" role="search" aria-label="Filter">
        <label class="unseen" for="q">Name or type contains</label>
        <input
          id="q"
          name="q"
          type="search"
          value="${query.q}"
          placeholder="Name or type"
          size="14"
          autocomplete="off"
        />
        ${hidden.map(([name, value]) => (value === '' ? '' : html`<input type="hidden" name="${name}" value="${value}" />`))}
      </form>
      ${total === 0 ? '' : actsMenu(data, world)}
    </div>
    ${total === 0 ? html`<p>No connector matches. <a href="./">Show all</a></p>` : connectorsTable(data, world)}
    ${pages === 1 ? '' : pageLinks(data)}
    ${
      total === 0
        ? ''
        : html`<p class="key after o">
            <span>Line below the age: how much of the limit is used</span
            ><span
              >Bar: one run, newest right; height is how long it took;
              <b class="warn word">amber</b> incomplete, <b class="bad word">red</b> failed</span
            >
          </p>`
    }
  </section>`;
}

function chips({ query, counts, named }: OverviewData): SafeHtml {
  const chip = (value: OverviewQuery['state'], text: string, number: number): SafeHtml | '' =>
    number === 0 && value !== null && query.state !== value
      ? ''
      : html`<a
          class="chip"
          href="${linkTo(query, { state: value, page: 1 })}"
          ${query.state === value ? html`aria-current="true"` : ''}
          >${text} <span class="soft">${count(number)}</span></a
        > `;
  const needing = named.filter(({ health }) => health.needsPerson).length;
  return html`<nav class="chips" aria-label="By health">
    ${chip(null, 'All', named.length)}${chip('needs-you', 'Needs you', needing)}
    ${healthWords.map((word) => chip(word, healthTitle(word), counts[word]))}
  </nav>`;
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

/** Templates of this name stay without indents, which would be a tenth of the page. */
const row = html;

const columns: readonly (readonly [title: string, sort: OverviewSort | null, look: string])[] = [
  ['Health', 'health', ''],
  ['Connector', 'name', ''],
  ['Why', null, 'o'],
  ['Data age', 'age', 'num'],
  ['Rows', 'rows', 'num o o2'],
  ['Last run', 'run', 'o'],
  ['Next run', 'next', 'o'],
  ['Last 20 runs', null, 'o o2'],
];

function connectorsTable({ shown, query }: OverviewData, world: PageWorld): SafeHtml {
  return row`<div class="wide go" tabindex="0" role="region" aria-label="Connectors"><table>
<thead><tr>${columns.map(([title, sort, look]) => {
    if (sort === null) return row`<th scope="col" class="${look}">${title}</th>`;
    const order = sort === 'name' || sort === 'next' ? 'ascending' : 'descending';
    const sorted = query.sort === sort ? row`aria-sort="${order}"` : '';
    return row`<th scope="col" class="${look}" ${sorted}><a href="${linkTo(query, { sort, page: 1 })}">${title}</a></th>`;
  })}</tr></thead>
<tbody>${shown.map((one) => connectorRow(one, shown.length <= mostLinked ? './' : null, world))}</tbody>
</table></div>`;
}

const bars: BarsShape = { places: 20, height: 20, width: 4, gap: 2 };

/** With more connectors, links of bars would be most of the page: the time of the last run leads to it instead. */
const mostLinked = 10;

function connectorRow(one: KnownConnector, barsRoot: string | null, world: PageWorld): SafeHtml {
  const { connector, overview, health, runs } = one;
  const { name, definition } = connector;
  const why = shortReason(one, world);
  return row`<tr>
<td>${healthState(health.word)}</td>
<th scope="row"><a href="connectors/${name}">${name}</a> <span class="soft o o2">${definition.name}</span></th>
<td class="cut o ${health.word === 'ok' ? 'soft' : ''}" title="${why}">${why}</td>
${ageCell(one, world)}
<td class="num o o2">${overview?.rows ? count(overview.rows) : row`<span class="soft">0</span>`}</td>
<td class="o">${lastRunText(overview, './', world.nowMs) ?? row`<span class="soft">never</span>`}</td>
<td class="o">${nextRunText(connector, overview, world.nowMs)}</td>
<td class="o o2">${runs.length === 0 ? '' : runBars(runs, bars, world.nowMs, barsRoot)}</td>
</tr>`;
}

/** Age of the stalest entity, above the share of its limit that is used. */
function ageCell({ health: { stalest, words } }: KnownConnector, { nowMs }: PageWorld): SafeHtml {
  const { asOf = null, freshWithinMs = null } = stalest ?? {};
  const isLate = words.has('late');
  const [most, used] = [freshWithinMs ?? 0, asOf === null ? 0 : nowMs - Date.parse(asOf)].map((ms) =>
    Math.max(0, Math.round(ms / 60_000)),
  ) as [number, number];
  const line =
    freshWithinMs === null || asOf === null
      ? ''
      : row`<progress class="o ${isLate ? 'bad' : ''}" max="${Math.max(1, most)}" value="${Math.min(most, used)}" aria-label="limit ${span(freshWithinMs)}"></progress>`;
  return row`<td class="num ${isLate ? 'minus' : ''}">${age(asOf, nowMs)}${line}</td>`;
}

/** Time of the last run, which leads to it, and its duration; null: there was none. */
function lastRunText(overview: ConnectorOverview | null, root: string, nowMs: number) {
  const lastRun = overview?.lastRun ?? null;
  if (lastRun === null) return null;
  const ms = tookMs(lastRun);
  const took = ms === null ? '' : html` <span class="soft">${span(ms)}</span>`;
  return html`<a href="${root}runs/${lastRun.run}">${moment(lastRun.startedAt, nowMs)}</a>${took}`;
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
  const link = (to: number, text: string, rel: string): SafeHtml | '' =>
    to < 1 || to > pages
      ? ''
      : html`<a class="btn" href="${linkTo(query, { page: to })}" rel="${rel}">${text}</a>`;
  return html`<nav class="acts after" aria-label="Pages of connectors">
    ${link(at - 1, 'Previous', 'prev')} <span>Page ${at} of ${pages}</span> ${link(at + 1, 'Next', 'next')}
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

/** A health word, or the connectors that need a person. */
export const overviewStates = [...healthWords, 'needs-you'] as const;
type OverviewState = (typeof overviewStates)[number];
export const overviewSorts = ['health', 'name', 'age', 'rows', 'run', 'next'] as const;
type OverviewSort = (typeof overviewSorts)[number];

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
    all,
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
  const found = await matchingConnectors(connectors, watched, query, nowMs);
  const { all, named, unreadable } = found;
  const matching = found.matching.sort(ordersAt(nowMs)[query.sort]);
  const pages = Math.max(1, Math.ceil(matching.length / perPage));
  const at = Math.min(query.page, pages);
  const shown = matching.slice((at - 1) * perPage, at * perPage);
  const needs = all
    .filter(({ health }) => health.needsPerson)
    .sort(ordersAt(nowMs).health)
    .slice(0, mostNeeds);
  const asked = new Set([...shown, ...needs].map(({ connector }) => connector));
  const runs = await watched.recentRuns([...asked], bars.places);
  const withRuns = (one: ListedConnector): KnownConnector => ({
    ...one,
    runs: runs.get(one.connector.name) ?? [],
  });
  return {
    query: { ...query, page: at },
    all,
    /** Connectors that the text matches, and their numbers by health word. */
    named,
    counts: countWords(named.map(({ health }) => health)),
    total: matching.length,
    paused: matching.filter(({ overview }) => (overview?.paused ?? null) !== null).length,
    pages,
    shown: shown.map(withRuns),
    /** The first of those that need a person, whatever the filter. */
    needs: needs.map(withRuns),
    unreadable: unreadable.map(({ sink, problem }) => ({
      sink: sink.name,
      problem,
      connectors: connectors.filter((one) => one.sink.name === sink.name).length,
    })),
  };
}

function matchesState(health: ConnectorHealth, of: OverviewState | null): boolean {
  if (of === null) return true;
  if (of === 'needs-you') return health.needsPerson;
  return health.word === of;
}

type Order = (left: ListedConnector, right: ListedConnector) => number;

/** The worst, the oldest, the newest and the largest come first, and the next to run. */
function ordersAt(nowMs: number): Readonly<Record<OverviewSort, Order>> {
  const by =
    (keyOf: (one: ListedConnector) => number | string): Order =>
    (left, right) =>
      compared(keyOf(left), keyOf(right)) || compared(left.connector.name, right.connector.name);
  return {
    health: by((one) => -severity(one)),
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

function severity({ health }: ListedConnector): number {
  return 2 * (healthWords.length - healthWords.indexOf(health.word)) + Number(health.needsPerson);
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
