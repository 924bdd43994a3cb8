import { SyncError } from '../core/errors.ts';
import type { EntityName } from '../core/names.ts';
import { noCounts } from '../core/records.ts';
import type { Entity } from '../definitions/definition.ts';
import type { Partition } from '../sinks/partition.ts';
import type { StoredAccount, StoredKey } from '../sinks/stored-keys.ts';
import type { PreparedPage } from './prepare/prepare-page.ts';
import type { Run } from './run.ts';
import { findGetParams } from './complete-page.ts';
import { knownOrMade } from '../core/grouped.ts';

/** Most rows of a small entity, whose rows may all have been replaced: their absence alone proves nothing. */
const tellingRows = 1_000;
/** Stored rows of an entity that `get` is asked for. */
const sampledRows = 5;
/** Rows that must be missing, of at least two entities, to prove another account where the walked entity is small. */
const tellingAnswers = 8;
/** Times that a run asks when it gets no answer. */
const mostAttempts = 3;

type PageStored = Pick<PreparedPage, 'stored'>;
export type CheckAccount = ReturnType<typeof openAccountCheck>['ofPage'];

/** Evidence about the account that a page belongs to. */
export interface Strangeness extends StoredAccount {
  /** Records of the page, and those of them that have a row. */
  readonly records: number;
  readonly known: number;
}

/** Whether the page is a reason to ask whose it is. */
export function isStrange({ live, isAdopted, records, known }: Strangeness): boolean {
  return !isAdopted && live > 0 && records > 0 && known === 0;
}

export type Answered = 'found' | 'not-found' | 'unanswered';

/** Answers of `get` for stored rows of one entity, spread over all of its rows. */
export interface SampledEntity {
  readonly isWalked: boolean;
  readonly answers: readonly Answered[];
}

/**
 * One stored row that is found proves the same account. In another account `get` finds none of the walked entity's
 * rows; where that has no `get`, none of two other entities without parents. The rows of a small entity may have been
 * replaced: then the rows of another entity must be missing too. `live`: rows of the walked entity.
 */
export function isOtherAccount(sampled: readonly SampledEntity[], live: number): boolean {
  const asked = sampled.filter(({ answers }) => answers.length > 0);
  if (!asked.every(({ answers }) => answers.every((answer) => answer === 'not-found'))) return false;
  const others = asked.filter(({ isWalked }) => !isWalked).length;
  const answers = asked.reduce((sum, one) => sum + one.answers.length, 0);
  if (live <= tellingRows) return asked.length >= 2 && others > 0 && answers >= tellingAnswers;
  return others >= 2 || asked.some((one) => one.isWalked && one.answers.length >= sampledRows);
}

/** Where the service cannot tell its account, full walks of syncs are checked; one found row settles it for the run. */
export function openAccountCheck(run: Run) {
  const { sink, lease, asked, plan } = run;
  const accounts = new Map<EntityName, Promise<StoredAccount>>();
  /** Whether the first pages of an entity's full walks have shown a stored row. */
  const isKnown = new Map<EntityName, boolean>();
  const samples = new Map<EntityName, Awaited<ReturnType<typeof sample>>>();
  /** The checks so far: while one is under way, no other walk begins to store. */
  let checked: Promise<void> = Promise.resolve();
  let isSettled = false;
  let other: SyncError | null = null;
  let attempts = 0;

  /** State of the account when the run first asked: rows of this run must not count. */
  const accountOf = (entity: EntityName): Promise<StoredAccount> =>
    knownOrMade(accounts, entity, () => sink.stored.account(lease, entity));

  async function judge(entity: Entity, page: PageStored, live: number): Promise<void> {
    const sampled: (SampledEntity & { readonly keys: readonly string[] })[] = [];
    for (const one of [entity, ...rootsBeside(run, entity)]) {
      const found = samples.get(one.name) ?? (await sample(run, one));
      sampled.push({ isWalked: one === entity, ...found });
      isSettled ||= found.answers.includes('found');
      if (isSettled) return;
      if (found.answers.includes('unanswered')) return void (attempts += 1);
      samples.set(one.name, found);
    }
    if (!isOtherAccount(sampled, live)) return;
    other = otherAccount(run, seenInPage(entity, page, sampled), entity.name);
    throw other;
  }

  /**
   * Called with the first page of a walk, before it is stored. Throws `SyncError` IDENTITY_CHANGED for one of another
   * account.
   */
  const ofPage = (entity: Entity, partition: Pick<Partition, 'mode'>, page: PageStored): Promise<void> => {
    if (run.doubtsAccount !== true || plan.kind !== 'sync' || asked.window !== null) return Promise.resolve();
    // Another window has other records.
    if (entity.windows !== null) return Promise.resolve();
    const check = checked.then(() => checkPage(entity, partition, page));
    checked = check.catch(() => undefined);
    return check;
  };

  async function checkPage(entity: Entity, { mode }: Pick<Partition, 'mode'>, page: PageStored) {
    const [own] = page.stored.rows;
    if (other !== null) throw other;
    if (mode !== 'full' || own === undefined || own.records.length === 0) return;
    const account = await accountOf(entity.name);
    const unknown = { ...account, records: own.records.length, known: 0 };
    if (isSettled || attempts >= mostAttempts || !isStrange(unknown)) return;
    const known = await sink.stored.known(lease, entity.name, own.records);
    isKnown.set(entity.name, known > 0 || isKnown.get(entity.name) === true);
    if (isStrange({ ...unknown, known })) await judge(entity, page, account.live);
  }

  /**
   * Called after the walks: what `get` did not settle, they do, where none of them has met a stored row of two entities
   * that no other leads to. Throws as `ofPage`.
   */
  const ofRun = async (): Promise<void> => {
    if (isSettled || run.continues !== null) return;
    const counts = new Map(run.tally.entities().map((one) => [one.entity, one.counts]));
    const strange: EntityName[] = [];
    let rows = 0;
    for (const [name, wasShown] of isKnown) {
      if (wasShown || (counts.get(name) ?? noCounts).unchanged > 0) return;
      if (run.definition.entities.get(name)?.parents.length !== 0) continue;
      strange.push(name);
      rows += (await accountOf(name)).live;
    }
    if (strange.length < 2 || rows < tellingAnswers) return;
    const seen = `none of the ${rows} stored rows of ${strange.join(' and ')} was served.`;
    throw otherAccount(run, seen, strange[0] ?? null);
  };
  return { ofPage, ofRun };
}

function rootsBeside({ definition, entities }: Run, walked: Entity): readonly Entity[] {
  return [...definition.entities.values()].filter(
    (one) => one !== walked && one.parents.length === 0 && entities.has(one.name),
  );
}

/** Stops at the first row that is found, or that there is no answer for. */
async function sample({ sink, source, lease, signal }: Run, entity: Entity) {
  const keys: string[] = [];
  const answers: Answered[] = [];
  const rows = entity.actions.has('get') ? await sink.stored.spread(lease, entity.name, sampledRows) : [];
  for (const row of rows) {
    const params = findGetParams(entity, row satisfies StoredKey);
    if (params === null) continue;
    keys.push(row.keyText);
    try {
      const answer = await source.get({ entity: entity.name, params }, signal);
      answers.push(answer === null ? 'not-found' : 'found');
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof SyncError)) throw error;
      // A failure that must end the run ends it with the next call.
      answers.push('unanswered');
    }
    if (answers.at(-1) !== 'not-found') break;
  }
  return { keys, answers };
}

const shownKeys = 5;
const longestKey = 80;

function seenInPage(
  { name }: Entity,
  { stored: page }: PageStored,
  sampled: readonly { readonly keys: readonly string[] }[],
): string {
  const show = (keys: readonly string[]): string =>
    keys
      .slice(0, shownKeys)
      .map((key) => key.slice(0, longestKey))
      .join(' ');
  const served = show((page.rows[0]?.records ?? []).map(({ keyText }) => keyText));
  const stored = show(sampled.flatMap(({ keys }) => keys));
  return `the first page of ${name} has none of the stored keys, and the API finds none of the stored records that were asked for. Served: ${served}. Stored: ${stored}. The page was not stored.`;
}

function otherAccount(
  { identity: { connector }, id, tally, wrote }: Run,
  seen: string,
  entity: EntityName | null,
): SyncError {
  const hasWritten = tally.entities().some(({ counts }) => counts.inserted + counts.updated > 0);
  const toUndo = [...(hasWritten ? [id] : []), ...wrote.toReversed()];
  const commands = toUndo.map((run) => `"connector-sync undo ${connector} --run ${run}"`).join(', ');
  const undo = commands === '' ? '' : `, take back what was written (${commands})`;
  return new SyncError(
    `connector "${connector}" seems to read another account: ${seen} Until this is settled, nothing of ${connector} is published. ` +
      `If this is the wrong account: correct the config${undo}, and sync again. If it is the right one: connector-sync adopt ${connector} --yes`,
    { code: 'IDENTITY_CHANGED', recovery: 'stop', context: { connector, entity } },
  );
}
