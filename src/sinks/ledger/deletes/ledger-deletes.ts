import type { Instant } from '../../../core/clock.ts';
import type { ConnectorName, EntityName, RunId } from '../../../core/names.ts';
import { noCounts, type PageCounts } from '../../../core/records.ts';
import { ask } from '../../../sql/database.ts';
import { textHash } from '../../../sql/text-hash.ts';
import { weighRows } from '../../decisions/add-up.ts';
import { countMissing } from '../../decisions/missing-rows.ts';
import { standing } from '../../decisions/standing.ts';
import type { Candidate, EndedPartition, EntityMissing, Judgement } from '../../deletes.ts';
import { parseParams } from '../../stored-json.ts';
import { addCounts } from '../counts.ts';
import { dayChanges } from '../day-account.ts';
import { grouped } from '../../../core/grouped.ts';
import { long, type Commit, type InLease, type Ledger } from '../ledger.ts';
import type { Leftover } from '../partitions/read-partitions.ts';
import { transitions } from '../partitions/transitions.ts';
import { readStored, storeRows } from '../store-rows.ts';
import { tableNumbers } from '../stored-rows.ts';
import { deleteOrphans, type EndedPartitionRow } from './delete-orphans.ts';
import { deleteMissing } from './delete-rows.ts';
import {
  alikeRows,
  allowMissing,
  askForRows,
  countBelowDeleted,
  countedRows,
  notedRows,
  noteFoundGone,
  suspectRows,
  vouchForRows,
} from './noted-rows.ts';
import { rowsAlong, tableOf } from './rows-below.ts';
import { sweepRows } from './sweep-rows.ts';

/**
 * Rows that a run's full walks did not meet, and what becomes of them, after the walks. Facts only: the engine judges
 * what they mean. Every call may be repeated after a kill; a run that resumes another resumes its sweep.
 */
export function ledgerDeletes({ deletedAtOnce }: Pick<Ledger, 'deletedAtOnce'>, inLease: InLease) {
  return {
    /** The best number of rows for a call: it takes some tens of milliseconds. */
    batchRows: deletedAtOnce,
    sweep: inLease(sweepRows, long),
    suspectParents: inLease(suspectParents, long),
    endedBelow: inLease(
      async ({ held: { connector }, current: { run }, tx }) => await endedBelow(tx, { connector, run }),
    ),
    missing: inLease(weighMissing, long),
    /**
     * A person lets the deletes of this entity pass: what is missing now is no longer withheld, by this run or a later
     * one.
     */
    allow: inLease(
      async ({ held: { connector }, tx }, entity: EntityName): Promise<void> =>
        void (await allowMissing(tx, { connector, entity })),
      long,
    ),
    toConfirm: inLease(candidates),
    judge: inLease(judgeRows),
    tombstone: inLease(deleteMissing),
    tombstoneBelow: inLease(deleteOrphans, long),
  };
}

type OfRun = { readonly connector: ConnectorName; readonly run: RunId };

/**
 * Partitions that this run has set aside and whose parent has turned out to be deleted: nothing is wrong with them.
 */
const endedBelow = ask<
  OfRun,
  EndedPartition
>(`SELECT id, entity FROM _sync_partitions {index _sync_partitions_set_aside}
     WHERE connector = :connector AND set_aside_run = :run AND gone > ${standing.live} ORDER BY id`);

/**
 * Missing rows that a `get` must judge, never asked ones first, then those asked longest ago. Handed out, a row counts
 * as asked: no other call of this run gives it again.
 */
export async function candidates(
  { held, current, stamp, tx }: Commit,
  entity: EntityName,
  limit: number,
): Promise<readonly Candidate[]> {
  const asking = { connector: held.connector, entity, run: current.run, now: stamp.now, limit };
  const asked = await askForRows(tx, asking);
  const rows = asked.map(({ row }) => row);
  const stored = await current.tables.get(entity)?.rows(tx, rows);
  return asked.flatMap(({ row, params, inject, isVouchedFor, since }): readonly Candidate[] => {
    const keyText = stored?.get(row)?.keyText;
    if (keyText === undefined) return [];
    const place = { params: parseParams(params), inject: parseParams(inject) };
    return [{ entity, row, keyText, ...place, wasVouchedFor: isVouchedFor, missingSince: since }];
  });
}

/**
 * Stores what `get` returned for missing rows, and gives counts of the records that were stored. What it did not find
 * is noted, for the guards to judge, and needs nothing more to be tombstoned in this run. A row that is not, or no
 * longer, missing is skipped, so that judgements may be repeated.
 *
 * A row that exists stays noted, as vouched for: the next full walk that misses it asks again and is not withdrawn. A
 * walk that missed an existing record, which listings are not known to leave out, has proved nothing.
 */
export async function judgeRows(
  commit: Commit,
  entity: EntityName,
  judgements: readonly Judgement[],
): Promise<PageCounts> {
  const { held, current, stamp, tx } = commit;
  const of = { connector: held.connector, entity };
  const asked = judgements.map(({ row }) => row);
  const noted = new Map((await notedRows(tx, { ...of, rows: asked })).map((note) => [note.row, note]));
  const stored = await current.tables.get(entity)?.rows(tx, asked);
  const judged = judgements.flatMap((judgement) => {
    const note = noted.get(judgement.row);
    const row = stored?.get(judgement.row);
    return note === undefined || row === undefined || row.deletedAt !== null
      ? []
      : [{ judgement, note, keyText: row.keyText }];
  });
  const gone = judged.flatMap(({ judgement: { verdict, row } }) => (verdict === 'gone' ? [row] : []));
  const there = judged.flatMap(({ judgement, ...one }) =>
    judgement.verdict === 'there' ? [{ ...one, ...judgement }] : [],
  );
  const asking = { ...of, run: current.run, now: stamp.now };
  if (gone.length > 0) await noteFoundGone(tx, { ...asking, rows: gone });
  if (there.length > 0) await vouchForRows(tx, { ...asking, rows: there.map(({ row }) => row) });
  const unlisted = there.filter(({ isUnlisted }) => isUnlisted);
  if (unlisted.length > 0) {
    const keyHashes = unlisted.map(({ keyText }) => textHash(keyText));
    const resting = await transitions.rest(tx, { ...of, keyHashes });
    transitions.dropInner(tx, { trees: resting.map(({ id }) => id) });
  }
  const withdrawn = there.filter(({ isUnlisted, note }) => !isUnlisted && !note.isVouchedFor);
  if (withdrawn.length > 0) {
    await transitions.withdraw(tx, { ids: withdrawn.map(({ note }) => note.partition) });
  }
  // A record of another key would land in another row than the one that was asked for.
  const records = there.flatMap(({ record, keyText }) => (record?.keyText === keyText ? [record] : []));
  // Does not change the seen rows: no walk has met the records.
  const shown = [{ entity, records, isInsertOnly: false, owner: null }];
  const [counts] = await storeRows(commit, shown, await readStored(commit, shown, false));
  const total = { ...noCounts, fetched: records.length, ...counts };
  addCounts(tx, current.run, [{ entity, counts: total }]);
  return total;
}

/** Records that led to listings that do not exist according to the API (404 in this run). */
const notFoundBelow = ask<
  OfRun,
  Pick<Leftover, 'parentEntity' | 'parentKey'>
>(`SELECT DISTINCT parent_entity, parent_key FROM _sync_partitions {index _sync_partitions_set_aside}
     WHERE connector = :connector AND set_aside_run = :run AND parent_key IS NOT NULL AND gone = ${standing.live}
       AND failure_code = 'NOT_FOUND' ORDER BY parent_entity, parent_key`);

/**
 * Notes as missing the records whose children do not exist according to the API, where `get` can judge them: listings
 * of changes would not show it for days.
 */
async function suspectParents(
  { held: { connector }, current, stamp, tx }: Commit,
  confirmable: readonly EntityName[],
): Promise<void> {
  const { origin, run, tables, seen } = current;
  const found = await notFoundBelow(tx, { connector, run });
  for (const [entity, below] of grouped(found, ({ parentEntity }) => parentEntity)) {
    if (!confirmable.includes(entity)) continue;
    const keyTexts = below.map(({ parentKey }) => parentKey);
    const parents = await tables.get(entity)?.rowsOf(tx, keyTexts);
    const there = [...(parents?.values() ?? [])].filter(({ deletedAt }) => deletedAt === null);
    const rows = there.map(({ row }) => row);
    await seen.load(tx, entity, rows);
    const suspects = there.flatMap(({ row, owner }) =>
      owner === null || seen.has(entity, row) ? [] : [{ row, partition: owner, needs: 'get' as const }],
    );
    await suspectRows(tx, { connector, entity, origin, since: stamp.now }, suspects);
  }
}

const rowsAtOnce = 1_000;

/**
 * What the deletes of the missing rows would come to, for every entity of the plan that has some and for every entity
 * of which rows would go along. What lies below records that are already deleted is neither missing nor live: it has
 * been judged. Before the sweep is done: of what is noted so far.
 */
async function weighMissing(commit: Commit): Promise<readonly EntityMissing[]> {
  const { held, current, tx } = commit;
  const noted = await alikeRows(tx, { connector: held.connector });
  const planned = noted.filter(({ entity }) => current.entities.has(entity));
  const alike = grouped(planned, ({ entity }) => entity);
  const counted: (ReturnType<typeof countMissing> & Pick<EntityMissing, 'entity' | 'along'>)[] = [];
  for (const [entity, rows] of alike) {
    const counts = countMissing(rows);
    const isOpen = counts.missing > counts.allowed + counts.vouchedFor;
    counted.push({ entity, ...counts, along: isOpen ? await rowsAlong(commit, entity) : [] });
  }
  const touched = new Set(counted.flatMap((one) => one.along.map(({ entity }) => entity)));
  for (const entity of touched) {
    if (!alike.has(entity)) counted.push({ entity, ...countMissing([]), along: [] });
  }
  if (counted.length === 0) return [];
  const entities = counted.map(({ entity }) => entity);
  const accounts = await accountsOf(commit, entities);
  const weighed: EntityMissing[] = [];
  for (const { firstMissed, ...counts } of counted) {
    const hasSurvivor = firstMissed === null || (await isAnyLeft(commit, counts.entity, firstMissed));
    weighed.push({ ...counts, ...accounts(counts.entity), hasSurvivor });
  }
  return weighed;
}

async function accountsOf(commit: Commit, entities: readonly EntityName[]) {
  const { held, stamp, tx } = commit;
  const { connector } = held;
  const waiting = await countBelowDeleted(tx, { connector });
  const judged = new Map(waiting.map(({ entity, rows }) => [entity, rows]));
  const ended = await allEnded(tx, { connector, entities });
  for (const [entity, ofEntity] of grouped(ended, (one) => one.entity)) {
    const table = await tableOf(commit, entity);
    const owners = ofEntity.map(({ id, sweptTo }) => ({ owner: id, after: sweptTo }));
    const counts = (await table?.countLive(tx, owners, Number.MAX_SAFE_INTEGER)) ?? new Map<number, number>();
    for (const rows of counts.values()) judged.set(entity, (judged.get(entity) ?? 0) + rows);
  }
  const accounts = await tableNumbers(tx, { connector, entities });
  const days = await dayChanges(tx, connector, stamp.now);
  return (entity: EntityName) => {
    const { live: stored = 0, adoptedAt = null } = accounts.get(entity) ?? {};
    const { added: addedInDay, deleted: deletedInDay } = days.get(entity) ?? { added: 0, deleted: 0 };
    const account = { stored, judged: judged.get(entity) ?? 0, addedInDay, deletedInDay };
    return { ...weighRows(account), isAdopted: adoptedAt !== null };
  };
}

/** Below tombstoned records: those whose rows are still to be deleted. */
const allEnded = ask<
  { connector: string; entities: readonly string[] },
  EndedPartitionRow
>(`SELECT id, entity, swept_to FROM _sync_partitions {index _sync_partitions_gone}
     WHERE connector = :connector AND gone = ${standing.ended} AND entity IN {entities text} ORDER BY id`);

/** Whether a row is still there that was stored before the first of the missing ones was missed. */
async function isAnyLeft(
  { held, current, tx }: Commit,
  entity: EntityName,
  firstMissed: Instant,
): Promise<boolean> {
  const table = current.tables.get(entity);
  if (table === undefined) return true;
  for (let after = 0; ;) {
    const rows = await table.liveBefore(tx, firstMissed, after, rowsAtOnce);
    const counted = await countedRows(tx, { connector: held.connector, entity, rows });
    if (counted.length < rows.length) return true;
    const last = rows.at(-1);
    if (last === undefined || rows.length < rowsAtOnce) return false;
    after = last;
  }
}
