import { parseParams, parsePosition, parseProof } from '../../stored-json.ts';
import { writeJson } from '../../../core/json-text.ts';
import type { Partition, WalkFailure } from '../../partition.ts';
import type { LeftWork } from '../../run-report.ts';
import { grouped } from '../../../core/grouped.ts';
import type { CurrentRun, HeldConnector, Commit } from '../ledger.ts';
import type { Tx } from '../../../sql/database.ts';
import { fullOrigins, leftWork, partitionsById, readLeftovers, type Leftover } from './read-partitions.ts';
import { decideMode, standingOfParent, type ParentStanding } from '../../decisions/becoming-due.ts';
import { readOwnersAgain } from './collisions.ts';
import { beginWalks } from './find-partitions.ts';
import { transitions } from './transitions.ts';

/**
 * Due partitions of the plan's entities that this run has not set aside: deepest first, in a budgeted run those read
 * longest ago. May repeat ones being walked or just ended. Costs `limit` rows, however many are due.
 */
export async function nextPartitions(held: HeldConnector, limit: number): Promise<readonly Partition[]> {
  return await held.read(async (tx) => {
    const { connector, run } = held;
    if (run === null) return [];
    // Never read ones before all others, or deepest first, then in the order found.
    const [index, order] = run.isStalestFirst
      ? ['_sync_partitions_overdue', 'sealed_at NULLS FIRST, rank DESC, id']
      : ['_sync_partitions_ready', 'rank DESC, id'];
    const ready = await tx.rows<ReadyRow>(
      `SELECT id, entity, params, inject, rank, tree, tree_depth, position, mode, watermark, proof
       FROM _sync_partitions {index ${index}}
       WHERE connector = :connector AND backfill = :window AND ready = 1 ORDER BY ${order} LIMIT :limit`,
      { connector, window: run.window, limit },
    );
    const stored = await storedRows(tx, run, ready);
    return ready.map((row) => readPartition(row, stored.get(row.id) ?? 0));
  });
}

/** What is due and was not read, by entity: what a run that ends early leaves. */
export async function left(held: HeldConnector): Promise<readonly LeftWork[]> {
  return await held.read(async (tx) => {
    const { connector, run } = held;
    if (run === null) return [];
    return await leftWork(tx, { connector, window: run.window, entities: [...run.entities] });
  });
}

interface ReadyRow extends Omit<
  Partition,
  'params' | 'inject' | 'position' | 'storedRows' | 'clockDifferences'
> {
  readonly params: string;
  readonly inject: string;
  readonly position: string | null;
  readonly proof: string | null;
}

/** No page is longer, and an empty partition costs one search in an index. */
const mostStoredRows = 1_001;

/** Of those that are read in full, by partition. */
async function storedRows(
  tx: Tx,
  { tables }: Pick<CurrentRun, 'tables'>,
  ready: readonly ReadyRow[],
): Promise<ReadonlyMap<number, number>> {
  const counts = new Map<number, number>();
  const full = ready.filter(({ mode }) => mode === 'full');
  for (const [entity, ofEntity] of grouped(full, (row) => row.entity)) {
    const owners = ofEntity.map(({ id }) => ({ owner: id, after: 0 }));
    const live = await tables.get(entity)?.countLive(tx, owners, mostStoredRows);
    for (const [id, rows] of live ?? []) counts.set(id, rows);
  }
  return counts;
}

function readPartition({ proof: stored, ...row }: ReadyRow, rows: number): Partition {
  const proof = stored === null ? null : parseProof(stored);
  return {
    ...row,
    params: parseParams(row.params),
    inject: parseParams(row.inject),
    position: row.position === null ? null : parsePosition(row.position),
    storedRows: row.mode === 'full' ? Math.max(rows, proof?.reach ?? 0) : 0,
    clockDifferences: proof?.clockDifferences ?? [],
  };
}

/**
 * Once nothing is ready: makes ready what is due below parents that this chain did not have to read; gives how many (0
 * ends the walking). What lies below a parent
 * that seems deleted waits, and what nothing leads to now is no longer due.
 */
export async function findLeftovers(commit: Commit): Promise<number> {
  const { held, current, tx, stamp } = commit;
  const { connector } = held;
  const { origin, window, reading } = current;
  let count = 0;
  for (const entity of current.entities) {
    for (let after: number | undefined = 0; after !== undefined;) {
      const batch = await readLeftovers(tx, { connector, window, entity, origin, after });
      const standings = await parentsOf(commit, batch);
      const released = batch.filter(({ id }) => standings.get(id) === 'leads-elsewhere');
      if (released.length > 0) {
        await transitions.release(tx, { ids: released.map(({ id }) => id) });
      }
      const begun = batch
        .filter(({ id }) => standings.get(id) === 'is-there')
        .map((one) => ({ id: one.id, entity, mode: decideMode(one, reading.get(entity)) }));
      await beginWalks(tx, { connector, origin, now: stamp.now, reading }, begun);
      count += begun.length;
      after = batch.at(-1)?.id;
    }
  }
  return count + (count > 0 ? 0 : await readOwnersAgain(commit));
}

/** By the partition's id. */
async function parentsOf(
  { current: { tables, seen, origin }, tx }: Commit,
  batch: readonly Leftover[],
): Promise<ReadonlyMap<number, ParentStanding>> {
  const standings = new Map<number, ParentStanding>(batch.map(({ id }) => [id, 'leads-elsewhere']));
  for (const [entity, below] of grouped(batch, ({ parentEntity }) => parentEntity)) {
    const keyTexts = [...new Set(below.map(({ parentKey }) => parentKey))];
    const parents = (await tables.get(entity)?.rowsOf(tx, keyTexts)) ?? new Map<string, never>();
    const there = [...parents.values()].filter(({ deletedAt }) => deletedAt === null);
    const owners = there.flatMap(({ owner }) => (owner === null ? [] : [owner]));
    const walkedBy = owners.length === 0 ? new Map<number, null>() : await fullOrigins(tx, owners);
    await seen.load(
      tx,
      entity,
      there.map(({ row }) => row),
    );
    for (const { id, parentKey, foundOrigin } of below) {
      const parent = parents.get(parentKey);
      if (parent === undefined || parent.deletedAt !== null) continue;
      const by = parent.owner === null ? null : (walkedBy.get(parent.owner) ?? null);
      const isSeen = by === origin && seen.has(entity, parent.row);
      standings.set(id, standingOfParent({ walkedBy: by, isSeen }, { origin, foundOrigin }));
    }
  }
  return standings;
}

/**
 * Leaves a partition to a later run: its position is kept (or dropped with `dropPosition`). A tree with such a listing
 * stays due, as does the listing.
 */
export async function setWalkAside(
  { held, current, tx }: Commit,
  partition: number,
  why: WalkFailure,
): Promise<void> {
  await partitionsById(tx, held.connector, [partition]);
  await transitions.setAside(tx, {
    id: partition,
    run: current.run,
    failure: writeJson(why),
    code: why.code,
    failedAt: why.at,
    dropPosition: why.dropPosition ? 1 : 0,
    dropWatermark: why.dropWatermark ? 1 : 0,
  });
}
