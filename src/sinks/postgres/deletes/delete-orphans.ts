import type { EntityName } from '../../../core/names.ts';
import { standing } from '../../ledger/partitions/states.ts';
import type { DeletedRows } from '../../deletes.ts';
import type { Commit } from '../ledger.ts';
import { ask } from '../partitions/statement.ts';
import { transitions } from '../partitions/transitions.ts';
import type { HomedRow, RecordTable, RowHome } from '../records/record-table.ts';
import { textHash } from '../text.ts';
import { deleteRows, type GoingRow } from './delete-rows.ts';
import { noteOrphans } from './note-missing.ts';
import { dropGuests, leavePlaces, otherPlaces, type RowAt } from './places.ts';
import { orphansGone } from './read-missing.ts';

/** A partition below a tombstoned record. */
export interface EndedPartitionRow {
  readonly id: number;
  readonly entity: EntityName;
  /** Rows up to here have been looked at, and stay. */
  readonly sweptTo: number;
}

/** Those whose rows are still to be deleted. */
export const nextEnded = ask<
  { connector: string; entities: readonly string[]; limit: number },
  EndedPartitionRow
>(
  (at) => `SELECT id, entity, swept_to FROM ${at}_sync_partitions
     WHERE connector = :connector AND gone = ${standing.ended} AND entity = ANY(:entities::text[]) ORDER BY id LIMIT :limit`,
);

const partitionsAtOnce = 500;

/**
 * Up to `limit` steps (a row or a partition each) of deleting what lies below deleted records, at any depth, which was judged with them. A batch
 * that only found new homes, or rows to ask for, says so with 0 rows: empty means that none is left.
 */
export async function deleteOrphans(commit: Commit, limit: number): Promise<readonly DeletedRows[]> {
  const { ledger, held, current, tx } = commit;
  const { connector } = held;
  const entities = [...current.entities];
  const rowsByEntity = new Map<EntityName, number>();
  const count = (entity: EntityName, rows: number): void =>
    void rowsByEntity.set(entity, (rowsByEntity.get(entity) ?? 0) + rows);
  let left = limit;
  const gone = await orphansGone(tx, ledger.at, connector, current.run, limit);
  for (const entity of new Set(gone.map((one) => one.entity))) {
    const rows = gone.filter((one) => one.entity === entity).map(({ row }) => row);
    const going = await goingAlong(commit, entity, rows);
    if (going.length === 0) continue;
    await deleteRows(commit, entity, going);
    count(entity, going.length);
    left -= going.length;
  }
  while (left > 0) {
    const most = Math.min(left, partitionsAtOnce);
    const ended = await nextEnded(tx, ledger.at, { connector, entities, limit: most });
    const [first] = ended;
    if (first === undefined) break;
    // What is deleted of one entity may end partitions of another: each entity's in its turn.
    const other = ended.findIndex(({ entity }) => entity !== first.entity);
    const { steps, rows } = await emptyPartitions(commit, other < 0 ? ended : ended.slice(0, other), left);
    count(first.entity, rows);
    left -= steps;
  }
  return [...rowsByEntity].map(([entity, rows]) => ({ entity, rows }));
}

async function goingAlong(
  { current, tx }: Commit,
  entity: EntityName,
  rows: readonly number[],
): Promise<readonly GoingRow[]> {
  const stored = await current.tables.get(entity)?.table.rows(tx, rows);
  return rows.flatMap((row): readonly GoingRow[] => {
    const keyText = stored?.get(row)?.keyText;
    return keyText === undefined ? [] : [{ row, keyText, permission: 'along' }];
  });
}

interface Emptied {
  readonly steps: number;
  readonly rows: number;
}

/** Of one entity, by id; the last one that there are steps for in part. */
async function emptyPartitions(
  commit: Commit,
  ended: readonly EndedPartitionRow[],
  limit: number,
): Promise<Emptied> {
  const { current, ledger, tx } = commit;
  const [first] = ended;
  if (first === undefined) return { steps: 0, rows: 0 };
  const { entity } = first;
  const table = current.keeps.has(entity) ? undefined : current.tables.get(entity)?.table;
  const homes = ended.map(({ id, sweptTo }) => ({ home: id, after: sweptTo }));
  const live = (await table?.liveRows(tx, homes, limit)) ?? [];
  const reached = live.length < limit ? undefined : live.at(-1)?.home;
  const read: readonly EndedPartitionRow[] =
    reached === undefined ? ended : ended.slice(0, ended.findIndex(({ id }) => id === reached) + 1);
  const { through, rows, looked } =
    table === undefined
      ? { through: read.map(({ id }) => id), rows: 0, looked: 0 }
      : await endRows(commit, { entity, table }, read, live);
  const partial = through.find((id) => id === reached);
  const whole = through.filter((id) => id !== reached);
  await dropGuests(tx, ledger.at, whole);
  await transitions.empty(tx, ledger.at, { ids: whole });
  const last = live.at(-1);
  if (partial !== undefined && last !== undefined) {
    await transitions.sweepTo(tx, ledger.at, { ids: [partial], sweptTo: [last.row] });
  }
  return { steps: through.length + looked, rows };
}

interface EndedRows {
  /** The partitions whose rows were looked at. */
  readonly through: readonly number[];
  /** How many of them were tombstoned. */
  readonly rows: number;
  readonly looked: number;
}

/**
 * Decides over the rows of partitions, one after the other: a row has another home, or may have one that no walk has shown yet, or it goes. What
 * its own delete ends is no home for those that follow; where it ends a partition of this entity that comes before the next, that one is first.
 */
async function endRows(
  commit: Commit,
  { entity, table }: { readonly entity: EntityName; readonly table: RecordTable },
  partitions: readonly EndedPartitionRow[],
  live: readonly HomedRow[],
): Promise<EndedRows> {
  const { ledger, held, current, stamp, tx } = commit;
  const { at } = ledger;
  const of = { connector: held.connector, entity };
  const numbers = live.map(({ row }) => row);
  const places = await otherPlaces(tx, at, of, numbers);
  const mayMove = current.reading.get(entity)?.mayMove === true;
  const keyed = mayMove ? new Map<number, never>() : await goingByRow(commit, entity, numbers);
  const ends = await partitionsBelow(commit, entity, keyed);
  const endedNow = new Set<number>();
  const through: number[] = [];
  const moved: RowHome[] = [];
  const left: RowAt[] = [];
  const orphans: RowAt[] = [];
  const going: GoingRow[] = [];
  let looked = 0;
  for (const [index, { id }] of partitions.entries()) {
    through.push(id);
    const next = partitions[index + 1]?.id ?? Infinity;
    let isAnyBetween = false;
    for (const { row } of live.filter(({ home }) => home === id)) {
      looked += 1;
      const home = places
        .get(row)
        ?.find(({ isLive, partition }) => isLive && !endedNow.has(partition))?.partition;
      const one = keyed.get(row);
      if (home !== undefined) {
        moved.push({ row, home });
        left.push({ row, partition: home });
      } else if (mayMove) {
        orphans.push({ row, partition: id });
      } else if (one !== undefined) {
        going.push(one);
        for (const partition of ends.get(row) ?? []) {
          endedNow.add(partition);
          isAnyBetween ||= partition < next;
        }
      }
    }
    if (isAnyBetween) break;
  }
  await table.setHomes(tx, moved);
  await leavePlaces(tx, at, of, left);
  await noteOrphans(tx, at, { ...of, origin: current.origin, since: stamp.now }, orphans);
  await deleteRows(commit, entity, going);
  return { through, rows: going.length, looked };
}

async function goingByRow(
  commit: Commit,
  entity: EntityName,
  rows: readonly number[],
): Promise<ReadonlyMap<number, GoingRow>> {
  return new Map((await goingAlong(commit, entity, rows)).map((one) => [one.row, one]));
}

/** What the delete of each row would end, by row. */
async function partitionsBelow(
  { ledger: { at }, held: { connector }, tx }: Commit,
  entity: EntityName,
  rows: ReadonlyMap<number, GoingRow>,
): Promise<ReadonlyMap<number, readonly number[]>> {
  if (rows.size === 0) return new Map();
  const found = await tx.rows<{ row: number; ids: readonly number[] }>(
    `SELECT parent.row, array_agg(p.id ORDER BY p.id)::int8[] AS ids
     FROM unnest(:rows::bigint[], :hashes::bytea[]) AS parent(row, hash)
     JOIN ${at}_sync_partitions AS p ON p.connector = :connector AND p.parent_entity = :entity AND p.parent_hash = parent.hash
     WHERE p.backfill = '' AND p.gone <> ${standing.ended} GROUP BY parent.row`,
    {
      connector,
      entity,
      rows: [...rows.keys()],
      hashes: [...rows.values()].map(({ keyText }) => textHash(keyText)),
    },
  );
  return new Map(found.map(({ row, ids }) => [row, ids.map(Number)]));
}
