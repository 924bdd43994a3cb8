import type { EntityName } from '../../../core/names.ts';
import { standing } from '../../decisions/standing.ts';
import type { EndedPartition } from '../../deletes.ts';
import type { RowsOf } from '../../run-report.ts';
import type { Commit } from '../ledger.ts';
import { ask } from '../../../sql/database.ts';
import { transitions } from '../partitions/transitions.ts';
import { deleteRows, type GoingRow } from './delete-rows.ts';
import { noteOrphans, orphansGone, type Missed } from './noted-rows.ts';
import { dropShared, leavePlaces, otherPlaces } from './places.ts';
import { grouped } from '../../../core/grouped.ts';
import { partitionsBelow } from './rows-below.ts';
import type { OtherPlace } from '../../decisions/missing-rows.ts';
import type { OwnedRow, RecordTable, RowOwner } from '../record-table.ts';

/**
 * Those whose rows are still to be deleted, in an order that only their index has: by id alone, the planner may go
 * through all partitions.
 */
const nextEnded = ask<
  { connector: string; entities: readonly string[]; limit: number },
  EndedPartitionRow
>(`SELECT id, entity, swept_to FROM _sync_partitions {index _sync_partitions_gone}
     WHERE connector BETWEEN :connector AND :connector AND gone = ${standing.ended} AND entity IN {entities text}
     ORDER BY connector, id LIMIT :limit`);

const partitionsAtOnce = 500;

/**
 * Up to `limit` steps (a row or a partition each) of deleting what lies below deleted records, at any depth, which was
 * judged with them. Rows that may have moved are noted as orphans, for a `get`; they go when it has found nothing. A
 * batch that only found new owners, or rows to ask for, says so with 0 rows: empty means that none is left.
 */
export async function deleteOrphans(commit: Commit, limit: number): Promise<readonly RowsOf[]> {
  const { held, current, tx } = commit;
  const { connector } = held;
  const entities = [...current.entities];
  const rowsByEntity = new Map<EntityName, number>();
  const count = (entity: EntityName, rows: number): void =>
    void rowsByEntity.set(entity, (rowsByEntity.get(entity) ?? 0) + rows);
  let left = limit;
  const gone = await orphansGone(tx, { connector, run: current.run, limit });
  for (const [entity, orphans] of grouped(gone, (one) => one.entity)) {
    const going = await goingAlong(
      commit,
      entity,
      orphans.map(({ row }) => row),
    );
    if (going.length === 0) continue;
    await deleteRows(commit, entity, going);
    count(entity, going.length);
    left -= going.length;
  }
  while (left > 0) {
    const limit = Math.min(left, partitionsAtOnce);
    const ended = await nextEnded(tx, { connector, entities, limit });
    if (ended.length === 0) break;
    const { steps, rows } = await emptyPartitions(commit, ended, left);
    for (const [entity, deleted] of rows) count(entity, deleted);
    left -= steps;
  }
  return [...rowsByEntity].map(([entity, rows]) => ({ entity, rows }));
}

async function goingAlong(
  { current, tx }: Commit,
  entity: EntityName,
  rows: readonly number[],
): Promise<readonly GoingRow[]> {
  const stored = await current.tables.get(entity)?.rows(tx, rows);
  return rows.flatMap((row): readonly GoingRow[] => {
    const keyText = stored?.get(row)?.keyText;
    return keyText === undefined ? [] : [{ row, keyText, permission: 'along' }];
  });
}

/**
 * By id; the last one only as far as the steps allow. `rows`: how many were tombstoned, by entity; also of entities of
 * which none was.
 */
async function emptyPartitions(commit: Commit, ended: readonly EndedPartitionRow[], limit: number) {
  const { tx } = commit;
  const orphans = new Map<EntityName, OrphansOf>();
  for (const [entity, ofEntity] of grouped(ended, (one) => one.entity)) {
    orphans.set(entity, await readOrphans(commit, entity, ofEntity, limit));
  }
  const { whole, partial, steps } = decideOrphans(ended, orphans, limit);
  const rows = new Map<EntityName, number>();
  for (const [entity, { table, moved, orphans: noted, going }] of orphans) {
    if (table === undefined) continue;
    const of = { connector: commit.held.connector, entity };
    table.setOwners(tx, moved);
    const left = moved.map(({ row, owner }) => ({ row, partition: owner }));
    await leavePlaces(tx, of, left);
    const chain = { ...of, origin: commit.current.origin, since: commit.stamp.now };
    await noteOrphans(tx, chain, noted);
    await deleteRows(commit, entity, going);
  }
  for (const { id, entity } of ended) {
    if (!whole.includes(id) && id !== partial?.id) break;
    rows.set(entity, orphans.get(entity)?.going.length ?? 0);
  }
  await dropShared(tx, whole);
  await transitions.empty(tx, { ids: whole });
  if (partial !== null) await transitions.sweepTo(tx, partial);
  return { steps, rows };
}

async function readOrphans(
  commit: Commit,
  entity: EntityName,
  ended: readonly EndedPartitionRow[],
  limit: number,
): Promise<OrphansOf> {
  const { current, held, tx } = commit;
  const table = current.keeps.has(entity) ? undefined : current.tables.get(entity);
  const owners = ended.map(({ id, sweptTo }) => ({ owner: id, after: sweptTo }));
  const live = (await table?.liveRows(tx, owners, limit)) ?? [];
  const reached = live.length < limit ? undefined : live.at(-1)?.owner;
  const byOwner = grouped(live, ({ owner }) => owner);
  const last = reached === undefined ? ended.length - 1 : ended.findIndex(({ id }) => id === reached);
  const numbers = live.map(({ row }) => row);
  const mayMove = current.reading.get(entity)?.mayMove === true;
  const along = mayMove ? [] : await goingAlong(commit, entity, numbers);
  const keyed = new Map(along.map((one) => [one.row, one]));
  const below = along.length === 0 ? [] : await partitionsBelow(commit, entity, along);
  const ends = grouped(below, ({ row }) => row);
  return {
    table,
    live: new Map(ended.slice(0, last + 1).map(({ id }) => [id, byOwner.get(id) ?? []])),
    places: await otherPlaces(tx, { connector: held.connector, entity }, numbers),
    mayMove,
    keyed,
    ends: new Map([...ends].map(([row, below]) => [row, below.map(({ id }) => id)])),
    moved: [],
    orphans: [],
    going: [],
  };
}

/** A partition below a tombstoned record. */
export interface EndedPartitionRow extends EndedPartition {
  /** Rows up to here have been checked, and stay. */
  readonly sweptTo: number;
}

/** What is stored of partitions of one entity, and what was decided over their rows. */
interface OrphansOf {
  readonly table: RecordTable | undefined;
  /** By partition, as many as there are steps for. */
  readonly live: ReadonlyMap<number, readonly OwnedRow[]>;
  readonly places: ReadonlyMap<number, readonly OtherPlace[]>;
  readonly mayMove: boolean;
  readonly keyed: ReadonlyMap<number, GoingRow>;
  /** What the delete of each row would end. */
  readonly ends: ReadonlyMap<number, readonly number[]>;
  readonly moved: RowOwner[];
  readonly orphans: Missed[];
  readonly going: GoingRow[];
}

/**
 * Decides over the rows of partitions, one after the other: a row has another owner, or may have one that no walk has
 * shown yet, or it is deleted. What its own delete ends is no owner for those that follow; where it ends a partition
 * that comes before the next, that one is first. `whole`: partitions whose rows have all been checked.
 */
function decideOrphans(
  ended: readonly EndedPartitionRow[],
  orphans: ReadonlyMap<EntityName, OrphansOf>,
  limit: number,
) {
  const whole: number[] = [];
  const endedNow = new Set<number>();
  let left = limit;
  for (const [index, { id, entity }] of ended.entries()) {
    const ofEntity = orphans.get(entity);
    const live = ofEntity?.live.get(id);
    if (left <= 0 || ofEntity === undefined || live === undefined) break;
    const rows = live.slice(0, left);
    const endedHere = rows.flatMap(({ row }) => decideOrphan(ofEntity, row, id, endedNow));
    const last = rows.at(-1);
    const isWhole = rows.length < left;
    left -= 1 + rows.length;
    if (!isWhole && last !== undefined) {
      return { whole, partial: { id, sweptTo: last.row }, steps: limit - left };
    }
    whole.push(id);
    const next = ended[index + 1]?.id ?? Infinity;
    if (endedHere.some((partition) => partition < next)) break;
  }
  return { whole, partial: null, steps: limit - left };
}

/** Gives the partitions that are ended by it. */
function decideOrphan(
  { places, mayMove, keyed, ends, moved, orphans, going }: OrphansOf,
  row: number,
  partition: number,
  endedNow: Set<number>,
): readonly number[] {
  const known = places.get(row) ?? [];
  const owner = known.find((one) => one.isLive && !endedNow.has(one.partition))?.partition;
  const one = keyed.get(row);
  if (owner !== undefined) {
    moved.push({ row, owner });
  } else if (mayMove) {
    orphans.push({ row, partition, needs: 'get' });
  } else if (one !== undefined) {
    going.push(one);
    const below = ends.get(row) ?? [];
    for (const id of below) endedNow.add(id);
    return below;
  }
  return [];
}
