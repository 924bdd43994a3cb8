import { html, type SafeHtml } from '@remix-run/html-template';
import { overviewOf, type SinkOverview } from '../app/connector-states.ts';
import { publishedBefore, targetStatus } from '../app/publish-target.ts';
import { answeredWithin, type Clock, systemClock } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import { firstNames } from '../definitions/suggest-name.ts';
import { heldBackTexts, type TargetState } from '../publish/publication.ts';
import { isStillPublished } from '../settings/choices.ts';
import { formatDuration } from '../settings/texts.ts';
import { checkTargets } from '../settings/load-settings.ts';
import type { LocalSettings, PublishSettings } from '../settings/settings.ts';
import { count, counted, printable, printableWithin } from '../telemetry/format.ts';
import {
  actLink,
  age,
  callout,
  crumbs,
  facts,
  head,
  moment,
  page,
  type PageWorld,
  state,
  type StateLook,
  table,
  type TableColumn,
  textLines,
} from './layout.ts';

interface TargetHow {
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** A target that does not answer keeps the list waiting no longer. */
const listWithinMs = 2_500;
/** A page that is read again asks a target no more often. */
const askedEveryMs = 10_000;
const mostAsked = 100;

/** Asks targets for their state, each at most every ten seconds; a slow answer is there for the next page. */
export function watchTargets(settings: LocalSettings, how: TargetHow) {
  const asked = new Map<string, { readonly atMs: number; readonly answer: Promise<TargetState | string> }>();
  const ask = async (target: PublishSettings): Promise<TargetState | string> => {
    try {
      checkTargets(settings, [target]);
      return await targetStatus(target, how);
    } catch (error) {
      if (!(error instanceof SyncError)) throw error;
      return error.message;
    }
  };
  /** Null: it has not answered so far. A text: why its state cannot be read. */
  return async (targets: readonly PublishSettings[]) =>
    await Promise.all(
      targets.slice(0, mostAsked).map(async (target) => {
        const known = asked.get(target.name);
        const nowMs = performance.now();
        const { answer } =
          known !== undefined && nowMs - known.atMs < askedEveryMs
            ? known
            : {
                answer: ask(target).catch(() => 'Its state cannot be read; the log of the server says why.'),
              };
        if (known?.answer !== answer) asked.set(target.name, { atMs: nowMs, answer });
        return { target, status: await answeredWithin(answer, null, listWithinMs, systemClock) };
      }),
    );
}

type Asked = Awaited<ReturnType<ReturnType<typeof watchTargets>>>[number];

interface Judged {
  readonly look: StateLook;
  readonly word: string;
  /** What stands in the way, or when it is published. */
  readonly why: string;
  readonly needsPerson: boolean;
}

function judge({ target, status }: Asked, nowMs: number): Judged {
  const when = whenText(target.when);
  if (status === null) {
    return judged('idle', 'No answer', 'It does not answer; the page is read again by itself.');
  }
  if (typeof status === 'string') return judged('bad', 'Not reached', printableWithin(status, 300));
  const { refusal, heldBack, newest, isUpToDate } = status;
  if (refusal !== null) return judged('bad', 'Held back', printableWithin(refusal.message, 300));
  const doubted = [
    ...new Set(heldBack.flatMap(({ connector, doubt }) => (doubt === null ? [] : [connector]))),
  ];
  if (doubted.length > 0) {
    return judged(
      'bad',
      'Held back',
      `${firstNames(doubted, 3)}: the workspace is in doubt; settle that first`,
    );
  }
  if (newest === null) return judged('idle', 'Not published yet', when);
  if (isUpToDate) return { ...judged('ok', 'Up to date', when), needsPerson: false };
  const oldMs = nowMs - Date.parse(newest.manifest.createdAt);
  const isLate = target.when.kind === 'every' && oldMs > target.when.everyMs + graceMs;
  const names = heldBack.map(({ connector, entity }) => `${connector}/${entity}`);
  const waits = names.length === 0 ? '' : `; ${firstNames(names, 3)} wait to be read again`;
  return isLate
    ? judged(
        'warn late',
        'Late',
        `${when}, and nothing was published for ${formatDuration(roundedMs(oldMs))}${waits}`,
      )
    : { ...judged('idle', 'Changes wait', `${when}${waits}`), needsPerson: false };
}

function judged(look: StateLook, word: string, why: string): Judged {
  return { look, word, why, needsPerson: look === 'bad' || look === 'warn late' };
}

/** A worker may be busy, or start again. */
const graceMs = 5 * 60_000;

function roundedMs(ms: number): number {
  return Math.floor(ms / 60_000) * 60_000;
}

const listColumns: readonly TableColumn[] = [
  'Target',
  'State',
  ['What stands in the way', 'cut o'],
  ['Data age', 'num'],
  ['Rows', 'num o o2'],
  ['Newest publication', 'o o2'],
  [html`<span class="unseen">Act</span>`, 'num o'],
];

/** All targets: whether readers can trust them, and what is in the way. */
export function targetsPage(
  asked: readonly Asked[],
  overviews: ReadonlyMap<string, SinkOverview>,
  world: PageWorld,
): string {
  const all = asked.map((one) => ({ ...one, judged: judge(one, world.nowMs) }));
  const behind = all.filter(({ judged: { needsPerson } }) => needsPerson).length;
  const are = behind === 1 ? 'is' : 'are';
  const answer =
    all.length === 0
      ? 'Nothing is published'
      : behind === 0
        ? `${counted(all.length, 'target')}, nothing in the way`
        : `${count(behind)} of ${counted(all.length, 'target')} ${are} behind`;
  const main = html`${head(answer, 'A publication holds all entities as of one moment, deletes included. Readers see the old one until the new one is whole.')}
  ${
    all.length === 0
      ? html`<p>
          Name a target under <code>publish</code> in the config: a folder, a bucket, or a database.
        </p>`
      : table(
          'Targets',
          listColumns,
          all
            .toSorted((left, right) => Number(right.judged.needsPerson) - Number(left.judged.needsPerson))
            .map((one) => targetCells(one, overviews, world)),
          'go',
        )
  }`;
  return page(
    { title: `${behind > 0 ? `(${behind}) ` : ''}Targets`, root: './', at: 'targets', main },
    world,
  );
}

function targetCells(
  { target, status, judged: { look, word, why } }: Asked & { readonly judged: Judged },
  overviews: ReadonlyMap<string, SinkOverview>,
  world: PageWorld,
) {
  const { nowMs } = world;
  const { name, type, connectors } = target;
  const manifest = newestOf(status);
  const rows = connectors.reduce((sum, one) => sum + (overviewOf(overviews, one)?.rows ?? 0), 0);
  return [
    html`<a href="targets/${name}">${name}</a> <span class="soft o o2">${type}</span>`,
    state(look, word),
    html`<span class="${look === 'ok' || look === 'idle' ? 'soft' : ''}" title="${why}">${why}</span>`,
    manifest === null ? '' : age(oldestOf(manifest), nowMs, '–'),
    count(rows),
    manifest === null
      ? html`<span class="soft">none</span>`
      : html`${moment(manifest.createdAt, nowMs)}
          <span class="soft">no. ${String(manifest.publication)}</span>`,
    actLink(world, './', ['publish-now', 'Publish now…'], { target: name }, 'low'),
  ];
}

function newestOf(status: Asked['status']) {
  return status === null || typeof status === 'string' ? null : (status.newest?.manifest ?? null);
}

type Manifest = NonNullable<ReturnType<typeof newestOf>>;

/** Changes before it are in, of every entity. */
function oldestOf({ entities }: Manifest) {
  const [oldest = null] = entities.flatMap(({ asOf }) => asOf ?? []).toSorted();
  return oldest;
}

const entityColumns: readonly TableColumn[] = [
  'Entity',
  ['Data age', 'num'],
  ['Added or changed', 'num'],
  ['Deleted', 'num'],
  ['Note', 'cut o'],
];

const publicationColumns: readonly TableColumn[] = [
  'Publication',
  'When',
  ['Added or changed', 'num'],
  ['Deleted', 'num'],
  ['By', 'o cut'],
];

/** One target: its newest publication, the last ones, and what is in the way of the next. */
export async function targetPage(
  settings: LocalSettings,
  target: PublishSettings,
  how: TargetHow,
  world: PageWorld,
): Promise<string> {
  checkTargets(settings, [target]);
  const status = await targetStatus(target, how);
  const { newest, isUpToDate, newGeneration, refusal, heldBack } = status;
  const { nowMs } = world;
  const { when, name, type, connectors } = target;
  const manifest = newest?.manifest ?? null;
  const { look, word, why } = judge({ target, status }, nowMs);
  const before = manifest === null ? [] : await publishedBefore(target, manifest.publication, how);
  const main = html`${crumbs([['../targets', 'Targets']], name)}
  ${head(
    html`${name} ${state(look, word)}`,
    html`${type}, of
    ${connectors.slice(0, 20).map((one, index) => html`${index === 0 ? '' : ', '}<a href="../connectors/${one.name}">${one.name}</a>`)},
    published ${whenText(when)}`,
    actLink(world, '../', ['publish-now', 'Publish now…'], { target: name }),
  )}
  ${
    refusal === null && heldBack.length === 0
      ? ''
      : callout(
          look === 'bad' ? 'bad' : 'warn',
          'What stands in the way',
          html`<h2>${refusal === null ? 'Held back' : 'It is not published'}</h2>
            ${textLines(refusal === null ? heldBackTexts(heldBack) : refusal.message.split('\n'))}
            ${manifest === null ? '' : html`<p>Readers keep publication no. ${String(manifest.publication)} of ${moment(manifest.createdAt, nowMs)}.</p>`}`,
        )
  }
  ${facts([
    [
      'Newest publication',
      manifest === null
        ? 'none yet'
        : html`no. ${String(manifest.publication)}, ${moment(manifest.createdAt, nowMs)}`,
    ],
    ['Data age', manifest === null ? null : age(oldestOf(manifest), nowMs)],
    ['State', manifest === null ? null : isUpToDate ? 'Nothing newer is stored' : why],
    ['Next one', newGeneration === null ? null : `has all rows again, because ${newGeneration}`],
  ])}
  ${manifest === null ? '' : entitiesSection(target, manifest, nowMs)}
  ${
    before.length === 0
      ? ''
      : html`<h2>Last publications</h2>
          ${table(
            'Last publications',
            publicationColumns,
            before.map((one) => publicationCells(one, nowMs)),
          )}`
  }`;
  return page({ title: name, root: '../', at: 'targets', main }, world);
}

function entitiesSection(target: PublishSettings, manifest: Manifest, nowMs: number): SafeHtml {
  const rows = manifest.entities.map((one) => [
    `${one.connector}/${one.entity}`,
    age(one.asOf, nowMs),
    count(one.upserts),
    count(one.deletes),
    html`<span class="soft">${isStillPublished(target, one) ? '' : 'no longer in the config'}</span>`,
  ]);
  return html`<h2>Entities of the newest publication</h2>
    ${table('Entities', entityColumns, rows)}`;
}

function publicationCells({ publication, createdAt, entities, by }: Manifest, nowMs: number) {
  const sum = (of: 'upserts' | 'deletes'): string => count(entities.reduce((all, one) => all + one[of], 0));
  return [
    `no. ${publication}`,
    moment(createdAt, nowMs),
    sum('upserts'),
    sum('deletes'),
    html`<span class="soft">${printable(by.host)}</span>`,
  ];
}

function whenText(when: PublishSettings['when']): string {
  switch (when.kind) {
    case 'every':
      return `every ${formatDuration(when.everyMs)}`;
    case 'after-sync':
      return 'after each sync';
    case 'by-hand':
      return 'by hand';
  }
}
