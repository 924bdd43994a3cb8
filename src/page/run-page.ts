import { html, type SafeHtml } from '@remix-run/html-template';
import * as z from 'zod';
import {
  isLookup,
  type listRuns,
  progressOf,
  readSoFar,
  callsOf,
  type RunDetails,
  runGroupNames,
  runGroups,
  slownessOf,
} from '../app/find-run.ts';
import { recordsRead, rowsDeleted, rowsWritten, runMs } from '../app/run-totals.ts';
import { hasWritten } from '../app/undo-run.ts';
import { instant } from '../core/clock.ts';
import type { RunSummary } from '../sinks/ledger-reader.ts';
import type { RunJournal } from '../sinks/run-journal.ts';
import type { EntityReport, RunReport } from '../sinks/run-report.ts';
import { count, counted, duration, printable, printableWithin } from '../telemetry/format.ts';
import {
  deleteLines,
  endText,
  failureText,
  resumes,
  runFacts,
  runReason,
  runTable,
} from '../wording/run-report-table.ts';
import { actLink, maySeeValues, page, type PageWorld } from './layout.ts';
import {
  callout,
  chips,
  type Column,
  crumbs,
  facts,
  head,
  hiddenFields,
  joined,
  moment,
  momentText,
  param,
  reasonCell,
  runLooks,
  runState,
  searchBox,
  searchOf,
  second,
  span,
  state,
  type StateLook,
  stats,
  table,
  textLines,
  unreadableSinks,
} from './page-parts.ts';

const root = '../';

/** One run: why it ended as it did, what it read, what it waited for, and its log. */
export function runPage(data: RunDetails, onlyWarnings: boolean, world: PageWorld): string {
  const { run, journal, before } = data;
  const { connector, report, startedAt } = run;
  const isRunning = run.state === 'running' && !data.isLost;
  const at = moment(startedAt, world.nowMs);
  const rows = report === null ? runningEntities(data) : endedEntities(report, data);
  const entities = html`<h2>What ${isRunning ? 'is' : 'was'} read</h2>
    ${table('What was read', entityColumns(data), rows, { name: ({ entity }) => depthLook(entity, data) })}`;
  const links = [
    [root, 'Connectors'],
    [`${root}connectors/${connector}`, connector],
  ] as const;
  const link = before === null ? '' : html` · <a href="${root}runs/${before.run}">run before</a>`;
  const soft = html`${factsOf(data, world)}${link}`;
  const main = html`${crumbs(links, html`run of ${at}`)}
  ${head(html`<span>Run of ${at}</span> ${runState(run.state)}`, soft, actsOf(data, world))}
  ${isRunning ? progressSection(data) : html`${reasonSection(data, world)} ${slowSection(data)}`}
  ${rows.length === 0 ? '' : entities} ${journal === null || isRunning ? '' : requestSection(journal)}
  ${journal === null ? '' : html`${waitSection(journal)} ${logSection(run, journal, onlyWarnings)}`}
  ${detailsOf(data, world)}`;
  const title = `${runLooks[run.state][1]} run of ${connector}, ${momentText(startedAt, world.nowMs)}`;
  return page({ title, root, at: 'runs', main, isLive: isRunning }, world);
}

/** By what it was made, and its sums. */
function factsOf({ run, journal, isLost }: RunDetails, { nowMs }: PageWorld): SafeHtml {
  const { report, kind, startedAt } = run;
  const ms = runMs(run);
  const by = journal && html`By <code>${journal.command}</code> on <code>${journal.host}</code>`;
  const since = span(nowMs - Date.parse(startedAt));
  const took = ms !== null ? `took ${duration(ms)}` : isLost ? `began ${since} ago` : `running ${since}`;
  const deleted = report === null ? 0 : rowsDeleted(report);
  const read =
    report &&
    `${count(recordsRead(report))} read, ${count(rowsWritten(report))} written${deleted === 0 ? '' : `, ${count(deleted)} deleted`}`;
  return joined([kind === 'sync' ? '' : kind, by ?? '', took, read ?? ''], ' · ');
}

function actsOf({ run, connector, isLost }: RunDetails, world: PageWorld): SafeHtml | '' {
  const of = { run: run.run };
  if (run.state === 'running' && !isLost) return actLink(world, root, ['cancel', 'Cancel run…'], of);
  const again = connector === null || run.kind !== 'sync' ? null : { connector: connector.name };
  return html`${run.report?.entities.some(hasWritten) === true ? actLink(world, root, ['undo', 'Undo…'], of) : ''}
  ${again === null ? '' : actLink(world, root, ['run-now', 'Run again'], again)}`;
}

/** Ids, codes and what failed, one by one. Parameters of listings are keys of records: not for every visitor. */
function detailsOf({ run, sink, actions }: RunDetails, world: PageWorld): SafeHtml {
  const { report, continues, finishedAt } = run;
  const maySee = maySeeValues(world);
  const omitted = report?.failuresOmitted ?? 0;
  const failures = (report?.failures ?? []).map((one) => failureText(maySee ? one : { ...one, params: {} }));
  const code = report?.error?.code ?? null;
  const shown = report === null || maySee ? report : { ...report, partMissing: [] };
  const by = actions.map(({ action, who }) => printable(`${action} (${who})`)).join(', ');
  const more = omitted === 0 ? [] : [`and ${count(omitted)} more failures`];
  const lines = shown && [...runFacts(shown), ...deleteLines(shown, world.program), ...failures, ...more];
  return html`<details>
    <summary>All details of this run</summary>
    ${facts([
      ['Run', html`<code>${run.run}</code>`],
      ['Kind', run.kind],
      ['Sink', sink],
      ['Started', second(run.startedAt)],
      ['Ended', finishedAt && second(finishedAt)],
      ['Code', code && html`<code>${code}</code>`],
      ['Resumed', continues && html`<a href="${root}runs/${continues}">${continues}</a>`],
      ['By hand', by === '' ? null : by],
      ['In a terminal', html`<code>${world.program} runs ${run.run}</code>`],
    ])}
    ${textLines(lines ?? [])}
  </details>`;
}

// --- Why it ended as it did

function reasonSection({ run, isLost, connector }: RunDetails, world: PageWorld): SafeHtml | '' {
  const lost = ['The process of the run has ended without a report', '', resumes] as const;
  const reason = isLost ? lost : runReason(run, (at) => momentText(at, world.nowMs));
  if (reason === null) return '';
  const [what, why, then] = reason;
  const isWithheld = run.report?.entities.some(({ withheld }) => withheld > 0) === true;
  const review = ['allow-deletes', 'Review deletes…'] as const;
  const [look, label] =
    run.state === 'failed' ? (['bad', 'Why it failed'] as const) : (['warn', 'What is left'] as const);
  const content = html`<h2>${printable(what)}.</h2>
    ${why === '' ? '' : html`<p>${printable(why)}</p>`}
    <p>${then}</p>`;
  const isOffered = isWithheld && connector !== null;
  const act = isOffered ? actLink(world, root, review, { connector: run.connector }, 'primary') : '';
  return callout(look, label, content, act);
}

/** `Slow: waited 1 min 28 s of 1 min 35 s, because the service allows 120 calls a minute`; empty: it waited little. */
function slowSection(data: RunDetails): SafeHtml | '' {
  const slow = slownessOf(data);
  if (slow === null) return '';
  const { connector } = data;
  const answers = `it answered ${counted(slow.throttled, 'call')} with 429`;
  const limit = connector === null ? '' : ` of ${counted(connector.requestsPerSecond, 'call')} a second`;
  const because =
    slow.by === 'limit'
      ? `the program keeps its own limit${limit}, which rateLimit of the config changes`
      : `the service ${slow.allows ? `allows ${slow.allows}` : 'asked for it'} (${answers})`;
  const text = `Slow: waited ${duration(slow.waitedMs)} of ${duration(slow.tookMs)}, because ${because}.`;
  return callout('', 'Why it was slow', html`<h2>${text}</h2>`);
}

// --- What was read

type Word = readonly [StateLook, string];

/** An entity of a run. Null: the number is not known. */
type ReadEntity = ReturnType<typeof endedEntities | typeof runningEntities>[number];

function entityColumns({ run: { connector } }: RunDetails): readonly Column<ReadEntity>[] {
  const number = (title: string, at: number, look = 'num o') =>
    [
      title,
      ({ numbers }: ReadEntity) => {
        const found = numbers[at] ?? null;
        return found === null ? '' : count(found);
      },
      look,
    ] as const;
  return [
    ['Entity', ({ entity }) => html`<a href="${root}data/${connector}/${entity}">${entity}</a>`],
    ['Completeness', ({ word }) => state(...word)],
    number('Read', 0, 'num'),
    number('New', 1),
    number('Changed', 2),
    number('Deleted', 3),
    number('Requests', 4),
    ['Note', ({ note }) => note, 'o cut soft'],
  ];
}

function depthLook(entity: string, { connector }: RunDetails): string {
  const entities = new Map<string, { readonly parents: readonly string[] }>(connector?.entities);
  const parent = entities.get(entity)?.parents[0];
  if (parent === undefined) return '';
  return entities.get(parent)?.parents[0] === undefined ? 'in1' : 'in2';
}

function requestsFor(entity: string, journal: RunJournal | null): number | null {
  return journal === null ? null : (journal.waits.find((one) => one.entity === entity)?.requests ?? 0);
}

function endedEntities(report: RunReport, data: RunDetails) {
  const notes = new Map(runTable(report, false).rows.map((row) => [row[0], row.at(-1) ?? '']));
  return report.entities.map((one) => {
    const { entity, counts, deleted, pages } = one;
    const requests = requestsFor(entity, data.journal) ?? pages;
    const numbers = [counts.fetched, counts.inserted, counts.updated, deleted, requests];
    return { entity, word: wordOf(one, report, requests), numbers, note: printable(notes.get(entity) ?? '') };
  });
}

function wordOf(one: EntityReport, { outcome }: RunReport, requests: number): Word {
  const isCut = outcome === 'failed' || outcome === 'interrupted' || outcome === 'partial';
  const isBegun = one.counts.fetched + one.setAside + one.deleted + requests > 0;
  if (isCut && !isBegun) return ['idle', 'Not started'];
  if (isCut && one.completeness === 'not-yet') return [outcome === 'failed' ? 'bad' : 'warn part', 'Stopped'];
  if (one.withheld > 0) return ['warn part', 'Deletes wait'];
  if (one.completeness === 'complete') return ['ok', 'Complete'];
  return one.completeness === 'unconfirmed' ? ['ok', 'Unconfirmed'] : ['warn part', 'Part missing'];
}

// --- While it runs

function runningEntities(data: RunDetails) {
  return readSoFar(data).map(
    ({ entity, isOpen, isBegun, hasFailures, rows, expected, inserted, updated }) => {
      const ended: Word = hasFailures ? ['warn part', 'Part missing'] : ['ok', 'Read'];
      const open: Word = data.isLost ? ['warn part', 'Stopped'] : ['run', 'Reading'];
      const word: Word = isOpen ? open : isBegun ? ended : ['idle', 'Not started'];
      const note = isOpen && !data.isLost ? bar(entity, rows, expected) : '';
      const numbers = [rows, inserted, updated, null, requestsFor(entity, data.journal)];
      return { entity, word, numbers, note };
    },
  );
}

function bar(what: string, done: number, of: number | null): SafeHtml | '' {
  if (of === null || of <= 0) return '';
  const label = `${what}: ${percent(done, of)}`;
  return html`<progress class="run" max="${of}" value="${done}" aria-label="${label}"></progress>`;
}

function percent(done: number, of: number): string {
  return `${Math.min(99, Math.floor((100 * done) / of))} %`;
}

/** How far it is, as far as the service says how much there is, and what it waits for. */
function progressSection(data: RunDetails): SafeHtml {
  const { wait, read, total, leftMs, written, readPerSecond, requests, requestsPerSecond, waitedMs } =
    progressOf(data);
  const content = html`<h2>
      ${total === null ? `${count(read)} records read` : `${percent(read, total)}, about ${span(leftMs)} left`}
    </h2>
    <p>Everything read so far is stored. Cancelling loses nothing; the next run resumes here.</p>
    ${wait === null ? '' : html`<p><b>Waits:</b> ${printable(wait)}</p>`}
    ${total === null ? '' : html`<p>${bar('Progress of the run', read, total)}</p>`}`;
  return html`${callout('run', 'Progress', content)}
  ${stats([
    ['Read', html`${count(read)} <small>${total === null ? '' : `of ~${count(total)}`}</small>`],
    ['Written', count(written)],
    ['Speed', html`${count(Math.round(readPerSecond))} <small>a second</small>`],
    ['Requests', html`${count(requests)} <small>${requestsPerSecond.toFixed(1)} a second</small>`],
    ['Waited for limits', duration(waitedMs)],
  ])}`;
}

// --- Requests, waits and log

function requestSection(journal: RunJournal): SafeHtml | '' {
  if (journal.requests.length === 0) return '';
  const sums = callsOf(journal);
  const which = sums.refusals.length === 0 ? '' : ` (${sums.refusals.slice(0, 3).join(', ')})`;
  const waited = sums.pausedMs === 0 ? '' : `waited ${duration(sums.pausedMs)}`;
  const checks = `${counted(sums.all - sums.checks, 'call')}, ${counted(sums.checks, 'check')}`;
  return html`<h2>Requests</h2>
    ${stats([
      ['All', html`${count(sums.all)} <small>${sums.checks === 0 ? '' : checks}</small>`],
      ['Answered 2xx', count(sums.answered)],
      ['Asked to wait (429)', html`${count(sums.throttled)} <small>${waited}</small>`],
      [
        'Not there (404)',
        sums.notThere === 0 ? null : html`${count(sums.notThere)} <small>confirmed deleted</small>`,
      ],
      [`Refused${which}`, count(sums.refused)],
      ['No answer or 5xx', sums.broken === 0 ? null : count(sums.broken)],
      [
        'Median time',
        html`${count(Math.round(sums.medianMs))} <small>ms, slowest ${duration(sums.slowestMs)}</small>`,
      ],
    ])}`;
}

const mostWaits = 30;
const waitNames = ['API', 'Limits', 'Sink'] as const;

/** Time by entity, the slowest first. */
function waitSection(journal: RunJournal): SafeHtml | '' {
  const { pausedMs, pacedMs } = callsOf(journal);
  const shown = journal.waits
    .map(({ entity, apiMs, limitMs, sinkMs }) => ({ entity, ms: [apiMs, limitMs, sinkMs] }))
    .filter(({ ms }) => Math.max(...ms) > 0)
    .toSorted((one, other) => Math.max(...other.ms) - Math.max(...one.ms))
    .slice(0, mostWaits);
  if (shown.length === 0) return '';
  const columns: readonly Column<(typeof shown)[number]>[] = [
    ['Entity', ({ entity }) => (entity === '' ? 'checks' : entity)],
    ...waitNames.map((name, at): Column<(typeof shown)[number]> => {
      return [name, ({ ms }) => (ms[at] === undefined || ms[at] < 1 ? '0' : duration(ms[at])), 'num'];
    }),
    ['Mostly', ({ ms }) => waitNames[ms.indexOf(Math.max(...ms))] ?? '', 'o cut soft'],
  ];
  return html`<h2>Where the time went</h2>
    <p class="soft">
      Requests and commits run beside each other: together they may have taken longer than the run.
      ${pausedMs === 0 ? '' : `Limits: ${duration(pausedMs)} as the service asked, ${duration(pacedMs)} by the program’s own limit.`}
    </p>
    ${table('Where the time went', columns, shown)}`;
}

type LogLine = RunJournal['lines'][number];

function logSection({ report }: RunSummary, journal: RunJournal, onlyWarnings: boolean) {
  const { requests, lines } = journal;
  const ended =
    report &&
    ({ at: Date.parse(report.finishedAt), level: 'info', text: `run ended: ${endText(report)}` } as const);
  const all = [
    ...requests.map((one) => requestLine(one, isLookup(one, journal))),
    ...lines,
    ...(ended === null ? [] : [ended]),
  ].toSorted((one, other) => one.at - other.at);
  const warnings = all.filter(({ level }) => level !== 'info');
  return html`<div class="toolbar">
      <h2>Log</h2>
      ${chips('Lines', [
        ['?#log', 'All', !onlyWarnings, all.length],
        ['?log=warnings#log', 'Warnings', onlyWarnings, warnings.length],
      ])}
      <button class="low end o" data-copy="#log" hidden>Copy</button>
    </div>
    <pre class="log" id="log" tabindex="0">${(onlyWarnings ? warnings : all).map(logLine)}</pre>`;
}

const levelLooks = { info: '', warn: 'warn word', error: 'bad word' } as const;

function logLine({ at, level, text }: LogLine): SafeHtml {
  return html`${second(at)} <b class="${levelLooks[level]}">${level.padEnd(5)}</b> ${printable(text)}${'\n'}`;
}

function requestLine(
  { at, method, address, status, ms, records }: RunJournal['requests'][number],
  isGone: boolean,
): LogLine {
  const isRefused = status === 401 || status === 403;
  const isFine = isGone || (status !== null && status < 400);
  const came = isGone
    ? '  not there, confirmed deleted'
    : records === null
      ? ''
      : `  ${counted(records, 'record')}`;
  const how = `${String(status ?? 'none').padStart(4)} ${count(Math.round(ms)).padStart(6)} ms${came}`;
  const text = `${`${method} ${address}`.padEnd(52)} ${how}`;
  return { at, level: isRefused ? 'error' : isFine ? 'info' : 'warn', text };
}

// --- All runs

/** The query in the address. `before`: id of the run before which the page begins; empty: the newest. */
export const runsQuery = z.object({ q: param.text, state: param.oneOf(runGroupNames), before: param.text });
type RunsQuery = z.output<typeof runsQuery>;

/** Runs of all connectors, newest first. */
export function runsPage(
  { query, runs, older, inDay, unreadable }: Awaited<ReturnType<typeof listRuns>>,
  world: PageWorld,
): string {
  const all = inDay.reduce((sum, [, number]) => sum + number, 0);
  const heading = `${count(inDay[0]?.[1] ?? 0)} running, ${counted(all, 'run')} in 24 h`;
  const ended = inDay.slice(1).filter(([, number]) => number > 0);
  const address = (change: Partial<RunsQuery>): string =>
    `runs${searchOf({ ...query, before: '', ...change })}`;
  const results = [[null, all] as const, ...inDay].map(
    ([of, number]) => [address({ state: of }), groupTitle(of), of === query.state, number] as const,
  );
  const sums = ended.map(([of, number]) => `${count(number)} ${of === 'ok' ? 'done' : of}`).toReversed();
  const main = html`${head(heading, sums.join(' · '))}
    <div class="toolbar">
      ${chips('By result', results)}
      <form class="end" role="search" aria-label="Filter">
        ${hiddenFields({ state: query.state ?? '' })}
        ${searchBox('q', 'Connector contains', { value: query.q, placeholder: 'Connector', size: '14' })}
      </form>
    </div>
    ${unreadableSinks(unreadable.map(({ sink, problem }) => `Sink ${sink.name} cannot be read: ${problem}`))}
    ${runs.length === 0 ? html`<p>There are no such runs.</p>` : table('Runs', runColumns(world), runs, { look: 'go', nameAt: 2 })}
    ${older === null ? '' : html`<p class="after"><a href="${address({ before: older })}">Show older</a></p>`}`;
  return page({ title: heading, root: './', at: 'runs', main }, world);
}

function groupTitle(of: RunsQuery['state']): string {
  return of === null ? 'All' : of === 'incomplete' ? 'Incomplete' : runLooks[runGroups[of][0]][1];
}

function runColumns({ nowMs }: PageWorld): readonly Column<RunSummary>[] {
  const took = (run: RunSummary): string => {
    const ms = runMs(run);
    return ms === null ? '' : duration(ms);
  };
  const why = (run: RunSummary): string => whyText(run, nowMs);
  const sum = (title: string, of: (report: RunReport) => number): Column<RunSummary> => {
    return [title, ({ report }) => (report === null ? '' : count(of(report))), 'num o'];
  };
  const isToday = (at: string): boolean => at.slice(0, 10) === instant(nowMs).slice(0, 10);
  return [
    ['Started', ({ startedAt: at }) => (isToday(at) ? second(at) : moment(at, nowMs))],
    ['Result', (run) => runState(run.state)],
    [
      'Connector',
      (run) =>
        html`<a href="runs/${run.run}">${run.connector}</a>
          <span class="phone">${[took(run), why(run)].filter((text) => text !== '').join(', ')}</span>`,
    ],
    ['Why', (run) => reasonCell(why(run), runReason(run, String) === null), 'cut o'],
    sum('Read', recordsRead),
    sum('Written', rowsWritten),
    sum('Deleted', rowsDeleted),
    ['Took', took, 'num o'],
  ];
}

/** Why a run did not do all of its work, or how much it did. */
function whyText(run: RunSummary, nowMs: number): string {
  const reason = runReason(run, (at) => momentText(at, nowMs));
  const complete = run.report?.entities.filter(({ completeness }) => completeness === 'complete').length;
  if (reason !== null) {
    const [what, why] = reason;
    return printableWithin(why === '' ? what : `${what}: ${why}`, 200);
  }
  return complete === undefined ? '' : `${counted(complete, 'entity', 'entities')} complete`;
}
