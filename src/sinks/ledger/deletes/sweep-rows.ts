import type { EntityName } from '../../../core/names.ts';
import { ask } from '../../../sql/database.ts';
import { believedUntil } from '../../decisions/becoming-due.ts';
import {
  areOwnRowsSwept,
  isLedTo,
  lastGuestSwept,
  lookForRow,
  sweptToGuest,
  type Needs,
  type OtherPlace,
} from '../../decisions/missing-rows.ts';
import { grouped } from '../grouped.ts';
import type { Commit } from '../ledger.ts';
import { transitions } from '../partitions/transitions.ts';
import type { HomedRow } from '../record-table.ts';
import { dropHomeless, noteMissing, type Missed } from './noted-rows.ts';
import { leavePlaces, otherPlaces, placesById, readGuests, type Guest, type RowAt } from './places.ts';

/** A partition whose full walk of this chain is to be swept. */
interface UnsweptPartition {
  readonly id: number;
  readonly entity: EntityName;
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
 * Looks for the rows that this chain's full walks did not meet, up to `limit` steps: a row each, and each partition
 * twice (for its own rows, and for what it has shown of others'). Done when every partition of the chain is through.
 */
export async function sweepRows(commit: Commit, limit: number): Promise<{ readonly isDone: boolean }> {
  const { held, current, tx } = commit;
  const { connector } = held;
  const { origin, chainStartedAt: fullAt } = current;
  const chain = { connector, origin, entities: [...current.entities] };
  for (let left = limit; left > 0;) {
    const unswept = await nextUnswept(tx, { ...chain, limit: Math.min(left, partitionsAtOnce) });
    if (unswept.length === 0) {
      await dropHomeless(tx, { connector });
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
   * By id, as many of them as there are steps for: rows at home, in their order, and rows of others that it has shown;
   * of the last partition perhaps not all.
   */
  readonly partitions: ReadonlyMap<
    number,
    {
      readonly rows: readonly HomedRow[];
      readonly isRowsWhole: boolean;
      readonly guests: readonly Guest[];
      readonly isGuestsWhole: boolean;
    }
  >;
  /** Of rows that their home has not shown: where else they have been met. */
  readonly places: ReadonlyMap<number, readonly OtherPlace[]>;
  /** Of guests that this chain has met: their homes. */
  readonly homes: ReadonlyMap<number, number | null>;
  /** Of those homes, and of the partitions themselves. */
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
  const homesFrom = partitions
    .filter(({ sweptTo }) => !areOwnRowsSwept(sweptTo))
    .map(({ id, sweptTo }) => ({ home: id, after: sweptTo }));
  const rows = homesFrom.length === 0 ? [] : ((await table?.liveRows(tx, homesFrom, limit)) ?? []);
  const lastHome = rows.length < limit ? undefined : rows.at(-1)?.home;
  const shown = partitions.map(({ id, sweptTo }) => ({ partition: id, after: lastGuestSwept(sweptTo) }));
  const guests = await readGuests(tx, of, shown, limit);
  const lastShown = guests.length < limit ? undefined : guests.at(-1)?.partition;

  const rowsOf = grouped(rows, ({ home }) => home);
  const guestsOf = grouped(guests, ({ partition }) => partition);
  const last = partitions.findIndex(({ id }) => id === lastHome || id === lastShown);
  const read = partitions.slice(0, last < 0 ? undefined : last + 1).map(({ id }) => ({
    id,
    rows: rowsOf.get(id) ?? [],
    isRowsWhole: id !== lastHome,
    guests: guestsOf.get(id) ?? [],
    isGuestsWhole: id !== lastShown,
  }));

  const rowsRead = read.flatMap((one) => one.rows.map(({ row }) => row));
  await current.seen.load(tx, entity, rowsRead);
  const notShown = rowsRead.filter((row) => !current.seen.hasAtHome(entity, row));
  const places = await otherPlaces(tx, of, notShown);
  const met = read.flatMap((one) => one.guests).filter(({ origin }) => origin === current.origin);
  const guestRows = (await table?.rows(tx, [...new Set(met.map(({ row }) => row))])) ?? [];
  const homes = new Map([...guestRows].map(([row, { home }]) => [row, home]));
  const ids = [...new Set([...homes.values(), ...read.map(({ id }) => id)])].flatMap((id) => id ?? []);
  return {
    partitions: new Map(read.map((one) => [one.id, one])),
    places,
    homes,
    placesById: await placesById(tx, ids),
  };
}

/** What was decided over rows of one entity. */
interface FoundRows {
  /** Other homes than those that are stored, by row. */
  readonly homes: Map<number, number>;
  /** Places where rows are looked for no longer. */
  readonly left: Map<string, RowAt>;
  readonly missed: Missed[];
}

/**
 * Decides over what was read, partition by partition: the rows at home first, then what it has shown of others' rows.
 * What one decision changes, the next one sees. It stops behind a partition from which a row has moved to one further
 * on, where it is looked at again once it is stored. `through`: partitions whose sweep is over; `partial`: how far it
 * has come in another one.
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
    const decided = found.get(entity) ?? { homes: new Map(), left: new Map(), missed: [] };
    found.set(entity, decided);
    const sweep = sweepOf(commit, partition, read, decided);
    if (!areOwnRowsSwept(sweptTo)) {
      const rows = stored.rows.slice(0, left);
      for (const row of rows) sweep.atHome(row);
      const last = rows.at(-1);
      const isWhole = stored.isRowsWhole && rows.length < left;
      left -= 1 + rows.length;
      partial = { id, sweptTo: isWhole || last === undefined ? sweptToGuest(0) : last.row };
      if (!isWhole || left <= 0) break;
    }
    const there = stored.guests.filter(({ row }) => !sweep.isLeft(row, id));
    const guests = there.slice(0, left);
    for (const guest of guests) sweep.guest(guest);
    const isWhole = stored.isGuestsWhole && guests.length < left;
    const last = guests.length < there.length ? guests.at(-1) : stored.guests.at(-1);
    left -= 1 + guests.length;
    partial = isWhole || last === undefined ? null : { id, sweptTo: sweptToGuest(last.row) };
    if (partial !== null) break;
    through.push(id);
    if (sweep.movedTo.some((home) => ahead.has(home))) break;
  }
  return { through, partial, found, steps: limit - left };
}

function sweepOf(
  { current, stamp }: Commit,
  { id, entity, absence }: UnsweptPartition,
  read: SweepRead,
  { homes, left, missed }: FoundRows,
) {
  const until = believedUntil(stamp.now);
  /** Homes that rows have been given. */
  const movedTo: number[] = [];
  const isLeft = (row: number, partition: number): boolean => left.has(`${row} ${partition}`);
  const leave = (row: number, partition: number): void =>
    void left.set(`${row} ${partition}`, { row, partition });
  const move = (row: number, home: number): void => {
    homes.set(row, home);
    movedTo.push(home);
  };
  return {
    movedTo,
    isLeft,
    atHome: ({ row, changedAt }: HomedRow): void => {
      const isMoved = (homes.get(row) ?? id) !== id;
      if (isMoved || current.seen.hasAtHome(entity, row)) return;
      const isSeen = current.seen.has(entity, row);
      const places = (read.places.get(row) ?? []).filter(({ partition }) => !isLeft(row, partition));
      const looked = { home: { partition: id, absence }, otherPlaces: places, isSeen, changedAt };
      const where = lookForRow(looked, current, until);
      for (const partition of where.leaves) leave(row, partition);
      if (where.kind === 'stays') return;
      if (where.home !== id) move(row, where.home);
      if (where.kind === 'missing') missed.push({ row, partition: where.home, needs: where.needs });
    },
    guest: ({ row, origin }: Guest): void => {
      const home = origin === current.origin ? (homes.get(row) ?? read.homes.get(row) ?? null) : null;
      // A home that the row has been given just now is a place where it was met.
      const place =
        home === null
          ? undefined
          : (read.placesById.get(home) ?? read.places.get(row)?.find(({ partition }) => partition === home));
      const isHomeless = home !== null && (place === undefined || !isLedTo(place, current));
      if (isHomeless) move(row, id);
      if (isHomeless || origin !== current.origin) leave(row, id);
    },
  };
}

async function writeFound(
  { held: { connector }, current, tx }: Commit,
  entity: EntityName,
  { homes, left, missed }: FoundRows,
): Promise<void> {
  const moved = [...homes].toSorted(([one], [other]) => one - other).map(([row, home]) => ({ row, home }));
  current.tables.get(entity)?.setHomes(tx, moved);
  const of = { connector, entity };
  await leavePlaces(tx, of, [...left.values()]);
  await noteMissing(tx, { ...of, origin: current.origin, since: current.chainStartedAt }, missed);
}
