import { believedUntil } from '../becoming-due.ts';
import type { Commit } from '../ledger.ts';
import type { HomedRow, RecordTable } from '../record-store.ts';
import type { MissingRows } from './missing-rows.ts';
import type { Needs, OtherPlace, SweptPartition, SweptPartitions } from './swept-partitions.ts';

interface Sweeping {
  readonly commit: Commit;
  readonly missing: MissingRows;
  readonly partitions: SweptPartitions;
}

/** Takes up to `limit` steps (a row or a partition each); true when every partition of the chain is through. */
export function sweepRows(sweeping: Sweeping, limit: number): boolean {
  const { commit, missing, partitions } = sweeping;
  const { connector } = commit.held;
  const entities = [...commit.current.entities];
  for (let left = limit; left > 0;) {
    const swept = partitions.next(connector, commit.current.origin, entities);
    if (swept === undefined) {
      missing.dropHomeless(connector);
      return true;
    }
    left -= 1 + sweepPartition(sweeping, swept, left);
  }
  return false;
}

/** The rows at home first, then the guests; gives how many were looked at. */
function sweepPartition(sweeping: Sweeping, swept: SweptPartition, limit: number): number {
  const { commit, partitions } = sweeping;
  const planned = commit.current.tables.get(swept.entity);
  if (planned === undefined) {
    // An entity of the plan always has a table; without one nothing of it was read either.
    partitions.finish(swept.id, commit.current.chainStartedAt);
    return 0;
  }
  return swept.sweptTo < 0
    ? sweepGuests(sweeping, swept, planned.table, limit)
    : sweepHome(sweeping, swept, planned.table, limit);
}

function sweepHome(sweeping: Sweeping, swept: SweptPartition, table: RecordTable, limit: number): number {
  const { commit, partitions } = sweeping;
  const rows = table.liveRows(swept.id, swept.sweptTo, limit);
  for (const row of rows) {
    if (!commit.current.seen.hasAtHome(swept.entity, row.row)) moveOrMiss(sweeping, swept, table, row);
  }
  const last = rows.at(-1);
  partitions.moveTo(swept.id, last === undefined || rows.length < limit ? -1 : last.row);
  return rows.length;
}

/** A row that its home does not show any more: it lives where this chain has met it, if it has. */
function moveOrMiss(sweeping: Sweeping, swept: SweptPartition, table: RecordTable, row: HomedRow): void {
  const { commit, partitions } = sweeping;
  const { connector } = commit.held;
  const place = partitions
    .otherPlaces(connector, swept.entity, row.row, commit.current)
    .find(({ hasShown }) => hasShown === 1);
  if (place !== undefined) {
    table.setHome(row.row, place.partition);
    partitions.dropPlace(connector, swept.entity, row.row, place.partition);
  } else if (!commit.current.seen.has(swept.entity, row.row)) {
    missRow(sweeping, swept, table, row);
  }
}

/** A row that this chain has seen nowhere, although it has walked the row's home in full. */
function missRow(
  { commit: { held, current, stamp }, missing, partitions }: Sweeping,
  { id, entity, absence }: SweptPartition,
  table: RecordTable,
  { row, changedAt }: HomedRow,
): void {
  const { connector } = held;
  const places = partitions.otherPlaces(connector, entity, row, current);
  const live = places.find(({ mayShow }) => mayShow === 1);
  for (const { partition, mayShow } of places) {
    if (mayShow === 0 || partition === live?.partition) {
      partitions.dropPlace(connector, entity, row, partition);
    }
  }
  if (live !== undefined) {
    table.setHome(row, live.partition);
    return;
  }
  // Written while the chain lasted, but not by it (a record fetched on its own, a backfill): it is there.
  if (changedAt >= current.chainStartedAt && changedAt <= believedUntil(stamp.now)) return;
  const weakest = weakestPlace({ partition: id, absence }, places);
  if (weakest.partition !== id) table.setHome(row, weakest.partition);
  const needs = weakest.absence;
  const { origin, chainStartedAt: since } = current;
  missing.note({ connector, entity, row, partition: weakest.partition, origin, since, needs });
}

interface Place {
  readonly partition: number;
  readonly absence: Needs;
}

const strength: Readonly<Record<Needs, number>> = { nothing: 0, get: 1, walk: 2 };

/** Of several full walks that have not met a row, the one that proves least decides what else it takes. */
function weakestPlace(home: Place, places: readonly OtherPlace[]): Place {
  let weakest = home;
  for (const { partition, absence } of places) {
    if (absence !== null && strength[absence] > strength[weakest.absence]) weakest = { partition, absence };
  }
  return weakest;
}

/** What the partition showed of others' rows: not any more, or for good where nothing leads to their home. */
function sweepGuests(
  { commit: { held, current }, partitions }: Sweeping,
  { id, entity, sweptTo }: SweptPartition,
  table: RecordTable,
  limit: number,
): number {
  const { connector } = held;
  const rows = partitions.guests(connector, entity, id, -1 - sweptTo, limit);
  for (const { row, origin } of rows) {
    if (origin !== current.origin) {
      partitions.dropPlace(connector, entity, row, id);
      continue;
    }
    const home = table.row(row)?.home ?? null;
    if (home !== null && !partitions.isLedTo(home, current)) {
      table.setHome(row, id);
      partitions.dropPlace(connector, entity, row, id);
    }
  }
  const last = rows.at(-1);
  if (last === undefined || rows.length < limit) {
    partitions.finish(id, current.chainStartedAt);
  } else {
    partitions.moveTo(id, -1 - last.row);
  }
  return rows.length;
}
