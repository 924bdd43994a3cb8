import type { EntityName } from '../../../core/names.ts';
import { believedUntil } from '../../decisions/becoming-due.ts';
import type Database from 'better-sqlite3';
import type { Instant } from '../../../core/clock.ts';
import type { ConnectorName } from '../../../core/names.ts';
import {
  areOwnRowsSwept,
  isLedTo,
  lastGuestSwept,
  lookForRow,
  sweptToGuest,
  type Needs,
  type OtherPlace,
} from '../../decisions/missing-rows.ts';
import { standing } from '../../decisions/standing.ts';
import type { Commit } from '../ledger.ts';
import type { HomedRow, RecordTable } from '../record-store.ts';
import { readFlags, statement, type Flagged } from '../statement.ts';

/** Looks for rows that this chain's full walks did not meet, up to `limit` steps (rows, partitions). */
export function sweepRows(commit: Commit, limit: number): { readonly isDone: boolean } {
  const { ledger, held, current } = commit;
  const { connector } = held;
  const { origin, chainStartedAt: fullAt } = current;
  const entities = JSON.stringify([...current.entities]);
  for (let left = limit; left > 0;) {
    const swept = nextUnswept(ledger.db).get({ connector, origin, entities });
    if (swept === undefined) {
      dropHomeless(ledger.db).run(connector);
      return { isDone: true };
    }
    const table = current.tables.get(swept.entity)?.table;
    left -= 1;
    if (table === undefined) {
      // An entity of the plan always has a table; without one nothing of it was read either.
      ledger.transitions.endSweep.run({ id: swept.id, fullAt });
    } else {
      const sweep = areOwnRowsSwept(swept.sweptTo) ? sweepGuests : sweepHome;
      left -= sweep(commit, swept, table, left + 1);
    }
  }
  return { isDone: false };
}

/** A partition whose rows are looked at in batches. */
export interface SweptPartition {
  readonly id: number;
  readonly entity: EntityName;
  /** How far that has come: see `areOwnRowsSwept`. */
  readonly sweptTo: number;
}

interface UnsweptPartition extends SweptPartition {
  readonly absence: Needs;
}

/** The next partition whose full walk of this chain is to be swept. */
const nextUnswept = statement<[{ connector: string; origin: number; entities: string }], UnsweptPartition>(
  `SELECT id, entity, coalesce(absence, 'walk') AS absence, swept_to AS sweptTo
   FROM _sync_partitions INDEXED BY _sync_partitions_sweep
   WHERE connector = :connector AND sweep_origin = :origin AND entity IN (SELECT value FROM json_each(:entities)) ORDER BY id LIMIT 1`,
);
/** Rows whose partition is pruned: nothing misses them any more. */
const dropHomeless = statement<[connector: string]>(
  'DELETE FROM _sync_missing WHERE connector = ? AND partition NOT IN (SELECT id FROM _sync_partitions)',
);

/** The rows at home, before the guests; gives how many were looked at. */
function sweepHome(commit: Commit, swept: UnsweptPartition, table: RecordTable, limit: number): number {
  const rows = table.liveRows(swept.id, swept.sweptTo, limit);
  for (const row of rows) {
    if (!commit.current.seen.hasAtHome(swept.entity, row.row)) moveOrMiss(commit, swept, table, row);
  }
  const last = rows.at(-1);
  const sweptTo = last === undefined || rows.length < limit ? sweptToGuest(0) : last.row;
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
  const otherPlaces = placesBesideHome(ledger.db, { connector, entity, row });
  const home = { partition: id, absence };
  const found = lookForRow({ home, otherPlaces, isSeen, changedAt }, current, believedUntil(stamp.now));
  for (const partition of found.leaves) leavePlace(ledger.db).run({ connector, entity, row, partition });
  if (found.kind === 'stays') return;
  if (found.home !== id) table.setHome(row, found.home);
  if (found.kind === 'moves') return;
  const { origin, chainStartedAt: since } = current;
  const { home: partition, needs } = found;
  noteMissed(ledger.db).run({ connector, entity, row, partition, origin, since, needs });
}

/** What the partition showed of others' rows: not any more, or for good where nothing leads to their home. */
function sweepGuests(
  { ledger: { db, transitions }, held: { connector }, current }: Commit,
  { id, entity, sweptTo }: UnsweptPartition,
  table: RecordTable,
  limit: number,
): number {
  const rows = guests(db).all({ connector, entity, partition: id, after: lastGuestSwept(sweptTo), limit });
  for (const { row, origin } of rows) {
    const home = origin === current.origin ? (table.row(row)?.home ?? null) : null;
    const place = home === null ? undefined : placeOf(db, home);
    const isHomeless = home !== null && (place === undefined || !isLedTo(place, current));
    if (isHomeless) table.setHome(row, id);
    const isLeft = isHomeless || origin !== current.origin;
    if (isLeft) leavePlace(db).run({ connector, entity, row, partition: id });
  }
  const last = rows.at(-1);
  if (last === undefined || rows.length < limit) {
    transitions.endSweep.run({ id, fullAt: current.chainStartedAt });
  } else {
    transitions.sweepTo.run({ id, sweptTo: sweptToGuest(last.row) });
  }
  return rows.length;
}

/** Records whose children this run was told not to exist: listings that show only what changed would not tell for days that they are gone. */
export function suspectParents(
  { ledger, held: { connector }, current, stamp }: Commit,
  confirmable: readonly EntityName[],
): void {
  const { origin, run, tables, seen } = current;
  for (const { parentEntity: entity, parentKey } of notFoundBelow(ledger.db).all(connector, run)) {
    const parent = tables.get(entity)?.table.rowOf(parentKey);
    if (parent === undefined || parent.deletedAt !== null || parent.home === null) continue;
    if (!confirmable.includes(entity) || seen.has(entity, parent.row)) continue;
    const { row, home: partition } = parent;
    noteSuspect(ledger.db).run({ connector, entity, row, partition, origin, since: stamp.now });
  }
}

/** Records that led to what this run was told not to exist. */
const notFoundBelow = statement<
  [connector: string, run: string],
  { readonly parentEntity: EntityName; readonly parentKey: string }
>(
  // The index holds what was set aside: few rows, however many partitions there are.
  `SELECT DISTINCT parent_entity AS parentEntity, parent_key AS parentKey FROM _sync_partitions INDEXED BY _sync_partitions_set_aside
   WHERE connector = ? AND set_aside_run = ? AND parent_key IS NOT NULL AND gone = ${standing.live}
     AND json_extract(failure, '$.code') = 'NOT_FOUND'`,
);

export type OfEntity = [connector: ConnectorName, entity: EntityName];

export interface OfRow {
  readonly connector: ConnectorName;
  readonly entity: EntityName;
  readonly row: number;
}

/** A row of an entity, and a partition. */
interface RowAt extends OfRow {
  readonly partition: number;
}

interface Note extends RowAt {
  readonly origin: number;
  /** When the chain began whose walk missed it (the walk itself began then at the earliest); where no walk has missed it, when it was noted. */
  readonly since: Instant;
}

/** Conditions on `_sync_missing`, whose rows `decisions/missing-rows.ts` explains. */
export const noted = {
  withPartition: '_sync_missing AS m JOIN _sync_partitions AS p ON p.id = m.partition',
  isMissing: `m.missed > 0 AND p.gone = ${standing.live}`,
  isOrphan: `m.missed > 0 AND p.gone = ${standing.emptied}`,
  isVouchedFor: `m.is_vouched_for = 1 AND m.asked_run IS NOT NULL AND m.needs = 'get' AND m.is_allowed = 0`,
} as const;
const insertNote = `INSERT INTO _sync_missing
    (connector, entity, row, partition, origin, missed, since, needs, is_allowed, is_vouched_for)
  VALUES (:connector, :entity, :row, :partition, :origin, 1, :since`;

/** A full walk did not meet the row. Once a chain, however often. */
const noteMissed = statement<[Note & { readonly needs: Needs }]>(
  `${insertNote}, :needs, 0, 0)
   ON CONFLICT (connector, entity, row) DO UPDATE SET partition = excluded.partition, origin = excluded.origin,
     since = iif(missed = 0, excluded.since, since), missed = missed + 1, needs = iif(is_vouched_for = 1, 'get', excluded.needs)
   WHERE origin <> excluded.origin`,
);
/** A record whose children do not exist. Vouched for from the start: where `get` still finds it, no walk was wrong about it. */
const noteSuspect = statement<[Note]>(
  `${insertNote}, 'get', 0, 1) ON CONFLICT (connector, entity, row) DO UPDATE SET missed = max(missed, 1), needs = 'get'`,
);
/** A row below a deleted record that may be elsewhere; nothing is withdrawn where it is. */
export const noteOrphan = statement<[Note]>(
  `${insertNote}, 'get', 0, 1)
   ON CONFLICT (connector, entity, row) DO UPDATE SET partition = excluded.partition, missed = max(missed, 1),
     needs = 'get', is_vouched_for = 1`,
);

/** Up to `limit` rows behind row `after` that the partition has shown although they are at home elsewhere, and the chains that met them there last. */
const guests = statement<
  [Omit<RowAt, 'row'> & { readonly after: number; readonly limit: number }],
  { readonly row: number; readonly origin: number }
>(
  `SELECT row, origin FROM _sync_also INDEXED BY _sync_also_partition
   WHERE partition = :partition AND connector = :connector AND entity = :entity AND row > :after ORDER BY row LIMIT :limit`,
);
export const leavePlace = statement<[RowAt]>(
  'DELETE FROM _sync_also WHERE connector = :connector AND entity = :entity AND row = :row AND partition = :partition',
);
export const dropGuests = statement<[partition: number]>('DELETE FROM _sync_also WHERE partition = ?');

const placeColumns = `place.gone IS ${standing.live} AS isLive, place.due_since IS NOT NULL AS isDue,
  coalesce(place.origin, 0) AS origin, coalesce(place.found_at, '') AS foundAt,
  place.parent_key IS NOT NULL AS isBelowRecord, place.full_origin AS fullOrigin, place.absence`;
const places = statement<[OfRow], Flagged<OtherPlace>>(
  `SELECT also.partition, also.origin AS metBy, ${placeColumns}
   FROM _sync_also AS also LEFT JOIN _sync_partitions AS place ON place.id = also.partition
   WHERE also.connector = :connector AND also.entity = :entity AND also.row = :row ORDER BY also.partition`,
);
const onePlace = statement<[id: number], Flagged<OtherPlace>>(
  `SELECT id AS partition, 0 AS metBy, ${placeColumns} FROM _sync_partitions AS place WHERE id = ?`,
);

/** Partitions that have shown the row although it is at home elsewhere. */
export function placesBesideHome(db: Database.Database, row: OfRow): readonly OtherPlace[] {
  return places(db).all(row).map(readPlace);
}

function placeOf(db: Database.Database, partition: number): OtherPlace | undefined {
  const found = onePlace(db).get(partition);
  return found === undefined ? undefined : readPlace(found);
}

function readPlace(row: Flagged<OtherPlace>): OtherPlace {
  return readFlags(row, 'isLive', 'isDue', 'isBelowRecord');
}
