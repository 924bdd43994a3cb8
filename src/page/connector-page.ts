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
import {
  completenessTexts,
  doubtText,
  failureText,
  missingLines,
  storedPartMissing,
} from '../wording/run-report-table.ts';
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
import { nextRunText } from './overview-page.ts';
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
  const clock = { ...systemClock, now: () => nowMs };
  const [known] = await readStatuses([connector], overviews, clock);
  const stored = known === undefined || maySee ? known : withoutValues(known);
  const past = await readConnectorHistory(connector, asked.shown, instant(nowMs - mostDays * dayMs));
  const [newest] = past.runs;
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
    running:
      newest?.state === 'running' ? { run: newest, counts: past.counts, isLost: isLost(stored) } : null,
    targets: [...settings.publish.values()].filter((target) => target.connectors.includes(connector)),
  } as const;
}

/** Without the keys and values that failures, doubts and refused records name, for who may not see values. */
function withoutValues(stored: StoredConnector): StoredConnector {
  const { status, failures, fileFailures, quarantine } = stored;
  const entities = status?.entities.map((one) => ({
    ...one,
    partMissing: one.partMissing && { ...withoutKey(one.partMissing), params: {} },
  }));
  return {
    ...stored,
    status: status && { ...status, entities: entities ?? [] },
    failures: failures.map((one) => ({ ...one, params: {} })),
    fileFailures: fileFailures.map((one) => ({ ...one, params: {} })),
    quarantine: quarantine.map((one) => ({ ...one, detail: '' })),
  };
}

/** Its process was on this machine and has ended: the next run resumes from what it stored. */
function isLost(stored: StoredConnector | undefined): boolean {
  const holder = stored?.status?.lastHolder;
  return holder !== undefined && isGone(holder);
}

const dayMs = 86_400_000;
const mostDays = 30;

/** Changes of each entity by day, the last day today. Days whose runs may not all be kept are left out. */
function changesOf({ changes, oldestKept }: ConnectorHistory['byDay'], nowMs: number) {
  const days = Array.from({ length: mostDays }, (_, index) =>
    instant(nowMs - (mostDays - 1 - index) * dayMs).slice(0, 10),
  ).filter((day, index) => oldestKept === null || day > oldestKept || index === mostDays - 1);
  const by = (of: readonly ChangesOfDay[]): readonly (DayChanges | undefined)[] => {
    const ofDay = grouped(of, ({ day }) => day);
    return days.map((day) =>
      ofDay.get(day)?.reduce(
        (sum, one) => ({
          added: sum.added + one.added,
          changed: sum.changed + one.changed,
          deleted: sum.deleted + one.deleted,
        }),
        noChanges,
      ),
    );
  };
  const byEntity = new Map(
    [...grouped(changes, ({ entity }) => entity)].map(([entity, of]) => [entity, by(of)]),
  );
  return { days, all: by(changes), byEntity, isCut: days.length < mostDays };
}

const noChanges: DayChanges = { added: 0, changed: 0, deleted: 0 };

interface PlacedEntity {
  readonly entity: EntityName;
  /** Number of entities that lead to it, and the last of them; null: none. */
  readonly depth: number;
  readonly leading: PlacedEntity | null;
  /** Null: nothing of it is stored yet. */
  readonly status: EntityStatus | null;
}

/** Entities below those that lead to them, then stored data of others. */
export function entityTree(
  { entities, definition }: ConnectorSettings,
  { status }: Pick<StoredConnector, 'status'>,
): readonly PlacedEntity[] {
  const known = new Map((status?.entities ?? []).map((one) => [one.entity, one]));
  const placed = new Map<EntityName, PlacedEntity>();
  const place = (entity: EntityName, leading: PlacedEntity | null): void => {
    if (placed.has(entity)) return;
    const depth = leading === null ? 0 : leading.depth + 1;
    const one = { entity, depth, leading, status: known.get(entity) ?? null };
    placed.set(entity, one);
    const elements = definition.entities.get(entity)?.explodedTable?.entity;
    if (elements !== undefined && isDeclaredName(elements)) place(elements, one);
    for (const [name, { parents }] of entities) {
      if (parents[0] === entity) place(name, one);
    }
  };
  for (const [name, { parents }] of entities) {
    if (parents[0] === undefined || !entities.has(parents[0])) place(name, null);
  }
  for (const name of [...entities.keys(), ...known.keys()]) place(name, null);
  return [...placed.values()];
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
  return html`${definition.title}${account === null ? '' : `, account “${printable(account)}”`} · into store
    <code>${sink.name}</code> ·
    ${when}${fresh}${targets.map(
      ({ name }, index) =>
        html`${index === 0 ? ' · published to ' : ', '}<a href="${root}targets/${name}">${name}</a>`,
    )}${keyless === '' ? '' : ` · ${keyless}`}`;
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
  const kept =
    stored === null ? [] : missingLines(stored, world.program).filter((line) => line.startsWith('!'));
  return html`${all.filter(isCallout).map((one, index) => {
    const look = one.word === 'failed' ? 'bad' : one.word === 'paused' ? '' : 'warn';
    const acts = html`${helpingAct(one, of, world, root, one.kind === 'withheld' ? 'primary' : '') ?? ''}
    ${one.kind === 'withheld' ? html`<a class="btn" href="${dataAddress(connector, one.entities[0])}">See the rows</a>` : ''}`;
    const why = one.kind === 'withheld' ? textLines(kept) : '';
    const label = `${one.isForPerson ? 'What needs you' : 'Why'}${index === 0 ? '' : `, ${index + 1}`}`;
    return callout(
      look,
      label,
      html`<h2>${troubleReason(one, of, world)}</h2>
        ${why}`,
      acts,
    );
  })}
  ${all.filter((one) => !isCallout(one)).map((one) => html`<p class="soft">${troubleReason(one, of, world)}</p>`)}`;
}

function connectorStats({ connector, overview, health, changes, past }: ConnectorData, nowMs: number) {
  const { stalest } = health;
  const limitMs = stalest?.freshWithinMs ?? null;
  const ageMs = stalest?.asOf === null || stalest === null ? null : nowMs - Date.parse(stalest.asOf);
  const today = changes.all.at(-1) ?? noChanges;
  const isToday = (past.byDay.oldestKept ?? '').startsWith(instant(nowMs).slice(0, 10));
  const lastRun = overview?.lastRun ?? null;
  const tookText =
    lastRun === null
      ? ''
      : tookMs(lastRun) === null
        ? 'in progress'
        : `took ${duration(tookMs(lastRun) ?? 0)}`;
  return [
    [
      'Data age',
      html`${age(stalest?.asOf ?? null, nowMs, overview === null ? '–' : 'not known')}
      ${
        limitMs === null
          ? ''
          : html`<small>of ${span(limitMs)}</small
              ><progress
                class="${ageMs === null || ageMs > limitMs ? 'warn' : ''}"
                max="${limitMs}"
                value="${Math.min(limitMs, ageMs ?? limitMs)}"
                aria-label="Share of the limit"
              ></progress>`
      }`,
    ],
    ['Rows', count(overview?.rows ?? 0)],
    [
      'Today',
      html`${count(today.added + today.changed)}
        <small
          >changes,
          ${counted(today.deleted, 'delete')}${isToday ? html` since ${moment(past.byDay.oldestKept ?? '', nowMs)}` : ''}</small
        >`,
    ],
    [
      'Last run',
      lastRun === null
        ? '–'
        : html`<a href="${root}runs/${lastRun.run}">${moment(lastRun.startedAt, nowMs)}</a>
            <small>${tookText}</small>`,
    ],
    ['Next run', nextRun(connector, overview, nowMs)],
  ] as const;
}

/** `15:58 in 24 min`. */
function nextRun(connector: ConnectorSettings, overview: ConnectorData['overview'], nowMs: number): SafeHtml {
  const next = nextRunOf(connector, overview, nowMs);
  const until = next.kind === 'at' ? html` <small>in ${span(Date.parse(next.at) - nowMs)}</small>` : '';
  return html`${nextRunText(connector, overview, nowMs)}${until}`;
}

function runsPanel({ past: { runs } }: ConnectorData, nowMs: number): SafeHtml {
  const shown = runs.slice(0, runsShape.places);
  return html`<section class="panel">
    <div>
      <h2>${shown.length === 1 ? 'Last run' : `Last ${shown.length} runs`}</h2>
      ${runBars(shown, runsShape, nowMs, root)}
      <p class="key">
        <span>since ${moment(shown.at(-1)?.startedAt ?? nowMs, nowMs)}</span><span class="end">now</span>
      </p>
    </div>
  </section>`;
}

const daysShape: BarsShape = { places: mostDays, height: 40, width: 14, gap: 5 };
const entityShape: BarsShape = { places: mostDays, height: 22, width: 4, gap: 2 };

function changesPanel({ changes: { days, all, isCut } }: ConnectorData): SafeHtml {
  const first = dayText(days[0] ?? '');
  return html`<section class="panel">
    <div>
      <h2>Changes per day</h2>
      ${changeBars(all, daysShape, 'Changes')}
      <p class="key">
        <span>${isCut ? `since ${first}: older runs are not kept` : first}</span
        ><span class="end">today</span>${changeKey}
      </p>
    </div>
  </section>`;
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
  return html`<h2>Entities</h2>
    ${table('Entities', columns, rows, 'go')}
    ${disclosed(
      'All numbers',
      table(
        'All numbers of the entities',
        numberColumns,
        entities.map((placed) => numberCells(placed, data, world.nowMs)),
      ),
    )}`;
}

function entityRow(placed: PlacedEntity, data: ConnectorData, world: PageWorld): TableRow {
  const { entity, depth, status } = placed;
  const { connector, changes } = data;
  const [look, word, why] = completenessOf(placed, data, world);
  const days = changes.byEntity.get(entity) ?? [];
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
      changeBars(
        days.length === 0 ? changes.days.map(() => undefined) : days,
        entityShape,
        `Changes of ${entity}`,
      ),
    ],
  };
}

function changesText(day: DayChanges | undefined): SafeHtml {
  const { added, changed, deleted } = day ?? noChanges;
  const parts = [
    ...(added === 0 ? [] : [html`<span class="plus">${count(added)} new</span>`]),
    ...(changed === 0 ? [] : [html`${count(changed)} changed`]),
    ...(deleted === 0 ? [] : [html`<span class="minus">${count(deleted)} deleted</span>`]),
  ];
  if (parts.length === 0) return html`<span class="soft">–</span>`;
  return html`${parts.map((part, index) => html`${index === 0 ? '' : ', '}${part}`)}`;
}

type Completeness = readonly [StateLook, string, why: SafeHtml | string];

/** How complete the stored rows of an entity are, in plain words, and why. */
function completenessOf(placed: PlacedEntity, data: ConnectorData, world: PageWorld): Completeness {
  const { entity, status, leading } = placed;
  const { overview, running } = data;
  const withheld = overview?.missing.find((one) => one.entity === entity)?.withheld ?? 0;
  if (withheld > 0) {
    return [
      'warn part',
      'Deletes wait',
      `${counted(withheld, 'row')} ${withheld === 1 ? 'looks' : 'look'} deleted`,
    ];
  }
  const completeness = status?.completeness ?? leading?.status?.completeness ?? null;
  const isUnread = (status?.lastCompleteReadAt ?? null) === null && (status?.partitions ?? 0) > 0;
  if (status === null || completeness === null || (isUnread && completeness === 'not-yet')) {
    if (running === null) return partOf(placed, data, world) ?? ['idle', 'Not read yet', ''];
    const read = running.counts.find((one) => one.entity === entity)?.fetched ?? 0;
    if (read === 0) return ['idle', 'Not started', ''];
    const so = `${counted(read, 'record')} so far`;
    return running.isLost ? ['warn part', 'Stopped', so] : ['run', 'Reading', so];
  }
  switch (completeness) {
    case 'complete':
      return [
        'ok',
        'Complete',
        status.missing === 0 ? '' : `${counted(status.missing, 'row')} may be deleted; later runs check`,
      ];
    case 'unconfirmed':
      return ['idle', 'Unconfirmed', 'read to the end; the service gives no total to check it by'];
    case 'part-missing':
    case 'not-yet':
      return (
        partOf(placed, data, world) ?? [
          'warn part',
          'Part missing',
          'a listing above it is not read to its end',
        ]
      );
  }
}

/** The part that is missing, and when it is tried again; null: the part is not of this entity, but above it. */
function partOf(
  { entity, status }: PlacedEntity,
  { stored, connector, overview }: ConnectorData,
  { nowMs }: PageWorld,
): Completeness | null {
  if (status === null) return null;
  const { due, partitions, partMissing } = status;
  const next = html`; next try: ${nextRunText(connector, overview, nowMs)}`;
  const failure = stored?.failures.find((one) => one.entity === entity)?.failure;
  if (due > 0 && (failure !== undefined || status.lastCompleteReadAt !== null)) {
    const why =
      failure === undefined ? 'left to read' : `failed: ${printableWithin(failure.message, mostOfMessage)}`;
    return [
      'warn part',
      'Part missing',
      html`${count(due)} of ${counted(partitions, 'listing')} ${why}${next}`,
    ];
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

const numberColumns: readonly TableColumn[] = [
  'Entity',
  ['rows', 'num'],
  ['deleted', 'num'],
  ['look deleted', 'num'],
  ['listings', 'num'],
  ['left to read', 'num'],
  ['quarantined', 'num'],
  ['undeclared fields', 'num'],
  'complete',
  'last complete read',
  'fresh within',
];

function numberCells({ entity, status }: PlacedEntity, data: ConnectorData, nowMs: number) {
  const some = (number: number | undefined): string => (number ? count(number) : '');
  const { limitMs } = ageOf(entity, data, nowMs);
  const undeclared = data.past.drift.filter(
    (one) => one.entity === entity && one.kind === 'undeclared',
  ).length;
  const completeness = status?.completeness ?? null;
  return [
    entity,
    status === null ? '' : count(status.rows),
    some(status?.deleted),
    some(status?.missing),
    some(status?.partitions),
    some(status?.due),
    some(status?.quarantined),
    some(undeclared),
    completeness === null ? '' : completenessTexts[completeness],
    status === null ? '' : age(status.lastCompleteReadAt, nowMs, status.partitions === 0 ? '' : 'never'),
    limitMs === null ? '' : formatDuration(limitMs),
  ];
}

/** Lines that `status` prints below its table. */
function storedNotes({ connector, stored }: ConnectorData, { program, nowMs }: PageWorld): SafeHtml {
  if (stored === null) return html``;
  const { status, damagedFiles, copiedAway, unfinishedCopy, signIn } = stored;
  const why = [...missingLines(stored, program), ...storedPartMissing(status?.entities ?? [])];
  const damage = damagedFiles.map((file) => damageText(file));
  return html`${
    damage.length === 0
      ? ''
      : callout('bad', 'Damaged files', textLines([...damage, damageAdvice(connector.name, program)]))
  }
  ${
    copiedAway === null
      ? ''
      : callout(
          '',
          'Copied',
          html`<p>
            Copied to store <code>${copiedAway.to}</code>, ${moment(copiedAway.at, nowMs)}:
            <code>${copiedAway.from}</code> takes no more syncs of it.
          </p>`,
        )
  }
  ${
    unfinishedCopy === null
      ? ''
      : callout(
          'warn',
          'Copy',
          html`<p>
            Its copy from store <code>${unfinishedCopy.from}</code>, begun
            ${moment(unfinishedCopy.since, nowMs)}, is not complete.
          </p>`,
        )
  }
  ${why.length === 0 ? '' : disclosed('Why parts are missing and deletes wait', textLines(why))}
  ${signIn === null ? '' : html`<p class="soft">Sign-in: ${signInText(signIn, connector.name, program)}</p>`}
  ${failedSection(stored, nowMs)}`;
}

const mostDrift = 50;

function driftSection({ past: { drift }, connector }: ConnectorData, { program, nowMs }: PageWorld) {
  if (drift.length === 0) return html``;
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

type Failed = StoredConnector['failures'][number] | StoredConnector['fileFailures'][number];

/** Failures that the next run retries, and records in quarantine. */
function failedSection(
  { status, failures, fileFailures, quarantine }: StoredConnector,
  nowMs: number,
): SafeHtml {
  const failed = [...likeOnes(failures, ''), ...likeOnes(fileFailures, 'file of ')];
  const isMore = [failures, fileFailures].some(({ length }) => length === failureLimit);
  const refused = (status?.entities ?? []).reduce((sum, one) => sum + one.quarantined, 0);
  return html`${
    failed.length === 0
      ? ''
      : disclosed(
          'Failed, to be tried again',
          html`<ul>
              ${failed.map(({ at, text }) => html`<li>${printable(text)} <span class="soft">${moment(at, nowMs)}</span></li>`)}
            </ul>
            ${isMore ? html`<p class="soft">There may be more.</p>` : ''}`,
        )
  }
  ${
    quarantine.length === 0
      ? ''
      : disclosed(
          `Quarantine: ${counted(refused, 'record')}`,
          html`<p>Kept whole in the table <code>_sync_quarantine</code>. The newest:</p>
            <ul>
              ${quarantine.map(({ entity, reason, detail }) => html`<li>${entity} ${printable(detail === '' ? reason : `${reason}: ${detail}`)}</li>`)}
            </ul>`,
        )
  }`;
}

/** Groups failures that differ only in the part that was read. */
function likeOnes(failures: readonly Failed[], what: string) {
  const groups = grouped(
    failures,
    ({ entity, failure: { code, message } }) => `${entity} ${code} ${message}`,
  );
  return [...groups.values()].flatMap(([first, ...others]) => {
    if (first === undefined) return [];
    const { failure, ...of } = first;
    const more = others.length === 0 ? '' : `, and ${count(others.length)} more like it`;
    return [{ at: failure.at, text: `${what}${failureText({ ...of, ...failure })}${more}` }];
  });
}

const runningColumns: readonly TableColumn[] = [
  'Entity',
  ['read', 'num'],
  ['written', 'num'],
  ['stored before', 'num'],
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
  const what = isLost ? 'The process of the run has ended' : 'Running';
  const since = isLost ? html`; it began ${second(run.startedAt)}` : html` since ${second(run.startedAt)}`;
  const so = `${counted(read, 'record')} read, ${counted(written, 'row')} written`;
  return callout(
    isLost ? 'warn' : 'run',
    'Run in progress',
    html`<p>
        <b>${what}${since}</b>: ${so}${isLost ? '. The next run resumes from what it stored.' : ' so far.'}
      </p>
      ${rows.length === 0 ? '' : disclosed('By entity', table('Run in progress', runningColumns, rows))}`,
    html`<a class="btn low" href="${root}runs/${run.run}">Open the run</a>`,
  );
}
