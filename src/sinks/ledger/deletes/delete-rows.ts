import type { EntityName } from '../../../core/names.ts';
import type { DeletedRows, TombstoneChoice } from '../../deletes.ts';
import type { Commit } from '../ledger.ts';
import { openRows } from '../open-rows.ts';
import type { EndedPartitionRow } from '../partitions/deleting.ts';
import type { KeyedRow, RecordTable } from '../record-store.ts';

/** On whose word a row is deleted: the guards' (`judged`), a person's (`allowed`), or that for the record above (`along`). */
export type Permission = 'judged' | 'allowed' | 'along';

/**
 * The only way to a tombstone: deletes a live row and ends what it has led to, whose rows follow in batches (`deleteBelow`), in later runs too. What guards
 * let pass is noted for the day with all that goes along, at once: a run killed in between leaves a delete that was judged as a whole.
 */
export function deleteRow(
  commit: Commit,
  entity: EntityName,
  { row, keyText }: KeyedRow,
  permission: Permission,
): void {
  const { ledger, held, current, stamp } = commit;
  const { transitions } = ledger;
  const { connector } = held;
  if (permission === 'judged') {
    ledger.day.remove(connector, entity, 1, stamp.now);
    for (const [child, rows] of rowsBelow(commit, entity, keyText)) {
      ledger.day.remove(connector, child, rows, stamp.now);
    }
  }
  current.tables.get(entity)?.table.tombstone(row, stamp);
  ledger.tables.addDeleted(connector, entity, 1);
  ledger.places.leaveAll.run({ connector, entity, row });
  ledger.missing.forget.run(connector, entity, row);
  ledger.downloads.end(connector, entity, keyText);
  for (const { id } of transitions.end.all({ connector, entity, keyText })) {
    transitions.dropInner.run({ tree: id });
  }
}

/** Deletes up to `limit` missing rows that were judged or allowed and need nothing more; gives how many. */
export function deleteMissing(
  commit: Commit,
  entity: EntityName,
  which: TombstoneChoice,
  limit: number,
): number {
  const { ledger, held, current } = commit;
  const { connector } = held;
  const table = current.tables.get(entity)?.table;
  let deleted = 0;
  // Each round takes every row it looks at off the list.
  for (;;) {
    const rows = ledger.missing.rowsToDelete.all({
      connector,
      entity,
      which,
      run: current.run,
      limit: limit - deleted,
    });
    for (const { row, isAllowed } of rows) {
      const stored = table?.row(row);
      // A row that this chain has seen exists: it is left alone, and is missing no more.
      const isMissing = stored !== undefined && stored.deletedAt === null && !current.seen.has(entity, row);
      if (isMissing) deleteRow(commit, entity, stored, isAllowed === 1 ? 'allowed' : 'judged');
      else ledger.missing.forget.run(connector, entity, row);
      deleted += isMissing ? 1 : 0;
    }
    if (rows.length === 0 || deleted >= limit) return deleted;
  }
}

/** Up to `limit` steps (rows, partitions) of deleting what lies below deleted records. Empty: none is left; 0 rows: only new homes, or rows to ask for. */
export function deleteBelow(commit: Commit, limit: number): readonly DeletedRows[] {
  const { ledger, held, current } = commit;
  const { connector } = held;
  const entities = JSON.stringify([...current.entities]);
  const rowsByEntity = new Map<EntityName, number>();
  let left = limit;
  for (const { entity, row } of ledger.missing.orphansGone.all(connector, current.run, limit)) {
    const stored = current.tables.get(entity)?.table.row(row);
    if (stored === undefined) continue;
    deleteRow(commit, entity, stored, 'along');
    rowsByEntity.set(entity, (rowsByEntity.get(entity) ?? 0) + 1);
    left -= 1;
  }
  while (left > 0) {
    const partition = ledger.partitions.nextEnded.get({ connector, entities });
    if (partition === undefined) break;
    const { steps, rows } = emptyPartition(commit, partition, left);
    rowsByEntity.set(partition.entity, (rowsByEntity.get(partition.entity) ?? 0) + rows);
    left -= 1 + steps;
  }
  return [...rowsByEntity].map(([entity, rows]) => ({ entity, rows }));
}

function emptyPartition(
  commit: Commit,
  partition: EndedPartitionRow,
  limit: number,
): { readonly steps: number; readonly rows: number } {
  const { current, ledger } = commit;
  const { id, entity, sweptTo } = partition;
  const { transitions } = ledger;
  const table = current.tables.get(entity)?.table;
  const live = table === undefined || current.keeps.has(entity) ? [] : table.liveRows(id, sweptTo, limit);
  let rows = 0;
  for (const { row } of live) {
    rows += table !== undefined && endRow(commit, partition, table, row) ? 1 : 0;
  }
  const last = live.at(-1);
  if (last === undefined || live.length < limit) {
    ledger.places.dropGuests.run(id);
    transitions.empty.run({ id });
  } else {
    transitions.sweepTo.run({ id, sweptTo: last.row });
  }
  return { steps: live.length, rows };
}

/** True when the row was tombstoned; false when it has another home, or may have one that no walk has shown yet. */
function endRow(
  commit: Commit,
  { id: partition, entity }: EndedPartitionRow,
  table: RecordTable,
  row: number,
): boolean {
  const { ledger, held, current, stamp } = commit;
  const { connector } = held;
  const home = ledger.places.others({ connector, entity, row }).find(({ isLive }) => isLive)?.partition;
  if (home !== undefined) {
    table.setHome(row, home);
    ledger.places.leave.run({ connector, entity, row, partition: home });
    return false;
  }
  if (current.reading.get(entity)?.mayMove === true) {
    const { origin } = current;
    ledger.missing.noteOrphan.run({ connector, entity, row, partition, origin, since: stamp.now });
    return false;
  }
  const stored = table.row(row);
  if (stored !== undefined) deleteRow(commit, entity, stored, 'along');
  return stored !== undefined;
}

/** Rows that go with this record, by entity, at any depth. Not those that the chain has met elsewhere, nor of entities that keep their rows. */
export function rowsBelow(
  commit: Commit,
  entity: EntityName,
  keyText: string,
): ReadonlyMap<EntityName, number> {
  const { ledger, held, current } = commit;
  const { below, leadsOn } = ledger.partitions;
  const counts = new Map<EntityName, number>();
  const parents = new Map<EntityName, boolean>();
  const visited = new Set<number>();
  const open = below.all(held.connector, entity, keyText);
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { id, entity: child } = next;
    if (visited.has(id) || current.keeps.has(child)) continue;
    visited.add(id);
    const isParent = parents.get(child) ?? leadsOn.get(held.connector, child) !== undefined;
    parents.set(child, isParent);
    for (const row of liveRows(commit, next, 0)) {
      if (current.seen.has(child, row) && !current.seen.hasAtHome(child, row)) continue;
      counts.set(child, (counts.get(child) ?? 0) + 1);
      const key = isParent ? keyOf(commit, child, row) : undefined;
      if (key !== undefined) open.push(...below.all(held.connector, child, key));
    }
  }
  return counts;
}

export const rowsAtOnce = 1_000;

/** Rows without a tombstone at home in the partition, behind row `from`. */
export function* liveRows(
  { ledger, held: { connector }, current }: Commit,
  { id, entity }: Pick<EndedPartitionRow, 'id' | 'entity'>,
  from: number,
): Generator<number> {
  const planned = current.tables.get(entity)?.table;
  if (planned === undefined && ledger.tables.known(connector, entity) === undefined) return;
  yield* inOrder(
    from,
    (after) =>
      planned?.liveRows(id, after, rowsAtOnce) ??
      openRows(ledger.db).liveRows(connector, entity, id, after, rowsAtOnce),
    ({ row }) => row,
  );
}

/** What `read` gives in batches of up to `rowsAtOnce`, each behind the last number of the one before. */
export function* inOrder<Row>(
  from: number,
  read: (after: number) => readonly Row[],
  numberOf: (row: Row) => number,
): Generator<number> {
  for (let after = from; ;) {
    const batch = read(after);
    for (const row of batch) yield (after = numberOf(row));
    if (batch.length < rowsAtOnce) return;
  }
}

function keyOf({ ledger, held, current }: Commit, entity: EntityName, row: number): string | undefined {
  const planned = current.tables.get(entity);
  if (planned !== undefined) return planned.table.row(row)?.keyText;
  const key = ledger.tables.known(held.connector, entity)?.key ?? [];
  return openRows(ledger.db).keyOf(held.connector, { entity, key }, row);
}
