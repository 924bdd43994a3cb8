import type { EntityName } from '../../../core/names.ts';
import {
  areOwnRowsSwept,
  lastGuestSwept,
  type Needs,
  type OtherPlace,
} from '../../decisions/missing-rows.ts';
import type { Commit } from '../ledger.ts';
import type { HomedRow } from '../record-table.ts';
import { otherPlaces, placesById, readGuests, type Guest } from './places.ts';

/** A partition whose full walk of this chain is to be swept. */
export interface UnsweptPartition {
  readonly id: number;
  readonly entity: EntityName;
  readonly absence: Needs;
  /** How far that has come: see `areOwnRowsSwept`. */
  readonly sweptTo: number;
}

/** What is stored of the next partitions of one entity that are to be swept. */
export interface SweepRead {
  /** By id: as many of them as there are steps for, the last one perhaps in part. */
  readonly partitions: ReadonlyMap<number, PartitionRead>;
  /** Of rows that their home has not shown: where else they have been met. */
  readonly places: ReadonlyMap<number, readonly OtherPlace[]>;
  /** Of guests that this chain has met: their homes. */
  readonly homes: ReadonlyMap<number, number | null>;
  /** Of those homes, and of the partitions themselves. */
  readonly placesById: ReadonlyMap<number, OtherPlace>;
}

export interface PartitionRead {
  /** Rows at home, in their order, and whether these are all. */
  readonly rows: readonly HomedRow[];
  readonly isRowsWhole: boolean;
  /** Rows of others that it has shown, and whether these are all. */
  readonly guests: readonly Guest[];
  readonly isGuestsWhole: boolean;
}

export async function readSweep(
  { held: { connector }, current, tx }: Commit,
  entity: EntityName,
  partitions: readonly UnsweptPartition[],
  limit: number,
): Promise<SweepRead> {
  const table = current.tables.get(entity)?.table;
  if (table === undefined) {
    // An entity of the plan always has a table; without one nothing of it was read either.
    const nothing = { rows: [], isRowsWhole: true, guests: [], isGuestsWhole: true };
    const empty = new Map(partitions.map(({ id }) => [id, nothing]));
    return { partitions: empty, places: new Map(), homes: new Map(), placesById: new Map() };
  }
  const of = { connector, entity };
  const unswept = partitions.filter(({ sweptTo }) => !areOwnRowsSwept(sweptTo));
  const homesFrom = unswept.map(({ id, sweptTo }) => ({ home: id, after: sweptTo }));
  const rows = homesFrom.length === 0 ? [] : await table.liveRows(tx, homesFrom, limit);
  const lastHome = rows.length < limit ? undefined : rows.at(-1)?.home;
  const shown = partitions.map(({ id, sweptTo }) => ({ partition: id, after: lastGuestSwept(sweptTo) }));
  const guests = await readGuests(tx, of, shown, limit);
  const lastShown = guests.length < limit ? undefined : guests.at(-1)?.partition;

  const read = new Map<number, PartitionRead>();
  const rowsOf = grouped(rows, ({ home }) => home);
  const guestsOf = grouped(guests, ({ partition }) => partition);
  for (const { id } of partitions) {
    read.set(id, {
      rows: rowsOf.get(id) ?? [],
      isRowsWhole: id !== lastHome,
      guests: guestsOf.get(id) ?? [],
      isGuestsWhole: id !== lastShown,
    });
    if (id === lastHome || id === lastShown) break;
  }

  const rowsRead = [...read.values()].flatMap((one) => one.rows.map(({ row }) => row));
  await current.seen.load(tx, entity, rowsRead);
  const notShown = rowsRead.filter((row) => !current.seen.hasAtHome(entity, row));
  const places = await otherPlaces(tx, of, notShown);
  const met = [...read.values()].flatMap((one) =>
    one.guests.filter(({ origin }) => origin === current.origin),
  );
  const guestRows = await table.rows(tx, [...new Set(met.map(({ row }) => row))]);
  const homes = new Map([...guestRows].map(([row, { home }]) => [row, home]));
  const ids = [...new Set([...homes.values(), ...read.keys()])].flatMap((id) => id ?? []);
  return { partitions: read, places, homes, placesById: await placesById(tx, ids) };
}

export function grouped<One>(list: readonly One[], keyOf: (one: One) => number): ReadonlyMap<number, One[]> {
  const groups = new Map<number, One[]>();
  for (const one of list) {
    const group = groups.get(keyOf(one));
    if (group === undefined) groups.set(keyOf(one), [one]);
    else group.push(one);
  }
  return groups;
}
