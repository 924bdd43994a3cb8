import type { WalkFailure, WalkRef } from '../partition.ts';
import type { HeldConnector, Ledger } from './ledger.ts';
import { inRun } from './transact.ts';

/** Leaves a partition to a later run. A tree with such a listing stays due, as does the listing. */
export async function setAside(
  ledger: Ledger,
  held: HeldConnector,
  walk: WalkRef,
  why: WalkFailure,
): Promise<void> {
  await inRun(ledger, held, walk.run, (current) => {
    const { id } = ledger.partitions.get(held.connector, walk.partition);
    ledger.partitions.setAside(id, current.run, why);
  });
}
