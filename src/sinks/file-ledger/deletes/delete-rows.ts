import type { EntityName, RunId } from '../../../core/names.ts';
import { standing } from '../../decisions/standing.ts';
import type { DeletedRows, TombstoneChoice } from '../../deletes.ts';
import type { Commit } from '../ledger.ts';
import { openRows } from '../open-rows.ts';
import type { KeyedRow, RecordTable } from '../record-store.ts';
import { statement } from '../statement.ts';
import { forgetMissing } from '../store-rows.ts';
import {
  dropGuests,
  leavePlace,
  noted,
  noteOrphan,
  placesBesideHome,
  type OfEntity,
  type OfRow,
  type SweptPartition,
} from './sweep-rows.ts';

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
  leavePlaces(ledger.db).run({ connector, entity, row });
  forgetMissing(ledger.db).run(connector, entity, row);
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
    const rows = rowsToDelete(ledger.db).all(connector, entity, current.run, which, limit - deleted);
    for (const { row, isAllowed } of rows) {
      const stored = table?.row(row);
      // A row that this chain has seen exists: it is left alone, and is missing no more.
      const isMissing = stored !== undefined && stored.deletedAt === null && !current.seen.has(entity, row);
      if (isMissing) deleteRow(commit, entity, stored, isAllowed === 1 ? 'allowed' : 'judged');
      else forgetMissing(ledger.db).run(connector, entity, row);
      deleted += isMissing ? 1 : 0;
    }
    if (rows.length === 0 || deleted >= limit) return deleted;
  }
}

/** Rows that may be deleted now, of those that were chosen. */
export const rowsToDelete = statement<
  [...OfEntity, run: RunId, which: TombstoneChoice, limit: number],
  { readonly row: number; readonly isAllowed: number }
>(
  `SELECT m.row, m.is_allowed AS isAllowed FROM ${noted.withPartition}
   WHERE m.connector = ? AND m.entity = ? AND ${noted.isMissing}
     AND (m.needs = 'nothing' OR m.needs = 'walk' AND m.missed >= 2 OR m.needs = 'get' AND m.gone_run = ?)
     AND CASE ? WHEN 'allowed' THEN m.is_allowed = 1 WHEN 'missed-twice' THEN m.missed >= 2 ELSE 1 END
   ORDER BY m.row LIMIT ?`,
);
/** Orphans of which `get` has found nothing in this run. */
export const orphansGone = statement<[connector: string, run: string, limit: number], OfRow>(
  `SELECT m.connector, m.entity, m.row FROM ${noted.withPartition} WHERE m.connector = ? AND m.gone_run = ? AND ${noted.isOrphan}
   ORDER BY m.entity, m.row LIMIT ?`,
);

/** Up to `limit` steps (rows, partitions) of deleting what lies below deleted records. Empty: none is left; 0 rows: only new homes, or rows to ask for. */
export function deleteBelow(commit: Commit, limit: number): readonly DeletedRows[] {
  const { ledger, held, current } = commit;
  const { connector } = held;
  const entities = JSON.stringify([...current.entities]);
  const rowsByEntity = new Map<EntityName, number>();
  let left = limit;
  for (const { entity, row } of orphansGone(ledger.db).all(connector, current.run, limit)) {
    const stored = current.tables.get(entity)?.table.row(row);
    if (stored === undefined) continue;
    deleteRow(commit, entity, stored, 'along');
    rowsByEntity.set(entity, (rowsByEntity.get(entity) ?? 0) + 1);
    left -= 1;
  }
  while (left > 0) {
    const partition = nextEnded(ledger.db).get({ connector, entities });
    if (partition === undefined) break;
    const { steps, rows } = emptyPartition(commit, partition, left);
    rowsByEntity.set(partition.entity, (rowsByEntity.get(partition.entity) ?? 0) + rows);
    left -= 1 + steps;
  }
  return [...rowsByEntity].map(([entity, rows]) => ({ entity, rows }));
}

function emptyPartition(
  commit: Commit,
  partition: SweptPartition,
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
    dropGuests(ledger.db).run(id);
    transitions.empty.run({ id });
  } else {
    transitions.sweepTo.run({ id, sweptTo: last.row });
  }
  return { steps: live.length, rows };
}

/** True when the row was tombstoned; false when it has another home, or may have one that no walk has shown yet. */
function endRow(
  commit: Commit,
  { id: partition, entity }: SweptPartition,
  table: RecordTable,
  row: number,
): boolean {
  const { ledger, held, current, stamp } = commit;
  const { connector } = held;
  const places = placesBesideHome(ledger.db, { connector, entity, row });
  const home = places.find(({ isLive }) => isLive)?.partition;
  if (home !== undefined) {
    table.setHome(row, home);
    leavePlace(ledger.db).run({ connector, entity, row, partition: home });
    return false;
  }
  if (current.reading.get(entity)?.mayMove === true) {
    const { origin } = current;
    noteOrphan(ledger.db).run({ connector, entity, row, partition, origin, since: stamp.now });
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
  const counts = new Map<EntityName, number>();
  const parents = new Map<EntityName, boolean>();
  const visited = new Set<number>();
  const open = below(ledger.db).all(held.connector, entity, keyText);
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { id, entity: child } = next;
    if (visited.has(id) || current.keeps.has(child)) continue;
    visited.add(id);
    const isParent = parents.get(child) ?? leadsOn(ledger.db).get(held.connector, child) !== undefined;
    parents.set(child, isParent);
    for (const row of liveRows(commit, next, 0)) {
      if (current.seen.has(child, row) && !current.seen.hasAtHome(child, row)) continue;
      counts.set(child, (counts.get(child) ?? 0) + 1);
      const key = isParent ? keyOf(commit, child, row) : undefined;
      if (key !== undefined) open.push(...below(ledger.db).all(held.connector, child, key));
    }
  }
  return counts;
}

export const rowsAtOnce = 1_000;

/** Rows without a tombstone at home in the partition, behind row `from`. */
export function* liveRows(
  { ledger, held: { connector }, current }: Commit,
  { id, entity }: Pick<SweptPartition, 'id' | 'entity'>,
  from: number,
): Generator<number> {
  const planned = current.tables.get(entity)?.table;
  if (planned === undefined && ledger.tables.known(connector, entity) === undefined) return;
  yield* inOrder(from, (after) => {
    const rows =
      planned?.liveRows(id, after, rowsAtOnce) ??
      openRows(ledger.db).liveRows(connector, entity, id, after, rowsAtOnce);
    return rows.map(({ row }) => row);
  });
}

/** What `read` gives in batches of up to `rowsAtOnce`, each behind the last number of the one before. */
export function* inOrder(from: number, read: (after: number) => readonly number[]): Generator<number> {
  for (let after = from; ;) {
    const batch = read(after);
    for (const number of batch) yield (after = number);
    if (batch.length < rowsAtOnce) return;
  }
}

function keyOf({ ledger, held, current }: Commit, entity: EntityName, row: number): string | undefined {
  const planned = current.tables.get(entity);
  if (planned !== undefined) return planned.table.row(row)?.keyText;
  const key = ledger.tables.known(held.connector, entity)?.key ?? [];
  return openRows(ledger.db).keyOf(held.connector, { entity, key }, row);
}

const endedPartitions = `SELECT id, entity, swept_to AS sweptTo FROM _sync_partitions INDEXED BY _sync_partitions_gone
  WHERE connector = :connector AND gone = ${standing.ended}`;
/** The next of those below tombstoned records whose rows are still to be deleted. */
const nextEnded = statement<[{ connector: string; entities: string }], SweptPartition>(
  `${endedPartitions} AND entity IN (SELECT value FROM json_each(:entities)) ORDER BY id LIMIT 1`,
);
export const allEnded = statement<[{ connector: string }], SweptPartition>(endedPartitions);
/** Partitions that a record has led to. Those that are ended belong to a delete that has been judged already. */
const below = statement<[...OfEntity, keyText: string], Pick<SweptPartition, 'id' | 'entity'>>(
  `SELECT id, entity FROM _sync_partitions
   WHERE connector = ? AND parent_entity = ? AND parent_key = ? AND backfill = '' AND gone <> ${standing.ended}`,
);
/** Whether records of the entity lead to partitions at all. */
export const leadsOn = statement<OfEntity>(
  'SELECT 1 FROM _sync_partitions WHERE connector = ? AND parent_entity = ? AND parent_key IS NOT NULL LIMIT 1',
);
const leavePlaces = statement<[OfRow]>(
  'DELETE FROM _sync_also WHERE connector = :connector AND entity = :entity AND row = :row',
);
