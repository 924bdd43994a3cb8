import { decideMode, standingOfParent, type ParentStanding } from '../../decisions/becoming-due.ts';
import type { CurrentRun, HeldConnector, Ledger } from '../ledger.ts';
import { inRun } from '../transact.ts';
import { beginWalk } from './find-partition.ts';
import type { Leftover } from './read-partitions.ts';

/**
 * Makes ready what is due below parents that this chain did not have to read; gives how many. What lies below a parent that
 * seems to be gone waits, and what nothing leads to any more is due no longer.
 */
export async function findLeftovers(ledger: Ledger, held: HeldConnector): Promise<number> {
  const { run } = held;
  if (run === null) return 0;
  return await inRun(ledger, held, run.run, ({ current, stamp: { now } }) => {
    const { connector } = held;
    const { origin, window } = current;
    let count = 0;
    for (const entity of current.entities) {
      const reading = current.reading.get(entity);
      for (let after: number | undefined = 0; after !== undefined;) {
        const batch = ledger.partitions.leftovers.all({ connector, window, entity, origin, after });
        for (const one of batch) {
          const standing = parentOf(ledger, current, one);
          if (standing === 'leads-elsewhere') ledger.transitions.release.run({ id: one.id });
          if (standing !== 'is-there') continue;
          const mode = decideMode(one, reading);
          beginWalk(ledger, { connector, origin, now, reading }, { id: one.id, entity, mode });
          count += 1;
        }
        after = batch.at(-1)?.id;
      }
    }
    return count;
  });
}

function parentOf(
  { partitions }: Ledger,
  { tables, seen, origin }: CurrentRun,
  { parentEntity, parentKey, foundOrigin }: Leftover,
): ParentStanding {
  const parent = tables.get(parentEntity)?.table.rowOf(parentKey);
  if (parent === undefined || parent.deletedAt !== null) return 'leads-elsewhere';
  const walkedBy = parent.home === null ? null : (partitions.fullOrigin.get(parent.home) ?? null);
  const isSeen = walkedBy === origin && seen.has(parentEntity, parent.row);
  return standingOfParent({ walkedBy, isSeen }, { origin, foundOrigin });
}
