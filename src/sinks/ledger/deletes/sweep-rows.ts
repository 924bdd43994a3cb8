import type { EntityName } from '../../../core/names.ts';
import type { Commit } from '../ledger.ts';
import { ask } from '../../../sql/database.ts';
import { transitions } from '../partitions/transitions.ts';
import { dropHomeless, noteMissing } from './note-missing.ts';
import { leavePlaces } from './places.ts';
import { readSweep, type SweepRead, type UnsweptPartition } from './read-sweep.ts';
import { walkSweep, type FoundRows } from './walk-sweep.ts';

/** In an order that only the index of unswept partitions has: by id alone, the planner may go through all partitions. */
const nextUnswept = ask<
  { connector: string; origin: number; entities: readonly string[]; limit: number },
  UnsweptPartition
>(`SELECT id, entity, coalesce(absence, 'walk') AS absence, swept_to
     FROM _sync_partitions {index _sync_partitions_sweep}
     WHERE connector = :connector AND sweep_origin BETWEEN :origin AND :origin AND entity IN {entities text}
     ORDER BY sweep_origin, id LIMIT :limit`);

const partitionsAtOnce = 500;

/**
 * Looks for the rows that this chain's full walks did not meet, up to `limit` steps (a row or a partition each); true when every partition of
 * the chain is through.
 */
export async function sweepRows(commit: Commit, limit: number): Promise<boolean> {
  const { held, current, tx } = commit;
  const { connector } = held;
  const { origin, chainStartedAt: fullAt } = current;
  const chain = { connector, origin, entities: [...current.entities] };
  for (let left = limit; left > 0;) {
    const unswept = await nextUnswept(tx, { ...chain, limit: Math.min(left, partitionsAtOnce) });
    if (unswept.length === 0) {
      await dropHomeless(tx, connector);
      return true;
    }
    const reads = new Map<EntityName, SweepRead>();
    for (const entity of new Set(unswept.map((one) => one.entity))) {
      const ofEntity = unswept.filter((one) => one.entity === entity);
      reads.set(entity, await readSweep(commit, entity, ofEntity, left));
    }
    const { through, partial, found, steps } = walkSweep(commit, unswept, reads, left);
    for (const [entity, rows] of found) await writeFound(commit, entity, rows);
    if (through.length > 0) await transitions.endSweep(tx, { ids: through, fullAt });
    if (partial !== null) await transitions.sweepTo(tx, partial);
    left -= steps;
  }
  return false;
}

async function writeFound(
  { held: { connector }, current, tx }: Commit,
  entity: EntityName,
  { homes, left, missed }: FoundRows,
): Promise<void> {
  const moved = [...homes].map(([row, home]) => ({ row, home }));
  current.tables.get(entity)?.table.setHomes(
    tx,
    moved.toSorted((one, other) => one.row - other.row),
  );
  const of = { connector, entity };
  await leavePlaces(tx, of, [...left.values()]);
  await noteMissing(tx, { ...of, origin: current.origin, since: current.chainStartedAt }, missed);
}
