import type { Instant } from '../../../core/clock.ts';
import { grouped } from '../../../core/grouped.ts';
import type { ConnectorName, EntityName, RunId } from '../../../core/names.ts';
import { noCounts } from '../../../core/records.ts';
import { ask, textHash, quoted } from '../../../sql/database.ts';
import { weighRows, addCounts, dayChanges, noteInDay } from '../counts.ts';
import { believedUntil, standing } from '../../decisions/becoming-due.ts';
import {
  areOwnRowsSwept,
  isLedTo,
  lastSharedSwept,
  lookForRow,
  sweptToShared,
  type Needs,
} from '../../decisions/missing-rows.ts';
import {
  isNoFault,
  type Candidate,
  type EndedPartition,
  type Judgement,
  type TombstoneChoice,
} from '../../deletes.ts';
import { parsePlace } from '../../stored-json.ts';
import { long, type Commit, type InLease, type Ledger } from '../ledger.ts';
import type { Leftover } from '../partitions/due-partitions.ts';
import { transitions } from '../partitions/transitions.ts';
import type { OwnerFrom, KeyedRow, RecordTable, RowOwner } from '../driver.ts';
import { readStored, storeRows } from '../store-rows.ts';
import { tableNumbers, addDeleted, openStoredTable } from '../tables.ts';
import * as notes from './noted-rows.ts';
import type { RowsOf } from '../../run-report.ts';
import { endFiles } from '../downloads/ledger-files.ts';

/**
 * Rows that a run's full walks did not meet, and their handling after the walks. Records facts only: the engine judges
 * their meaning. Every call may be repeated after a kill; a run that resumes another resumes its sweep.
 */
export function ledgerDeletes({ deletedAtOnce }: Pick<Ledger, 'deletedAtOnce'>, inLease: InLease) {
  return {
    /** The best number of rows for a call: it takes some tens of milliseconds. */
    batchRows: deletedAtOnce,
    sweep: inLease(sweepRows, long),
    suspectParents: inLease(suspectParents, long),
    endedBelow: inLease(({ connector, current: { run }, tx }) => endedBelow(tx, { connector, run })),
    missing: inLease(weighMissing, long),
    /**
     * Allows the deletes of this entity for a person: rows missing now are no longer withheld, by this run or a later
     * one.
     */
    allow: inLease(
      async ({ connector, tx }, entity: EntityName): Promise<void> =>
        void (await notes.allowMissing(tx, { connector, entity })),
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
  { connector, current, stamp, tx }: Commit,
  entity: EntityName,
  limit: number,
): Promise<readonly Candidate[]> {
  const asking = { connector, entity, run: current.run, now: stamp.now, limit };
  const asked = await notes.askForRows(tx, asking);
  const rows = asked.map(({ row }) => row);
  const stored = await current.tables.get(entity)?.rows(tx, rows);
  return asked.flatMap(({ row, isVouchedFor, since, ...texts }): readonly Candidate[] => {
    const keyText = stored?.get(row)?.keyText;
    if (keyText === undefined) return [];
    return [{ entity, row, keyText, ...parsePlace(texts), wasVouchedFor: isVouchedFor, missingSince: since }];
  });
}

/**
 * Stores the records that `get` returned for missing rows, and returns their counts. Rows that it did not find are
 * noted, for the guards to judge, and need nothing more to be tombstoned in this run. A row that is not, or no longer,
 * missing is skipped, so that judgements may be repeated. A row that exists stays noted, as vouched for: the next full
 * walk that misses it asks again and is not withdrawn. A walk that missed an existing record, which listings are not
 * known to leave out, has proved nothing.
 */
async function judgeRows(commit: Commit, entity: EntityName, judgements: readonly Judgement[]) {
  const { connector, current, stamp, tx } = commit;
  const of = { connector, entity };
  const asked = judgements.map(({ row }) => row);
  const noted = new Map((await notes.notedRows(tx, { ...of, rows: asked })).map((note) => [note.row, note]));
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
  if (gone.length > 0) await notes.noteFoundGone(tx, { ...asking, rows: gone });
  if (there.length > 0) await notes.vouchForRows(tx, { ...asking, rows: there.map(({ row }) => row) });
  const unlisted = there.filter(({ isUnlisted }) => isUnlisted);
  if (unlisted.length > 0) {
    const keyHashes = unlisted.map(({ keyText }) => textHash(keyText));
    const resting = await transitions.rest(tx, { ...of, keyHashes });
    transitions.dropInner(tx, { trees: resting.map(({ id }) => id) });
  }
  const withdrawn = there.filter((one) => !isNoFault(one) && !one.note.isVouchedFor);
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
async function suspectParents({ connector, current, stamp, tx }: Commit, confirmable: readonly EntityName[]) {
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
    await notes.suspectRows(tx, { connector, entity, origin, since: stamp.now }, suspects);
  }
}

const rowsAtOnce = 1_000;

/**
 * Weighs the deletes of the missing rows, for every entity of the plan that has missing rows and every entity whose
 * rows would go along. Rows below deleted records are neither missing nor live, because they were judged before. Until
 * the sweep is done, the result covers the rows noted so far.
 */
async function weighMissing(commit: Commit) {
  const { connector, current, tx } = commit;
  const noted = await notes.countNoted(tx, { connector });
  const planned = noted.filter(({ entity }) => current.entities.has(entity));
  const counts = new Map(planned.map(({ entity, ...one }) => [entity, one]));
  const along = new Map<EntityName, readonly RowsOf[]>();
  for (const { entity, missing, allowed, vouchedFor } of planned) {
    along.set(entity, missing > allowed + vouchedFor ? await rowsAlong(commit, entity) : []);
  }
  const touched = [...along.values()].flatMap((rows) => rows.map(({ entity }) => entity));
  const entities = [...new Set([...along.keys(), ...touched])];
  if (entities.length === 0) return [];
  const weighed = [];
  const accounts = await accountsOf(commit, entities);
  for (const entity of entities) {
    const { firstMissed, ...counted } = counts.get(entity) ?? notes.noneNoted;
    const hasSurvivor = firstMissed === null || (await isAnyLeft(commit, entity, firstMissed));
    weighed.push({
      entity,
      ...counted,
      ...accounts(entity),
      /** A row that was stored before the first of the missing ones was missed is still there. */
      hasSurvivor,
      /** Rows at any depth that would be deleted along with missing ones that are neither allowed nor vouched for. */
      along: along.get(entity) ?? [],
    });
  }
  return weighed;
}

async function accountsOf(commit: Commit, entities: readonly EntityName[]) {
  const { connector, stamp, tx } = commit;
  const waiting = await notes.countBelowDeleted(tx, { connector });
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
    /** `isAdopted`: from another address, and no full run has agreed with the rows since. */
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
  { ledger: { records }, connector, tx }: Commit,
  entity: EntityName,
  firstMissed: Instant,
): Promise<boolean> {
  const rows = quoted(records.tableName(connector, entity));
  // As a join, PostgreSQL may go through all missing rows first.
  const sql = `SELECT 1 AS found FROM ${rows} AS t WHERE t._first_seen_at < :firstMissed AND t._deleted_at IS NULL
    AND (SELECT m.row FROM ${notes.withPartition} WHERE m.connector = :connector AND m.entity = :entity AND m.row = t._row
           AND ${notes.isCounted} LIMIT 1) IS NULL LIMIT 1`;
  return (await tx.first(sql, { connector, entity, firstMissed })) !== undefined;
}

/** A partition whose full walk of this chain is to be swept. */
interface UnsweptPartition extends EndedPartition {
  readonly absence: Needs;
  /** Progress of the sweep: see `areOwnRowsSwept`. */
  readonly sweptTo: number;
}

/**
 * In an order that only the index of unswept partitions has: by id alone, the planner may go through all partitions.
 */
const nextUnswept = ask<
  { connector: string; origin: number; entities: readonly string[]; limit: number },
  UnsweptPartition
>(`SELECT id, entity, coalesce(absence, 'walk') AS absence, swept_to
     FROM _sync_partitions {index _sync_partitions_sweep}
     WHERE connector = :connector AND sweep_origin BETWEEN :origin AND :origin AND entity IN {entities text}
     ORDER BY sweep_origin, id LIMIT :limit`);

/**
 * Notes as missing the rows that this chain's full walks did not meet: of up to `limit` partitions, with about `limit`
 * of their own rows, and as many rows of others that they have shown. Entities share the limit. Done when every
 * partition of the chain is swept.
 */
async function sweepRows(commit: Commit, limit: number): Promise<{ readonly isDone: boolean }> {
  const { connector, current, tx } = commit;
  const chain = { connector, origin: current.origin, entities: [...current.entities] };
  const unswept = grouped(await nextUnswept(tx, { ...chain, limit }), (one) => one.entity);
  const share = Math.ceil(limit / unswept.size);
  for (const [entity, ofEntity] of unswept) {
    const swept = await sweepOwnRows(commit, entity, ofEntity, share);
    await sweepSharedRows(commit, entity, swept, share);
  }
  const isDone = (await nextUnswept(tx, { ...chain, limit: 1 })).length === 0;
  if (isDone) await notes.dropOwnerless(tx, { connector });
  return { isDone };
}

/** Decides over rows that the partitions own. Gives the partitions of which that is done, in their order. */
async function sweepOwnRows(
  { connector, current, stamp, tx }: Commit,
  entity: EntityName,
  partitions: readonly UnsweptPartition[],
  limit: number,
): Promise<readonly UnsweptPartition[]> {
  const table = current.tables.get(entity);
  const of = { connector, entity };
  const owners = partitions
    .filter(({ sweptTo }) => !areOwnRowsSwept(sweptTo))
    .map(({ id, sweptTo }) => ({ owner: id, after: sweptTo }));
  const rows = owners.length === 0 ? [] : ((await table?.liveRows(tx, owners, limit)) ?? []);
  const numbers = rows.map(({ row }) => row);
  await current.seen.load(tx, entity, numbers);
  const notShown = rows.filter(({ row }) => !current.seen.hasInOwner(entity, row));
  const lost = notShown.map(({ row }) => row);
  const stored = await table?.rows(tx, lost);
  const places = await notes.otherPlaces(tx, of, lost);
  const absences = new Map(partitions.map(({ id, absence }) => [id, absence]));
  const until = believedUntil(stamp.now);
  const moved: RowOwner[] = [];
  const left: notes.RowAt[] = [];
  const missed: notes.Missed[] = [];
  for (const { row, owner } of notShown) {
    const { changedAt = '' } = stored?.get(row) ?? {};
    const isSeen = current.seen.has(entity, row);
    const from = { partition: owner, absence: absences.get(owner) ?? 'walk' };
    const looked = { owner: from, otherPlaces: places.get(row) ?? [], isSeen, changedAt };
    const where = lookForRow(looked, current, until);
    left.push(...where.leaves.map((partition) => ({ row, partition })));
    if (where.kind === 'stays') continue;
    if (where.owner !== owner) moved.push({ row, owner: where.owner });
    if (where.kind === 'missing') missed.push({ row, partition: where.owner, needs: where.needs });
    // Its new owner has shown it: nothing more is decided there, whether this call or a later one reads its rows.
    else if (isSeen) current.seen.mark(entity, row, true);
  }
  current.seen.save(tx);
  table?.setOwners(tx, moved);
  await notes.leavePlaces(tx, of, left);
  await notes.noteMissing(tx, { ...of, origin: current.origin, since: current.chainStartedAt }, missed);
  const last = rows.length < limit ? undefined : rows.at(-1);
  if (last === undefined) return partitions;
  await transitions.sweepTo(tx, { id: last.owner, sweptTo: last.row });
  const isSwept = partitions.findIndex(({ id }) => id === last.owner);
  return partitions.slice(0, isSwept);
}

/**
 * Decides over rows of others that the partitions have shown: a row whose owner nothing leads to belongs to the first
 * partition that has shown it in this chain. Ends the sweep of the partitions of which that is done.
 */
async function sweepSharedRows(
  { connector, current, tx }: Commit,
  entity: EntityName,
  partitions: readonly UnsweptPartition[],
  limit: number,
): Promise<void> {
  if (partitions.length === 0) return;
  const table = current.tables.get(entity);
  const of = { connector, entity };
  const shown = partitions.map(({ id, sweptTo }) => ({ partition: id, after: lastSharedSwept(sweptTo) }));
  const shared = await notes.readShared(tx, of, shown, limit);
  const numbers = [...new Set(shared.map(({ row }) => row))];
  const rows = (await table?.rows(tx, numbers)) ?? new Map<number, never>();
  await current.seen.load(tx, entity, numbers);
  const owners = new Map([...rows].map(([row, { owner }]) => [row, owner]));
  const ids = [...owners.values(), ...partitions.map(({ id }) => id)].flatMap((id) => id ?? []);
  const places = await notes.placesById(tx, [...new Set(ids)]);
  const moved: RowOwner[] = [];
  const left: notes.RowAt[] = [];
  for (const { row, partition, origin } of shared) {
    const owner = owners.get(row) ?? null;
    const place = owner === null ? undefined : places.get(owner);
    if (origin !== current.origin) {
      // An owner that was walked in full and has not shown the row decides over all its places.
      if (place?.fullOrigin === current.origin && !current.seen.hasInOwner(entity, row)) continue;
    } else {
      if (owner === null || (place !== undefined && isLedTo(place, current))) continue;
      owners.set(row, partition);
      moved.push({ row, owner: partition });
    }
    left.push({ row, partition });
  }
  table?.setOwners(tx, moved);
  await notes.leavePlaces(tx, of, left);
  const last = shared.length < limit ? undefined : shared.at(-1);
  const isSwept = partitions.findIndex(({ id }) => id === last?.partition);
  const swept = partitions.slice(0, last === undefined ? undefined : isSwept).map(({ id }) => id);
  if (swept.length > 0) await transitions.endSweep(tx, { ids: swept, fullAt: current.chainStartedAt });
  if (last === undefined) return;
  await transitions.sweepTo(tx, { id: last.partition, sweptTo: sweptToShared(last.row) });
}

/**
 * Permission by which a row is deleted. `judged`: the guards passed it together with the rows that go along. `allowed`:
 * a person allowed it. `along`: it lies below a record that was judged or allowed, and goes with it.
 */
export type Permission = 'judged' | 'allowed' | 'along';

interface GoingRow extends Pick<KeyedRow, 'row' | 'keyText'> {
  readonly permission: Permission;
}

/**
 * Sets tombstones; nothing else does. Marks live rows of an entity as deleted, in the given order, and ends the
 * partitions that they have led to, whose rows follow in batches (`deleteOrphans`), in later runs too. Returns the
 * partitions that it ended. Deletes that the guards passed are noted for the day with all rows that go along, in the
 * same transaction: a run that is killed before it has deleted the rest leaves a delete that was judged as a whole.
 */
export async function deleteRows(commit: Commit, entity: EntityName, going: readonly GoingRow[]) {
  if (going.length === 0) return [];
  const { connector, current, stamp, tx } = commit;
  const of = { connector, entity };
  const rows = going.map(({ row }) => row);
  const keyTexts = going.map(({ keyText }) => keyText);
  if (going.some(({ permission }) => permission === 'judged')) await noteJudged(commit, entity, going);
  const table = current.tables.get(entity);
  await table?.tombstone(tx, rows, stamp);
  addDeleted(tx, { ...of, rows: rows.length });
  await notes.forgetRows(tx, of, rows);
  await endFiles(tx, of, keyTexts);
  const ended = await transitions.end(tx, { ...of, keyHashes: keyTexts.map(textHash) });
  const ids = ended.map(({ id }) => id);
  if (ids.length > 0) transitions.dropInner(tx, { trees: ids });
  return ids;
}

async function noteJudged(commit: Commit, entity: EntityName, going: readonly GoingRow[]): Promise<void> {
  const { connector, stamp, tx } = commit;
  const roots = going.map((one) => ({ ...one, entity }));
  const judged = roots.filter(({ permission }) => permission === 'judged');
  const counts = await countBelow(commit, judged, roots);
  counts.set(entity, (counts.get(entity) ?? 0) + judged.length);
  const deleted = [...counts].map(([one, rows]) => ({ entity: one, rows }));
  noteInDay(tx, connector, 'deleted', deleted, stamp.now);
}

/**
 * Deletes up to `limit` missing rows that were judged or allowed and need nothing more; gives how many (0: none is
 * left).
 */
async function deleteMissing(commit: Commit, entity: EntityName, which: TombstoneChoice, limit: number) {
  const { connector, current, tx } = commit;
  const of = { connector, entity };
  const table = current.tables.get(entity);
  let deleted = 0;
  // Each round takes every row that it checks off the list.
  for (;;) {
    const ready = await notes.readyRows(tx, { ...of, run: current.run, limit: limit - deleted }, which);
    const numbers = ready.map(({ row }) => row);
    const stored = (await table?.rows(tx, numbers)) ?? new Map<number, never>();
    await current.seen.load(tx, entity, numbers);
    const going = ready.flatMap(({ row, isAllowed }): readonly GoingRow[] => {
      const one = stored.get(row);
      // A row that this chain has seen exists: it stays, and no longer counts as missing.
      if (one === undefined || one.deletedAt !== null || current.seen.has(entity, row)) return [];
      return [{ row, keyText: one.keyText, permission: isAllowed ? 'allowed' : 'judged' }];
    });
    await deleteRows(commit, entity, going);
    const gone = new Set(going.map(({ row }) => row));
    const staying = numbers.filter((row) => !gone.has(row));
    notes.endMissing(tx, of, staying);
    deleted += going.length;
    if (ready.length === 0 || deleted >= limit) return deleted;
  }
}

/** A record that may lead to partitions. */
export type Root = Pick<Candidate, 'entity' | 'row' | 'keyText'>;

/**
 * Counts the rows that are deleted along with records, by entity: those owned by partitions that the records led to, at
 * any depth, each once. Without `going` rows, those that this chain has met elsewhere, and entities that keep their
 * rows. Also of entities that the run does not read.
 */
async function countBelow(commit: Commit, roots: readonly Root[], going: readonly Root[]) {
  const { current, tx } = commit;
  const { seen, keeps } = current;
  const counts = new Map<EntityName, number>();
  const named = new Set(going.map(nameOf));
  const visited = new Set<number>();
  for (let open = roots; open.length > 0;) {
    const next: Root[] = [];
    for (const [parent, parents] of grouped(open, (root) => root.entity)) {
      if (!(await isLeadingOn(commit, parent))) continue;
      const found = await partitionsBelow(commit, parent, parents);
      const fresh = found.filter(({ id, entity }) => !visited.has(id) && !keeps.has(entity));
      for (const [entity, ofEntity] of grouped(fresh, (one) => one.entity)) {
        const table = await tableOf(commit, entity);
        if (table === undefined) continue;
        for (const { id } of ofEntity) visited.add(id);
        const isLeading = await isLeadingOn(commit, entity);
        const owners = ofEntity.map(({ id }) => ({ owner: id, after: 0 }));
        for await (const batch of liveBatches(commit, table, owners)) {
          const rows = batch.map(({ row }) => row);
          await seen.load(tx, entity, rows);
          const along = rows.filter(
            (row) =>
              (!seen.has(entity, row) || seen.hasInOwner(entity, row)) && !named.has(nameOf({ entity, row })),
          );
          if (along.length > 0) counts.set(entity, (counts.get(entity) ?? 0) + along.length);
          const keyed = isLeading ? [...(await table.rows(tx, along)).values()] : [];
          next.push(...keyed.map(({ row, keyText }) => ({ entity, row, keyText })));
        }
      }
    }
    open = next;
  }
  return counts;
}

/**
 * The rows deleted along with an entity's missing rows, without those that a person has allowed: they are deleted in
 * any case.
 */
async function rowsAlong(commit: Commit, entity: EntityName): Promise<readonly RowsOf[]> {
  const { connector, current, tx } = commit;
  const of = { connector, entity };
  if (!(await isLeadingOn(commit, entity))) return [];
  const table = current.tables.get(entity);
  const counts = new Map<EntityName, number>();
  for (let after = 0; ;) {
    const batch = await notes.openMissing(tx, { ...of, after, limit: rowsAtOnce });
    const stored = (await table?.rows(tx, batch)) ?? new Map<number, never>();
    const roots = [...stored.values()].map(({ row, keyText }) => ({ entity, row, keyText }));
    for (const [child, rows] of await countBelow(commit, roots, roots)) {
      counts.set(child, (counts.get(child) ?? 0) + rows);
    }
    const last = batch.at(-1);
    if (last === undefined || batch.length < rowsAtOnce) break;
    after = last;
  }
  // Sort by name: a sink finds them in no fixed order.
  const entities = [...counts.keys()].toSorted();
  return entities.map((child) => ({ entity: child, rows: counts.get(child) ?? 0 }));
}

function nameOf({ entity, row }: Pick<Root, 'entity' | 'row'>): string {
  return `${entity} ${row}`;
}

/** Whether records of the entity lead to partitions. Without an order, PostgreSQL may scan all partitions. */
async function isLeadingOn({ connector, tx }: Commit, entity: EntityName): Promise<boolean> {
  const found = await tx.first(
    `SELECT p.id FROM _sync_partitions AS p {index _sync_partitions_parent}
     WHERE p.connector = :connector AND p.parent_entity = :entity AND p.parent_hash IS NOT NULL
     ORDER BY p.parent_hash LIMIT 1`,
    { connector, entity },
  );
  return found !== undefined;
}

/** Partitions that records have led to, by id. Ended ones belong to a delete that has been judged already. */
export async function partitionsBelow(
  { connector, tx }: Pick<Commit, 'connector' | 'tx'>,
  entity: EntityName,
  parents: readonly Pick<Root, 'row' | 'keyText'>[],
): Promise<readonly { readonly id: number; readonly entity: EntityName; readonly row: number }[]> {
  return await tx.rows(
    `SELECT p.id, p.entity, parent.row FROM {parent: row bigint, hash bytea}
     CROSS JOIN _sync_partitions AS p
     WHERE p.connector = :connector AND p.parent_entity = :entity AND p.parent_hash = parent.hash
       AND p.backfill = '' AND p.gone <> ${standing.ended} ORDER BY p.id`,
    { connector, entity, parent: parents.map(({ row, keyText }) => ({ row, hash: textHash(keyText) })) },
  );
}

/** Rows without a tombstone that these partitions own, in batches. */
async function* liveBatches({ tx }: Pick<Commit, 'tx'>, table: RecordTable, owners: readonly OwnerFrom[]) {
  for (let left = owners; left.length > 0;) {
    const batch = await table.liveRows(tx, left, rowsAtOnce);
    yield batch;
    const last = batch.at(-1);
    if (last === undefined || batch.length < rowsAtOnce) return;
    const reached = left.findIndex(({ owner }) => owner === last.owner);
    left = [{ owner: last.owner, after: last.row }, ...left.slice(reached + 1)];
  }
}

/** Table of an entity, also one that the run does not read; undefined where there is none. */
export async function tableOf({ ledger, connector, current, tx }: Commit, entity: EntityName) {
  return current.tables.get(entity) ?? (await openStoredTable(tx, ledger.records, { connector, entity }));
}

/**
 * Partitions whose rows are still to be deleted, in an order that only their index has: by id alone, the planner may
 * scan all partitions.
 */
const nextEnded = ask<
  { connector: string; entities: readonly string[]; limit: number },
  EndedPartitionRow
>(`SELECT id, entity, swept_to FROM _sync_partitions {index _sync_partitions_gone}
     WHERE connector BETWEEN :connector AND :connector AND gone = ${standing.ended} AND entity IN {entities text}
     ORDER BY connector, id LIMIT :limit`);

/**
 * Deletes rows below deleted records, at any depth, which were judged with them: of up to `limit` partitions, about
 * `limit` rows, which their entities share. Rows that may have moved are noted as orphans, for a `get`; they are
 * deleted when it has found nothing. A batch that only found new owners, or rows to ask for, returns entries with 0
 * rows; an empty result means that none remains.
 */
async function deleteOrphans(commit: Commit, limit: number): Promise<readonly RowsOf[]> {
  const { connector, current, tx } = commit;
  const deleted: RowsOf[] = [];
  const gone = await notes.orphansGone(tx, { connector, run: current.run, limit });
  for (const [entity, orphans] of grouped(gone, (one) => one.entity)) {
    const rows = orphans.map(({ row }) => row);
    const going = await goingAlong(commit, entity, rows);
    await deleteRows(commit, entity, going);
    if (going.length > 0) deleted.push({ entity, rows: going.length });
  }
  const next = await nextEnded(tx, { connector, entities: [...current.entities], limit });
  const ended = grouped(next, (one) => one.entity);
  const share = Math.ceil(limit / ended.size);
  for (const [entity, ofEntity] of ended) {
    deleted.push({ entity, rows: await emptyPartitions(commit, entity, ofEntity, share) });
  }
  return deleted;
}

async function goingAlong({ current, tx }: Commit, entity: EntityName, rows: readonly number[]) {
  const stored = await current.tables.get(entity)?.rows(tx, rows);
  return rows.flatMap((row): readonly GoingRow[] => {
    const keyText = stored?.get(row)?.keyText;
    return keyText === undefined ? [] : [{ row, keyText, permission: 'along' }];
  });
}

/**
 * Empties ended partitions of one entity, by id, as far as `limit` rows go; gives how many rows it has deleted. A row
 * with another place moves there. Where a delete of the same batch ends that place, it is emptied in its turn.
 */
async function emptyPartitions(
  commit: Commit,
  entity: EntityName,
  ended: readonly EndedPartitionRow[],
  limit: number,
): Promise<number> {
  const { current, connector, stamp, tx } = commit;
  const of = { connector, entity };
  const table = current.keeps.has(entity) ? undefined : current.tables.get(entity);
  const owners = ended.map(({ id, sweptTo }) => ({ owner: id, after: sweptTo }));
  const live = (await table?.liveRows(tx, owners, limit)) ?? [];
  const numbers = live.map(({ row }) => row);
  const places = await notes.otherPlaces(tx, of, numbers);
  const mayMove = current.reading.get(entity)?.mayMove === true;
  const moved: RowOwner[] = [];
  const orphans: notes.Missed[] = [];
  const left: number[] = [];
  for (const { row, owner } of live) {
    const place = places.get(row)?.find(({ isLive }) => isLive);
    if (place !== undefined) moved.push({ row, owner: place.partition });
    else if (mayMove) orphans.push({ row, partition: owner, needs: 'get' });
    else left.push(row);
  }
  table?.setOwners(tx, moved);
  const placed = moved.map(({ row, owner }) => ({ row, partition: owner }));
  await notes.leavePlaces(tx, of, placed);
  await notes.noteOrphans(tx, { ...of, origin: current.origin, since: stamp.now }, orphans);
  const going = await goingAlong(commit, entity, left);
  await deleteRows(commit, entity, going);
  const last = live.length < limit ? undefined : live.at(-1);
  const isEmptied = ended.findIndex(({ id }) => id === last?.owner);
  const ids = ended.slice(0, last === undefined ? undefined : isEmptied).map(({ id }) => id);
  await notes.dropShared(tx, { ids });
  await transitions.empty(tx, { ids });
  if (last !== undefined) await transitions.sweepTo(tx, { id: last.owner, sweptTo: last.row });
  return going.length;
}

/** A partition below a tombstoned record. */
interface EndedPartitionRow extends EndedPartition {
  /** Rows up to here have been checked, and stay. */
  readonly sweptTo: number;
}
