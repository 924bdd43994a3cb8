import type { Instant } from '../../../core/clock.ts';
import { grouped, knownOrMade } from '../../../core/grouped.ts';
import type { ConnectorName, EntityName, RunId } from '../../../core/names.ts';
import { noCounts, type PageCounts } from '../../../core/records.ts';
import { ask, textHash, columnOf } from '../../../sql/database.ts';
import { weighRows, addCounts, dayChanges, noteInDay, noteInDays } from '../counts.ts';
import { believedUntil, standing } from '../../decisions/becoming-due.ts';
import {
  areOwnRowsSwept,
  countMissing,
  isLedTo,
  lastSharedSwept,
  lookForRow,
  sweptToShared,
  type Needs,
} from '../../decisions/missing-rows.ts';
import type { Candidate, EndedPartition, EntityMissing, Judgement, TombstoneChoice } from '../../deletes.ts';
import { parseParams } from '../../stored-json.ts';
import { long, type Commit, type InLease, type Ledger } from '../ledger.ts';
import type { Leftover } from '../partitions/due-partitions.ts';
import { transitions } from '../partitions/transitions.ts';
import type { OwnedRow, OwnerFrom, KeyedRow, RecordTable, RowOwner } from '../driver.ts';
import { readStored, storeRows } from '../store-rows.ts';
import { tableNumbers, addDeleted, openStoredTable } from '../tables.ts';
import {
  alikeRows,
  allowMissing,
  askForRows,
  countBelowDeleted,
  countedRows,
  dropOwnerless,
  notedRows,
  noteFoundGone,
  noteMissing,
  suspectRows,
  vouchForRows,
  type Missed,
  leavePlaces,
  otherPlaces,
  placesById,
  readShared,
  type RowAt,
  type SharedRow,
  endMissing,
  noteOrphans,
  openMissing,
  orphansGone,
  readyRows,
  dropShared,
  leaveAllPlaces,
} from './noted-rows.ts';
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
    endedBelow: inLease(
      async ({ held: { connector }, current: { run }, tx }) => await endedBelow(tx, { connector, run }),
    ),
    missing: inLease(weighMissing, long),
    /**
     * Allows the deletes of this entity for a person: rows missing now are no longer withheld, by this run or a later
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
 * Stores the records that `get` returned for missing rows, and returns their counts. Rows that it did not find are
 * noted, for the guards to judge, and need nothing more to be tombstoned in this run. A row that is not, or no longer,
 * missing is skipped, so that judgements may be repeated. A row that exists stays noted, as vouched for: the next full
 * walk that misses it asks again and is not withdrawn. A walk that missed an existing record, which listings are not
 * known to leave out, has proved nothing.
 */
async function judgeRows(
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
 * Weighs the deletes of the missing rows, for every entity of the plan that has missing rows and every entity whose
 * rows would go along. Rows below deleted records are neither missing nor live, because they were judged before. Until
 * the sweep is done, the result covers the rows noted so far.
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

const partitionsAtOnce = 500;

/**
 * Notes as missing the rows that this chain's full walks did not meet, in up to `limit` steps: a row each, and each
 * partition twice (for its own rows, and for rows of others that it has shown). Done when every partition of the chain
 * is swept.
 */
async function sweepRows(commit: Commit, limit: number): Promise<{ readonly isDone: boolean }> {
  const { held, current, tx } = commit;
  const { connector } = held;
  const { origin, chainStartedAt: fullAt } = current;
  const chain = { connector, origin, entities: [...current.entities] };
  for (let left = limit; left > 0;) {
    const unswept = await nextUnswept(tx, { ...chain, limit: Math.min(left, partitionsAtOnce) });
    if (unswept.length === 0) {
      await dropOwnerless(tx, { connector });
      return { isDone: true };
    }
    const reads = new Map<EntityName, SweepRead>();
    for (const [entity, ofEntity] of grouped(unswept, (one) => one.entity)) {
      reads.set(entity, await readSweep(commit, entity, ofEntity, left));
    }
    const { through, partial, found, steps } = walkSweep(commit, unswept, reads, left);
    for (const [entity, rows] of found) await writeFound(commit, entity, rows);
    if (through.length > 0) await transitions.endSweep(tx, { ids: through, fullAt });
    if (partial !== null) await transitions.sweepTo(tx, partial);
    left -= steps;
  }
  return { isDone: false };
}

type SweepRead = Awaited<ReturnType<typeof readSweep>>;

/** Reads the stored state of the next partitions of one entity to sweep. */
async function readSweep(
  { held: { connector }, current, tx }: Commit,
  entity: EntityName,
  partitions: readonly UnsweptPartition[],
  limit: number,
) {
  const table = current.tables.get(entity);
  const of = { connector, entity };
  const ownersFrom = partitions
    .filter(({ sweptTo }) => !areOwnRowsSwept(sweptTo))
    .map(({ id, sweptTo }) => ({ owner: id, after: sweptTo }));
  const rows = ownersFrom.length === 0 ? [] : ((await table?.liveRows(tx, ownersFrom, limit)) ?? []);
  const lastOwner = rows.length < limit ? undefined : rows.at(-1)?.owner;
  const shown = partitions.map(({ id, sweptTo }) => ({ partition: id, after: lastSharedSwept(sweptTo) }));
  const shared = await readShared(tx, of, shown, limit);
  const lastShown = shared.length < limit ? undefined : shared.at(-1)?.partition;

  const rowsOf = grouped(rows, ({ owner }) => owner);
  const sharedOf = grouped(shared, ({ partition }) => partition);
  const last = partitions.findIndex(({ id }) => id === lastOwner || id === lastShown);
  const read = partitions.slice(0, last < 0 ? undefined : last + 1).map(({ id }) => ({
    id,
    rows: rowsOf.get(id) ?? [],
    isRowsWhole: id !== lastOwner,
    shared: sharedOf.get(id) ?? [],
    isSharedWhole: id !== lastShown,
  }));

  const rowsRead = read.flatMap((one) => one.rows.map(({ row }) => row));
  await current.seen.load(tx, entity, rowsRead);
  const notShown = rowsRead.filter((row) => !current.seen.hasInOwner(entity, row));
  const places = await otherPlaces(tx, of, notShown);
  const met = read.flatMap((one) => one.shared).filter(({ origin }) => origin === current.origin);
  const sharedRows = (await table?.rows(tx, [...new Set(met.map(({ row }) => row))])) ?? [];
  const owners = new Map([...sharedRows].map(([row, { owner }]) => [row, owner]));
  const ids = [...new Set([...owners.values(), ...read.map(({ id }) => id)])].flatMap((id) => id ?? []);
  return {
    /**
     * Rows by id of their partition, for as many partitions as there are steps for: rows that it owns, in their order,
     * and rows of others that it has shown. The last partition may be incomplete.
     */
    partitions: new Map(read.map((one) => [one.id, one])),
    /** Other places of the rows that their owner has not shown, by row. */
    places,
    /** Owners of the shared rows that this chain has met, by row. */
    owners,
    /** Places of these owners and of the swept partitions themselves, by id. */
    placesById: await placesById(tx, ids),
  };
}

/** Decisions about rows of one entity. */
interface FoundRows {
  /** Other owners than those that are stored, by row. */
  readonly owners: Map<number, number>;
  /** Places where rows are looked for no longer. */
  readonly left: Map<string, RowAt>;
  readonly missed: Missed[];
}

/**
 * Decides over the rows that were read, partition by partition: its own rows first, then rows of others that it has
 * shown. Each decision takes the earlier ones into account. It stops after a partition from which a row has moved to a
 * later one, where it is checked again once it is stored. `through`: partitions whose sweep is over; `partial`:
 * progress of the sweep in another one.
 */
function walkSweep(
  commit: Commit,
  partitions: readonly UnsweptPartition[],
  reads: ReadonlyMap<EntityName, SweepRead>,
  limit: number,
) {
  const found = new Map<EntityName, FoundRows>();
  const through: number[] = [];
  const ahead = new Set(partitions.map(({ id }) => id));
  let left = limit;
  let partial: { readonly id: number; readonly sweptTo: number } | null = null;
  for (const partition of partitions) {
    const { id, entity, sweptTo } = partition;
    const read = reads.get(entity);
    const stored = read?.partitions.get(id);
    if (left <= 0 || read === undefined || stored === undefined) break;
    ahead.delete(id);
    const decided = knownOrMade(found, entity, () => ({ owners: new Map(), left: new Map(), missed: [] }));
    const sweep = sweepOf(commit, partition, read, decided);
    if (!areOwnRowsSwept(sweptTo)) {
      const rows = stored.rows.slice(0, left);
      for (const row of rows) sweep.inOwner(row);
      const last = rows.at(-1);
      const isWhole = stored.isRowsWhole && rows.length < left;
      left -= 1 + rows.length;
      partial = { id, sweptTo: isWhole || last === undefined ? sweptToShared(0) : last.row };
      if (!isWhole || left <= 0) break;
    }
    const there = stored.shared.filter(({ row }) => !sweep.isLeft(row, id));
    const shared = there.slice(0, left);
    for (const row of shared) sweep.shared(row);
    const isWhole = stored.isSharedWhole && shared.length < left;
    const last = shared.length < there.length ? shared.at(-1) : stored.shared.at(-1);
    left -= 1 + shared.length;
    partial = isWhole || last === undefined ? null : { id, sweptTo: sweptToShared(last.row) };
    if (partial !== null) break;
    through.push(id);
    if (sweep.movedTo.some((owner) => ahead.has(owner))) break;
  }
  return { through, partial, found, steps: limit - left };
}

function sweepOf(
  { current, stamp }: Commit,
  { id, entity, absence }: UnsweptPartition,
  read: SweepRead,
  { owners, left, missed }: FoundRows,
) {
  const until = believedUntil(stamp.now);
  /** Owners that rows have been given. */
  const movedTo: number[] = [];
  const isLeft = (row: number, partition: number): boolean => left.has(`${row} ${partition}`);
  const leave = (row: number, partition: number): void =>
    void left.set(`${row} ${partition}`, { row, partition });
  const move = (row: number, owner: number): void => {
    owners.set(row, owner);
    movedTo.push(owner);
  };
  return {
    movedTo,
    isLeft,
    inOwner: ({ row, changedAt }: OwnedRow): void => {
      const isMoved = (owners.get(row) ?? id) !== id;
      if (isMoved || current.seen.hasInOwner(entity, row)) return;
      const isSeen = current.seen.has(entity, row);
      const places = (read.places.get(row) ?? []).filter(({ partition }) => !isLeft(row, partition));
      const looked = { owner: { partition: id, absence }, otherPlaces: places, isSeen, changedAt };
      const where = lookForRow(looked, current, until);
      for (const partition of where.leaves) leave(row, partition);
      if (where.kind === 'stays') return;
      if (where.owner !== id) move(row, where.owner);
      if (where.kind === 'missing') missed.push({ row, partition: where.owner, needs: where.needs });
    },
    shared: ({ row, origin }: SharedRow): void => {
      const owner = origin === current.origin ? (owners.get(row) ?? read.owners.get(row) ?? null) : null;
      // An owner that the row has been given just now is a place where it was met.
      const place =
        owner === null
          ? undefined
          : (read.placesById.get(owner) ??
            read.places.get(row)?.find(({ partition }) => partition === owner));
      const isOwnerless = owner !== null && (place === undefined || !isLedTo(place, current));
      if (isOwnerless) move(row, id);
      if (isOwnerless || origin !== current.origin) leave(row, id);
    },
  };
}

async function writeFound(
  { held: { connector }, current, tx }: Commit,
  entity: EntityName,
  { owners, left, missed }: FoundRows,
): Promise<void> {
  const moved = [...owners].toSorted(([one], [other]) => one - other).map(([row, owner]) => ({ row, owner }));
  current.tables.get(entity)?.setOwners(tx, moved);
  const of = { connector, entity };
  await leavePlaces(tx, of, [...left.values()]);
  await noteMissing(tx, { ...of, origin: current.origin, since: current.chainStartedAt }, missed);
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
export async function deleteRows(
  commit: Commit,
  entity: EntityName,
  going: readonly GoingRow[],
): Promise<readonly number[]> {
  if (going.length === 0) return [];
  const { held, current, stamp, tx } = commit;
  const { connector } = held;
  const of = { connector, entity };
  const rows = going.map(({ row }) => row);
  const keyTexts = going.map(({ keyText }) => keyText);
  if (going.some(({ permission }) => permission === 'judged')) await noteJudged(commit, entity, going);
  const table = current.tables.get(entity);
  await table?.tombstone(tx, rows, stamp);
  addDeleted(tx, of, rows.length);
  noteInDays(tx, connector, [{ entity, deleted: rows.length }], stamp.now);
  await leaveAllPlaces(tx, of, rows);
  endMissing(tx, of, rows);
  await endFiles(tx, of, keyTexts);
  const ended = await transitions.end(tx, { ...of, keyHashes: keyTexts.map(textHash) });
  const ids = ended.map(({ id }) => id);
  if (ids.length > 0) transitions.dropInner(tx, { trees: ids });
  return ids;
}

async function noteJudged(commit: Commit, entity: EntityName, going: readonly GoingRow[]): Promise<void> {
  const { held, stamp, tx } = commit;
  const roots = going.map((one) => ({ ...one, entity }));
  const below = await readRowsBelow(commit, roots);
  const counts = new Map<EntityName, number>();
  for (const root of roots) {
    if (root.permission === 'judged') {
      counts.set(entity, (counts.get(entity) ?? 0) + 1);
      below.addUp(root, counts);
    }
    below.goes(root);
  }
  const deleted = [...counts].map(([one, rows]) => ({ entity: one, rows }));
  noteInDay(tx, held.connector, 'deleted', deleted, stamp.now);
}

/**
 * Deletes up to `limit` missing rows that were judged or allowed and need nothing more; gives how many (0: none is
 * left).
 */
async function deleteMissing(
  commit: Commit,
  entity: EntityName,
  which: TombstoneChoice,
  limit: number,
): Promise<number> {
  const { held, current, tx } = commit;
  const of = { connector: held.connector, entity };
  const table = current.tables.get(entity);
  let deleted = 0;
  // Each round takes every row that it checks off the list.
  for (;;) {
    const ready = await readyRows(tx, { ...of, run: current.run, limit: limit - deleted }, which);
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
    endMissing(tx, of, staying);
    deleted += going.length;
    if (ready.length === 0 || deleted >= limit) return deleted;
  }
}

/** A record that may lead to partitions. */
export type Root = Pick<Candidate, 'entity' | 'row' | 'keyText'>;

interface Partition {
  readonly id: number;
  readonly entity: EntityName;
  /** Number of rows that go along, without rows that lead on and rows among the roots. */
  plain: number;
  readonly leading: Root[];
}

/**
 * The rows deleted along with records: those owned by partitions that the records led to, at any depth. Reads it level
 * by level; `roots` are of one entity.
 */
async function readRowsBelow(commit: Commit, roots: readonly Root[]) {
  const below = new Map<string, readonly Partition[]>();
  const partitions = new Map<number, Partition>();
  const rootNames = new Set(roots.map(nameOf));
  const leading = await entitiesLeadingOn(commit, [...new Set(roots.map(({ entity }) => entity))]);
  let open: readonly Root[] = roots.filter(({ entity }) => leading.has(entity));
  while (open.length > 0) {
    const found: Partition[] = [];
    for (const [entity, parents] of grouped(open, (root) => root.entity)) {
      for (const { row, ...one } of await partitionsBelow(commit, entity, parents)) {
        if (commit.current.keeps.has(one.entity)) continue;
        const known = partitions.get(one.id);
        const partition = known ?? { ...one, plain: 0, leading: [] };
        if (known === undefined) {
          partitions.set(one.id, partition);
          found.push(partition);
        }
        const name = nameOf({ entity, row });
        below.set(name, [...(below.get(name) ?? []), partition]);
      }
    }
    await readRows(commit, found, rootNames);
    const next = found.flatMap(({ leading }) => leading).filter((one) => !below.has(nameOf(one)));
    open = [...new Map(next.map((one) => [nameOf(one), one])).values()];
    for (const one of open) below.set(nameOf(one), []);
  }
  return countsOf(below);
}

/**
 * The rows deleted along with an entity's missing rows, without those that a person has allowed: they are deleted in
 * any case.
 */
async function rowsAlong(commit: Commit, entity: EntityName): Promise<readonly RowsOf[]> {
  const { held, current, tx } = commit;
  const of = { connector: held.connector, entity };
  if (!(await entitiesLeadingOn(commit, [entity])).has(entity)) return [];
  const table = current.tables.get(entity);
  const counts = new Map<EntityName, number>();
  for (let after = 0; ;) {
    const batch = await openMissing(tx, { ...of, after, limit: rowsAtOnce });
    const stored = (await table?.rows(tx, batch)) ?? new Map<number, never>();
    const roots = [...stored.values()].map(({ row, keyText }) => ({ entity, row, keyText }));
    const below = await readRowsBelow(commit, roots);
    for (const root of roots) below.addUp(root, counts);
    const last = batch.at(-1);
    if (last === undefined || batch.length < rowsAtOnce) break;
    after = last;
  }
  // Sort by name: a sink finds them in no fixed order.
  const entities = [...counts.keys()].toSorted();
  return entities.map((child) => ({ entity: child, rows: counts.get(child) ?? 0 }));
}

function countsOf(below: ReadonlyMap<string, readonly Partition[]>) {
  const gone = new Set<string>();
  const ended = new Set<number>();
  return {
    /**
     * Adds the rows that are deleted with this record, by entity. Without those already counted (`goes`), those that
     * this chain has met elsewhere, and entities that keep their rows. Also of entities that the run does not read.
     */
    addUp: (root: Root, counts: Map<EntityName, number>): void => {
      const visited = new Set<number>();
      const open = [...(below.get(nameOf(root)) ?? [])];
      for (let next = open.pop(); next !== undefined; next = open.pop()) {
        const { id, entity, plain, leading } = next;
        if (visited.has(id) || ended.has(id)) continue;
        visited.add(id);
        const alive = leading.filter((one) => !gone.has(nameOf(one)));
        const rows = plain + alive.length;
        if (rows > 0) counts.set(entity, (counts.get(entity) ?? 0) + rows);
        for (const one of alive) open.push(...(below.get(nameOf(one)) ?? []));
      }
    },
    /** The record is deleted: it is no longer below another, and its partitions are ended. */
    goes: (root: Root): void => {
      gone.add(nameOf(root));
      for (const { id } of below.get(nameOf(root)) ?? []) ended.add(id);
    },
  };
}

function nameOf({ entity, row }: Pick<Root, 'entity' | 'row'>): string {
  return `${entity} ${row}`;
}

/**
 * Entities whose records lead to partitions. With `EXISTS`, or without an order, PostgreSQL may scan all partitions.
 */
async function entitiesLeadingOn(
  { held: { connector }, tx }: Commit,
  entities: readonly EntityName[],
): Promise<ReadonlySet<EntityName>> {
  const found = await columnOf<EntityName | null>(
    tx,
    `SELECT (SELECT p.parent_entity FROM _sync_partitions AS p {index _sync_partitions_parent}
       WHERE p.connector = :connector AND p.parent_entity = named.entity AND p.parent_hash IS NOT NULL
       ORDER BY p.parent_hash LIMIT 1)
     FROM {named: entity text}`,
    { connector, named: entities.map((entity) => ({ entity })) },
  );
  return new Set(found.filter((entity) => entity !== null));
}

/** Partitions that records have led to, by id. Ended ones belong to a delete that has been judged already. */
export async function partitionsBelow(
  { held: { connector }, tx }: Pick<Commit, 'held' | 'tx'>,
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

async function readRows(
  commit: Commit,
  partitions: readonly Partition[],
  rootNames: ReadonlySet<string>,
): Promise<void> {
  const { current } = commit;
  for (const [entity, ofEntity] of grouped(partitions, (one) => one.entity)) {
    const table = await tableOf(commit, entity);
    if (table === undefined) continue;
    const byId = new Map(ofEntity.map((one) => [one.id, one]));
    const isLeading = (await entitiesLeadingOn(commit, [entity])).has(entity);
    const owners = ofEntity.map(({ id }) => ({ owner: id, after: 0 }));
    for await (const batch of liveBatches(commit, table, owners)) {
      const rows = batch.map(({ row }) => row);
      await current.seen.load(commit.tx, entity, rows);
      const going = batch.filter(
        ({ row }) => !current.seen.has(entity, row) || current.seen.hasInOwner(entity, row),
      );
      const numbers = going.map(({ row }) => row);
      const named = numbers.filter((row) => isLeading || rootNames.has(nameOf({ entity, row })));
      const keyed = named.length === 0 ? new Map<number, never>() : await table.rows(commit.tx, named);
      for (const { row, owner } of going) {
        const partition = byId.get(owner);
        const known = keyed.get(row);
        if (partition === undefined) continue;
        if (known === undefined) partition.plain += 1;
        else partition.leading.push({ entity, row, keyText: known.keyText });
      }
    }
  }
}

/** Rows without a tombstone that these partitions own, in batches. */
async function* liveBatches(
  { tx }: Pick<Commit, 'tx'>,
  table: RecordTable,
  owners: readonly OwnerFrom[],
): AsyncGenerator<readonly OwnedRow[]> {
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
export async function tableOf(
  { ledger, held: { connector }, current, tx }: Commit,
  entity: EntityName,
): Promise<RecordTable | undefined> {
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
 * Deletes rows below deleted records, at any depth, which were judged with them, in up to `limit` steps (a row or a
 * partition each). Rows that may have moved are noted as orphans, for a `get`; they are deleted when it has found
 * nothing. A batch that only found new owners, or rows to ask for, returns entries with 0 rows; an empty result means
 * that none remains.
 */
async function deleteOrphans(commit: Commit, limit: number): Promise<readonly RowsOf[]> {
  const { held, current, tx } = commit;
  const { connector } = held;
  const entities = [...current.entities];
  const rowsByEntity = new Map<EntityName, number>();
  const count = (entity: EntityName, rows: number): void =>
    void rowsByEntity.set(entity, (rowsByEntity.get(entity) ?? 0) + rows);
  let left = limit;
  const gone = await orphansGone(tx, { connector, run: current.run, limit });
  for (const [entity, orphans] of grouped(gone, (one) => one.entity)) {
    const rows = orphans.map(({ row }) => row);
    const going = await goingAlong(commit, entity, rows);
    if (going.length === 0) continue;
    await deleteRows(commit, entity, going);
    count(entity, going.length);
    left -= going.length;
  }
  while (left > 0) {
    const limit = Math.min(left, partitionsAtOnce);
    const ended = await nextEnded(tx, { connector, entities, limit });
    if (ended.length === 0) break;
    const { steps, rows } = await emptyPartitions(commit, ended, left);
    for (const [entity, deleted] of rows) count(entity, deleted);
    left -= steps;
  }
  return [...rowsByEntity].map(([entity, rows]) => ({ entity, rows }));
}

async function goingAlong(
  { current, tx }: Commit,
  entity: EntityName,
  rows: readonly number[],
): Promise<readonly GoingRow[]> {
  const stored = await current.tables.get(entity)?.rows(tx, rows);
  return rows.flatMap((row): readonly GoingRow[] => {
    const keyText = stored?.get(row)?.keyText;
    return keyText === undefined ? [] : [{ row, keyText, permission: 'along' }];
  });
}

/**
 * Deletes the rows of ended partitions by id; the last one only as far as the steps allow. `rows`: numbers of
 * tombstoned rows, by entity, including entities without any.
 */
async function emptyPartitions(commit: Commit, ended: readonly EndedPartitionRow[], limit: number) {
  const { tx } = commit;
  const orphans = new Map<EntityName, OrphansOf>();
  for (const [entity, ofEntity] of grouped(ended, (one) => one.entity)) {
    orphans.set(entity, await readOrphans(commit, entity, ofEntity, limit));
  }
  const { whole, partial, steps } = decideOrphans(ended, orphans, limit);
  const rows = new Map<EntityName, number>();
  for (const [entity, { table, moved, orphans: noted, going }] of orphans) {
    if (table === undefined) continue;
    const of = { connector: commit.held.connector, entity };
    table.setOwners(tx, moved);
    const left = moved.map(({ row, owner }) => ({ row, partition: owner }));
    await leavePlaces(tx, of, left);
    const chain = { ...of, origin: commit.current.origin, since: commit.stamp.now };
    await noteOrphans(tx, chain, noted);
    await deleteRows(commit, entity, going);
  }
  for (const { id, entity } of ended) {
    if (!whole.includes(id) && id !== partial?.id) break;
    rows.set(entity, orphans.get(entity)?.going.length ?? 0);
  }
  await dropShared(tx, whole);
  await transitions.empty(tx, { ids: whole });
  if (partial !== null) await transitions.sweepTo(tx, partial);
  return { steps, rows };
}

/** Stored state of partitions of one entity, and the decisions about their rows. */
type OrphansOf = Awaited<ReturnType<typeof readOrphans>>;

async function readOrphans(
  commit: Commit,
  entity: EntityName,
  ended: readonly EndedPartitionRow[],
  limit: number,
) {
  const { current, held, tx } = commit;
  const table = current.keeps.has(entity) ? undefined : current.tables.get(entity);
  const owners = ended.map(({ id, sweptTo }) => ({ owner: id, after: sweptTo }));
  const live = (await table?.liveRows(tx, owners, limit)) ?? [];
  const reached = live.length < limit ? undefined : live.at(-1)?.owner;
  const byOwner = grouped(live, ({ owner }) => owner);
  const last = reached === undefined ? ended.length - 1 : ended.findIndex(({ id }) => id === reached);
  const numbers = live.map(({ row }) => row);
  const mayMove = current.reading.get(entity)?.mayMove === true;
  const along = mayMove ? [] : await goingAlong(commit, entity, numbers);
  const keyed = new Map(along.map((one) => [one.row, one]));
  const below = along.length === 0 ? [] : await partitionsBelow(commit, entity, along);
  const ends = grouped(below, ({ row }) => row);
  return {
    table,
    /** Live rows by partition, as many as there are steps for. */
    live: new Map(ended.slice(0, last + 1).map(({ id }) => [id, byOwner.get(id) ?? []])),
    places: await otherPlaces(tx, { connector: held.connector, entity }, numbers),
    mayMove,
    keyed,
    /** Partitions that the delete of each row would end. */
    ends: new Map([...ends].map(([row, below]) => [row, below.map(({ id }) => id)])),
    moved: [] as RowOwner[],
    orphans: [] as Missed[],
    going: [] as GoingRow[],
  };
}

/** A partition below a tombstoned record. */
interface EndedPartitionRow extends EndedPartition {
  /** Rows up to here have been checked, and stay. */
  readonly sweptTo: number;
}

/**
 * Decides over the rows of partitions, one after the other: a row has another owner, or may have one that no walk has
 * shown yet, or it is deleted. A partition that its delete would end is no owner for the rows that follow; where it
 * ends a partition that comes before the next, that one is first. `whole`: partitions whose rows have all been checked.
 */
function decideOrphans(
  ended: readonly EndedPartitionRow[],
  orphans: ReadonlyMap<EntityName, OrphansOf>,
  limit: number,
) {
  const whole: number[] = [];
  const endedNow = new Set<number>();
  let left = limit;
  for (const [index, { id, entity }] of ended.entries()) {
    const ofEntity = orphans.get(entity);
    const live = ofEntity?.live.get(id);
    if (left <= 0 || ofEntity === undefined || live === undefined) break;
    const rows = live.slice(0, left);
    const endedHere = rows.flatMap(({ row }) => decideOrphan(ofEntity, row, id, endedNow));
    const last = rows.at(-1);
    const isWhole = rows.length < left;
    left -= 1 + rows.length;
    if (!isWhole && last !== undefined) {
      return { whole, partial: { id, sweptTo: last.row }, steps: limit - left };
    }
    whole.push(id);
    const next = ended[index + 1]?.id ?? Infinity;
    if (endedHere.some((partition) => partition < next)) break;
  }
  return { whole, partial: null, steps: limit - left };
}

/** Gives the partitions that are ended by it. */
function decideOrphan(
  { places, mayMove, keyed, ends, moved, orphans, going }: OrphansOf,
  row: number,
  partition: number,
  endedNow: Set<number>,
): readonly number[] {
  const known = places.get(row) ?? [];
  const owner = known.find((one) => one.isLive && !endedNow.has(one.partition))?.partition;
  const one = keyed.get(row);
  if (owner !== undefined) {
    moved.push({ row, owner });
  } else if (mayMove) {
    orphans.push({ row, partition, needs: 'get' });
  } else if (one !== undefined) {
    going.push(one);
    const below = ends.get(row) ?? [];
    for (const id of below) endedNow.add(id);
    return below;
  }
  return [];
}
