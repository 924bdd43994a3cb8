import { decideMode, standingOfParent, type ParentStanding } from '../../decisions/becoming-due.ts';
import type { Commit } from '../ledger.ts';
import { beginWalks } from './find-partitions.ts';
import { fullOrigins, readLeftovers, type Leftover } from './read-partitions.ts';
import { transitions } from './transitions.ts';

/**
 * Makes ready what is due below parents that this chain did not have to read; gives how many. What lies below a parent that
 * seems to be gone waits, and what nothing leads to any more is due no longer.
 */
export async function findLeftovers(commit: Commit): Promise<number> {
  const { held, current, tx, stamp } = commit;
  const { connector } = held;
  const { origin, window, reading } = current;
  let count = 0;
  for (const entity of current.entities) {
    for (let after: number | undefined = 0; after !== undefined;) {
      const batch = await readLeftovers(tx, { connector, window, entity, origin, after });
      const standings = await parentsOf(commit, batch);
      const released = batch.filter(({ id }) => standings.get(id) === 'leads-elsewhere');
      if (released.length > 0) {
        await transitions.release(tx, { ids: released.map(({ id }) => id) });
      }
      const begun = batch
        .filter(({ id }) => standings.get(id) === 'is-there')
        .map((one) => ({ id: one.id, entity, mode: decideMode(one, reading.get(entity)) }));
      await beginWalks(tx, { connector, origin, now: stamp.now, reading }, begun);
      count += begun.length;
      after = batch.at(-1)?.id;
    }
  }
  return count;
}

/** By the partition's id. */
async function parentsOf(
  { current: { tables, seen, origin }, tx }: Commit,
  batch: readonly Leftover[],
): Promise<ReadonlyMap<number, ParentStanding>> {
  const standings = new Map<number, ParentStanding>(batch.map(({ id }) => [id, 'leads-elsewhere']));
  for (const entity of new Set(batch.map(({ parentEntity }) => parentEntity))) {
    const below = batch.filter(({ parentEntity }) => parentEntity === entity);
    const keyTexts = [...new Set(below.map(({ parentKey }) => parentKey))];
    const parents = (await tables.get(entity)?.table.rowsOf(tx, keyTexts)) ?? new Map<string, never>();
    const there = [...parents.values()].filter(({ deletedAt }) => deletedAt === null);
    const homes = there.flatMap(({ home }) => (home === null ? [] : [home]));
    const walkedBy = homes.length === 0 ? new Map<number, null>() : await fullOrigins(tx, homes);
    await seen.load(
      tx,
      entity,
      there.map(({ row }) => row),
    );
    for (const { id, parentKey, foundOrigin } of below) {
      const parent = parents.get(parentKey);
      if (parent === undefined || parent.deletedAt !== null) continue;
      const by = parent.home === null ? null : (walkedBy.get(parent.home) ?? null);
      const isSeen = by === origin && seen.has(entity, parent.row);
      standings.set(id, standingOfParent({ walkedBy: by, isSeen }, { origin, foundOrigin }));
    }
  }
  return standings;
}
