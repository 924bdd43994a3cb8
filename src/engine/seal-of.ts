import { instant } from '../core/clock.ts';
import type { Entity } from '../definitions/definition.ts';
import type { Absence, Partition, Proof, Seal } from '../sinks/partition.ts';
import { keptDifferences, smallestOf } from './clock-difference.ts';
import type { WalkState } from './walk.ts';

interface Ended {
  readonly proof: Proof;
  readonly state: WalkState;
  readonly isBackfill: boolean;
  /** The settings say which records are read. */
  readonly isFiltered: boolean;
}

/** What the end of a walk allows to conclude: nothing in a backfill, whose bounds hide most of what there is. */
export function sealOf(
  entity: Entity,
  partition: Partition,
  { proof, state, isBackfill, isFiltered }: Ended,
): Seal {
  const proven = { ...proof, isOrdered: proof.isOrdered && isOrderKept(entity, proof, state) };
  const kept = keptDifferences(partition.clockDifferences, state.behind);
  return {
    proof: proven,
    watermark: isBackfill ? null : watermarkOf(entity, partition, proven, state),
    absence: isBackfill ? null : absenceOf(entity, partition, proven, { state, isFiltered }),
    ...(isBackfill || kept.length === 0 ? {} : { clockDifferences: kept }),
  };
}

/** Pages that overlap prove something only where the service sorts as it was asked to, or where nothing ever leaves. */
function isOrderKept(entity: Entity, proof: Proof, state: WalkState): boolean {
  switch (proof.kind) {
    case 'single':
    case 'token':
    case 'keyset':
      return true;
    case 'seam':
      return entity.growsOnly || state.isSorted;
  }
}

/** What changed during the walk may be dated before the walk's beginning, by as much as the records' clock is behind. */
function watermarkOf(
  { incremental }: Entity,
  { clockDifferences }: Partition,
  proof: Proof,
  { cap, high, behind }: WalkState,
): Seal['watermark'] {
  if (incremental === null || !proof.isOrdered || cap === null || high === null) return null;
  return instant(Math.min(high, cap - (smallestOf(clockDifferences, behind) ?? 0)));
}

function absenceOf(
  entity: Entity,
  partition: Partition,
  proof: Proof,
  { state: { refused }, isFiltered }: Pick<Ended, 'state' | 'isFiltered'>,
): Absence {
  if (partition.mode === 'incremental' || entity.deletes === 'never') return null;
  // What a filter hides is there, however many walks do not meet it: only the record itself can tell.
  if (isFiltered) return isGettable(entity, partition) ? 'get' : null;
  // A record in quarantine may be one that is stored: it was there, and nobody could tell that it was.
  if (proof.isOrdered && entity.deletes === 'sweep' && refused === 0) return 'nothing';
  if (isGettable(entity, partition)) return 'get';
  return refused === 0 ? 'walk' : null;
}

/** Every parameter of `get` can be filled from a stored row's key or from its partition. */
function isGettable(entity: Entity, { inject, params }: Partition): boolean {
  const get = entity.actions.get('get');
  if (get === undefined) return false;
  return [...get.params].every(([name, { required }]) => {
    const field = get.key.get(name);
    if (field === undefined && !required) return true;
    const isInRow = field !== undefined && (entity.key.includes(field) || Object.hasOwn(inject, field));
    return isInRow || Object.hasOwn(params, name);
  });
}
