import { SyncError } from '../core/errors.ts';
import type { EntityName } from '../core/names.ts';
import type { Entity } from '../definitions/definition.ts';
import type { Partition } from '../sinks/partition.ts';
import type { StoredAccount, StoredKey } from '../sinks/stored-keys.ts';
import type { PreparedPage } from './prepare/prepare-page.ts';
import type { Run } from './run.ts';
import { findGetParams } from './sweep/find-get-params.ts';
import { knownOrMade } from '../core/known-or-made.ts';

/** Of an entity with no more rows a page with other keys says nothing. */
const tellingRows = 1_000;
/** Stored rows of an entity that `get` is asked for. */
const sampledRows = 5;
/** Times that a run asks, where it gets no answer. */
const mostAttempts = 3;

export type CheckAccount = ReturnType<typeof openAccountCheck>;

/** What is known of whose records a page shows. */
export interface Strangeness extends StoredAccount {
  /** Records of the page, and those of them that have a row. */
  readonly records: number;
  readonly known: number;
}

/** Whether the page is a reason to ask whose it is. */
export function isStrange({ live, isAdopted, records, known }: Strangeness): boolean {
  return !isAdopted && live > tellingRows && records > 0 && known === 0;
}

export type Answered = 'found' | 'not-found' | 'unanswered';

/** Of one entity, what `get` returned for stored rows that are spread over all of them. */
export interface SampledEntity {
  readonly isWalked: boolean;
  readonly answers: readonly Answered[];
}

/**
 * One stored row that is found is enough for the same account. Another one knows none of the walked entity's; where
 * that has no `get`, none of two other entities, which no other leads to.
 */
export function isOtherAccount(sampled: readonly SampledEntity[]): boolean {
  const asked = sampled.filter(({ answers }) => answers.length > 0);
  const areAllGone = asked.every(({ answers }) => answers.every((answer) => answer === 'not-found'));
  const isWalkedGone = asked.some(({ isWalked, answers }) => isWalked && answers.length >= sampledRows);
  return areAllGone && (isWalkedGone || asked.filter(({ isWalked }) => !isWalked).length >= 2);
}

/** Where the service cannot tell its account, full walks of syncs are checked; a verdict is found once a run. */
export function openAccountCheck(run: Run) {
  const { sink, lease, asked, plan } = run;
  const accounts = new Map<EntityName, Promise<StoredAccount>>();
  let verdict: Promise<void> | null = null;
  let attempts = 0;

  /** As it was when the run first asked: its own rows are not its measure. */
  const accountOf = (entity: EntityName): Promise<StoredAccount> =>
    knownOrMade(accounts, entity, () => sink.stored.account(lease, entity));

  async function judge(entity: Entity, page: Pick<PreparedPage, 'stored'>): Promise<void> {
    attempts += 1;
    const sampled: (SampledEntity & { readonly keys: readonly string[] })[] = [];
    for (const one of [entity, ...rootsBeside(run, entity)]) {
      const { keys, answers } = await sample(run, one);
      sampled.push({ isWalked: one === entity, keys, answers });
      if (answers.includes('found')) return;
      if (answers.includes('unanswered')) {
        verdict = null;
        return;
      }
    }
    if (isOtherAccount(sampled)) throw otherAccount(run, entity, page, sampled);
  }

  /**
   * Called with the first page of a walk, before it is stored. Throws `SyncError` IDENTITY_CHANGED for one of another
   * account.
   */
  return async (
    entity: Entity,
    { mode }: Pick<Partition, 'mode'>,
    page: Pick<PreparedPage, 'stored'>,
  ): Promise<void> => {
    const isChecked = run.doubtsAccount === true && plan.kind === 'sync' && asked.window === null;
    const [own] = page.stored.rows;
    // While it is being found out, no other walk begins to store.
    await verdict;
    if (!isChecked || mode !== 'full' || own === undefined || own.records.length === 0) return;
    const account = await accountOf(entity.name);
    const unknown = { ...account, records: own.records.length, known: 0 };
    if (!isStrange(unknown) || (verdict === null && attempts >= mostAttempts)) return;
    const known = await sink.stored.known(lease, entity.name, own.records);
    if (isStrange({ ...unknown, known })) await (verdict ??= judge(entity, page));
  };
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
      // What must end the run ends it with the next call.
      answers.push('unanswered');
    }
    if (answers.at(-1) !== 'not-found') break;
  }
  return { keys, answers };
}

const shownKeys = 5;
const longestKey = 80;

function otherAccount(
  { identity: { connector }, tally }: Run,
  { name: entity }: Entity,
  { stored: page }: Pick<PreparedPage, 'stored'>,
  sampled: readonly { readonly keys: readonly string[] }[],
): SyncError {
  const show = (keys: readonly string[]): string =>
    keys
      .slice(0, shownKeys)
      .map((key) => key.slice(0, longestKey))
      .join(' ');
  const served = show((page.rows[0]?.records ?? []).map(({ keyText }) => keyText));
  const stored = show(sampled.flatMap(({ keys }) => keys));
  const before = tally
    .entities()
    .reduce((sum, { counts: { inserted, updated } }) => sum + inserted + updated, 0);
  return new SyncError(
    `connector "${connector}" seems to read another account: the first page of ${entity} has none of the stored keys, and the API finds none of the stored records that were asked for. ` +
      `Served: ${served}. Stored: ${stored}. The page was not stored; ${before} rows of other listings were before. ` +
      `Correct the config if this is the wrong account. If it is the right one: connector-sync adopt ${connector} --yes`,
    { code: 'IDENTITY_CHANGED', recovery: 'stop', context: { connector, entity } },
  );
}
