import { html, type SafeHtml } from '@remix-run/html-template';
import { overviewOf, type SinkOverview } from '../app/connector-states.ts';
import { publishedBefore, targetStatus } from '../app/publish-target.ts';
import { answeredWithin, systemClock } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import { firstNames } from '../definitions/suggest-name.ts';
import type { OpenTarget } from '../publish/open-target.ts';
import { heldBackTexts, type TargetState } from '../publish/publication.ts';
import { isStillPublished } from '../settings/choices.ts';
import { formatDuration } from '../settings/texts.ts';
import { checkTargets } from '../settings/load-settings.ts';
import type { LocalSettings, PublishSettings } from '../settings/settings.ts';
import { count, counted, printable, printableWithin } from '../telemetry/format.ts';
import { actLink, age, callout, crumbs, facts, head, moment, page, state, table } from './layout.ts';
import { type PageWorld, type StateLook, type TableColumn, textLines } from './layout.ts';

/** A target that does not answer keeps the list waiting no longer. */
const listWithinMs = 2_500;
/** A page that is read again asks a target no more often. */
const askedEveryMs = 10_000;
const mostAsked = 100;

/** A target, and its state. A text: why its state cannot be read. Null: it has not answered so far. */
interface Asked {
  readonly target: PublishSettings;
  readonly status: TargetState | string | null;
}

/** Asks targets for their state, each at most every ten seconds; a slow answer is there for the next page. */
export function watchTargets(settings: LocalSettings, how: OpenTarget) {
  const asked = new Map<string, { readonly atMs: number; readonly answer: Promise<TargetState | string> }>();
  const ask = async (target: PublishSettings): Promise<TargetState | string> => {
    try {
      checkTargets(settings, [target]);
      return await targetStatus(target, how);
    } catch (error) {
      if (error instanceof SyncError) return error.message;
      return 'Its state cannot be read; the log of the server says why.';
    }
  };
  const answerOf = async (target: PublishSettings): Promise<TargetState | string> => {
    const atMs = performance.now();
    const known = asked.get(target.name);
    if (known !== undefined && atMs - known.atMs < askedEveryMs) return await known.answer;
    const answer = ask(target);
    asked.set(target.name, { atMs, answer });
    return await answer;
  };
  return async (targets: readonly PublishSettings[]): Promise<readonly Asked[]> =>
    await Promise.all(
      targets.slice(0, mostAsked).map(async (target) => {
        return { target, status: await answeredWithin(answerOf(target), null, listWithinMs, systemClock) };
      }),
    );
}

type Judgement = readonly [look: StateLook, word: string, why: string];

/** The state of a target in a word, and what stands in the way, or when it is published. */
function judge({ target: { when }, status }: Asked, nowMs: number): Judgement {
  const whenText = whenTextOf(when);
  if (status === null) return ['idle', 'No answer', 'It does not answer; the page is read again by itself.'];
  if (typeof status === 'string') return ['bad', 'Not reached', printableWithin(status, 300)];
  const { refusal, heldBack, newest, isUpToDate } = status;
  if (refusal !== null) return ['bad', 'Held back', printableWithin(refusal.message, 300)];
  const doubted = new Set(heldBack.flatMap(({ connector, doubt }) => (doubt === null ? [] : connector)));
  if (doubted.size > 0) {
    const why = `${firstNames([...doubted], 3)}: the workspace is in doubt; settle that first`;
    return ['bad', 'Held back', why];
  }
  if (newest === null) return ['idle', 'Not published yet', whenText];
  if (isUpToDate) return ['ok', 'Up to date', whenText];
  const names = heldBack.map(({ connector, entity }) => `${connector}/${entity}`);
  const waits = names.length === 0 ? '' : `; ${firstNames(names, 3)} wait to be read again`;
  const oldMs = nowMs - Date.parse(newest.manifest.createdAt);
  if (when.kind !== 'every' || oldMs <= when.everyMs + graceMs) {
    return ['idle', 'Changes wait', `${whenText}${waits}`];
  }
  const old = formatDuration(Math.floor(oldMs / minuteMs) * minuteMs);
  return ['warn late', 'Late', `${whenText}, and nothing was published for ${old}${waits}`];
}

const minuteMs = 60_000;
/** A worker may be busy, or start again. */
const graceMs = 5 * minuteMs;

/** All targets: whether readers can trust them, and what is in the way. */
export function targetsPage(
  asked: readonly Asked[],
  overviews: ReadonlyMap<string, SinkOverview>,
  world: PageWorld,
): string {
  const { nowMs } = world;
  const all = asked.map((one) => {
    const [look, word, why] = judge(one, nowMs);
    const isBehind = look === 'bad' || look === 'warn late';
    return { target: one.target, manifest: newestOf(one), look, word, why, isBehind };
  });
  const behind = all.filter(({ isBehind }) => isBehind);
  const targets = counted(all.length, 'target');
  const answer =
    all.length === 0
      ? 'Nothing is published'
      : behind.length === 0
        ? `${targets}, nothing in the way`
        : `${count(behind.length)} of ${targets} ${behind.length === 1 ? 'is' : 'are'} behind`;
  const rows = [...behind, ...all.filter(({ isBehind }) => !isBehind)].map(
    ({ target: { name, type, connectors }, manifest, look, word, why, isBehind }) => [
      html`<a href="targets/${name}">${name}</a> <span class="soft o o2">${type}</span>`,
      state(look, word),
      html`<span class="${isBehind ? '' : 'soft'}" title="${why}">${why}</span>`,
      manifest === null ? '' : age(oldestOf(manifest), nowMs, '–'),
      count(connectors.reduce((sum, one) => sum + (overviewOf(overviews, one)?.rows ?? 0), 0)),
      manifest === null
        ? html`<span class="soft">none</span>`
        : html`${moment(manifest.createdAt, nowMs)}
            <span class="soft">no. ${String(manifest.publication)}</span>`,
      actLink(world, './', ['publish-now', 'Publish now…'], { target: name }, 'low'),
    ],
  );
  const main = html`${head(answer, 'A publication holds all entities as of one moment, deletes included. Readers see the old one until the new one is whole.')}
  ${
    all.length === 0
      ? html`<p>
          Name a target under <code>publish</code> in the config: a folder, a bucket, or a database.
        </p>`
      : table('Targets', listColumns, rows, 'go')
  }`;
  const title = `${behind.length > 0 ? `(${behind.length}) ` : ''}Targets`;
  return page({ title, root: './', at: 'targets', main }, world);
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

function newestOf({ status }: Asked) {
  return status === null || typeof status === 'string' ? null : (status.newest?.manifest ?? null);
}

type Manifest = NonNullable<ReturnType<typeof newestOf>>;

/** Changes before it are in, of every entity. */
function oldestOf({ entities }: Manifest) {
  const [oldest = null] = entities.flatMap(({ asOf }) => asOf ?? []).toSorted();
  return oldest;
}

/** One target: its newest publication, the last ones, and what is in the way of the next. */
export async function targetPage(
  settings: LocalSettings,
  target: PublishSettings,
  how: OpenTarget,
  world: PageWorld,
): Promise<string> {
  checkTargets(settings, [target]);
  const status = await targetStatus(target, how);
  const { isUpToDate, newGeneration, refusal, heldBack } = status;
  const { nowMs } = world;
  const { when, name, type, connectors } = target;
  const manifest = newestOf({ target, status });
  const [look, word, why] = judge({ target, status }, nowMs);
  const number = manifest === null ? '' : `no. ${manifest.publication}`;
  const at = manifest === null ? '' : moment(manifest.createdAt, nowMs);
  const inTheWay = callout(
    look === 'bad' ? 'bad' : 'warn',
    'What stands in the way',
    html`<h2>${refusal === null ? 'Held back' : 'It is not published'}</h2>
      ${textLines(refusal === null ? heldBackTexts(heldBack) : refusal.message.split('\n'))}
      ${manifest === null ? '' : html`<p>Readers keep publication ${number} of ${at}.</p>`}`,
  );
  const main = html`${crumbs([['../targets', 'Targets']], name)}
  ${head(
    html`${name} ${state(look, word)}`,
    html`${type}, of
    ${connectors.slice(0, 20).map((one, index) => html`${index === 0 ? '' : ', '}<a href="../connectors/${one.name}">${one.name}</a>`)},
    published ${whenTextOf(when)}`,
    actLink(world, '../', ['publish-now', 'Publish now…'], { target: name }),
  )}
  ${refusal === null && heldBack.length === 0 ? '' : inTheWay}
  ${facts([
    ['Newest publication', manifest === null ? 'none yet' : html`${number}, ${at}`],
    ['Data age', manifest === null ? null : age(oldestOf(manifest), nowMs)],
    ['State', manifest === null ? null : isUpToDate ? 'Nothing newer is stored' : why],
    ['Next one', newGeneration === null ? null : `has all rows again, because ${newGeneration}`],
  ])}
  ${manifest === null ? '' : publishedTables(target, manifest, await publishedBefore(target, manifest.publication, how), nowMs)}`;
  return page({ title: name, root: '../', at: 'targets', main }, world);
}

/** The entities of the newest publication, and the last publications. */
function publishedTables(
  target: PublishSettings,
  { entities }: Manifest,
  last: readonly Manifest[],
  nowMs: number,
): SafeHtml {
  const changes: readonly TableColumn[] = [
    ['Added or changed', 'num'],
    ['Deleted', 'num'],
  ];
  const sum = (of: Manifest, what: 'upserts' | 'deletes'): string =>
    count(of.entities.reduce((all, one) => all + one[what], 0));
  const ofEntities = entities.map((one) => [
    `${one.connector}/${one.entity}`,
    age(one.asOf, nowMs),
    count(one.upserts),
    count(one.deletes),
    html`<span class="soft">${isStillPublished(target, one) ? '' : 'no longer in the config'}</span>`,
  ]);
  const ofPublications = last.map((one) => [
    `no. ${one.publication}`,
    moment(one.createdAt, nowMs),
    sum(one, 'upserts'),
    sum(one, 'deletes'),
    html`<span class="soft">${printable(one.by.host)}</span>`,
  ]);
  return html`<h2>Entities of the newest publication</h2>
    ${table('Entities', ['Entity', ['Data age', 'num'], ...changes, ['Note', 'cut o']], ofEntities)}
    <h2>Last publications</h2>
    ${table('Last publications', ['Publication', 'When', ...changes, ['By', 'o cut']], ofPublications)}`;
}

function whenTextOf(when: PublishSettings['when']): string {
  switch (when.kind) {
    case 'every':
      return `every ${formatDuration(when.everyMs)}`;
    case 'after-sync':
      return 'after each sync';
    case 'by-hand':
      return 'by hand';
  }
}
