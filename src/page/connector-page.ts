import { html, type SafeHtml } from '@remix-run/html-template';
import { healthOf } from '../app/connector-health.ts';
import { keylessText, overviewOf } from '../app/connector-states.ts';
import { failureLimit, readStatuses, type StoredConnector } from '../app/read-statuses.ts';
import { recordsRead, rowsWritten } from '../app/run-totals.ts';
import { isGone } from '../app/find-run.ts';
import { readConnectorHistory, type WatchedSinks } from '../app/watch-sinks.ts';
import type { Instant } from '../core/clock.ts';
import { grouped } from '../core/grouped.ts';
import { type EntityName, isDeclaredName } from '../core/names.ts';
import { firstNames } from '../definitions/suggest-name.ts';
import { formatDuration } from '../settings/texts.ts';
import type { ConnectorSettings, LocalSettings } from '../settings/settings.ts';
import type { NotedAction } from '../sinks/requests.ts';
import { damageAdvice, damageText } from '../sinks/sink-access.ts';
import type { DriftRow } from '../sinks/readings.ts';
import type { EntityStatus, RunSummary } from '../sinks/ledger-reader.ts';
import { count, counted, duration, printable } from '../telemetry/format.ts';
import { actionDetail, scheduleText, signInText } from '../wording/connector-text.ts';
import {
  completenessTexts,
  missingLines,
  storedPartMissing,
  failureText,
} from '../wording/run-report-table.ts';
import {
  actLink,
  age,
  runState,
  healthState,
  moment,
  second,
  facts,
  page,
  type PageWorld,
  targetLinks,
  textLines,
  troubleText,
  table,
  type TableColumn,
} from './layout.ts';
import { lastRunText, nextRunText } from './overview-page.ts';
import { type BarsShape, runBars, tookMs } from './bars.ts';

type ConnectorData = Extract<Awaited<ReturnType<typeof readConnectorPage>>, { kind: 'read' }>;

/**
 * Data that `status`, `schema diff`, `runs` and `actions` show of one connector, the newest `shown` of each list;
 * `unreadable`: why its sink cannot be read.
 */
export async function readConnectorPage(
  settings: LocalSettings,
  connector: ConnectorSettings,
  watched: WatchedSinks,
  { nowMs, shown }: { readonly nowMs: number; readonly shown: number },
) {
  const { overviews, unreadable } = await watched.overviews();
  const away = unreadable.find(({ sink }) => sink.name === connector.sink.name);
  if (away !== undefined) return { kind: 'unreadable', problem: away.problem } as const;
  const overview = overviewOf(overviews, connector);
  const [stored] = await readStatuses([connector], overviews);
  const past = await readConnectorHistory(connector, shown);
  const [newest] = past.runs;
  return {
    kind: 'read',
    connector,
    overview,
    health: stored?.health ?? healthOf(connector, overview, nowMs),
    stored: stored ?? null,
    entities: stored === undefined ? [] : entityTree(connector, stored),
    past,
    shown,
    /** Progress of the current run; null: there is none. */
    running:
      newest?.state === 'running' ? { run: newest, counts: past.counts, isLost: isLost(stored) } : null,
    targets: [...settings.publish.values()].filter((target) => target.connectors.includes(connector)),
  } as const;
}

/** Its process was on this machine and has ended: the next run resumes from what it stored. */
function isLost(stored: StoredConnector | undefined): boolean {
  const holder = stored?.status?.lastHolder;
  return holder !== undefined && isGone(holder);
}

interface PlacedEntity {
  readonly entity: EntityName;
  /** Number of entities that lead to it. */
  readonly depth: number;
  /** Null: nothing of it is stored yet. */
  readonly status: EntityStatus | null;
}

/** Entities below those that lead to them, then stored data of others. */
function entityTree(
  { entities, definition }: ConnectorSettings,
  { status }: Pick<StoredConnector, 'status'>,
): readonly PlacedEntity[] {
  const known = new Map((status?.entities ?? []).map((one) => [one.entity, one]));
  const placed = new Map<EntityName, PlacedEntity>();
  const place = (entity: EntityName, depth: number): void => {
    if (placed.has(entity)) return;
    placed.set(entity, { entity, depth, status: known.get(entity) ?? null });
    const elements = definition.entities.get(entity)?.explodedTable?.entity;
    if (elements !== undefined && isDeclaredName(elements)) place(elements, depth + 1);
    for (const [name, { parents }] of entities) {
      if (parents[0] === entity) place(name, depth + 1);
    }
  };
  for (const [name, { parents }] of entities) {
    if (parents[0] === undefined || !entities.has(parents[0])) place(name, 0);
  }
  for (const name of [...entities.keys(), ...known.keys()]) place(name, 0);
  return [...placed.values()];
}

const root = '../';
const runsShape: BarsShape = { places: 48, height: 40, width: 8, gap: 4 };

/** One connector: stored data of each entity, problems, and runs. */
export function connectorPage(data: ConnectorData, world: PageWorld): string {
  const { connector, health, overview, running, targets } = data;
  const { runs } = data.past;
  const { name, definition, sink, schedule } = connector;
  const { nowMs, program } = world;
  const paused = overview?.paused ?? null;
  const signIn = data.stored?.signIn ?? null;
  const pause = data.past.actions.find(({ action }) => action === 'pause');
  const pausedBy = pause === undefined ? '' : ` by ${printable(pause.who)}`;
  const entities = data.entities.map((placed) => entityCells(placed, data, nowMs));
  const main = html`<h1>${name} ${healthState(health.word)}</h1>
    ${actLinks(data, world)}
    ${
      health.troubles.length === 0
        ? ''
        : html`<section class="notice ${health.needsPerson ? 'attention' : ''}" aria-label="What is wrong">
            ${health.troubles.map((trouble) => html`<p>${troubleText(trouble, name, world)}</p>`)}
          </section>`
    }
    ${running === null ? '' : progressSection(running, data)}
    ${facts([
      ['Reads', html`${definition.name}`],
      ['Into', html`sink ${sink.name}`],
      ['Rows', count(overview?.rows ?? 0)],
      ['Schedule', scheduleText(schedule)],
      ['Next run', nextRunText(connector, overview, nowMs)],
      ['Last run', lastRunText(overview, root, nowMs)],
      ['Sign-in', signIn === null ? null : signInText(signIn, name, program)],
      [
        'Paused',
        paused === null
          ? null
          : html`since ${moment(paused.since, nowMs)}${pausedBy}: ${printable(paused.reason)}`,
      ],
      ['Without a key', keylessText(connector) === '' ? null : keylessText(connector)],
    ])}
    <h2>Entities</h2>
    ${entities.length === 0 ? html`<p>Nothing is stored yet.</p>` : table('Entities', entityColumns, entities)}
    ${storedNotes(data, world)} ${driftSection(data, world)}
    <h2 id="timeline">Timeline</h2>
    ${
      runs.length === 0
        ? html`<p>No runs yet. <code>${program} sync ${name}</code> reads it now.</p>`
        : runBars(runs, runsShape, nowMs, root)
    }
    ${timeline(data, nowMs)} ${targetLinks(targets, root)}`;
  return page({ title: name, root, at: '', main }, world);
}

/** Links to the acts that are possible now. */
function actLinks({ connector: { name }, overview, running }: ConnectorData, world: PageWorld) {
  const of = { connector: name };
  const isPaused = (overview?.paused ?? null) !== null;
  const isWithheld = (overview?.missing ?? []).some(({ withheld }) => withheld > 0);
  return html`<p class="acts">
    ${isPaused ? actLink(world, root, ['resume', 'Resume'], of) : actLink(world, root, ['run-now', 'Run now'], of)}
    ${isPaused ? '' : actLink(world, root, ['pause', 'Pause'], of)}
    ${running === null ? '' : actLink(world, root, ['cancel', 'Cancel the run'], { run: running.run.run })}
    ${isWithheld && !isPaused ? actLink(world, root, ['allow-deletes', 'Allow deletes once'], of) : ''}
  </p>`;
}

const entityColumns: readonly TableColumn[] = [
  'entity',
  ['rows', 'num'],
  ['deleted', 'num'],
  ['look deleted', 'num'],
  ['listings', 'num'],
  ['left to read', 'num'],
  ['quarantined', 'num'],
  ['undeclared', 'num'],
  'complete',
  'last complete read',
  'fresh up to',
];

function entityCells(
  { entity, depth, status }: PlacedEntity,
  { connector, overview, past }: ConnectorData,
  nowMs: number,
) {
  const some = (number: number | undefined): string => (number ? count(number) : '');
  const { name, entities } = connector;
  const completeness = status?.completeness ?? null;
  const limitMs = entities.get(entity)?.freshWithinMs ?? null;
  const asOf = overview?.freshness.find((one) => one.entity === entity)?.asOf ?? null;
  const isLate = limitMs !== null && (asOf === null || nowMs - Date.parse(asOf) > limitMs);
  const undeclared = past.drift.filter((one) => one.entity === entity && one.kind === 'undeclared').length;
  return [
    html`<a class="depth-${Math.min(depth, 4)}" href="${root}data/${name}/${entity}">${entity}</a>`,
    status === null ? '' : count(status.rows),
    some(status?.deleted),
    some(status?.missing),
    some(status?.partitions),
    some(status?.due),
    some(status?.quarantined),
    some(undeclared),
    completeness === null
      ? ''
      : html`<span class="${completeness === 'part-missing' ? 'late' : ''}"
          >${completenessTexts[completeness]}</span
        >`,
    status === null
      ? ''
      : html`<span class="${status.due > 0 ? 'late' : ''}"
            >${age(status.lastCompleteReadAt, nowMs, status.partitions === 0 ? '' : 'never')}</span
          >
          ${status.due > 0 && status.lastCompleteReadAt !== null ? html`<span class="soft">incomplete since</span>` : ''}`,
    asOf === null && limitMs === null
      ? ''
      : html`<span class="${isLate ? 'late' : ''}">${age(asOf, nowMs)}</span>
          ${limitMs === null ? '' : html`<span class="soft">limit ${formatDuration(limitMs)}</span>`}`,
  ];
}

/** Lines that `status` prints below its table. */
function storedNotes({ connector, stored }: ConnectorData, { program, nowMs }: PageWorld): SafeHtml {
  if (stored === null) return html``;
  const { status, damagedFiles, copiedAway, unfinishedCopy } = stored;
  const lines = [
    ...missingLines(stored, program),
    ...storedPartMissing(status?.entities ?? []),
    ...damagedFiles.map((file) => damageText(file)),
    ...(damagedFiles.length === 0 ? [] : [damageAdvice(connector.name, program)]),
    ...(copiedAway === null
      ? []
      : [
          `copied to sink ${copiedAway.to} at ${copiedAway.at}: ${copiedAway.from} takes no more syncs of it`,
        ]),
    ...(unfinishedCopy === null
      ? []
      : [`its copy from sink ${unfinishedCopy.from}, begun at ${unfinishedCopy.since}, is not complete`]),
  ];
  return html`${textLines(lines)} ${failedSection(stored, nowMs)}`;
}

const mostDrift = 50;

function driftSection({ past: { drift }, connector }: ConnectorData, { program, nowMs }: PageWorld) {
  if (drift.length === 0) return html``;
  const rows = drift
    .slice(0, mostDrift)
    .map((row) => [
      row.entity,
      printable(row.field === '*' ? '* (further names)' : row.field),
      row.types.join(', '),
      row.kind === 'misfit' ? 'does not fit its column' : 'undeclared',
      age(row.firstSeenAt, nowMs),
    ]);
  return html`<h2>Fields that are not declared</h2>
    <p>
      Nothing of them is lost. <code>${program} schema diff ${connector.name}</code> shows how to declare
      them${drift.length > mostDrift ? `, and ${count(drift.length - mostDrift)} more` : ''}.
    </p>
    ${table('Fields that are not declared', ['entity', 'field', 'came as', 'is', 'first seen'], rows)}`;
}

type Failed = StoredConnector['failures'][number] | StoredConnector['fileFailures'][number];

/** Failures that the next run retries, and records in quarantine. */
function failedSection(
  { status, failures, fileFailures, quarantine }: StoredConnector,
  nowMs: number,
): SafeHtml {
  const failed = [...likeOnes(failures, ''), ...likeOnes(fileFailures, 'file of ')];
  return html`${
    failed.length === 0
      ? ''
      : html`<h2>Failed, to be tried again</h2>
          <ul>
            ${failed.map(({ at, text }) => html`<li>${printable(text)} <span class="soft">${moment(at, nowMs)}</span></li>`)}
          </ul>
          ${[failures, fileFailures].some(({ length }) => length === failureLimit) ? html`<p class="soft">There may be more.</p>` : ''}`
  }
  ${
    quarantine.length === 0
      ? ''
      : html`<h2>Quarantine</h2>
          <p>
            ${counted(
              (status?.entities ?? []).reduce((sum, one) => sum + one.quarantined, 0),
              'record',
            )},
            kept whole in the table <code>_sync_quarantine</code>. The newest:
          </p>
          <ul>
            ${quarantine.map(({ entity, reason, detail }) => html`<li>${entity} ${printable(`${reason}: ${detail}`)}</li>`)}
          </ul>`
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
  'entity',
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
  return html`<section class="callout" aria-label="Run in progress">
    <h2>${isLost ? 'Its process has ended' : 'Running'}</h2>
    <p>
      <a href="../runs/${run.run}">Run</a> since
      ${second(run.startedAt)}${isLost ? '; the next run resumes from what it stored' : ''}.
    </p>
    ${rows.length === 0 ? '' : table('Run in progress', runningColumns, rows)}
  </section>`;
}

interface Entry {
  readonly at: Instant;
  readonly cells: readonly (SafeHtml | string)[];
}

const timelineColumns: readonly TableColumn[] = [
  'when',
  'what',
  'who',
  ['took', 'num'],
  ['read', 'num'],
  ['written', 'num'],
  ['deleted', 'num'],
  'details',
];

export const leastShown = 50;
export const mostShown = 1000;

/** Events of a connector, newest first: its runs, actions of people, and new fields. */
export function timeline({ past, shown }: Pick<ConnectorData, 'past' | 'shown'>, nowMs: number): SafeHtml {
  const { runs, actions, drift } = past;
  const all = [...runs.map(runEntry), ...actions.map(actionEntry), ...driftEntries(drift)].sort(
    (left, right) => (left.at < right.at ? 1 : left.at > right.at ? -1 : 0),
  );
  const isMore = all.length > shown || [runs, actions].some((list) => list.length === shown);
  const rows = all.slice(0, shown).map(({ at, cells }) => [age(at, nowMs), ...cells]);
  return html`${table('Timeline', timelineColumns, rows)}
  ${
    isMore && shown < mostShown
      ? html`<p><a href="?shown=${Math.min(mostShown, shown * 4)}#timeline">Show older</a></p>`
      : ''
  }`;
}

function entry(at: Instant, what: SafeHtml | string, who: string, details: SafeHtml | string): Entry {
  return { at, cells: [what, who, '', '', '', '', details] };
}

function runEntry(run: RunSummary): Entry {
  const { report, kind, startedAt } = run;
  const ms = tookMs(run);
  const deleted = report?.entities.reduce((sum, one) => sum + one.deleted, 0) ?? 0;
  return {
    at: startedAt,
    cells: [
      html`<a href="../runs/${run.run}">${runState(run.state)}</a> ${kind === 'sync' ? '' : kind}`,
      '',
      ms === null ? '' : duration(ms),
      report === null ? '' : count(recordsRead(report)),
      report === null ? '' : count(rowsWritten(report)),
      deleted === 0 ? '' : count(deleted),
      report?.error?.code ?? report?.failures[0]?.code ?? '',
    ],
  };
}

function actionEntry(action: NotedAction): Entry {
  const { at, who, entity, run } = action;
  const said = [entity ?? '', actionDetail(action)].filter((text) => text !== '').join(', ');
  const details = html`${printable(said)} ${run === null ? '' : html`<a href="../runs/${run}">run</a>`}`;
  return entry(at, action.action, printable(who), details);
}

/** Fields that came for the first time in one run. */
function driftEntries(drift: readonly DriftRow[]): readonly Entry[] {
  const met = grouped(drift, ({ entity, kind, firstRun }) => `${entity} ${kind} ${firstRun}`);
  return [...met.values()].flatMap(([first, ...others]) => {
    if (first === undefined) return [];
    const fields = [first, ...others].map(({ field }) => (field === '*' ? 'further ones' : field));
    const what = first.kind === 'undeclared' ? 'undeclared fields' : 'values that do not fit';
    return [
      entry(first.firstSeenAt, 'schema', '', printable(`${first.entity}: ${what}: ${firstNames(fields)}`)),
    ];
  });
}
