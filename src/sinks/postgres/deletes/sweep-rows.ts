import type { EntityName } from '../../../core/names.ts';
import type { Commit } from '../ledger.ts';
import { ask } from '../partitions/statement.ts';
import { transitions } from '../partitions/transitions.ts';
import type { RecordTable } from '../records/record-table.ts';
import { dropHomeless, noteMissing } from './note-missing.ts';
import { leavePlaces } from './places.ts';
import { readSweep, type UnsweptPartition } from './read-sweep.ts';
import { walkSweep } from './walk-sweep.ts';

const nextUnswept = ask<
  { connector: string; origin: number; entities: readonly string[]; limit: number },
  UnsweptPartition
>(
  (at) => `SELECT id, entity, coalesce(absence, 'walk') AS absence, swept_to FROM ${at}_sync_partitions
     WHERE connector = :connector AND sweep_origin = :origin AND entity = ANY(:entities::text[]) ORDER BY id LIMIT :limit`,
);

const partitionsAtOnce = 500;

/**
 * Looks for the rows that this chain's full walks did not meet, up to some `limit` steps (a row or a partition each); true when every partition of
 * the chain is through.
 */
export async function sweepRows(commit: Commit, limit: number): Promise<boolean> {
  const { ledger, held, current, tx } = commit;
  const { connector } = held;
  const chain = { connector, origin: current.origin, entities: [...current.entities] };
  for (let left = limit; ;) {
    const most = Math.max(1, Math.min(left, partitionsAtOnce));
    const unswept = await nextUnswept(tx, ledger.at, { ...chain, limit: most });
    if (unswept.length === 0) {
      await dropHomeless(tx, ledger.at, connector);
      return true;
    }
    // What is found of one entity's rows says nothing of another's: their partitions need not take turns.
    for (const entity of new Set(unswept.map((one) => one.entity))) {
      if (left <= 0) return false;
      const ofEntity = unswept.filter((one) => one.entity === entity);
      left -= await sweepEntity(commit, entity, ofEntity, left);
    }
  }
}

/** Gives how many steps it took. */
async function sweepEntity(
  commit: Commit,
  entity: EntityName,
  partitions: readonly UnsweptPartition[],
  limit: number,
): Promise<number> {
  const { ledger, held, current, tx } = commit;
  const { at } = ledger;
  const { chainStartedAt: fullAt } = current;
  const table = current.tables.get(entity)?.table;
  if (table === undefined) {
    // An entity of the plan always has a table; without one nothing of it was read either.
    await transitions.endSweep(tx, at, { ids: partitions.map(({ id }) => id), fullAt });
    return partitions.length;
  }
  const read = await readSweep(commit, table, partitions, limit);
  const { through, partial, found, steps } = walkSweep(commit, read);
  const of = { connector: held.connector, entity };
  await writeHomes(commit, table, found.homes);
  await leavePlaces(tx, at, of, found.left);
  await noteMissing(tx, at, { ...of, origin: current.origin, since: fullAt }, found.missed);
  if (through.length > 0) await transitions.endSweep(tx, at, { ids: through, fullAt });
  if (partial !== null) {
    await transitions.sweepTo(tx, at, { ids: [partial.id], sweptTo: [partial.sweptTo] });
  }
  return steps;
}

async function writeHomes(
  { tx }: Commit,
  table: RecordTable,
  homes: ReadonlyMap<number, number>,
): Promise<void> {
  await table.setHomes(
    tx,
    [...homes].map(([row, home]) => ({ row, home })).toSorted((one, other) => one.row - other.row),
  );
}
