import type { EntityName } from '../../../core/names.ts';
import type { Commit } from '../ledger.ts';
import type { KeyedRow } from '../record-store.ts';
import type { Cascade } from './cascade.ts';
import type { PartitionsBelow } from './partitions-below.ts';

/**
 * On whose word a row is deleted. `judged`: the guards were asked about it together with what goes along. `allowed`: a person was.
 * `along`: it lies below a record that has passed, and was judged or allowed with it.
 */
export type Permission = 'judged' | 'allowed' | 'along';

export interface Gate {
  readonly below: PartitionsBelow;
  readonly cascade: Cascade;
}

/**
 * The only way to a tombstone: marks a live row as deleted and ends what it has led to, whose rows follow in batches (`orphans.ts`), in
 * later runs too. What the guards have let pass is noted for the day with all that goes along, in the same transaction: a
 * run that is killed before it has deleted the rest leaves a delete that was judged as a whole.
 */
export function deleteRow(
  commit: Commit,
  { below, cascade }: Gate,
  entity: EntityName,
  { row, keyText }: KeyedRow,
  permission: Permission,
): void {
  const { ledger, held, current, stamp } = commit;
  const { connector } = held;
  if (permission === 'judged') {
    ledger.day.remove(connector, entity, 1, stamp.now);
    for (const [child, rows] of cascade.below(commit, entity, keyText)) {
      ledger.day.remove(connector, child, rows, stamp.now);
    }
  }
  current.tables.get(entity)?.table.tombstone(row, stamp);
  ledger.rows.addDeleted(connector, entity, 1);
  ledger.rows.forget(connector, entity, row);
  ledger.downloads.end(connector, entity, keyText);
  below.end(connector, entity, keyText);
}
