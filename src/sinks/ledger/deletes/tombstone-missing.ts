import type { EntityName } from '../../../core/names.ts';
import type { TombstoneChoice } from '../../deletes.ts';
import type { Commit } from '../ledger.ts';
import type { MissingRows, NotedRow } from './missing-rows.ts';
import { tombstoneRow, type PartitionsBelow } from './tombstone-row.ts';

/** Tombstones up to `limit` missing rows that need nothing more; gives how many. */
export function tombstoneMissing(
  commit: Commit,
  { missing, below }: { readonly missing: MissingRows; readonly below: PartitionsBelow },
  what: { readonly entity: EntityName; readonly which: TombstoneChoice; readonly limit: number },
): number {
  const { entity, which, limit } = what;
  let tombstoned = 0;
  // Each round takes every row it looks at off the list.
  for (;;) {
    const rows = missing.ready(commit.held.connector, entity, which, limit - tombstoned);
    for (const noted of rows) {
      tombstoned += tombstoneNoted(commit, below, entity, noted) ? 1 : 0;
    }
    if (rows.length === 0 || tombstoned >= limit) return tombstoned;
  }
}

/** A row that this chain has seen exists: it is left alone, and is missing no more. */
function tombstoneNoted(
  commit: Commit,
  below: PartitionsBelow,
  entity: EntityName,
  { row }: NotedRow,
): boolean {
  const { ledger, held, current } = commit;
  const stored = current.tables.get(entity)?.table.row(row);
  const isMissing = stored !== undefined && stored.deletedAt === null && !current.seen.has(entity, row);
  if (isMissing) {
    tombstoneRow(commit, below, entity, stored);
  } else {
    ledger.rows.endMissing(held.connector, entity, row);
  }
  return isMissing;
}
