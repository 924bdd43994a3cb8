import type { Instant } from '../../../core/clock.ts';
import type { EntityName } from '../../../core/names.ts';
import { countMissing, weighRows } from '../../decisions/missing-rows.ts';
import type { DeletedRows, EntityMissing } from '../../deletes.ts';
import type { Commit } from '../ledger.ts';
import { liveRows, rowsBelow } from './delete-rows.ts';

const rowsAtOnce = 1_000;

/**
 * What the deletes of the missing rows would come to, for every entity of the plan that has some and for every entity of which rows would
 * go along. What lies below records that are already deleted is neither missing nor live: it has been judged.
 */
export function weighMissing(commit: Commit): readonly EntityMissing[] {
  const { ledger, held, current } = commit;
  const alike = ledger.missing.alike(held.connector).filter(({ entity }) => current.entities.has(entity));
  const known = new Set(alike.map(({ entity }) => entity));
  const counted = [...known].map((entity) => {
    const counts = countMissing(alike.filter((rows) => rows.entity === entity));
    const isOpen = counts.missing > counts.allowed + counts.vouchedFor;
    return { entity, ...counts, along: isOpen ? rowsAlong(commit, entity) : [] };
  });
  const touched = new Set(counted.flatMap((one) => one.along.map(({ entity }) => entity)));
  const others = [...touched]
    .filter((entity) => !known.has(entity))
    .map((entity) => ({ entity, ...countMissing([]), along: [] }));
  return [...counted, ...others].map(({ firstMissed, ...counts }) => ({
    ...counts,
    ...accountOf(commit, counts.entity),
    hasSurvivor: firstMissed === null || hasSurvivor(commit, counts.entity, firstMissed),
  }));
}

/** Without what a person has let go: that goes as it is. */
function rowsAlong(commit: Commit, entity: EntityName): readonly DeletedRows[] {
  const { ledger, held, current } = commit;
  const { connector } = held;
  if (ledger.partitions.leadsOn.get(connector, entity) === undefined) return [];
  const table = current.tables.get(entity)?.table;
  const rowsByEntity = new Map<EntityName, number>();
  for (let after = 0; ;) {
    const batch = ledger.missing.open(connector, entity, after, rowsAtOnce);
    for (const row of batch) {
      const keyText = table?.row(row)?.keyText;
      if (keyText === undefined) continue;
      for (const [child, rows] of rowsBelow(commit, entity, keyText)) {
        rowsByEntity.set(child, (rowsByEntity.get(child) ?? 0) + rows);
      }
    }
    const last = batch.at(-1);
    if (last === undefined) break;
    after = last;
  }
  return [...rowsByEntity].map(([child, rows]) => ({ entity: child, rows }));
}

function accountOf(
  commit: Commit,
  entity: EntityName,
): Pick<EntityMissing, 'live' | 'dayAgo' | 'deletedInDay' | 'isAdopted'> {
  const { ledger, held, stamp } = commit;
  const { connector } = held;
  let judged = ledger.missing.countBelowDeleted(connector, entity);
  for (const partition of ledger.partitions.allEnded.all({ connector })) {
    if (partition.entity !== entity) continue;
    for (const _row of liveRows(commit, partition, partition.sweptTo)) judged += 1;
  }
  const { stored, adoptedAt } = ledger.tables.account(connector, entity);
  const { added: addedInDay, deleted: deletedInDay } = ledger.day.within(connector, entity, stamp.now);
  return { ...weighRows({ stored, judged, addedInDay, deletedInDay }), isAdopted: adoptedAt !== null };
}

/** Whether a row is still there that was stored before the first of the missing ones was missed. */
function hasSurvivor({ ledger, held, current }: Commit, entity: EntityName, firstMissed: Instant): boolean {
  const table = current.tables.get(entity)?.table;
  if (table === undefined) return true;
  for (let after = 0; ;) {
    const rows = table.liveBefore(firstMissed, after, rowsAtOnce);
    if (rows.some((row) => !ledger.missing.isCounted(held.connector, entity, row))) return true;
    const last = rows.at(-1);
    if (last === undefined || rows.length < rowsAtOnce) return false;
    after = last;
  }
}
