import { believedUntil } from '../../decisions/becoming-due.ts';
import { isLedTo, lookForRow, type OtherPlace } from '../../decisions/look-for-row.ts';
import type { Commit } from '../ledger.ts';
import type { Missed } from './read-missing.ts';
import type { RowAt } from './places.ts';
import type { SweepRead } from './read-sweep.ts';

export interface Swept {
  /** Partitions whose sweep is over. */
  readonly through: readonly number[];
  /** The one that is swept up to here. */
  readonly partial: { readonly id: number; readonly sweptTo: number } | null;
  readonly found: FoundRows;
  /** Rows and partitions that were looked at. */
  readonly steps: number;
}

interface FoundRows {
  /** Other homes than those that are stored, by row. */
  readonly homes: Map<number, number>;
  /** Places where rows are looked for no longer. */
  readonly left: RowAt[];
  readonly missed: Missed[];
}

/**
 * Decides over what was read, partition by partition: the rows at home first, then what it has shown of others' rows. What one decision changes,
 * the next one sees. It stops behind a partition from which a row has moved to one further on, where it is looked at again once it is stored.
 */
export function walkSweep(commit: Commit, read: SweepRead): Swept {
  const { current } = commit;
  const found: FoundRows = { homes: new Map(), left: [], missed: [] };
  const isLeft = new Set<string>();
  const leave = (row: number, partition: number): void => {
    isLeft.add(`${row} ${partition}`);
    found.left.push({ row, partition });
  };
  const placesOf = (row: number): readonly OtherPlace[] =>
    (read.places.get(row) ?? []).filter(({ partition }) => !isLeft.has(`${row} ${partition}`));
  const through: number[] = [];
  const ahead = new Set(read.partitions.map(({ id }) => id));
  const until = believedUntil(commit.stamp.now);
  let steps = 0;

  for (const { id, entity, absence, rows, isRowsWhole, guests, isGuestsWhole } of read.partitions) {
    ahead.delete(id);
    steps += 1 + rows.length;
    let isAnyAhead = false;
    const move = (row: number, home: number): void => {
      found.homes.set(row, home);
      isAnyAhead ||= ahead.has(home);
    };
    for (const { row, changedAt } of rows) {
      const isMoved = (found.homes.get(row) ?? id) !== id;
      if (isMoved || current.seen.hasAtHome(entity, row)) continue;
      const isSeen = current.seen.has(entity, row);
      const looked = { home: { partition: id, absence }, otherPlaces: placesOf(row), isSeen, changedAt };
      const where = lookForRow(looked, current, until);
      for (const partition of where.leaves) leave(row, partition);
      if (where.kind === 'stays') continue;
      if (where.home !== id) move(row, where.home);
      if (where.kind === 'missing') {
        found.missed.push({ row, partition: where.home, needs: where.needs });
      }
    }
    const last = rows.at(-1);
    if (!isRowsWhole && last !== undefined) {
      return { through, partial: { id, sweptTo: last.row }, found, steps };
    }

    const there = guests.filter(({ row }) => !isLeft.has(`${row} ${id}`));
    steps += there.length;
    for (const { row, origin } of there) {
      const home = origin === current.origin ? (found.homes.get(row) ?? read.homes.get(row) ?? null) : null;
      const place = home === null ? undefined : placeOf(read, row, home);
      const isHomeless = home !== null && (place === undefined || !isLedTo(place, current));
      if (isHomeless) move(row, id);
      if (isHomeless || origin !== current.origin) leave(row, id);
    }
    const lastGuest = guests.at(-1);
    if (!isGuestsWhole && lastGuest !== undefined) {
      return { through, partial: { id, sweptTo: -1 - lastGuest.row }, found, steps };
    }
    through.push(id);
    if (isAnyAhead) break;
  }
  return { through, partial: null, found, steps };
}

/** Also of a home that a row has been given just now, which is a place where it was met. */
function placeOf({ placesById, places }: SweepRead, row: number, home: number): OtherPlace | undefined {
  return placesById.get(home) ?? places.get(row)?.find(({ partition }) => partition === home);
}
