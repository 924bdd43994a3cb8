import type { EntityName } from '../../../core/names.ts';
import type { Needs, OtherPlace } from '../../decisions/look-for-row.ts';
import type { Commit } from '../ledger.ts';
import type { HomedRow, RecordTable } from '../records/record-table.ts';
import { otherPlaces, placesById, readGuests, type Guest } from './places.ts';

/** A partition whose full walk of this chain is to be swept. */
export interface UnsweptPartition {
  readonly id: number;
  readonly entity: EntityName;
  readonly absence: Needs;
  /** 0 or more: rows of this home up to here are through. Below 0: all of them are, and guests up to row `-1 - sweptTo`. */
  readonly sweptTo: number;
}

/** What is stored of the next partitions of one entity that are to be swept. */
export interface SweepRead {
  readonly partitions: readonly PartitionRead[];
  /** Of rows that their home has not shown: where else they have been met. */
  readonly places: ReadonlyMap<number, readonly OtherPlace[]>;
  /** Of guests that this chain has met: their homes. */
  readonly homes: ReadonlyMap<number, number | null>;
  /** Of those homes, and of the partitions themselves. */
  readonly placesById: ReadonlyMap<number, OtherPlace>;
}

interface PartitionRead extends UnsweptPartition {
  /** Rows at home, in their order, and whether these are all. */
  readonly rows: readonly HomedRow[];
  readonly isRowsWhole: boolean;
  /** Rows of others that it has shown, and whether these are all. */
  readonly guests: readonly Guest[];
  readonly isGuestsWhole: boolean;
}

/** As many of the partitions as there are steps for: the last one may be read in part. */
export async function readSweep(
  { ledger: { at }, held: { connector }, current, tx }: Commit,
  table: RecordTable,
  partitions: readonly UnsweptPartition[],
  limit: number,
): Promise<SweepRead> {
  const [first] = partitions;
  if (first === undefined) {
    return { partitions: [], places: new Map(), homes: new Map(), placesById: new Map() };
  }
  const { entity } = first;
  const of = { connector, entity };
  const atHome = partitions.filter(({ sweptTo }) => sweptTo >= 0);
  const rows =
    atHome.length === 0
      ? []
      : await table.liveRows(
          tx,
          atHome.map(({ id, sweptTo }) => ({ home: id, after: sweptTo })),
          limit,
        );
  const lastHome = rows.length < limit ? undefined : rows.at(-1)?.home;
  const shown = partitions.map(({ id, sweptTo }) => ({ partition: id, after: Math.max(-1 - sweptTo, 0) }));
  const guests = await readGuests(tx, at, of, shown, limit);
  const lastShown = guests.length < limit ? undefined : guests.at(-1)?.partition;

  const read: PartitionRead[] = [];
  for (const partition of partitions) {
    const { id } = partition;
    read.push({
      ...partition,
      rows: rows.filter(({ home }) => home === id),
      isRowsWhole: id !== lastHome,
      guests: guests.filter((guest) => guest.partition === id),
      isGuestsWhole: id !== lastShown,
    });
    if (id === lastHome || id === lastShown) break;
  }

  const rowsRead = read.flatMap((one) => one.rows.map(({ row }) => row));
  await current.seen.load(tx, entity, rowsRead);
  const notShown = rowsRead.filter((row) => !current.seen.hasAtHome(entity, row));
  const places = await otherPlaces(tx, at, of, notShown);
  const met = read.flatMap((one) => one.guests).filter(({ origin }) => origin === current.origin);
  const guestRows = await table.rows(tx, [...new Set(met.map(({ row }) => row))]);
  const homes = new Map([...guestRows].map(([row, { home }]) => [row, home]));
  const ids = new Set([...homes.values(), ...read.map(({ id }) => id)]);
  const known = await placesById(
    tx,
    at,
    [...ids].flatMap((id) => id ?? []),
  );
  return { partitions: read, places, homes, placesById: known };
}
