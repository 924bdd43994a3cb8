import { html, type SafeHtml } from '@remix-run/html-template';
import { healthOf, type Trouble } from '../app/connector-health.ts';
import { overviewOf, type SinkOverview } from '../app/connector-states.ts';
import { publishedBefore, targetStatus } from '../app/publish-target.ts';
import { answeredWithin, systemClock } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import { entityOfHistory } from '../core/names.ts';
import { firstNames } from '../definitions/suggest-name.ts';
import type { OpenTarget } from '../publish/open-target.ts';
import { heldBackTexts, type TargetState } from '../publish/publication.ts';
import { isStillPublished } from '../settings/choices.ts';
import type { LocalSettings, PublishSettings } from '../settings/settings.ts';
import { checkTargets } from '../settings/load-settings.ts';
import { count, counted, printable, printableWithin } from '../telemetry/format.ts';
import { actLink, page, type PageWorld } from './layout.ts';
import {
  age,
  callout,
  type Column,
  crumbs,
  facts,
  head,
  moment,
  momentText,
  needs,
  span,
  state,
  type StateLook,
  table,
  textLines,
} from './page-parts.ts';
import { troubleReason } from './trouble-text.ts';

/** A target that does not answer keeps the list waiting no longer; before its first answer three times as long. */
const listWithinMs = 800;
/** A page that is read again asks a target no more often. */
const askedEveryMs = 10_000;
/** The same for pages about something else. */
const [glancedEveryMs, glanceWithinMs] = [60_000, 500];
const mostAsked = 100;

type Overviews = ReadonlyMap<string, SinkOverview>;

/** A target, and its state. A text: why its state cannot be read. Null: it has not answered so far. */
interface Asked {
  readonly target: PublishSettings;
  readonly status: TargetState | string | null;
}

/** Asks targets for their state, each at most every ten seconds; a slow answer is there for the next page. */
export function watchTargets(settings: LocalSettings, how: OpenTarget) {
  const targets = [...settings.publish.values()].slice(0, mostAsked);
  const asked = new Map<string, { readonly atMs: number; readonly answer: Promise<TargetState | string> }>();
  const last = new Map<string, TargetState | string>();
  const ask = async (target: PublishSettings): Promise<TargetState | string> => {
    try {
      checkTargets(settings, [target]);
      return await targetStatus(target, how);
    } catch (error) {
      if (error instanceof SyncError) return error.message;
      return 'Its state cannot be read; the log of the server says why.';
    }
  };
  const answerOf = async (target: PublishSettings, everyMs: number): Promise<TargetState | string> => {
    const atMs = performance.now();
    const known = asked.get(target.name);
    if (known !== undefined && atMs - known.atMs < everyMs) return await known.answer;
    const answer = ask(target);
    asked.set(target.name, { atMs, answer });
    last.set(target.name, await answer);
    return await answer;
  };
  const askAll = async (everyMs: number, withinMs: number): Promise<readonly Asked[]> =>
    await Promise.all(
      targets.map(async (target) => {
        const late = last.get(target.name) ?? null;
        const ms = late === null ? 3 * withinMs : withinMs;
        const status = await answeredWithin(answerOf(target, everyMs), late, ms, systemClock);
        return { target, status };
      }),
    );
  return {
    states: async () => await askAll(askedEveryMs, listWithinMs),
    /** For pages about something else: up to a minute old, and late answers are left to the next page. */
    glance: async (nowMs: number) => judgedTargets(await askAll(glancedEveryMs, glanceWithinMs), nowMs),
  };
}

type Judged = Pick<Asked, 'status'> & { readonly target: Pick<PublishSettings, 'when'> };
type Judgement = readonly [look: StateLook, word: string, why: string];

/** The state of a target in a word, and what stands in the way, or when it is published. */
function judge({ target: { when }, status }: Judged, nowMs: number): Judgement {
  const whenText = whenTextOf(when);
  if (status === null) return ['idle', 'No answer', 'It does not answer; the page is read again by itself.'];
  if (typeof status === 'string') return ['bad', 'Not reached', firstSentence(status)];
  const { refusal, heldBack, newest, isUpToDate } = status;
  if (refusal !== null) return ['bad', 'Held back', firstSentence(refusal.message)];
  const doubted = new Set(heldBack.flatMap(({ connector, doubt }) => (doubt === null ? [] : connector)));
  if (doubted.size > 0) {
    const why = `${firstNames([...doubted], 3)}: the workspace is in doubt; settle that first`;
    return ['bad', 'Held back', why];
  }
  if (newest === null) return ['idle', 'Not published yet', whenText];
  if (isUpToDate) return ['ok', 'Up to date', whenText];
  const names = heldBack.map(({ connector, entity }) => `${connector}/${entity}`);
  const waits = names.length === 0 ? '' : `; ${firstNames(names, 3)} wait to be read again`;
  const since = lateSince({ target: { when }, status }, nowMs);
  if (since === null) return ['idle', 'Changes wait', `${whenText}${waits}`];
  return ['warn late', 'Late', `since ${momentText(since, nowMs)}; promised ${whenText}${waits}`];
}

/** Since when readers wait for longer than they were promised; null: they do not, or no time is promised. */
function lateSince({ target: { when }, status }: Judged, nowMs: number): number | null {
  const state = typeof status === 'string' ? null : status;
  if (when.kind !== 'every' || !state?.newest || state.isUpToDate) return null;
  const dueMs = Date.parse(state.newest.checkedAt) + when.everyMs;
  return nowMs > dueMs + graceMs ? dueMs : null;
}

/** The problem; what to do about it stands on the target's page. */
function firstSentence(text: string): string {
  return printableWithin(/^.*?\.(?=\s|$)/s.exec(text)?.[0] ?? text, 300);
}

const minuteMs = 60_000;
/** A worker may be busy, or start again. */
const graceMs = 5 * minuteMs;

export type JudgedTarget = ReturnType<typeof judgedTargets>[number];

/** `isBehind`: readers do not get what they were promised, and a person has to see why. */
function judgedTargets(asked: readonly Asked[], nowMs: number) {
  return asked.map((one) => {
    const [look, word, why] = judge(one, nowMs);
    const isBehind = look === 'bad' || look === 'warn late';
    return { target: one.target, manifest: newestOf(one), look, word, why, isBehind };
  });
}

/** All targets: whether readers can trust them, and what is in the way. */
export function targetsPage(asked: readonly Asked[], overviews: Overviews, world: PageWorld): string {
  const { nowMs } = world;
  const all = judgedTargets(asked, nowMs).map((one) => {
    const { name } = one.target;
    const link = html`<a class="name" href="targets/${name}">${name}</a>`;
    // Not offered where it would be refused.
    const publish = one.look === 'bad' ? '' : actLink(world, './', publishAct, { target: name }, 'low');
    return { ...one, name: link, publish, shown: state(one.look, one.word) };
  });
  const behind = all.filter(({ isBehind }) => isBehind);
  const targets = counted(all.length, 'target');
  const answer =
    all.length === 0
      ? 'Nothing is published'
      : behind.length === 0
        ? `${targets}, nothing in the way`
        : `${count(behind.length)} of ${targets} ${behind.length === 1 ? 'is' : 'are'} behind`;
  const columns: readonly Column<(typeof all)[number]>[] = [
    ['Target', ({ name, target }) => html`${name} <span class="soft o o2">${target.type}</span>`],
    ['State', ({ shown }) => shown],
    ['Published', ({ target }) => html`<span class="soft">${whenTextOf(target.when)}</span>`, 'o'],
    [
      'Newest',
      ({ manifest }) =>
        manifest === null
          ? html`<span class="soft">none</span>`
          : html`${age(manifest.createdAt, nowMs)} <span class="soft">ago</span>`,
      'num o',
    ],
    [
      'Data age',
      ({ manifest }) => (manifest && age(oldestOf(manifest)?.asOf ?? null, nowMs, '–')) || '',
      'num',
    ],
    ['Rows', ({ target }) => count(rowsOf(target, overviews)), 'num o o2'],
    [html`<span class="unseen">Act</span>`, ({ isBehind, publish }) => (isBehind ? '' : publish), 'num o'],
  ];
  const rows = [...behind, ...all.filter(({ isBehind }) => !isBehind)];
  const main = html`${head(answer, 'A publication holds all entities as of one moment, deletes included. Readers see the old one until the new one is whole.')}
  ${
    behind.length === 0
      ? ''
      : needs(
          behind.map(({ shown, name, why, publish }) => [shown, name, why, publish]),
          'What stands in the way',
        )
  }
  ${
    all.length === 0
      ? html`<p>
          Name a target under <code>publish</code> in the config: a folder, a bucket, or a database.
        </p>`
      : table('Targets', columns, rows, { look: 'go', name: () => 'wrap' })
  }`;
  const title = `${behind.length > 0 ? `(${behind.length}) ` : ''}Targets`;
  return page({ title, root: './', at: 'targets', main }, world);
}

function rowsOf({ connectors }: PublishSettings, overviews: Overviews): number {
  return connectors.reduce((sum, one) => sum + (overviewOf(overviews, one)?.rows ?? 0), 0);
}

const publishAct = ['publish-now', 'Publish now…'] as const;

function newestOf({ status }: Judged) {
  return status === null || typeof status === 'string' ? null : (status.newest?.manifest ?? null);
}

type Manifest = NonNullable<ReturnType<typeof newestOf>>;

/** Changes before its time are in, of every entity. */
function oldestOf({ entities }: Manifest) {
  const ages = entities.flatMap((one) => (one.asOf === null ? [] : [{ ...one, asOf: one.asOf }]));
  return ages.toSorted((left, right) => Date.parse(left.asOf) - Date.parse(right.asOf))[0] ?? null;
}

/** `30 h, because of billing/customers (limit 3 d). Paused by ben since 29 Nov 15:48: the year ends`. */
function ageFact(
  { connectors }: PublishSettings,
  manifest: Manifest,
  overviews: Overviews,
  world: PageWorld,
) {
  const oldest = oldestOf(manifest);
  if (oldest === null) return age(null, world.nowMs);
  const entity = entityOfHistory(oldest.entity) ?? oldest.entity;
  const connector = connectors.find(({ name }) => name === oldest.connector);
  const limitMs = connector?.entities.get(entity)?.freshWithinMs ?? null;
  const limit = limitMs === null ? '' : ` (limit ${span(limitMs)})`;
  const of = html`${age(oldest.asOf, world.nowMs)}, because of
    <a href="../connectors/${oldest.connector}">${oldest.connector}</a>/${oldest.entity}${limit}`;
  const overview = connector === undefined ? null : overviewOf(overviews, connector);
  if (connector === undefined || overview === null) return of;
  const read = overview.freshness.find((one) => one.entity === entity)?.asOf ?? '';
  const health = healthOf(connector, overview, world.nowMs);
  if (read > oldest.asOf) return html`${of}. It was read again since, and is not yet published.`;
  // A pause explains whatever else is wrong.
  const cause: Trouble | null =
    overview.paused === null
      ? health.reason
      : { kind: 'paused', ...overview.paused, word: 'paused', isForPerson: false };
  return cause === null
    ? of
    : html`${of}. ${troubleReason(cause, { connector, overview, health, runs: [] }, world)}`;
}

/** One target: its newest publication, the last ones, and what is in the way of the next. */
export async function targetPage(
  settings: LocalSettings,
  target: PublishSettings,
  how: OpenTarget,
  overviews: Overviews,
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
  const since = lateSince({ target, status }, nowMs);
  const isInTheWay = refusal !== null || heldBack.length > 0 || since !== null;
  const heading = refusal !== null ? 'It is not published' : heldBack.length > 0 ? 'Held back' : 'Late';
  // Not offered where it would be refused.
  const publish = (on: 'primary' | ''): SafeHtml | '' =>
    look === 'bad' ? '' : actLink(world, '../', publishAct, { target: name }, on);
  const inTheWay = callout(
    look === 'bad' ? 'bad' : 'warn',
    'What stands in the way',
    html`<h2>${heading}</h2>
      ${textLines(refusal === null ? heldBackTexts(heldBack) : refusal.message.split('\n'))}
      ${since === null ? '' : html`<p>Late since ${moment(since, nowMs)}: promised ${whenTextOf(when)}.</p>`}
      ${manifest === null ? '' : html`<p>Readers keep publication ${number} of ${at}.</p>`}`,
    publish('primary'),
  );
  const main = html`${crumbs([['../targets', 'Targets']], name)}
  ${head(
    html`${name} ${state(look, word)}`,
    html`${type}, of
    ${connectors.slice(0, 20).map((one, index) => html`${index === 0 ? '' : ', '}<a href="../connectors/${one.name}">${one.name}</a>`)},
    published ${whenTextOf(when)}`,
    isInTheWay ? '' : publish(''),
  )}
  ${isInTheWay ? inTheWay : ''}
  ${facts([
    [
      'Newest publication',
      manifest === null
        ? 'none yet'
        : html`${number}, ${age(manifest.createdAt, nowMs)} old, of ${at}; promised: ${whenTextOf(when)}`,
    ],
    ['Data age', manifest && ageFact(target, manifest, overviews, world)],
    ['State', manifest === null || look === 'bad' ? null : isUpToDate ? 'Nothing newer is stored' : why],
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
  const ofEntities: readonly Column<Manifest['entities'][number]>[] = [
    ['Entity', ({ connector, entity }) => `${connector}/${entity}`],
    ['Data age', ({ asOf }) => age(asOf, nowMs), 'num'],
    ['Added or changed', ({ upserts }) => count(upserts), 'num'],
    ['Deleted', ({ deletes }) => count(deletes), 'num'],
    [
      'Note',
      (one) =>
        html`<span class="soft">${isStillPublished(target, one) ? '' : 'no longer in the config'}</span>`,
      'cut o',
    ],
  ];
  const sum = (of: Manifest, what: 'upserts' | 'deletes'): string =>
    count(of.entities.reduce((all, one) => all + one[what], 0));
  const ofPublications: readonly Column<Manifest>[] = [
    ['Publication', ({ publication }) => `no. ${publication}`],
    ['When', ({ createdAt }) => moment(createdAt, nowMs)],
    ['Added or changed', (one) => sum(one, 'upserts'), 'num'],
    ['Deleted', (one) => sum(one, 'deletes'), 'num'],
    ['By', ({ by }) => html`<span class="soft">${printable(by.host)}</span>`, 'o cut'],
  ];
  return html`<h2>Entities of the newest publication</h2>
    ${table('Entities', ofEntities, entities)}
    <h2>Last publications</h2>
    ${table('Last publications', ofPublications, last)}`;
}

const whenTexts = { 'after-sync': 'after each sync', 'by-hand': 'by hand' } as const;

function whenTextOf(when: PublishSettings['when']): string {
  return when.kind === 'every' ? `every ${span(when.everyMs)}` : whenTexts[when.kind];
}
