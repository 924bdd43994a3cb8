import { standing } from '../../decisions/standing.ts';
import type { Deletes, EndedPartition } from '../../deletes.ts';
import type { InLease, Ledger } from '../ledger.ts';
import { ask } from '../../../sql/database.ts';
import { deleteOrphans } from './delete-orphans.ts';
import { deleteMissing } from './delete-rows.ts';
import { candidates, judgeRows, suspectParents } from './judge-rows.ts';
import { allowMissing } from './note-missing.ts';
import { sweepRows } from './sweep-rows.ts';
import { weighMissing } from './weigh-missing.ts';

/** They look at all rows that are missing, or at all partitions. */
const long = { isLong: true } as const;

/** `Deletes`: what a run's full walks did not meet, and what becomes of it. */
export function ledgerDeletes({ deletedAtOnce }: Pick<Ledger, 'deletedAtOnce'>, inLease: InLease): Deletes {
  return {
    batchRows: deletedAtOnce,
    sweep: async (lease, run, limit) =>
      await inLease(lease, run, async (commit) => ({ isDone: await sweepRows(commit, limit) }), long),
    suspectParents: async (lease, run, confirmable) =>
      await inLease(lease, run, async (commit) => await suspectParents(commit, confirmable), long),
    endedBelow: async (lease, run) =>
      await inLease(
        lease,
        run,
        async ({ held: { connector }, tx }) => await endedBelow(tx, { connector, run }),
      ),
    missing: async (lease, run) => await inLease(lease, run, weighMissing, long),
    allow: async (lease, run, entity) =>
      await inLease(
        lease,
        run,
        async ({ held: { connector }, tx }) => allowMissing(tx, { connector, entity }),
        long,
      ),
    toConfirm: async (lease, run, entity, limit) =>
      await inLease(lease, run, async (commit) => await candidates(commit, entity, limit)),
    judge: async (lease, run, entity, judgements) =>
      await inLease(lease, run, async (commit) => await judgeRows(commit, entity, judgements)),
    tombstone: async (lease, run, entity, which, limit) =>
      await inLease(lease, run, async (commit) => await deleteMissing(commit, { entity, which, limit })),
    tombstoneBelow: async (lease, run, limit) =>
      await inLease(lease, run, async (commit) => await deleteOrphans(commit, limit), long),
  };
}

/** What this run has set aside and is below a tombstoned record now. */
const endedBelow = ask<
  { connector: string; run: string },
  EndedPartition
>(`SELECT id, entity FROM _sync_partitions {index _sync_partitions_set_aside}
     WHERE connector = :connector AND set_aside_run = :run AND gone > ${standing.live} ORDER BY id`);
