import type { EntityName } from '../../../core/names.ts';
import { believedUntil } from '../../decisions/becoming-due.ts';
import { isLedTo, lookForRow } from '../../decisions/missing-rows.ts';
import type { Commit } from '../ledger.ts';
import type { UnsweptPartition } from '../partitions/deleting.ts';
import type { HomedRow, RecordTable } from '../record-store.ts';

/** Looks for rows that this chain's full walks did not meet, up to `limit` steps (rows, partitions); true when every partition is through. */
export function sweepRows(commit: Commit, limit: number): boolean {
  const { ledger, held, current } = commit;
  const { connector } = held;
  const { origin, chainStartedAt: fullAt } = current;
  const entities = JSON.stringify([...current.entities]);
  for (let left = limit; left > 0;) {
    const swept = ledger.partitions.nextUnswept.get({ connector, origin, entities });
    if (swept === undefined) {
      ledger.missing.dropHomeless.run(connector);
      return true;
    }
    const table = current.tables.get(swept.entity)?.table;
    left -= 1;
    if (table === undefined) {
      // An entity of the plan always has a table; without one nothing of it was read either.
      ledger.transitions.endSweep.run({ id: swept.id, fullAt });
    } else {
      const sweep = swept.sweptTo < 0 ? sweepGuests : sweepHome;
      left -= sweep(commit, swept, table, left + 1);
    }
  }
  return false;
}

/** The rows at home, before the guests; gives how many were looked at. */
function sweepHome(commit: Commit, swept: UnsweptPartition, table: RecordTable, limit: number): number {
  const rows = table.liveRows(swept.id, swept.sweptTo, limit);
  for (const row of rows) {
    if (!commit.current.seen.hasAtHome(swept.entity, row.row)) moveOrMiss(commit, swept, table, row);
  }
  const last = rows.at(-1);
  // -1: the rows at home are through, and the guests are next.
  const sweptTo = last === undefined || rows.length < limit ? -1 : last.row;
  commit.ledger.transitions.sweepTo.run({ id: swept.id, sweptTo });
  return rows.length;
}

function moveOrMiss(
  { ledger, held: { connector }, current, stamp }: Commit,
  { id, entity, absence }: UnsweptPartition,
  table: RecordTable,
  { row, changedAt }: HomedRow,
): void {
  const isSeen = current.seen.has(entity, row);
  const otherPlaces = ledger.places.others({ connector, entity, row });
  const home = { partition: id, absence };
  const found = lookForRow({ home, otherPlaces, isSeen, changedAt }, current, believedUntil(stamp.now));
  for (const partition of found.leaves) ledger.places.leave.run({ connector, entity, row, partition });
  if (found.kind === 'stays') return;
  if (found.home !== id) table.setHome(row, found.home);
  if (found.kind === 'moves') return;
  const { origin, chainStartedAt: since } = current;
  const { home: partition, needs } = found;
  ledger.missing.noteMissed.run({ connector, entity, row, partition, origin, since, needs });
}

/** What the partition showed of others' rows: not any more, or for good where nothing leads to their home. */
function sweepGuests(
  { ledger: { places, transitions }, held: { connector }, current }: Commit,
  { id, entity, sweptTo }: UnsweptPartition,
  table: RecordTable,
  limit: number,
): number {
  const rows = places.guests.all({ connector, entity, partition: id, after: -1 - sweptTo, limit });
  for (const { row, origin } of rows) {
    const home = origin === current.origin ? (table.row(row)?.home ?? null) : null;
    const place = home === null ? undefined : places.one(home);
    const isHomeless = home !== null && (place === undefined || !isLedTo(place, current));
    if (isHomeless) table.setHome(row, id);
    if (isHomeless || origin !== current.origin) places.leave.run({ connector, entity, row, partition: id });
  }
  const last = rows.at(-1);
  if (last === undefined || rows.length < limit) {
    transitions.endSweep.run({ id, fullAt: current.chainStartedAt });
  } else {
    // Below 0, so that it is told from a row at home.
    transitions.sweepTo.run({ id, sweptTo: -1 - last.row });
  }
  return rows.length;
}

/** Records whose children this run was told not to exist: listings that show only what changed would not tell for days that they are gone. */
export function suspectParents(
  { ledger, held: { connector }, current, stamp }: Commit,
  confirmable: readonly EntityName[],
): void {
  const { origin, run, tables, seen } = current;
  for (const { parentEntity: entity, parentKey } of ledger.partitions.notFoundBelow.all(connector, run)) {
    const parent = tables.get(entity)?.table.rowOf(parentKey);
    if (parent === undefined || parent.deletedAt !== null || parent.home === null) continue;
    if (!confirmable.includes(entity) || seen.has(entity, parent.row)) continue;
    const { row, home: partition } = parent;
    ledger.missing.suspect.run({ connector, entity, row, partition, origin, since: stamp.now });
  }
}
