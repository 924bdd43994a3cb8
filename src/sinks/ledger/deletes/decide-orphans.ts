import type { EntityName } from '../../../core/names.ts';
import type { OtherPlace } from '../../decisions/missing-rows.ts';
import type { HomedRow, RecordTable, RowHome } from '../record-table.ts';
import type { GoingRow } from './delete-rows.ts';
import type { RowAt } from './places.ts';

/** A partition below a tombstoned record. */
export interface EndedPartitionRow {
  readonly id: number;
  readonly entity: EntityName;
  /** Rows up to here have been looked at, and stay. */
  readonly sweptTo: number;
}

/** What is stored of partitions of one entity, and what was decided over their rows. */
export interface OrphansOf {
  readonly table: RecordTable | undefined;
  /** By partition, as many as there are steps for. */
  readonly live: ReadonlyMap<number, readonly HomedRow[]>;
  readonly places: ReadonlyMap<number, readonly OtherPlace[]>;
  readonly mayMove: boolean;
  readonly keyed: ReadonlyMap<number, GoingRow>;
  /** What the delete of each row would end. */
  readonly ends: ReadonlyMap<number, readonly number[]>;
  readonly moved: RowHome[];
  readonly orphans: RowAt[];
  readonly going: GoingRow[];
}

export interface Decided {
  /** Partitions whose rows have all been looked at. */
  readonly whole: readonly number[];
  readonly partial: { readonly id: number; readonly sweptTo: number } | null;
  readonly steps: number;
}

/**
 * Decides over the rows of partitions, one after the other: a row has another home, or may have one that no walk has shown yet, or it goes. What
 * its own delete ends is no home for those that follow; where it ends a partition that comes before the next, that one is first.
 */
export function decideOrphans(
  ended: readonly EndedPartitionRow[],
  orphans: ReadonlyMap<EntityName, OrphansOf>,
  limit: number,
): Decided {
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
  const home = known.find((one) => one.isLive && !endedNow.has(one.partition))?.partition;
  const one = keyed.get(row);
  if (home !== undefined) {
    moved.push({ row, home });
  } else if (mayMove) {
    orphans.push({ row, partition });
  } else if (one !== undefined) {
    going.push(one);
    const below = ends.get(row) ?? [];
    for (const id of below) endedNow.add(id);
    return below;
  }
  return [];
}
