import type { EntityName, RunId } from '../../../core/names.ts';
import { noCounts, type PageCounts, type PreparedRecord } from '../../../core/records.ts';
import { checkCounts } from '../../decisions/add-up.ts';
import type { Repair, UndeletedRows } from '../../repair.ts';
import { deleteRow } from '../deletes/delete-rows.ts';
import type { Commit, Ledger } from '../ledger.ts';
import { storeRows } from '../store-rows.ts';
import type { InLease } from '../transact.ts';
import { adopt } from '../acquire.ts';
import { reset } from './reset.ts';

export function ledgerRepair(ledger: Ledger, inLease: InLease): Repair {
  return {
    reset: async (connector, what) => reset(ledger, connector, what),
    adopt: (identity, now) => adopt(ledger, identity, now),
    canUndelete: ledger.store.canUndelete,
    undelete: async (lease, run, of, limit) => inLease(lease, run, (commit) => undelete(commit, of, limit)),
    storeRecord: async (lease, run, entity, record) =>
      inLease(lease, run, (commit) => storeOne(commit, entity, record)),
    tombstoneRecord: async (lease, run, entity, keyText) =>
      inLease(lease, run, (commit) => tombstoneOne(commit, entity, keyText)),
  };
}

/** Row by row, table after table, until `limit` of them are back. */
function undelete(commit: Commit, of: RunId, limit: number): UndeletedRows {
  const { ledger, held, current, stamp } = commit;
  const rows: { readonly entity: EntityName; readonly rows: number }[] = [];
  let left = limit;
  for (const [entity, { table }] of current.tables) {
    const tombstoned = left > 0 ? table.tombstonedBy(of, left) : [];
    for (const row of tombstoned) {
      table.revive(row, stamp);
      const keyText = table.row(row)?.keyText ?? '';
      giveBackBelow(commit, entity, keyText);
      ledger.downloads.begin(held.connector, entity, keyText);
    }
    if (tombstoned.length > 0) {
      ledger.tables.addDeleted(held.connector, entity, -tombstoned.length);
      ledger.day.add(held.connector, entity, tombstoned.length, { origin: current.origin, now: stamp.now });
      rows.push({ entity, rows: tombstoned.length });
    }
    left -= tombstoned.length;
  }
  return { rows, isDone: left > 0 };
}

function giveBackBelow({ ledger, held, current, stamp }: Commit, entity: EntityName, keyText: string): void {
  const { transitions } = ledger;
  const { connector } = held;
  transitions.giveBack.run({ connector, entity, keyText, origin: current.origin, now: stamp.now });
}

function storeOne(commit: Commit, entity: EntityName, record: PreparedRecord): PageCounts {
  const { ledger, current } = commit;
  const before = current.tables.get(entity)?.table.find(record);
  const stored = storeRows(
    commit,
    { entity, records: [record] },
    { isInsertOnly: false, home: null, countsAsSeen: true },
  );
  const counts = { ...noCounts, fetched: 1, ...stored };
  checkCounts(entity, counts);
  ledger.counts.add(current.run, entity, counts);
  current.seen.save();
  if (before !== undefined && before.deletedAt !== null) giveBackBelow(commit, entity, record.keyText);
  return counts;
}

/** A person asked for it by its key, with `--allow-deletes`: what lies below goes along, as it does in a sync that is allowed to delete. */
function tombstoneOne(commit: Commit, entity: EntityName, keyText: string): boolean {
  const stored = commit.current.tables.get(entity)?.table.rowOf(keyText);
  if (stored === undefined || stored.deletedAt !== null) return false;
  deleteRow(commit, entity, stored, 'allowed');
  return true;
}
