import { instant } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import type { EntityName } from '../../core/names.ts';
import type { PageCounts } from '../../core/records.ts';
import type { EntityRows } from '../sink.ts';
import { storeRecord } from './classify.ts';
import type { Commit } from './ledger.ts';

const volatileAfterMs = 24 * 60 * 60 * 1_000;

/** Stores a page's records of one entity and counts what they were. `isInsertOnly`: exploded rows. */
export function storeRows(
  { ledger, held, current, stamp }: Commit,
  { entity, records }: EntityRows,
  isInsertOnly: boolean,
): Pick<PageCounts, 'inserted' | 'updated' | 'duplicate' | 'unchanged'> {
  const planned = current.tables.get(entity);
  if (planned === undefined) {
    throw misfit(entity, 'the plan has no table for it');
  }
  const how = {
    table: planned.table,
    stamp,
    isInsertOnly,
    markSeen: (row: number): boolean => current.seen.mark(entity, row),
    staleBefore: instant(ledger.clock.now() - volatileAfterMs),
  };
  const stored = { inserted: 0, updated: 0, duplicate: 0, unchanged: 0 };
  for (const record of records) {
    if (record.values.length !== planned.width) {
      throw misfit(entity, `a record has ${record.values.length} values for ${planned.width} columns`);
    }
    stored[storeRecord(record, how)] += 1;
  }
  ledger.tables.addRows(held.connector, entity, stored.inserted);
  return stored;
}

function misfit(entity: EntityName, why: string): SyncError {
  return new SyncError(
    `Records of "${entity}" were not prepared for this run's plan: ${why}. This is a defect: report it with the run's log.`,
    { code: 'INTERNAL', recovery: 'stop', context: { entity } },
  );
}
