import type { Instant } from '../../../core/clock.ts';
import { grouped, knownOrMade } from '../../../core/grouped.ts';
import type { ConnectorName, EntityName, RunId } from '../../../core/names.ts';
import { noCounts, type PageCounts } from '../../../core/records.ts';
import { ask, textHash } from '../../../sql/database.ts';
import { weighRows, addCounts } from '../counts.ts';
import { believedUntil, standing } from '../../decisions/becoming-due.ts';
import {
  areOwnRowsSwept,
  countMissing,
  isLedTo,
  lastSharedSwept,
  lookForRow,
  sweptToShared,
  type Needs,
  type OtherPlace,
} from '../../decisions/missing-rows.ts';
import type { Candidate, EndedPartition, EntityMissing, Judgement } from '../../deletes.ts';
import { parseParams } from '../../stored-json.ts';
import { dayChanges } from '../days.ts';
import { long, type Commit, type InLease, type Ledger } from '../ledger.ts';
import type { Leftover } from '../partitions/read-partitions.ts';
import { transitions } from '../partitions/transitions.ts';
import type { OwnedRow } from '../driver.ts';
import { readStored, storeRows } from '../store-rows.ts';
import { tableNumbers } from '../stored-rows.ts';
import { deleteMissing, deleteOrphans, rowsAlong, tableOf, type EndedPartitionRow } from './delete-rows.ts';
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
} from './noted-rows.ts';
import { leavePlaces, otherPlaces, placesById, readShared, type RowAt, type SharedRow } from './places.ts';

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
export async function sweepRows(commit: Commit, limit: number): Promise<{ readonly isDone: boolean }> {
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

/** Stored state of the next partitions of one entity to sweep. */
interface SweepRead {
  /**
   * Rows by id of their partition, for as many partitions as there are steps for: rows that it owns, in their order,
   * and rows of others that it has shown. The last partition may be incomplete.
   */
  readonly partitions: ReadonlyMap<
    number,
    {
      readonly rows: readonly OwnedRow[];
      readonly isRowsWhole: boolean;
      readonly shared: readonly SharedRow[];
      readonly isSharedWhole: boolean;
    }
  >;
  /** Other places of the rows that their owner has not shown, by row. */
  readonly places: ReadonlyMap<number, readonly OtherPlace[]>;
  /** Owners of the shared rows that this chain has met, by row. */
  readonly owners: ReadonlyMap<number, number | null>;
  /** Places of these owners and of the swept partitions themselves, by id. */
  readonly placesById: ReadonlyMap<number, OtherPlace>;
}

async function readSweep(
  { held: { connector }, current, tx }: Commit,
  entity: EntityName,
  partitions: readonly UnsweptPartition[],
  limit: number,
): Promise<SweepRead> {
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
    partitions: new Map(read.map((one) => [one.id, one])),
    places,
    owners,
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
