import { html, type SafeHtml } from '@remix-run/html-template';
import { formatDuration } from '../settings/texts.ts';
import { damageAdvice, damageText } from '../sinks/closed-files.ts';
import { count, printable } from '../telemetry/format.ts';
import { toConfirmLines, withheldLines } from '../wording/deletes-text.ts';
import { keylessText } from '../wording/keyless-text.ts';
import { signInText } from '../wording/sign-in-text.ts';
import { completenessTexts, partMissingLines } from '../wording/completeness-text.ts';
import { dayBars, dayChanges } from './day-changes.ts';
import { failedSection } from './failed-section.ts';
import {
  actLink,
  ago,
  badge,
  exactly,
  facts,
  page,
  targetLinks,
  textLines,
  troubleText,
  wideTable,
  type PageWorld,
} from './layout.ts';
import { nextRunText } from './next-run.ts';
import type { ConnectorData, PlacedEntity } from './read-connector-page.ts';
import { progressSection } from './progress-section.ts';
import { barsLegend, runBars } from './run-bars.ts';
import { timeline } from './timeline.ts';

const root = '../';

/** One connector: what is stored of each entity, what is wrong, and its runs. */
export function connectorPage(data: ConnectorData, perSecond: number | null, world: PageWorld): string {
  const { connector, health, overview, running, targets } = data;
  const { runs, changes } = data.past;
  const { name, definition, sink, schedule } = connector;
  const { nowMs, program } = world;
  const paused = overview?.paused ?? null;
  const lastRun = overview?.lastRun ?? null;
  const signIn = data.stored?.signIn ?? null;
  const main = html`<h1>${name} ${badge(health.word)}</h1>
    ${actLinks(data, world)}
    ${
      health.troubles.length === 0
        ? ''
        : html`<section class="notice ${health.needsPerson ? 'attention' : ''}" aria-label="What is wrong">
            ${health.troubles.map((trouble) => html`<p>${troubleText(trouble, name, world)}</p>`)}
          </section>`
    }
    ${running === null ? '' : progressSection(running, perSecond, data)}
    ${facts([
      ['Reads', html`${definition.name}`],
      ['Into', html`sink ${sink.name}`],
      ['Rows', count(overview?.rows ?? 0)],
      [
        'Schedule',
        schedule === null
          ? 'none: by hand'
          : schedule.kind === 'cron'
            ? html`<code>${schedule.pattern}</code> ${schedule.timezone}`
            : `every ${formatDuration(schedule.everyMs)}`,
      ],
      ['Next run', nextRunText(connector, overview, nowMs)],
      [
        'Last run',
        lastRun === null
          ? null
          : html`<a href="${root}runs/${lastRun.run}">${lastRun.state}</a>
              ${ago(lastRun.finishedAt ?? lastRun.startedAt, nowMs)}`,
      ],
      ['Sign-in', signIn === null ? null : signInText(signIn, name, program)],
      [
        'Paused',
        paused === null
          ? null
          : html`since ${exactly(paused.since)}${pausedBy(data)}: ${printable(paused.reason)}`,
      ],
      ['Without a key', keylessText(connector) === '' ? null : keylessText(connector)],
    ])}
    <h2>Entities</h2>
    ${entitiesTable(data, nowMs)} ${storedNotes(data, world)} ${driftSection(data, world)}
    <h2>Changes by day</h2>
    ${dayChanges(changes)}
    <h2 id="timeline">Timeline</h2>
    ${
      runs.length === 0
        ? html`<p>No runs yet. <code>${program} sync ${name}</code> reads it now.</p>`
        : html`${runBars(runs, root)}
            <p class="faint">${barsLegend}</p>`
    }
    ${timeline(data, nowMs)} ${targetLinks(targets, root)}`;
  return page({ title: name, root, main }, world);
}

function pausedBy({ past: { actions } }: ConnectorData): string {
  const pause = actions.find(({ action }) => action === 'pause');
  return pause === undefined ? '' : ` by ${printable(pause.who)}`;
}

/** What a person can do now. */
function actLinks(
  { connector: { name }, overview, health, running }: ConnectorData,
  world: PageWorld,
): SafeHtml {
  const of = { connector: name };
  const isPaused = (overview?.paused ?? null) !== null;
  const isWithheld = (overview?.missing ?? []).some(({ withheld }) => withheld > 0);
  return html`<p class="acts">
    ${isPaused ? actLink(world, root, ['resume', 'Resume'], of) : actLink(world, root, ['run-now', 'Run now'], of)}
    ${isPaused ? '' : actLink(world, root, ['pause', 'Pause'], of)}
    ${running === null ? '' : actLink(world, root, ['cancel', 'Cancel the run'], { run: running.run.run })}
    ${isWithheld && !isPaused ? actLink(world, root, ['allow-deletes', 'Allow deletes once'], of) : ''}
    ${health.newFields === 0 ? '' : actLink(world, root, ['acknowledge-fields', 'Mark new fields as known'], of)}
  </p>`;
}

const entityColumns = [
  { title: 'entity' },
  ...(
    ['rows', 'deleted', 'look deleted', 'listings', 'left to read', 'quarantined', 'undeclared'] as const
  ).map((title) => ({ title, align: 'right' }) as const),
  { title: 'last 30 days' },
  { title: 'complete' },
  { title: 'last complete read' },
  { title: 'fresh up to' },
];

function entitiesTable(data: ConnectorData, nowMs: number): SafeHtml {
  const rows = data.entities.map((placed) => entityCells(placed, data, nowMs));
  return rows.length === 0 ? html`<p>Nothing is stored yet.</p>` : wideTable('Entities', entityColumns, rows);
}

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
    html`<a class="depth-${Math.min(depth, 4)}" href="${root}record?in=${name}/${entity}">${entity}</a>`,
    status === null ? '' : count(status.rows),
    some(status?.deleted),
    some(status?.missing),
    some(status?.partitions),
    some(status?.due),
    some(status?.quarantined),
    some(undeclared),
    dayBars(
      past.days,
      past.changes.filter((one) => one.entity === entity),
    ),
    completeness === null
      ? ''
      : html`<span class="${completeness === 'part-missing' ? 'late' : ''}"
          >${completenessTexts[completeness]}</span
        >`,
    status === null
      ? ''
      : html`<span class="${status.due > 0 ? 'late' : ''}"
            >${ago(status.lastCompleteReadAt, nowMs, status.partitions === 0 ? '' : 'never')}</span
          >
          ${status.due > 0 && status.lastCompleteReadAt !== null ? html`<span class="faint">incomplete since</span>` : ''}`,
    asOf === null && limitMs === null
      ? ''
      : html`<span class="${isLate ? 'late' : ''}">${ago(asOf, nowMs)}</span>
          ${limitMs === null ? '' : html`<span class="faint">limit ${formatDuration(limitMs)}</span>`}`,
  ];
}

/** What `status` prints below its table. */
function storedNotes({ connector, stored, overview }: ConnectorData, { program }: PageWorld): SafeHtml {
  if (stored === null) return html``;
  const { status, damagedFiles, copiedAway, unfinishedCopy } = stored;
  const report = status?.lastRun?.report ?? null;
  const still = new Map((status?.entities ?? []).map(({ entity, missing }) => [entity, missing]));
  const withheld = (report?.entities ?? []).filter(
    (one) => one.withheld > 0 && (still.get(one.entity) ?? 0) > 0,
  );
  const { schedule, name } = connector;
  const everyMs = (overview?.paused ?? null) === null && schedule?.kind === 'every' ? schedule.everyMs : null;
  const partMissing = (status?.entities ?? []).flatMap((one) =>
    one.partMissing === null ? [] : [{ entity: one.entity, ...one.partMissing }],
  );
  const lines = [
    ...withheldLines(name, withheld, program),
    ...(report === null ? [] : toConfirmLines(report, everyMs)),
    ...partMissingLines(partMissing),
    ...damagedFiles.map((file) => damageText(file)),
    ...(damagedFiles.length === 0 ? [] : [damageAdvice(name, program)]),
    ...(copiedAway === null
      ? []
      : [
          `copied to sink ${copiedAway.to} at ${copiedAway.at}: ${copiedAway.from} takes no more syncs of it`,
        ]),
    ...(unfinishedCopy === null
      ? []
      : [`its copy from sink ${unfinishedCopy.from}, begun at ${unfinishedCopy.since}, is not complete`]),
  ];
  return html`${textLines(lines)} ${failedSection(stored)}`;
}

const mostDrift = 50;

function driftSection(
  { past: { drift }, connector }: ConnectorData,
  { program, nowMs }: PageWorld,
): SafeHtml {
  if (drift.length === 0) return html``;
  const rows = drift
    .slice(0, mostDrift)
    .map((row) => [
      row.entity,
      printable(row.field === '*' ? '* (further names)' : row.field),
      row.types.join(', '),
      row.kind === 'misfit' ? 'does not fit its column' : 'undeclared',
      ago(row.firstSeenAt, nowMs),
    ]);
  return html`<h2>Fields that are not declared</h2>
    <p>
      Nothing of them is lost. <code>${program} schema diff ${connector.name}</code> shows how to declare
      them${drift.length > mostDrift ? `, and ${count(drift.length - mostDrift)} more` : ''}.
    </p>
    ${wideTable(
      'Fields that are not declared',
      ['entity', 'field', 'came as', 'is', 'first seen'].map((title) => ({ title })),
      rows,
    )}`;
}
