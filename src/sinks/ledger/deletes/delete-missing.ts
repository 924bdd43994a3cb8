import type { EntityName } from '../../../core/names.ts';
import type { TombstoneChoice } from '../../deletes.ts';
import type { Commit } from '../ledger.ts';
import { deleteRow, type Gate } from './gate.ts';
import type { MissingRows, NotedRow } from './missing-rows.ts';

/** Deletes up to `limit` missing rows that were judged or allowed and need nothing more; gives how many. */
export function deleteMissing(
  commit: Commit,
  { missing, gate }: { readonly missing: MissingRows; readonly gate: Gate },
  what: { readonly entity: EntityName; readonly which: TombstoneChoice; readonly limit: number },
): number {
  const { entity, which, limit } = what;
  const { held, current } = commit;
  let deleted = 0;
  // Each round takes every row it looks at off the list.
  for (;;) {
    const rows = missing.ready(held.connector, entity, { which, run: current.run, limit: limit - deleted });
    for (const noted of rows) {
      deleted += deleteNoted(commit, gate, entity, noted) ? 1 : 0;
    }
    if (rows.length === 0 || deleted >= limit) return deleted;
  }
}

/** A row that this chain has seen exists: it is left alone, and is missing no more. */
function deleteNoted(commit: Commit, gate: Gate, entity: EntityName, { row, isAllowed }: NotedRow): boolean {
  const { ledger, held, current } = commit;
  const stored = current.tables.get(entity)?.table.row(row);
  const isMissing = stored !== undefined && stored.deletedAt === null && !current.seen.has(entity, row);
  if (isMissing) {
    deleteRow(commit, gate, entity, stored, isAllowed === 1 ? 'allowed' : 'judged');
  } else {
    ledger.rows.endMissing(held.connector, entity, row);
  }
  return isMissing;
}
