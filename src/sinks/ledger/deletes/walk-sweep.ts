import type { EntityName } from '../../../core/names.ts';
import { believedUntil } from '../../decisions/becoming-due.ts';
import {
  areOwnRowsSwept,
  isLedTo,
  lookForRow,
  sweptToGuest,
  type Needs,
  type OtherPlace,
} from '../../decisions/missing-rows.ts';
import type { Commit } from '../ledger.ts';
import type { HomedRow } from '../record-table.ts';
import type { Guest, RowAt } from './places.ts';
import type { Missed } from './read-missing.ts';

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

export interface Swept {
  /** Partitions whose sweep is over. */
  readonly through: readonly number[];
  /** The one that is swept up to here. */
  readonly partial: SweptTo | null;
  readonly found: ReadonlyMap<EntityName, FoundRows>;
  /**
   * Rows and partitions that were looked at; each of these twice: for its own rows, and for what it has shown of
   * others'.
   */
  readonly steps: number;
}

type SweptTo = { readonly id: number; readonly sweptTo: number };

/** What was decided over rows of one entity. */
export interface FoundRows {
  /** Other homes than those that are stored, by row. */
  readonly homes: Map<number, number>;
  /** Places where rows are looked for no longer. */
  readonly left: Map<string, RowAt>;
  readonly missed: Missed[];
}

/**
 * Decides over what was read, partition by partition: the rows at home first, then what it has shown of others' rows.
 * What one decision changes, the next one sees. It stops behind a partition from which a row has moved to one further
 * on, where it is looked at again once it is stored.
 */
export function walkSweep(
  commit: Commit,
  partitions: readonly UnsweptPartition[],
  reads: ReadonlyMap<EntityName, SweepRead>,
  limit: number,
): Swept {
  const found = new Map<EntityName, FoundRows>();
  const through: number[] = [];
  const ahead = new Set(partitions.map(({ id }) => id));
  let left = limit;
  let partial: SweptTo | null = null;
  for (const partition of partitions) {
    const { id, entity, sweptTo } = partition;
    const read = reads.get(entity);
    const stored = read?.partitions.get(id);
    if (left <= 0 || read === undefined || stored === undefined) break;
    ahead.delete(id);
    const decided = found.get(entity) ?? newFound();
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
    if (sweep.movedTo().some((home) => ahead.has(home))) break;
  }
  return { through, partial, found, steps: limit - left };
}

function newFound(): FoundRows {
  return { homes: new Map(), left: new Map(), missed: [] };
}

interface PartitionSweep {
  readonly atHome: (row: HomedRow) => void;
  readonly guest: (guest: Guest) => void;
  readonly isLeft: (row: number, partition: number) => boolean;
  /** Homes that rows have been given. */
  readonly movedTo: () => readonly number[];
}

function sweepOf(
  { current, stamp }: Commit,
  { id, entity, absence }: UnsweptPartition,
  read: SweepRead,
  { homes, left, missed }: FoundRows,
): PartitionSweep {
  const until = believedUntil(stamp.now);
  const moved: number[] = [];
  const isLeft = (row: number, partition: number): boolean => left.has(`${row} ${partition}`);
  const leave = (row: number, partition: number): void =>
    void left.set(`${row} ${partition}`, { row, partition });
  const move = (row: number, home: number): void => {
    homes.set(row, home);
    moved.push(home);
  };
  const placesOf = (row: number): readonly OtherPlace[] =>
    (read.places.get(row) ?? []).filter(({ partition }) => !isLeft(row, partition));
  /** Also of a home that a row has been given just now, which is a place where it was met. */
  const placeOf = (row: number, home: number): OtherPlace | undefined =>
    read.placesById.get(home) ?? read.places.get(row)?.find(({ partition }) => partition === home);

  return {
    atHome: ({ row, changedAt }) => {
      const isMoved = (homes.get(row) ?? id) !== id;
      if (isMoved || current.seen.hasAtHome(entity, row)) return;
      const isSeen = current.seen.has(entity, row);
      const looked = { home: { partition: id, absence }, otherPlaces: placesOf(row), isSeen, changedAt };
      const where = lookForRow(looked, current, until);
      for (const partition of where.leaves) leave(row, partition);
      if (where.kind === 'stays') return;
      if (where.home !== id) move(row, where.home);
      if (where.kind === 'missing') missed.push({ row, partition: where.home, needs: where.needs });
    },
    guest: ({ row, origin }) => {
      const home = origin === current.origin ? (homes.get(row) ?? read.homes.get(row) ?? null) : null;
      const place = home === null ? undefined : placeOf(row, home);
      const isHomeless = home !== null && (place === undefined || !isLedTo(place, current));
      if (isHomeless) move(row, id);
      if (isHomeless || origin !== current.origin) leave(row, id);
    },
    isLeft,
    movedTo: () => moved,
  };
}
