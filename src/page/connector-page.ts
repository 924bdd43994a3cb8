import { html, type SafeHtml } from '@remix-run/html-template';
import type { Trouble } from '../app/connector-health.ts';
import {
  type DayChanges,
  failedRuns,
  noChanges,
  type PlacedEntity,
  type ReadConnector,
} from '../app/connector-history.ts';
import { keylessText, nextRunOf } from '../app/connector-states.ts';
import { failureLimit, type StoredConnector } from '../app/read-statuses.ts';
import { runMs } from '../app/run-totals.ts';
import { instant } from '../core/clock.ts';
import { grouped } from '../core/grouped.ts';
import type { EntityName } from '../core/names.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import { damageAdvice, damageText } from '../sinks/sink-access.ts';
import { count, counted, duration, printable, printableWithin } from '../telemetry/format.ts';
import { signInText } from '../wording/connector-text.ts';
import { doubtText, missingLines, partText, storedPartMissing } from '../wording/run-report-table.ts';
import { changeBars, changeKey, runBars } from './bars.ts';
import { actLink, page, type PageWorld } from './layout.ts';
import {
  age,
  callout,
  type Column,
  crumbs,
  dayText,
  disclosed,
  head,
  healthState,
  joined,
  list,
  moment,
  momentText,
  searchOf,
  second,
  span,
  state,
  type StateLook,
  stats,
  table,
  textLines,
} from './page-parts.ts';
import { limitBar, nextRunText } from './overview-page.ts';
import { timeline } from './timeline.ts';
import { helpingAct, rowsOf, troubleReason } from './trouble-text.ts';

const root = '../';
const mostRuns = 48;
const runsShape = { height: 40, width: 8, gap: 4 };

/** One connector: what is wrong and what helps, the state of each entity, and what happened. */
export function connectorPage(
  data: ReadConnector,
  asked: Pick<Parameters<typeof timeline>[0], 'show' | 'shown'>,
  world: PageWorld,
): string {
  const { connector, health, past, tooShort } = data;
  const { name } = connector;
  const { nowMs } = world;
  const running = health.isRunning && health.word !== 'running' ? healthState('running') : '';
  const main = html`${crumbs([[root, 'Connectors']], name)}
  ${head(html`${name} ${healthState(health.word)} ${running}`, headLine(data), actLinks(data, world))}
  ${troubleCallouts(data, world)}
  ${tooShort && html`<p class="soft"><code>${tooShort.entity}</code> is to be at most ${duration(tooShort.limitMs)} old, but up to ${duration(tooShort.betweenMs)} pass between its runs: it is late before each of them. Run it more often, or allow more.</p>`}
  ${data.running === null ? '' : progressSection(data.running, data)} ${stats(connectorStats(data, nowMs))}
  ${past.runs.length === 0 ? '' : html`<div class="pair">${runsPanel(data, nowMs)} ${changesPanel(data)}</div>`}
  ${entitiesSection(data, world)} ${storedNotes(data, world)} ${driftSection(data, world)}
  ${timeline({ name, past, ...asked }, nowMs)}`;
  const title = `${health.needsPerson ? '(1) ' : ''}${name}`;
  return page({ title, root, at: '', main }, world);
}

/** `Mailchimp, account “Northwind” · into store main · every 30 min, fresh within 1 h · published to lake`. */
function headLine({ connector, stored, targets }: ReadConnector): SafeHtml {
  const { definition, address, sink, schedule, entities } = connector;
  const account =
    stored?.signIn?.account ??
    (address.kind === 'id' ? address.id : address.kind === 'workspace' ? address.workspace : null);
  const limits = [...entities.values()].flatMap(({ freshWithinMs }) => freshWithinMs ?? []);
  const fresh = limits.length === 0 ? '' : `, fresh within ${duration(Math.min(...limits))}`;
  const keyless = keylessText(connector);
  const when =
    schedule === null
      ? 'no schedule'
      : schedule.kind === 'every'
        ? `every ${duration(schedule.everyMs)}`
        : html`at <code>${schedule.pattern}</code> ${schedule.timezone}`;
  const published = joined(targets.map(({ name }) => html`<a href="${root}targets/${name}">${name}</a>`));
  const facts = [
    `${definition.title}${account === null ? '' : `, account “${printable(account)}”`}`,
    html`into store <code>${sink.name}</code>`,
    html`${when}${fresh}`,
    targets.length === 0 ? '' : html`published to ${published}`,
    keyless,
  ];
  return joined(facts, ' · ');
}

/** The acts that are possible now. */
function actLinks({ connector, overview, running, targets }: ReadConnector, world: PageWorld) {
  const of = { connector: connector.name };
  const isPaused = (overview?.paused ?? null) !== null;
  const [entity] = connector.entities.keys();
  return html`${isPaused || running !== null ? '' : actLink(world, root, ['run-now', 'Run now'], of)}
    ${running === null ? '' : actLink(world, root, ['cancel', 'Cancel run…'], { run: running.run.run })}
    ${isPaused ? actLink(world, root, ['resume', 'Resume…'], of) : actLink(world, root, ['pause', 'Pause…'], of)}
    <details class="menu">
      <summary>More</summary>
      <div>
        <a href="${dataAddress(connector, entity)}">Browse the data</a>
        ${isPaused ? '' : actLink(world, root, ['read-all', 'Read everything again…'], of)}
        ${actLink(world, root, ['check', 'Check credentials'], of)}
        ${targets.map((target) => actLink(world, root, ['publish-now', `Publish into ${target.name}…`], { target: target.name }))}
        ${actLink(world, root, ['schedule', 'Change the schedule…'], of)}
        ${actLink(world, root, ['remove', 'Remove…'], of)}
      </div>
    </details>`;
}

function dataAddress({ name }: ConnectorSettings, entity: EntityName | undefined): string {
  return `${root}data/${name}/${entity ?? ''}`;
}

/** The trouble that makes the health word comes first; trouble that resolves on its own is a line below. */
function troubleCallouts(data: ReadConnector, world: PageWorld): SafeHtml {
  const { connector, health, overview, past, stored } = data;
  const of = { connector, overview, health, runs: past.runs };
  const { reason, troubles } = health;
  // A pause is a reason, and no trouble.
  const all = [...new Set([...(reason === null ? [] : [reason]), ...troubles])];
  const isCallout = (one: Trouble): boolean => one === reason || one.isForPerson;
  const boxes = all.filter(isCallout).map((one, index) => {
    const address = rowsOf(one, connector.name);
    const text = one.kind === 'withheld' ? 'See the rows' : 'See the records';
    const rows = address === null ? '' : html`<a class="btn" href="${root}${address}">${text}</a>`;
    const lines = one.kind === 'withheld' && stored !== null ? missingLines(stored, world.program) : [];
    const why = textLines(lines.filter((line) => line.startsWith('!')));
    return callout(
      one.word === 'failed' ? 'bad' : one.word === 'paused' ? '' : 'warn',
      `${one.isForPerson ? 'What needs you' : 'Why'}${index === 0 ? '' : `, ${index + 1}`}`,
      html`<h2>${troubleReason(one, of, world)}</h2>
        ${why}`,
      html`${helpingAct(one, of, world, root, one.kind === 'withheld' ? 'primary' : '')} ${rows}`,
    );
  });
  const others = all.filter((one) => !isCallout(one));
  return html`${boxes} ${others.map((one) => html`<p class="soft">${troubleReason(one, of, world)}</p>`)}`;
}

function connectorStats(
  { connector, overview, health, changes, past, entities }: ReadConnector,
  nowMs: number,
) {
  const { asOf = null, freshWithinMs: limitMs = null } = health.stalest ?? {};
  const isLate = asOf === null || nowMs - Date.parse(asOf) > (limitMs ?? Infinity);
  const limit = limitMs === null ? '' : html`<small>of ${duration(limitMs)}</small>`;
  const bar = limitBar(asOf, limitMs, nowMs, isLate ? 'warn' : '');
  const today = changes.all.at(-1) ?? noChanges;
  const deletedOf = entities.find(({ entity }) => (changes.of(entity).at(-1)?.deleted ?? 0) > 0)?.entity;
  const deletes = counted(today.deleted, 'delete');
  const { oldestKept } = past.byDay;
  const isToday = oldestKept?.startsWith(instant(nowMs).slice(0, 10)) === true;
  const since = isToday ? html` since ${moment(oldestKept, nowMs)}` : '';
  const lastRun = overview?.lastRun ?? null;
  const ms = lastRun && runMs(lastRun);
  const took = ms === null ? 'in progress' : `took ${duration(ms)}`;
  const next = nextRunOf(connector, overview, nowMs);
  const inMs = next.kind === 'at' ? Date.parse(next.at) - nowMs : null;
  const until = inMs === null ? '' : html` <small>in ${span(inMs)}</small>`;
  return [
    ['Data age', html`${age(asOf, nowMs, overview === null ? '–' : 'not known')} ${limit}${bar}`],
    ['Rows', count(overview?.rows ?? 0)],
    [
      'Today',
      html`${count(today.added + today.changed)}
        <small
          >changes,
          ${deletedOf === undefined ? deletes : html`<a href="${dataAddress(connector, deletedOf)}?rows=deleted">${deletes}</a>`}${since}</small
        >`,
    ],
    [
      'Last run',
      lastRun === null
        ? '–'
        : html`<a href="${root}runs/${lastRun.run}">${moment(lastRun.startedAt, nowMs)}</a>
            <small>${took}</small>`,
    ],
    ['Next run', html`${nextRunText(connector, overview, nowMs)}${until}`],
  ] as const;
}

/** A row of bars with its heading, and below its ends what they stand for. */
function barsPanel(
  title: string,
  bars: SafeHtml,
  ends: readonly [SafeHtml | string, string],
  key: SafeHtml | string,
) {
  const [first, last] = ends;
  return html`<section class="panel">
    <div>
      <h2>${title}</h2>
      <div class="bared">
        ${bars}
        <p class="key"><span>${first}</span>${last === '' ? '' : html`<span class="end">${last}</span>`}</p>
      </div>
      ${key}
    </div>
  </section>`;
}

function runsPanel({ past: { runs } }: ReadConnector, nowMs: number): SafeHtml {
  const shown = runs.slice(0, mostRuns);
  const [newest, oldest] = [shown[0], shown.at(-1)].map((run) => momentText(run?.startedAt ?? nowMs, nowMs));
  const bars = runBars(shown, { ...runsShape, places: shown.length }, nowMs, root);
  const ends = [oldest ?? '', shown.length === 1 ? '' : (newest ?? '')] as const;
  return barsPanel(shown.length === 1 ? 'Last run' : `Last ${shown.length} runs`, bars, ends, '');
}

const daysShape = { height: 40, width: 14, gap: 5 };
const entityShape = { height: 22, width: 4, gap: 2 };

function changesPanel({ changes: { days, all, isCut } }: ReadConnector): SafeHtml {
  const key = html`<p class="key">${changeKey}${isCut ? 'Older runs are not kept.' : ''}</p>`;
  const ends = days.length === 1 ? (['today', ''] as const) : ([dayText(days[0] ?? ''), 'today'] as const);
  return barsPanel('Changes per day', changeBars(all, daysShape, 'Changes'), ends, key);
}

function entitiesSection(data: ReadConnector, world: PageWorld): SafeHtml {
  const { entities, changes, connector } = data;
  if (entities.length === 0) {
    return html`<h2>Entities</h2>
      <p>Nothing is stored yet.</p>`;
  }
  const address = (entity: EntityName): string => dataAddress(connector, entity);
  const rows = entities.map((one) => {
    return { ...one, known: completenessOf(one, data, world), days: changes.of(one.entity) };
  });
  const columns: readonly Column<(typeof rows)[number]>[] = [
    ['Entity', ({ entity }) => html`<a href="${address(entity)}">${entity}</a>`],
    [
      'Completeness',
      ({ known: [look, word, why] }) => html`${state(look, word)} <span class="phone">${why}</span>`,
    ],
    [html`<span class="unseen">Why</span>`, ({ known: [, , why] }) => why, 'cut o soft'],
    ['Rows', ({ status }) => (status === null ? '–' : count(status.rows)), 'num'],
    ['Data age', ({ entity }) => entityAge(entity, data, world.nowMs), 'num o'],
    ['Today', ({ entity, days }) => changesText(days.at(-1), address(entity)), 'o'],
    [
      `Last ${changes.days.length} days`,
      ({ entity, days }) => changeBars(days, entityShape, `Changes of ${entity}`),
      'o o2',
    ],
  ];
  const name = ({ depth }: PlacedEntity): string => (depth === 0 ? '' : `in${Math.min(depth, 3)}`);
  return html`<h2>Entities</h2>
    ${table('Entities', columns, rows, { look: 'go', name })}
    ${disclosed('All numbers', table('All numbers of the entities', numberColumns(data, world), entities))}`;
}

/** Numbers of an entity that its row in the first table does not have. */
function numberColumns({ connector }: ReadConnector, { nowMs }: PageWorld): readonly Column<PlacedEntity>[] {
  const number = (title: string, of: 'deleted' | 'missing' | 'partitions' | 'due' | 'quarantined') =>
    [title, ({ status }: PlacedEntity) => (status?.[of] ? count(status[of]) : ''), 'num'] as const;
  return [
    ['Entity', ({ entity }) => entity],
    number('deleted', 'deleted'),
    number('look deleted', 'missing'),
    number('listings', 'partitions'),
    number('left to read', 'due'),
    number('refused', 'quarantined'),
    [
      'last complete read',
      ({ status }) =>
        status === null ? '' : age(status.lastCompleteReadAt, nowMs, status.partitions === 0 ? '' : 'never'),
    ],
    ['fresh within', ({ entity }) => limitText(connector.entities.get(entity)?.freshWithinMs)],
  ];
}

function changesText({ added, changed, deleted }: DayChanges = noChanges, address: string): SafeHtml {
  const parts = [
    added === 0 ? '' : html`<span class="plus">${count(added)} new</span>`,
    changed === 0 ? '' : `${count(changed)} changed`,
    deleted === 0 ? '' : html`<a class="minus" href="${address}?rows=deleted">${count(deleted)} deleted</a>`,
  ];
  return parts.every((part) => part === '') ? html`<span class="soft">–</span>` : joined(parts);
}

type Completeness = readonly [StateLook, string, why: SafeHtml | string];

/** Facts that say how complete an entity is. */
type KnownEntities = Pick<ReadConnector, 'connector' | 'overview' | 'running'> & {
  readonly stored: Pick<StoredConnector, 'failures'> | null;
  readonly past: Parameters<typeof failedRuns>[0];
};

/** How complete the stored rows of an entity are, in plain words, and why. */
export function completenessOf(placed: PlacedEntity, data: KnownEntities, world: PageWorld): Completeness {
  const { entity, status, completeness } = placed;
  const { overview, running } = data;
  const withheld = overview?.missing.find((one) => one.entity === entity)?.withheld ?? 0;
  if (withheld > 0) {
    const why = `${counted(withheld, 'row')} ${withheld === 1 ? 'looks' : 'look'} deleted`;
    return ['warn part', 'Deletes wait', why];
  }
  const isUnread = status !== null && status.lastCompleteReadAt === null && status.partitions > 0;
  if (status === null || completeness === null || (isUnread && completeness === 'not-yet')) {
    if (running === null) return partOf(placed, data, world) ?? ['idle', 'Not read yet', ''];
    const read = running.counts.find((one) => one.entity === entity)?.fetched ?? 0;
    if (read === 0) return ['idle', 'Not started', ''];
    const so = `${counted(read, 'record')} so far`;
    return running.isLost ? ['warn part', 'Stopped', so] : ['run', 'Reading', so];
  }
  switch (completeness) {
    case 'complete': {
      const { missing } = status;
      const why = missing === 0 ? '' : `${counted(missing, 'row')} may be deleted; later runs check`;
      return ['ok', 'Complete', why];
    }
    case 'unconfirmed':
      return ['idle', 'Unconfirmed', 'read to the end; the service gives no total to check it by'];
    case 'part-missing':
    case 'not-yet': {
      const above = 'a listing above it is not read to its end';
      return partOf(placed, data, world) ?? ['warn part', 'Part missing', above];
    }
  }
}

/** The part that is missing, and when it is tried again; null: the part is not of this entity, but above it. */
function partOf(
  { entity, status }: PlacedEntity,
  { stored, connector, overview, past }: KnownEntities,
  { nowMs }: PageWorld,
): Completeness | null {
  if (status === null) return null;
  const { due, partitions, partMissing } = status;
  const next = html`; ${nextTry(connector, overview, nowMs)}`;
  const failed = stored?.failures.find((one) => one.entity === entity);
  if (due > 0 && (failed !== undefined || status.lastCompleteReadAt !== null)) {
    const which =
      due === 1 && failed !== undefined
        ? partText(failed)
        : `${count(due)} of ${counted(partitions, 'listing')}`;
    const why =
      failed === undefined ? ' left to read' : `: ${printableWithin(failed.failure.message, mostOfMessage)}`;
    return [
      'warn part',
      'Part missing',
      html`${which}${why}${next}${failed && timesFailed(failed, past, nowMs)}`,
    ];
  }
  if (partMissing === null) return null;
  const which = `${partText({ entity, params: partMissing.params })}: `;
  return ['warn part', 'Part missing', html`${which}${doubtText(partMissing.doubt)}${next}`];
}

/** When what failed is read again. */
function nextTry(connector: ConnectorSettings, overview: ReadConnector['overview'], nowMs: number) {
  const next = nextRunOf(connector, overview, nowMs);
  if (next.kind === 'at') return html`tried again at ${moment(next.at, nowMs)}`;
  if (next.kind === 'overdue') {
    return html`to be tried again since ${moment(next.at, nowMs)}, but no worker has begun`;
  }
  if (next.kind === 'paused') return 'tried again when the pause ends';
  return next.kind === 'now' ? 'tried again now' : 'tried again by the next run';
}

/** ` (failed 6 times since 07:00)`, as far as the listed runs go back. */
function timesFailed(part: Parameters<typeof failedRuns>[1], past: KnownEntities['past'], nowMs: number) {
  const { times, since } = failedRuns(past, part);
  return since === null || times < 2
    ? ''
    : html` (failed ${count(times)} times since ${moment(since, nowMs)})`;
}

const mostOfMessage = 160;

function limitText(ms: number | null = null): string {
  return ms === null ? '' : duration(ms);
}

function entityAge(entity: EntityName, { connector, overview }: ReadConnector, nowMs: number): SafeHtml {
  const limitMs = connector.entities.get(entity)?.freshWithinMs ?? null;
  const asOf = overview?.freshness.find((one) => one.entity === entity)?.asOf ?? null;
  const isLate = limitMs !== null && (asOf === null || nowMs - Date.parse(asOf) > limitMs);
  return html`<span class="${isLate ? 'warn word' : ''}">${age(asOf, nowMs, '–')}</span>`;
}

/** Lines that `status` prints below its table. */
function storedNotes(data: ReadConnector, world: PageWorld): SafeHtml | '' {
  const { connector, stored } = data;
  if (stored === null) return '';
  const { name } = connector;
  const { program, nowMs } = world;
  const { status, damagedFiles, copiedAway, unfinishedCopy, signIn } = stored;
  const why = [...missingLines(stored, program), ...storedPartMissing(status?.entities ?? [])];
  const damage = textLines([...damagedFiles.map(damageText), damageAdvice(name, program)]);
  const away =
    copiedAway &&
    html`<p>
      Copied to store <code>${copiedAway.to}</code>, ${moment(copiedAway.at, nowMs)}:
      <code>${copiedAway.from}</code> takes no more syncs of it.
    </p>`;
  const unfinished =
    unfinishedCopy &&
    html`<p>
      Its copy from store <code>${unfinishedCopy.from}</code>, begun ${moment(unfinishedCopy.since, nowMs)},
      is not complete.
    </p>`;
  return html`${damagedFiles.length === 0 ? '' : callout('bad', 'Damaged files', damage)}
  ${away && callout('', 'Copied', away)} ${unfinished && callout('warn', 'Copy', unfinished)}
  ${why.length === 0 ? '' : disclosed('Why parts are missing and deletes wait', textLines(why))}
  ${signIn && html`<p class="soft">Sign-in: ${signInText(signIn, name, program)}</p>`}
  ${failedSection(data, stored, world)} ${refusedSection(stored, name)}`;
}

const mostDrift = 50;

function driftSection({ past: { drift }, connector }: ReadConnector, { program, nowMs }: PageWorld) {
  if (drift.length === 0) return '';
  const columns: readonly Column<(typeof drift)[number]>[] = [
    [
      'Field',
      ({ entity, field }) => html`${entity}.${printable(field === '*' ? '* (further names)' : field)}`,
    ],
    ['Came as', ({ types }) => types.join(', ')],
    [
      'Is',
      ({ place, kind }) =>
        place === 'quarantine' ? 'refused' : kind === 'misfit' ? 'does not fit its column' : 'undeclared',
      'o',
    ],
    ['First seen', ({ firstSeenAt }) => age(firstSeenAt, nowMs), 'num'],
  ];
  const more = drift.length - mostDrift;
  return html`<section aria-label="Fields that are not declared">
    <h2 id="fields">Fields that are not declared</h2>
    <p class="soft">
      ${drift.some(({ place }) => place === 'quarantine') ? 'Values are kept, except those of refused records.' : 'All values are kept.'}
      <code>${program} schema diff ${connector.name}</code> shows how to declare
      them${more > 0 ? `, and ${count(more)} more` : ''}.
    </p>
    ${table('Undeclared fields', columns, drift.slice(0, mostDrift))}
  </section>`;
}

/** Fewer failures than this are in sight. */
const leastFolded = 4;

/** Failures that the next run retries, those that differ only in the part that was read once. */
function failedSection(
  { connector, overview, past }: ReadConnector,
  { failures, fileFailures }: StoredConnector,
  { nowMs }: PageWorld,
): SafeHtml | '' {
  const all = [
    ...failures.map((one) => ({ ...one, what: '' })),
    ...fileFailures.map((one) => ({ ...one, what: 'a file of ' })),
  ];
  if (all.length === 0) return '';
  const alike = grouped(all, ({ what, entity, failure: { code, message } }) =>
    [what, entity, code, message].join(' '),
  );
  const next = nextTry(connector, overview, nowMs);
  const lines = [...alike.values()].flatMap(([first, ...others]) => {
    if (first === undefined) return [];
    const more = others.length === 0 ? '' : `, and ${count(others.length)} more like it`;
    const part = `${first.what}${partText(first)}${more}`;
    return [
      html`<li>
        <b>${part}</b>: ${printable(first.failure.message)}; ${next}${timesFailed(first, past, nowMs)}
      </li>`,
    ];
  });
  const isMore = [failures, fileFailures].some(({ length }) => length === failureLimit);
  const more = isMore ? html`<p class="soft">There may be more.</p>` : '';
  const title = 'Failed, to be tried again';
  const content = html`${list(lines)} ${more}`;
  return lines.length < leastFolded
    ? html`<section>
        <h2>${title}</h2>
        ${content}
      </section>`
    : disclosed(title, content);
}

function refusedSection({ status }: StoredConnector, connector: string): SafeHtml | '' {
  const number = (status?.entities ?? []).reduce((sum, one) => sum + one.quarantined, 0);
  if (number === 0) return '';
  return html`<p>
    <a href="${root}data${searchOf({ rows: 'refused', connector })}">${counted(number, 'record')} refused</a>,
    kept whole in the table <code>_sync_quarantine</code>
  </p>`;
}

/** Rows that a run in progress has stored so far. */
export function progressSection(
  { run, counts, isLost }: NonNullable<ReadConnector['running']>,
  { stored }: Pick<ReadConnector, 'stored'>,
): SafeHtml {
  const before = new Map((stored?.status?.entities ?? []).map(({ entity, rows }) => [entity, rows]));
  const columns: readonly Column<(typeof counts)[number]>[] = [
    ['Entity', ({ entity }) => entity],
    ['read', ({ fetched, duplicate }) => count(fetched - duplicate), 'num'],
    ['written', ({ inserted, updated }) => count(inserted + updated), 'num'],
    [
      'stored before',
      ({ entity, inserted }) => count(Math.max(0, (before.get(entity) ?? 0) - inserted)),
      'num',
    ],
  ];
  const read = counts.reduce((sum, one) => sum + one.fetched - one.duplicate, 0);
  const written = counts.reduce((sum, one) => sum + one.inserted + one.updated, 0);
  const began = second(run.startedAt);
  const what = isLost
    ? html`The process of the run has ended; it began ${began}`
    : html`Running since ${began}`;
  const so = `${counted(read, 'record')} read, ${counted(written, 'row')} written`;
  const then = isLost ? '. The next run resumes from what it stored.' : ' so far.';
  return callout(
    isLost ? 'warn' : 'run',
    'Run in progress',
    html`<p><b>${what}</b>: ${so}${then}</p>
      ${counts.length === 0 ? '' : disclosed('By entity', table('Run in progress', columns, counts))}`,
    html`<a class="btn low" href="${root}runs/${run.run}">Open the run</a>`,
  );
}
