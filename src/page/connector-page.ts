import { html, type SafeHtml } from '@remix-run/html-template';
import { type Trouble, healthOf } from '../app/connector-health.ts';
import { keylessText, nextRunOf, overviewOf } from '../app/connector-states.ts';
import { isGone } from '../app/find-run.ts';
import { failureLimit, readStatuses, type StoredConnector } from '../app/read-statuses.ts';
import { readConnectorHistory, type WatchedSinks } from '../app/watch-sinks.ts';
import { instant, systemClock } from '../core/clock.ts';
import { grouped } from '../core/grouped.ts';
import { wholeJson } from '../core/canonical-json.ts';
import { type EntityName, isDeclaredName } from '../core/names.ts';
import { formatDuration } from '../settings/texts.ts';
import type { ConnectorSettings, LocalSettings } from '../settings/settings.ts';
import type { ChangesOfDay, EntityStatus } from '../sinks/ledger-reader.ts';
import { withoutKey } from '../sinks/run-report.ts';
import { damageAdvice, damageText } from '../sinks/sink-access.ts';
import { count, counted, duration, printable, printableWithin } from '../telemetry/format.ts';
import { signInText } from '../wording/connector-text.ts';
import { doubtText, failureText, missingLines, storedPartMissing } from '../wording/run-report-table.ts';
import { type BarsShape, changeBars, changeKey, type DayChanges, runBars, tookMs } from './bars.ts';
import {
  actLink,
  age,
  callout,
  crumbs,
  dayText,
  disclosed,
  head,
  healthState,
  joined,
  list,
  moment,
  page,
  type PageWorld,
  second,
  span,
  state,
  type StateLook,
  stats,
  table,
  type TableColumn,
  type TableRow,
  textLines,
} from './layout.ts';
import { limitBar, nextRunText } from './overview-page.ts';
import { timeline } from './timeline.ts';
import { helpingAct, troubleReason } from './trouble-text.ts';

type ConnectorHistory = Awaited<ReturnType<typeof readConnectorHistory>>;
type ConnectorData = Extract<Awaited<ReturnType<typeof readConnectorPage>>, { kind: 'read' }>;

interface Asked extends Pick<Parameters<typeof timeline>[0], 'show' | 'shown'> {
  readonly nowMs: number;
  /** The visitor may see values and keys of records. */
  readonly maySee: boolean;
}

/**
 * Data that `status`, `schema diff`, `runs` and `actions` show of one connector, the newest `shown` of each list;
 * `unreadable`: why its sink cannot be read.
 */
export async function readConnectorPage(
  settings: LocalSettings,
  connector: ConnectorSettings,
  watched: WatchedSinks,
  { nowMs, maySee, ...asked }: Asked,
) {
  const { overviews, unreadable } = await watched.overviews();
  const away = unreadable.find(({ sink }) => sink.name === connector.sink.name);
  if (away !== undefined) return { kind: 'unreadable', problem: away.problem } as const;
  const overview = overviewOf(overviews, connector);
  const [known] = await readStatuses([connector], overviews, { ...systemClock, now: () => nowMs });
  const stored = known === undefined || maySee ? known : withoutValues(known);
  const past = await readConnectorHistory(connector, asked.shown, instant(nowMs - mostDays * dayMs));
  const [newest] = past.runs;
  const holder = stored?.status?.lastHolder;
  // Its process was on this machine and has ended: the next run resumes from what it stored.
  const isLost = holder !== undefined && isGone(holder);
  return {
    kind: 'read',
    connector,
    overview,
    health: stored?.health ?? healthOf(connector, overview, nowMs),
    stored: stored ?? null,
    entities: stored === undefined ? [] : entityTree(connector, stored),
    past,
    asked,
    changes: changesOf(past.byDay, nowMs),
    /** Progress of the current run; null: there is none. */
    running: newest?.state === 'running' ? { run: newest, counts: past.counts, isLost } : null,
    targets: [...settings.publish.values()].filter((target) => target.connectors.includes(connector)),
  } as const;
}

/** Without the keys and values that failures, doubts and refused records name, for who may not see values. */
function withoutValues(stored: StoredConnector): StoredConnector {
  const { status, failures, fileFailures, quarantine } = stored;
  const withoutParams = <One>(one: One) => ({ ...one, params: {} });
  const entities = (status?.entities ?? []).map((one) => {
    return { ...one, partMissing: one.partMissing && withoutParams(withoutKey(one.partMissing)) };
  });
  return {
    ...stored,
    status: status && { ...status, entities },
    failures: failures.map(withoutParams),
    fileFailures: fileFailures.map(withoutParams),
    quarantine: quarantine.map((one) => ({ ...one, detail: '' })),
  };
}

const dayMs = 86_400_000;
const mostDays = 30;

/** Changes of all entities and of each by day, the last day today. Days whose runs may not all be kept are left out. */
function changesOf({ changes, oldestKept }: ConnectorHistory['byDay'], nowMs: number) {
  const days = Array.from({ length: mostDays }, (_, index) =>
    instant(nowMs - (mostDays - 1 - index) * dayMs).slice(0, 10),
  ).filter((day, index) => oldestKept === null || day > oldestKept || index === mostDays - 1);
  const by = (of: readonly ChangesOfDay[]): readonly (DayChanges | undefined)[] => {
    const ofDay = grouped(of, ({ day }) => day);
    return days.map((day) => ofDay.get(day)?.reduce(bothChanges, noChanges));
  };
  const byEntity = grouped(changes, ({ entity }) => entity);
  return {
    days,
    all: by(changes),
    of: (entity: EntityName) => by(byEntity.get(entity) ?? []),
    isCut: days.length < mostDays,
  };
}

const noChanges: DayChanges = { added: 0, changed: 0, deleted: 0 };

function bothChanges(one: DayChanges, { added, changed, deleted }: DayChanges): DayChanges {
  return { added: one.added + added, changed: one.changed + changed, deleted: one.deleted + deleted };
}

/**
 * Entities below those that lead to them, then stored data of others. `depth`: number of entities that lead to it.
 * `status` null: nothing of it is stored yet. `completeness`: of an entity without its own, that of the one above it.
 */
export function entityTree(
  { entities, definition }: ConnectorSettings,
  { status: stored }: Pick<StoredConnector, 'status'>,
) {
  const statusOf = new Map((stored?.entities ?? []).map((one) => [one.entity, one]));
  const placed = new Map<EntityName, PlacedEntity>();
  const place = (entity: EntityName, depth: number, above: EntityStatus['completeness']): void => {
    if (placed.has(entity)) return;
    const status = statusOf.get(entity) ?? null;
    placed.set(entity, { entity, depth, status, completeness: status?.completeness ?? above });
    const own = status?.completeness ?? null;
    const elements = definition.entities.get(entity)?.explodedTable?.entity;
    if (elements !== undefined && isDeclaredName(elements)) place(elements, depth + 1, own);
    for (const [name, { parents }] of entities) if (parents[0] === entity) place(name, depth + 1, own);
  };
  for (const [name, { parents }] of entities) {
    if (parents[0] === undefined || !entities.has(parents[0])) place(name, 0, null);
  }
  for (const name of [...entities.keys(), ...statusOf.keys()]) place(name, 0, null);
  return [...placed.values()];
}

interface PlacedEntity extends Pick<EntityStatus, 'entity' | 'completeness'> {
  readonly depth: number;
  readonly status: EntityStatus | null;
}

const root = '../';
const runsShape: BarsShape = { places: 48, height: 40, width: 8, gap: 4 };

/** One connector: what is wrong and what helps, the state of each entity, and what happened. */
export function connectorPage(data: ConnectorData, world: PageWorld): string {
  const { connector, health, past, asked } = data;
  const { name } = connector;
  const { nowMs } = world;
  const running = health.isRunning && health.word !== 'running' ? healthState('running') : '';
  const main = html`${crumbs([[root, 'Connectors']], name)}
  ${head(html`${name} ${healthState(health.word)} ${running}`, headLine(data), actLinks(data, world))}
  ${troubleCallouts(data, world)} ${data.running === null ? '' : progressSection(data.running, data)}
  ${stats(connectorStats(data, nowMs))}
  ${past.runs.length === 0 ? '' : html`<div class="pair">${runsPanel(data, nowMs)} ${changesPanel(data)}</div>`}
  ${entitiesSection(data, world)} ${storedNotes(data, world)} ${driftSection(data, world)}
  ${timeline({ name, past, ...asked }, nowMs)}`;
  const title = `${health.needsPerson ? '(1) ' : ''}${name}`;
  return page({ title, root, at: '', main }, world);
}

/** `Mailchimp, account “Northwind” · into store main · every 30 min, fresh within 1 h · published to lake`. */
function headLine({ connector, stored, targets }: ConnectorData): SafeHtml {
  const { definition, address, sink, schedule, entities } = connector;
  const account =
    stored?.signIn?.account ??
    (address.kind === 'id' ? address.id : address.kind === 'workspace' ? address.workspace : null);
  const limits = [...entities.values()].flatMap(({ freshWithinMs }) => freshWithinMs ?? []);
  const fresh = limits.length === 0 ? '' : `, fresh within ${span(Math.min(...limits))}`;
  const keyless = keylessText(connector);
  const when =
    schedule === null
      ? 'no schedule'
      : schedule.kind === 'every'
        ? `every ${span(schedule.everyMs)}`
        : html`at <code>${schedule.pattern}</code> ${schedule.timezone}`;
  const published = joined(targets.map(({ name }) => html`<a href="${root}targets/${name}">${name}</a>`));
  const facts = [
    `${definition.title}${account === null ? '' : `, account “${printable(account)}”`}`,
    html`into store <code>${sink.name}</code>`,
    html`${when}${fresh}`,
    ...(targets.length === 0 ? [] : [html`published to ${published}`]),
    ...(keyless === '' ? [] : [keyless]),
  ];
  return joined(facts, ' · ');
}

/** The acts that are possible now. */
function actLinks({ connector, overview, running, targets }: ConnectorData, world: PageWorld) {
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
function troubleCallouts(data: ConnectorData, world: PageWorld): SafeHtml {
  const { connector, health, overview, past, stored } = data;
  const of = { connector, overview, health, runs: past.runs };
  const { reason, troubles } = health;
  const all = [...new Set([...(reason === null ? [] : [reason]), ...troubles])];
  const isCallout = (one: Trouble): boolean => one === reason || one.isForPerson;
  const boxes = all.filter(isCallout).map((one, index) => {
    const isWithheld = one.kind === 'withheld';
    const rows = isWithheld
      ? html`<a class="btn" href="${dataAddress(connector, one.entities[0])}">See the rows</a>`
      : '';
    const lines = isWithheld && stored !== null ? missingLines(stored, world.program) : [];
    const why = textLines(lines.filter((line) => line.startsWith('!')));
    return callout(
      one.word === 'failed' ? 'bad' : one.word === 'paused' ? '' : 'warn',
      `${one.isForPerson ? 'What needs you' : 'Why'}${index === 0 ? '' : `, ${index + 1}`}`,
      html`<h2>${troubleReason(one, of, world)}</h2>
        ${why}`,
      html`${helpingAct(one, of, world, root, isWithheld ? 'primary' : '')} ${rows}`,
    );
  });
  const others = all.filter((one) => !isCallout(one));
  return html`${boxes} ${others.map((one) => html`<p class="soft">${troubleReason(one, of, world)}</p>`)}`;
}

function connectorStats({ connector, overview, health, changes, past }: ConnectorData, nowMs: number) {
  const { asOf = null, freshWithinMs: limitMs = null } = health.stalest ?? {};
  const isLate = asOf === null || nowMs - Date.parse(asOf) > (limitMs ?? Infinity);
  const limit = limitMs === null ? '' : html`<small>of ${span(limitMs)}</small>`;
  const bar = limitBar(asOf, limitMs, nowMs, isLate ? 'warn' : '');
  const today = changes.all.at(-1) ?? noChanges;
  const { oldestKept } = past.byDay;
  const isToday = oldestKept?.startsWith(instant(nowMs).slice(0, 10)) === true;
  const since = isToday ? html` since ${moment(oldestKept, nowMs)}` : '';
  const lastRun = overview?.lastRun ?? null;
  const ms = lastRun && tookMs(lastRun);
  const took = ms === null ? 'in progress' : `took ${duration(ms)}`;
  const next = nextRunOf(connector, overview, nowMs);
  const until = next.kind === 'at' ? html` <small>in ${span(Date.parse(next.at) - nowMs)}</small>` : '';
  return [
    ['Data age', html`${age(asOf, nowMs, overview === null ? '–' : 'not known')} ${limit}${bar}`],
    ['Rows', count(overview?.rows ?? 0)],
    [
      'Today',
      html`${count(today.added + today.changed)}
        <small>changes, ${counted(today.deleted, 'delete')}${since}</small>`,
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

/** A row of bars with its heading and key. */
function barsPanel(title: string, bars: SafeHtml, key: SafeHtml): SafeHtml {
  return html`<section class="panel">
    <div>
      <h2>${title}</h2>
      ${bars}
      <p class="key">${key}</p>
    </div>
  </section>`;
}

function runsPanel({ past: { runs } }: ConnectorData, nowMs: number): SafeHtml {
  const shown = runs.slice(0, runsShape.places);
  const since = moment(shown.at(-1)?.startedAt ?? nowMs, nowMs);
  return barsPanel(
    shown.length === 1 ? 'Last run' : `Last ${shown.length} runs`,
    runBars(shown, runsShape, nowMs, root),
    html`<span>since ${since}</span><span class="end">now</span>`,
  );
}

const daysShape: BarsShape = { places: mostDays, height: 40, width: 14, gap: 5 };
const entityShape: BarsShape = { places: mostDays, height: 22, width: 4, gap: 2 };

function changesPanel({ changes: { days, all, isCut } }: ConnectorData): SafeHtml {
  const first = dayText(days[0] ?? '');
  const since = isCut ? `since ${first}: older runs are not kept` : first;
  const key = html`<span>${since}</span><span class="end">today</span>${changeKey}`;
  return barsPanel('Changes per day', changeBars(all, daysShape, 'Changes'), key);
}

const entityColumns: readonly TableColumn[] = [
  'Entity',
  'Completeness',
  [html`<span class="unseen">Why</span>`, 'cut o soft'],
  ['Rows', 'num'],
  ['Data age', 'num o'],
  ['Today', 'o'],
];

function entitiesSection(data: ConnectorData, world: PageWorld): SafeHtml {
  const { entities, changes } = data;
  if (entities.length === 0) {
    return html`<h2>Entities</h2>
      <p>Nothing is stored yet.</p>`;
  }
  const columns = [...entityColumns, [`Last ${changes.days.length} days`, 'o o2'] as const];
  const rows = entities.map((placed) => entityRow(placed, data, world));
  const cells = entities.map((placed) => numberCells(placed, data, world.nowMs));
  return html`<h2>Entities</h2>
    ${table('Entities', columns, rows, 'go')}
    ${disclosed('All numbers', table('All numbers of the entities', numberColumns, cells))}`;
}

function entityRow(placed: PlacedEntity, data: ConnectorData, world: PageWorld): TableRow {
  const { entity, depth, status } = placed;
  const { connector, changes } = data;
  const [look, word, why] = completenessOf(placed, data, world);
  const days = changes.of(entity);
  const { asOf, isLate } = ageOf(entity, data, world.nowMs);
  return {
    nameLook: depth === 0 ? '' : `in${Math.min(depth, 3)}`,
    cells: [
      html`<a href="${dataAddress(connector, entity)}">${entity}</a>`,
      state(look, word),
      why,
      status === null ? '–' : count(status.rows),
      html`<span class="${isLate ? 'warn word' : ''}">${age(asOf, world.nowMs, '–')}</span>`,
      changesText(days.at(-1)),
      changeBars(days, entityShape, `Changes of ${entity}`),
    ],
  };
}

function changesText({ added, changed, deleted }: DayChanges = noChanges): SafeHtml {
  const parts = [
    ...(added === 0 ? [] : [html`<span class="plus">${count(added)} new</span>`]),
    ...(changed === 0 ? [] : [`${count(changed)} changed`]),
    ...(deleted === 0 ? [] : [html`<span class="minus">${count(deleted)} deleted</span>`]),
  ];
  return parts.length === 0 ? html`<span class="soft">–</span>` : joined(parts);
}

type Completeness = readonly [StateLook, string, why: SafeHtml | string];

/** Facts that say how complete an entity is. */
type KnownEntities = Pick<ConnectorData, 'connector' | 'overview' | 'running'> & {
  readonly stored: Pick<StoredConnector, 'failures'> | null;
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
  { stored, connector, overview }: KnownEntities,
  { nowMs }: PageWorld,
): Completeness | null {
  if (status === null) return null;
  const { due, partitions, partMissing } = status;
  const next = html`; next try: ${nextRunText(connector, overview, nowMs)}`;
  const failure = stored?.failures.find((one) => one.entity === entity)?.failure;
  if (due > 0 && (failure !== undefined || status.lastCompleteReadAt !== null)) {
    const why =
      failure === undefined ? 'left to read' : `failed: ${printableWithin(failure.message, mostOfMessage)}`;
    const which = `${count(due)} of ${counted(partitions, 'listing')}`;
    return ['warn part', 'Part missing', html`${which} ${why}${next}`];
  }
  if (partMissing === null) return null;
  const { params, doubt } = partMissing;
  const which = Object.keys(params).length === 0 ? '' : `${printableWithin(wholeJson(params), 80)}: `;
  return ['warn part', 'Part missing', html`${which}${doubtText(doubt)}${next}`];
}

const mostOfMessage = 160;

function ageOf(entity: EntityName, { connector, overview }: ConnectorData, nowMs: number) {
  const limitMs = connector.entities.get(entity)?.freshWithinMs ?? null;
  const asOf = overview?.freshness.find((one) => one.entity === entity)?.asOf ?? null;
  return { asOf, limitMs, isLate: limitMs !== null && (asOf === null || nowMs - Date.parse(asOf) > limitMs) };
}

/** Numbers of an entity that its row in the first table does not have. */
const entityNumbers = [
  ['deleted', 'deleted'],
  ['look deleted', 'missing'],
  ['listings', 'partitions'],
  ['left to read', 'due'],
  ['quarantined', 'quarantined'],
] as const;

const numberColumns: readonly TableColumn[] = [
  'Entity',
  ...entityNumbers.map(([title]) => [title, 'num'] as const),
  'last complete read',
  'fresh within',
];

function numberCells({ entity, status }: PlacedEntity, data: ConnectorData, nowMs: number) {
  const { limitMs } = ageOf(entity, data, nowMs);
  return [
    entity,
    ...entityNumbers.map(([, of]) => (status?.[of] ? count(status[of]) : '')),
    status === null ? '' : age(status.lastCompleteReadAt, nowMs, status.partitions === 0 ? '' : 'never'),
    limitMs === null ? '' : formatDuration(limitMs),
  ];
}

/** Lines that `status` prints below its table. */
function storedNotes({ connector: { name }, stored }: ConnectorData, { program, nowMs }: PageWorld) {
  if (stored === null) return '';
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
  ${failedSection(stored, nowMs)} ${quarantineSection(stored)}`;
}

const mostDrift = 50;

function driftSection({ past: { drift }, connector }: ConnectorData, { program, nowMs }: PageWorld) {
  if (drift.length === 0) return '';
  const rows = drift
    .slice(0, mostDrift)
    .map((row) => [
      html`${row.entity}.${printable(row.field === '*' ? '* (further names)' : row.field)}`,
      row.types.join(', '),
      row.kind === 'misfit' ? 'does not fit its column' : 'undeclared',
      age(row.firstSeenAt, nowMs),
    ]);
  const more = drift.length - mostDrift;
  return html`<section aria-label="Fields that are not declared">
    <h2 id="fields">Fields that are not declared</h2>
    <p class="soft">
      All values are kept. <code>${program} schema diff ${connector.name}</code> shows how to declare
      them${more > 0 ? `, and ${count(more)} more` : ''}.
    </p>
    ${table('Undeclared fields', ['Field', 'Came as', ['Is', 'o'], ['First seen', 'num']], rows)}
  </section>`;
}

/** Failures that the next run retries, those that differ only in the part that was read once. */
function failedSection({ failures, fileFailures }: StoredConnector, nowMs: number): SafeHtml | '' {
  const all = [
    ...failures.map((one) => ({ ...one, what: '' })),
    ...fileFailures.map((one) => ({ ...one, what: 'file of ' })),
  ];
  if (all.length === 0) return '';
  const alike = grouped(all, ({ what, entity, failure: { code, message } }) =>
    [what, entity, code, message].join(' '),
  );
  const lines = [...alike.values()].flatMap(([first, ...others]) => {
    if (first === undefined) return [];
    const { failure, what, ...of } = first;
    const more = others.length === 0 ? '' : `, and ${count(others.length)} more like it`;
    const text = `${what}${failureText({ ...of, ...failure })}${more}`;
    return [html`<li>${printable(text)} <span class="soft">${moment(failure.at, nowMs)}</span></li>`];
  });
  const isMore = [failures, fileFailures].some(({ length }) => length === failureLimit);
  const more = isMore ? html`<p class="soft">There may be more.</p>` : '';
  return disclosed('Failed, to be tried again', html`${list(lines)} ${more}`);
}

function quarantineSection({ status, quarantine }: StoredConnector): SafeHtml | '' {
  if (quarantine.length === 0) return '';
  const refused = (status?.entities ?? []).reduce((sum, one) => sum + one.quarantined, 0);
  const lines = quarantine.map(({ entity, reason, detail }) => {
    return html`<li>${entity} ${printable(detail === '' ? reason : `${reason}: ${detail}`)}</li>`;
  });
  return disclosed(
    `Quarantine: ${counted(refused, 'record')}`,
    html`<p>Kept whole in the table <code>_sync_quarantine</code>. The newest:</p>
      ${list(lines)}`,
  );
}

const runningColumns = [
  'Entity',
  ...['read', 'written', 'stored before'].map((title) => [title, 'num'] as const),
];

/** Rows that a run in progress has stored so far. */
export function progressSection(
  { run, counts, isLost }: NonNullable<ConnectorData['running']>,
  { stored }: Pick<ConnectorData, 'stored'>,
): SafeHtml {
  const before = new Map((stored?.status?.entities ?? []).map(({ entity, rows }) => [entity, rows]));
  const rows = counts.map(({ entity, fetched, duplicate, inserted, updated }) => [
    entity,
    count(fetched - duplicate),
    count(inserted + updated),
    count(Math.max(0, (before.get(entity) ?? 0) - inserted)),
  ]);
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
      ${rows.length === 0 ? '' : disclosed('By entity', table('Run in progress', runningColumns, rows))}`,
    html`<a class="btn low" href="${root}runs/${run.run}">Open the run</a>`,
  );
}
