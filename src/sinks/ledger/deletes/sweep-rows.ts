import type { EntityName } from '../../../core/names.ts';
import { areOwnRowsSwept, lastGuestSwept } from '../../decisions/missing-rows.ts';
import type { Commit } from '../ledger.ts';
import { ask } from '../../../sql/database.ts';
import { transitions } from '../partitions/transitions.ts';
import { dropHomeless, noteMissing } from './note-missing.ts';
import { leavePlaces, otherPlaces, placesById, readGuests } from './places.ts';
import {
  walkSweep,
  type FoundRows,
  type PartitionRead,
  type SweepRead,
  type UnsweptPartition,
} from './walk-sweep.ts';

/**
 * In an order that only the index of unswept partitions has: by id alone, the planner may go through all partitions.
 */
const nextUnswept = ask<
  { connector: string; origin: number; entities: readonly string[]; limit: number },
  UnsweptPartition
>(`SELECT id, entity, coalesce(absence, 'walk') AS absence, swept_to
     FROM _sync_partitions {index _sync_partitions_sweep}
     WHERE connector = :connector AND sweep_origin BETWEEN :origin AND :origin AND entity IN {entities text}
     ORDER BY sweep_origin, id LIMIT :limit`);

const partitionsAtOnce = 500;

/**
 * Looks for the rows that this chain's full walks did not meet, up to `limit` steps (a row or a partition each); true
 * when every partition of the chain is through.
 */
export async function sweepRows(commit: Commit, limit: number): Promise<boolean> {
  const { held, current, tx } = commit;
  const { connector } = held;
  const { origin, chainStartedAt: fullAt } = current;
  const chain = { connector, origin, entities: [...current.entities] };
  for (let left = limit; left > 0;) {
    const unswept = await nextUnswept(tx, { ...chain, limit: Math.min(left, partitionsAtOnce) });
    if (unswept.length === 0) {
      await dropHomeless(tx, connector);
      return true;
    }
    const reads = new Map<EntityName, SweepRead>();
    for (const entity of new Set(unswept.map((one) => one.entity))) {
      const ofEntity = unswept.filter((one) => one.entity === entity);
      reads.set(entity, await readSweep(commit, entity, ofEntity, left));
    }
    const { through, partial, found, steps } = walkSweep(commit, unswept, reads, left);
    for (const [entity, rows] of found) await writeFound(commit, entity, rows);
    if (through.length > 0) await transitions.endSweep(tx, { ids: through, fullAt });
    if (partial !== null) await transitions.sweepTo(tx, partial);
    left -= steps;
  }
  return false;
}

async function readSweep(
  { held: { connector }, current, tx }: Commit,
  entity: EntityName,
  partitions: readonly UnsweptPartition[],
  limit: number,
): Promise<SweepRead> {
  const table = current.tables.get(entity)?.table;
  if (table === undefined) {
    // An entity of the plan always has a table; without one nothing of it was read either.
    const nothing = { rows: [], isRowsWhole: true, guests: [], isGuestsWhole: true };
    const empty = new Map(partitions.map(({ id }) => [id, nothing]));
    return { partitions: empty, places: new Map(), homes: new Map(), placesById: new Map() };
  }
  const of = { connector, entity };
  const unswept = partitions.filter(({ sweptTo }) => !areOwnRowsSwept(sweptTo));
  const homesFrom = unswept.map(({ id, sweptTo }) => ({ home: id, after: sweptTo }));
  const rows = homesFrom.length === 0 ? [] : await table.liveRows(tx, homesFrom, limit);
  const lastHome = rows.length < limit ? undefined : rows.at(-1)?.home;
  const shown = partitions.map(({ id, sweptTo }) => ({ partition: id, after: lastGuestSwept(sweptTo) }));
  const guests = await readGuests(tx, of, shown, limit);
  const lastShown = guests.length < limit ? undefined : guests.at(-1)?.partition;

  const read = new Map<number, PartitionRead>();
  const rowsOf = grouped(rows, ({ home }) => home);
  const guestsOf = grouped(guests, ({ partition }) => partition);
  for (const { id } of partitions) {
    read.set(id, {
      rows: rowsOf.get(id) ?? [],
      isRowsWhole: id !== lastHome,
      guests: guestsOf.get(id) ?? [],
      isGuestsWhole: id !== lastShown,
    });
    if (id === lastHome || id === lastShown) break;
  }

  const rowsRead = [...read.values()].flatMap((one) => one.rows.map(({ row }) => row));
  await current.seen.load(tx, entity, rowsRead);
  const notShown = rowsRead.filter((row) => !current.seen.hasAtHome(entity, row));
  const places = await otherPlaces(tx, of, notShown);
  const met = [...read.values()].flatMap((one) =>
    one.guests.filter(({ origin }) => origin === current.origin),
  );
  const guestRows = await table.rows(tx, [...new Set(met.map(({ row }) => row))]);
  const homes = new Map([...guestRows].map(([row, { home }]) => [row, home]));
  const ids = [...new Set([...homes.values(), ...read.keys()])].flatMap((id) => id ?? []);
  return { partitions: read, places, homes, placesById: await placesById(tx, ids) };
}

async function writeFound(
  { held: { connector }, current, tx }: Commit,
  entity: EntityName,
  { homes, left, missed }: FoundRows,
): Promise<void> {
  const moved = [...homes].map(([row, home]) => ({ row, home }));
  current.tables.get(entity)?.table.setHomes(
    tx,
    moved.toSorted((one, other) => one.row - other.row),
  );
  const of = { connector, entity };
  await leavePlaces(tx, of, [...left.values()]);
  await noteMissing(tx, { ...of, origin: current.origin, since: current.chainStartedAt }, missed);
}

export function grouped<One>(list: readonly One[], keyOf: (one: One) => number): ReadonlyMap<number, One[]> {
  const groups = new Map<number, One[]>();
  for (const one of list) {
    const group = groups.get(keyOf(one));
    if (group === undefined) groups.set(keyOf(one), [one]);
    else group.push(one);
  }
  return groups;
}
