import type { EntityName } from '../../../core/names.ts';
import { ask } from '../../../sql/database.ts';
import { believedUntil } from '../../decisions/becoming-due.ts';
import {
  areOwnRowsSwept,
  isLedTo,
  lastSharedSwept,
  lookForRow,
  sweptToShared,
  type Needs,
  type OtherPlace,
} from '../../decisions/missing-rows.ts';
import type { EndedPartition } from '../../deletes.ts';
import { grouped } from '../../../core/grouped.ts';
import type { Commit } from '../ledger.ts';
import { transitions } from '../partitions/transitions.ts';
import type { OwnedRow } from '../record-table.ts';
import { dropOwnerless, noteMissing, type Missed } from './noted-rows.ts';
import { leavePlaces, otherPlaces, placesById, readShared, type SharedRow, type RowAt } from './places.ts';
import { knownOrMade } from '../../../core/known-or-made.ts';

/** A partition whose full walk of this chain is to be swept. */
interface UnsweptPartition extends EndedPartition {
  readonly absence: Needs;
  /** How far that has come: see `areOwnRowsSwept`. */
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
 * Notes as missing the rows that this chain's full walks did not meet, up to `limit` steps: a row each, and each
 * partition twice (for its own rows, and for what it has shown of others'). Done when every partition of the chain is
 * through.
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

/** What is stored of the next partitions of one entity that are to be swept. */
interface SweepRead {
  /**
   * By id, as many of them as there are steps for: rows that it owns, in their order, and rows of others that it has
   * shown; of the last partition possibly not all.
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
  /** Of rows that their owner has not shown: where else they have been met. */
  readonly places: ReadonlyMap<number, readonly OtherPlace[]>;
  /** Of shared rows that this chain has met: their owners. */
  readonly owners: ReadonlyMap<number, number | null>;
  /** Of those owners, and of the partitions themselves. */
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

/** What was decided over rows of one entity. */
interface FoundRows {
  /** Other owners than those that are stored, by row. */
  readonly owners: Map<number, number>;
  /** Places where rows are looked for no longer. */
  readonly left: Map<string, RowAt>;
  readonly missed: Missed[];
}

/**
 * Decides over what was read, partition by partition: the rows that it owns first, then what it has shown of others'
 * rows. What one decision changes, the next one sees. It stops after a partition from which a row has moved to one
 * further on, where it is checked again once it is stored. `through`: partitions whose sweep is over; `partial`: how
 * far it has come in another one.
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
