import { html, type SafeHtml } from '@remix-run/html-template';
import * as z from 'zod';
import { nextRunOf } from '../app/connector-states.ts';
import {
  type KnownConnector,
  type listConnectors,
  listedOrders,
  listedStates,
  type ListedOrder,
  recentRuns,
} from '../app/listed-connectors.ts';
import { runMs } from '../app/run-totals.ts';
import { askSink } from '../app/watch-sinks.ts';
import type { Instant } from '../core/clock.ts';
import type { ConnectorSettings, LocalSettings } from '../settings/settings.ts';
import type { RunFacts } from '../sinks/ledger-reader.ts';
import type { ConnectorOverview } from '../sinks/sink-access.ts';
import { count, counted, duration, printable } from '../telemetry/format.ts';
import { type BarsShape, runBars } from './bars.ts';
import { actLink, mayAct, page, type PageWorld } from './layout.ts';
import {
  age,
  callout,
  chips,
  type Column,
  head,
  healthLooks,
  healthState,
  hiddenFields,
  joined,
  moment,
  needs as needsList,
  param,
  reasonCell,
  searchBox,
  searchOf,
  state,
  table,
  textLines,
} from './page-parts.ts';
import type { JudgedTarget } from './target-page.ts';
import { needState, shortReason, timesText, troubleAct, troubleReason } from './trouble-text.ts';

/**
 * The first page: whether all is well, the connectors and targets that need a person with the act that helps, those
 * that resolve on their own, and a line for each connector.
 */
export function overviewPage(data: OverviewData, targets: readonly JudgedTarget[], world: PageWorld): string {
  const { all, unreadable, needing } = data;
  const behind = targets.filter(({ isBehind }) => isBehind);
  const number = needing + behind.length;
  const title = `${number === 0 ? '' : `(${number}) `}Connectors`;
  const add = mayAct(world.visitor) ? html`<a class="btn" href="add">Add connector</a>` : '';
  const away = unreadable.map(({ sink, problem, connectors }) => {
    const what = html`<h2>Sink <code>${sink}</code> cannot be read</h2>`;
    const are = connectors === 1 ? 'is' : 'are';
    const why = html`<p>
      ${counted(connectors, 'connector')} of it ${are} not shown. ${printable(problem)}
    </p>`;
    return callout('bad', `Sink ${sink} cannot be read`, html`${what}${why}`);
  });
  const main = html`${head(answerOf(data, behind.length, targets.length), factsOf(data, world), add)} ${away}
  ${needsSection(data, behind, world)} ${all.length === 0 ? '' : listSection(data, world)}`;
  return page({ title, root: './', at: '', main }, world);
}

/** `5 of 40 connectors and 1 of 2 targets need you`. */
function answerOf({ all, needing, isAllFine }: OverviewData, behind: number, targets: number): string {
  const total = count(all.length);
  if (all.length === 0 && behind === 0) return 'No connector can be read';
  if (needing + behind > 0) {
    const some = (number: number, of: number, what: string): string[] =>
      number === 0 ? [] : [of === 1 ? `the ${what}` : `${count(number)} of ${counted(of, what)}`];
    const parts = [...some(needing, all.length, 'connector'), ...some(behind, targets, 'target')].join(
      ' and ',
    );
    return `${parts.charAt(0).toUpperCase()}${parts.slice(1)} ${needing + behind === 1 ? 'needs' : 'need'} you`;
  }
  if (all.length === 1) return 'The connector is fine';
  return isAllFine ? `All ${total} connectors are fine` : `None of ${total} connectors needs you`;
}

/** The oldest data against its limit, the rows, and the next run. */
function factsOf({ oldest, rows, nextRun }: OverviewData, { nowMs }: PageWorld): SafeHtml {
  const { asOf = null, freshWithinMs = null } = oldest?.health.stalest ?? {};
  const limited = freshWithinMs === null ? null : html`${age(asOf, nowMs)} of ${duration(freshWithinMs)}`;
  const name = oldest?.connector.name ?? '';
  const place = oldest?.health.words.has('late') === true ? 'Furthest beyond' : 'Closest to';
  const facts = [
    limited === null
      ? html`Oldest data ${age(asOf, nowMs)} (${name})`
      : html`${place} its limit: ${name}, ${limited}`,
    counted(rows, 'row'),
    nextRun === null ? '' : html`next run ${moment(nextRun, nowMs)}`,
  ];
  return joined(oldest === null ? facts.slice(1) : facts, ' · ');
}

function needsSection(
  { all, needs: needing, needing: number, healing, query }: OverviewData,
  behind: readonly JudgedTarget[],
  world: PageWorld,
): SafeHtml | '' {
  const isNone = number + behind.length === 0;
  const own = healing.connectors.length === 0 ? '' : healingLine(healing, !isNone, world);
  if (isNone) return own;
  const more = number - needing.length;
  const hasRefused = all.some(({ health }) => health.troubles.some(({ kind }) => kind === 'quarantine'));
  const link = linkTo(query, { q: '', state: 'needs-you', page: 1 });
  return html`<section aria-labelledby="needs">
    <h2 id="needs">Needs you</h2>
    ${needsList([...needing.map((one) => needsLine(one, world)), ...behind.map(targetLine)])}
    ${more > 0 ? html`<p class="after"><a href="${link}">and ${count(more)} more</a></p>` : ''}
    ${hasRefused ? html`<p class="after"><a href="data?rows=refused">All refused records</a></p>` : ''} ${own}
  </section>`;
}

/** The gravest trouble of a connector that a person has to solve, and the act that does. */
function needsLine(one: KnownConnector, world: PageWorld): readonly (SafeHtml | string)[] {
  const { connector, health } = one;
  const [first, ...others] = health.troubles.filter(({ isForPerson }) => isForPerson);
  if (first === undefined) return [];
  const address = `connectors/${connector.name}`;
  const more = others.length === 0 ? '' : html` <a href="${address}">and ${others.length} more</a>`;
  return [
    needState(first, health.word),
    html`<a class="name" href="${address}">${connector.name}</a>`,
    html`${troubleReason(first, one, world)}${more}`,
    troubleAct(first, one, world, './'),
  ];
}

/** A target whose readers do not get what they were promised. Its page has the whole reason. */
function targetLine({ target: { name }, look, word, why }: JudgedTarget): readonly (SafeHtml | string)[] {
  const address = `targets/${name}`;
  const link = html`<a class="name" href="${address}">${name}</a>`;
  return [
    state(look, word),
    link,
    `Target: ${why}`,
    html`<a class="btn low" href="${address}">See details</a>`,
  ];
}

const mostNamed = 5;

/** `3 more are tried again by 15:41: shop-de, ads-search, crm-leads.` */
function healingLine({ connectors, until }: OverviewData['healing'], isMore: boolean, { nowMs }: PageWorld) {
  const links = connectors.slice(0, mostNamed).map(({ connector: { name }, runs }) => {
    return html`<a href="connectors/${name}">${name}</a>${timesText(runs, ' (', ')')}`;
  });
  const rest = connectors.length - mostNamed;
  const by = until === null ? '' : html` by ${moment(until, nowMs)}`;
  return html`<p class="soft after">
    ${count(connectors.length)}${isMore ? ' more' : ''} ${connectors.length === 1 ? 'is' : 'are'} tried
    again${by}: ${joined(links)}${rest > 0 ? ` and ${count(rest)} more` : ''}.
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

function healthChips({ query, counts }: OverviewData): SafeHtml {
  const shown = [...counts].filter(
    ([state, number]) => number > 0 || state === null || state === query.state,
  );
  return chips(
    'By health',
    shown.map(([state, number]) => {
      const text = state === null ? 'All' : state === 'needs-you' ? 'Needs you' : healthLooks[state][1];
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

const bars: BarsShape = { places: recentRuns, height: 20, width: 4, gap: 2 };

/** With more connectors, links of bars would be most of the page: the time of the last run leads to it instead. */
const mostLinked = 20;

function connectorsTable({ shown, query }: OverviewData, world: PageWorld): SafeHtml {
  const { nowMs } = world;
  const sorted = (title: string, sort: ListedOrder, cell: Column<KnownConnector>[1], look = '') => {
    const order = sort === 'name' || sort === 'next' ? 'ascending' : 'descending';
    const link = html`<a href="${linkTo(query, { sort, page: 1 })}">${title}</a>`;
    return [link, cell, look, query.sort === sort ? order : undefined] as const;
  };
  const why = (one: KnownConnector): string => shortReason(one, world);
  const columns: readonly Column<KnownConnector>[] = [
    sorted('Health', 'health', ({ health }) => healthState(health.word)),
    sorted(
      'Connector',
      'name',
      (one) =>
        html`<a href="connectors/${one.connector.name}">${one.connector.name}</a>
          <span class="soft o o2">${one.connector.definition.name}</span>
          ${one.health.word === 'ok' ? '' : html`<span class="phone one">${why(one)}</span>`}`,
    ),
    ['Why', (one) => reasonCell(why(one), one.health.word === 'ok'), 'cut o'],
    sorted('Data age', 'age', (one) => ageCell(one, nowMs), 'num'),
    sorted('Rows', 'rows', ({ overview }) => count(overview?.rows ?? 0), 'num o o2'),
    sorted('Last run', 'run', ({ overview }) => lastRunText(overview?.lastRun ?? null, nowMs), 'o'),
    sorted('Next run', 'next', ({ connector, overview }) => nextRunText(connector, overview, nowMs), 'o'),
    [
      `Last ${recentRuns} runs`,
      ({ runs }) => {
        const barsRoot = shown.length <= mostLinked ? './' : null;
        return runs.length === 0 ? '' : runBars(runs, bars, nowMs, barsRoot);
      },
      'o o2',
    ],
  ];
  return table('Connectors', columns, shown, { look: 'go', nameAt: 1 });
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
  const label = `limit ${duration(limitMs)}`;
  return html`<progress class="${look}" max="${most}" value="${used}" aria-label="${label}"></progress>`;
}

/** Time of the last run, which leads to it, and its duration. */
function lastRunText(lastRun: RunFacts | null, nowMs: number): SafeHtml {
  if (lastRun === null) return html`<span class="soft">never</span>`;
  const ms = runMs(lastRun);
  const took = ms === null ? '' : html` <span class="soft">${duration(ms)}</span>`;
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

/**
 * The query in the address, as `?q=news&state=failed&sort=age&page=2`. `q`: part of a connector's name, or of its
 * definition's or sink's.
 */
export const overviewQuery = z.object({
  q: param.text,
  state: param.oneOf(listedStates),
  sort: param.oneOf(listedOrders).transform((sort) => sort ?? 'health'),
  page: param.number(1, 1_000_000),
});
type OverviewQuery = z.output<typeof overviewQuery>;
type OverviewData = Awaited<ReturnType<typeof listConnectors>>;

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
