import type { Instant } from '../../../core/clock.ts';
import { grouped } from '../../../core/grouped.ts';
import { writeJson } from '../../../core/json.ts';
import type { ConnectorName, EntityName } from '../../../core/names.ts';
import { ask, type Tx, textHash, columnOf, cellOf } from '../../../sql/database.ts';
import {
  decideMode,
  isUnchanged,
  neverWalked,
  standingOfParent,
  type ChainReading,
  type ParentStanding,
  standing,
  type KnownWalks,
} from '../../decisions/becoming-due.ts';
import type { Doubt, FoundPartition, Partition, WalkFailure } from '../../partition.ts';
import type { LeftWork } from '../../run-report.ts';
import { parsePlace, parsePosition, parseProof, type PlaceTexts } from '../../stored-json.ts';
import type { Commit, CurrentRun, HeldConnector } from '../ledger.ts';
import { transitions, type FoundAgain, type Scope, inScope } from './transitions.ts';
import { noPartitionError } from '../../sink-errors.ts';

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

/** Work that is due and was not read, by entity. */
export async function left(held: HeldConnector): Promise<readonly LeftWork[]> {
  return await held.read(async (tx) => {
    const { connector, run } = held;
    if (run === null) return [];
    return await leftWork(tx, { connector, window: run.window, entities: [...run.entities] });
  });
}

interface ReadyRow
  extends Omit<Partition, keyof PlaceTexts | 'position' | 'storedRows' | 'clockDifferences'>, PlaceTexts {
  readonly position: string | null;
  readonly proof: string | null;
}

/** No page is longer, and an empty partition costs one search in an index. */
const mostStoredRows = 1_001;

/** Stored rows of the partitions that are read in full, by partition. */
async function storedRows(tx: Tx, { tables }: Pick<CurrentRun, 'tables'>, ready: readonly ReadyRow[]) {
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
    ...parsePlace(row),
    position: row.position === null ? null : parsePosition(row.position),
    storedRows: row.mode === 'full' ? Math.max(rows, proof?.reach ?? 0) : 0,
    clockDifferences: proof?.clockDifferences ?? [],
  };
}

/**
 * Makes due partitions ready below parents that this chain did not have to read, once no others are ready. Returns
 * their number (0 ends the walking). A partition below a parent that seems deleted waits; a partition that nothing
 * leads to is no longer due.
 */
export async function findLeftovers(commit: Commit): Promise<number> {
  const { connector, current, tx, stamp } = commit;
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

/** State of the parents, by the partition's id. */
async function parentsOf({ current: { tables, seen, origin }, tx }: Commit, batch: readonly Leftover[]) {
  const standings = new Map<number, ParentStanding>(batch.map(({ id }) => [id, 'leads-elsewhere']));
  for (const [entity, below] of grouped(batch, ({ parentEntity }) => parentEntity)) {
    const keyTexts = [...new Set(below.map(({ parentKey }) => parentKey))];
    const parents = (await tables.get(entity)?.rowsOf(tx, keyTexts)) ?? new Map<string, never>();
    const there = [...parents.values()].filter(({ deletedAt }) => deletedAt === null);
    const owners = there.flatMap(({ owner }) => (owner === null ? [] : [owner]));
    const walkedBy = owners.length === 0 ? new Map<number, null>() : await fullOrigins(tx, owners);
    const rows = there.map(({ row }) => row);
    await seen.load(tx, entity, rows);
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
export async function setWalkAside({ connector, current, tx }: Commit, partition: number, why: WalkFailure) {
  await partitionsById(tx, connector, [partition]);
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

export interface Finding {
  readonly connector: ConnectorName;
  /** '' for the living partitions. */
  readonly window: string;
  /** Number of the chain's first run. */
  readonly origin: number;
  readonly now: Instant;
  /** An entity that is not in it is not read by the run: its partitions are due, but left to a run that does. */
  readonly reading: ReadonlyMap<EntityName, ChainReading>;
}

/** A found partition as it is stored, with its index in the caller's list. */
interface Found {
  readonly index: number;
  readonly entity: EntityName;
  readonly found: FoundPartition;
  readonly params: string;
  readonly paramsHash: Buffer;
  readonly name: string;
}

/** A partition to be made ready. */
export type Begun = Pick<Partition, 'id' | 'entity' | 'mode'>;

/** Reads the stored state of found partitions. One that is given twice is found once. */
export async function meetFound(tx: Tx, founds: readonly FoundPartition[], finding: Finding) {
  const distinct = firstOfEach(founds);
  const known =
    founds.length === 0 ? new Map<string, KnownRow>() : await knownPartitions(tx, finding, distinct);
  return { count: founds.length, distinct, known };
}

/**
 * Makes partitions due unless this chain already found them or nothing has changed in them; for each, whether it became
 * due. One that is given twice becomes due once.
 */
export async function findPartitions(
  tx: Tx,
  { count, distinct, known }: Awaited<ReturnType<typeof meetFound>>,
  finding: Finding,
): Promise<readonly boolean[]> {
  const isDue = Array.from({ length: count }, () => false);
  if (count === 0) return isDue;
  const { connector, window, origin, now, reading } = finding;
  const open = distinct.filter(({ name }) => known.get(name)?.origin !== origin);
  const bases = await findBases(tx, open, finding);
  const baseOf = ({ found }: Found): number | null =>
    found.base === null
      ? null
      : (bases.get(knownName(found.entity, textHash(writeJson(found.base)))) ?? null);
  const chain = { origin, now };

  const unknown = open.filter(({ name }) => !known.has(name));
  if (unknown.length > 0) {
    const found = unknown.map((one) => ({
      ...foundAgain(one, baseOf(one)),
      ready: readyFlag(reading.get(one.found.entity)),
    }));
    transitions.find(tx, { ...chain, connector, window, dueSince: now, found });
    for (const { index } of unknown) isDue[index] = true;
  }

  const met = open.flatMap((one) => {
    const stored = known.get(one.name);
    if (stored === undefined) return [];
    // Found again below a record that was deleted or left out.
    return [{ one, stored, isRenewed: stored.gone !== standing.live }];
  });
  if (met.length === 0) return isDue;
  const renewed = met.filter(({ isRenewed }) => isRenewed).map(({ stored }) => stored.id);
  if (renewed.length > 0) transitions.renew(tx, { ids: renewed });
  const foundNow = met.map(({ one, stored }) => ({ ...foundAgain(one, baseOf(one)), id: stored.id }));
  transitions.meet(tx, { ...chain, found: foundNow });
  const begun: Begun[] = [];
  for (const { one, stored, isRenewed } of met) {
    const { entity, marker } = one.found;
    const walks = isRenewed ? neverWalked : stored;
    if (isUnchanged(walks, marker, reading.get(entity))) continue;
    begun.push({ id: stored.id, entity, mode: decideMode(walks, reading.get(entity)) });
    isDue[one.index] = true;
  }
  await beginWalks(tx, finding, begun);
  return isDue;
}

/** Makes known partitions ready. A position kept from an earlier chain counts only for a walk of the same mode. */
async function beginWalks(
  tx: Tx,
  { connector, origin, now, reading }: Omit<Finding, 'window'>,
  begun: readonly Begun[],
): Promise<void> {
  if (begun.length === 0) return;
  const walks = await transitions.begin(tx, {
    origin,
    now,
    begun: begun.map(({ id, entity, mode }) => ({ id, mode, ready: readyFlag(reading.get(entity)) })),
  });
  const entities = [...new Set(walks.filter(({ midway }) => midway === 1).map(({ entity }) => entity))];
  if (entities.length === 0) return;
  await tx.run(
    `UPDATE _sync_tables SET taken_over = :origin WHERE connector = :connector AND entity IN {entities text}`,
    { origin, connector, entities },
  );
}

/** The living partitions that a backfill's store rows of, by name; made where no sync has found them yet. */
async function findBases(tx: Tx, open: readonly Found[], { connector, now }: Finding) {
  const wanted = open.flatMap(({ found }): readonly FoundPartition[] =>
    found.base === null ? [] : [{ ...found, params: found.base, marker: null }],
  );
  if (wanted.length === 0) return new Map();
  const bases = firstOfEach(wanted);
  const ask = async (some: readonly Found[]): Promise<readonly (readonly [string, number])[]> =>
    [...(await knownPartitions(tx, { connector, window: '' }, some))].map(([name, { id }]) => [name, id]);
  const ids = new Map(await ask(bases));
  const unknown = bases.filter(({ name }) => !ids.has(name));
  if (unknown.length === 0) return ids;
  const found = unknown.map((one) => ({ ...foundAgain(one, null), ready: 0 as const }));
  transitions.find(tx, { connector, origin: 0, now, window: '', dueSince: null, found });
  return new Map([...ids, ...(await ask(unknown))]);
}

function firstOfEach(founds: readonly FoundPartition[]): readonly Found[] {
  const byName = new Map<string, Found>();
  for (const [index, found] of founds.entries()) {
    const params = writeJson(found.params);
    const paramsHash = textHash(params);
    const name = knownName(found.entity, paramsHash);
    if (!byName.has(name)) byName.set(name, { index, entity: found.entity, found, params, paramsHash, name });
  }
  return [...byName.values()];
}

function readyFlag(reading: ChainReading | undefined): 0 | 1 {
  return reading === undefined ? 0 : 1;
}

function foundAgain({ found, entity, params, paramsHash }: Found, base: number | null): FoundAgain {
  const { inject, rank, tree, treeDepth, parent, marker } = found;
  return {
    entity,
    params,
    paramsHash,
    base,
    inject: writeJson(inject),
    rank,
    tree,
    treeDepth,
    parentEntity: parent?.entity ?? null,
    parentKey: parent?.keyText ?? null,
    parentHash: parent === null ? null : textHash(parent.keyText),
    marker: marker?.isSettled === true ? marker.value : null,
  };
}

/* Rows of one key that several listings show with different content: the key lacks a distinguishing part. */

/** A listing with more rows is read again only where so many of its rows were met in it and changed elsewhere. */
const mostRowsAgain = 1_000;
const changedOfLong = 10;

/** Doubts the listings of these rows, those that were sealed before among them. */
export async function doubtListings(
  { current: { collisions, origin }, tx }: Commit,
  entity: EntityName,
  rows: Iterable<number>,
): Promise<void> {
  const changed = collisions.byEntity.get(entity);
  const doubts = new Map<number, Doubt>();
  for (const row of rows) {
    const { owner = 0, by = [] } = changed?.get(row) ?? {};
    for (const other of by) {
      doubts.set(owner, { kind: 'collision', row, other });
      doubts.set(other, { kind: 'collision', row, other: owner });
    }
  }
  if (doubts.size === 0) return;
  collisions.found.add(entity);
  const sealed = await readProofs(tx, { ids: [...doubts.keys()] });
  for (const [id, doubt] of doubts) collisions.doubts.set(id, doubt);
  await transitions.doubt(tx, {
    origin,
    doubted: sealed.map(({ id, proof }) => {
      const doubt = { ...doubts.get(id), runs: 1 };
      return { id, proof: writeJson({ ...parseProof(proof), readAt: null, doubt }) };
    }),
  });
}

const readProofs = ask<{ ids: readonly number[] }, { readonly id: number; readonly proof: string }>(
  `SELECT id, proof FROM _sync_partitions WHERE id IN {ids bigint} AND proof IS NOT NULL`,
);

/**
 * When nothing else is ready: makes the owners of changed rows ready again, twice as many each time, until two listings
 * of the entity collide for certain; then the others count as colliding, too. Gives how many.
 */
async function readOwnersAgain(commit: Commit): Promise<number> {
  const { connector, current, tx, stamp } = commit;
  const { collisions, origin, reading } = current;
  const begun: Begun[] = [];
  for (const [entity, rows] of collisions.byEntity) {
    if (collisions.found.has(entity)) {
      await doubtListings(commit, entity, rows.keys());
      continue;
    }
    const changed = grouped([...rows.values()], ({ owner }) => owner);
    const ids = [...changed.keys()].filter((id) => !collisions.readAgain.has(id));
    const owners = (await readIdle(tx, { ids, origin })).map(({ id }) => ({ owner: id, after: 0 }));
    const counts = await current.tables.get(entity)?.countLive(tx, owners, mostRowsAgain + 1);
    const short = owners.filter(({ owner }) => {
      const met = changed.get(owner)?.filter(({ wasMet }) => wasMet).length ?? 0;
      return (counts?.get(owner) ?? 0) <= mostRowsAgain || met >= changedOfLong;
    });
    const few = short.slice(0, collisions.readAgain.size + 1);
    begun.push(...few.map(({ owner: id }) => ({ id, entity, mode: 'full' as const })));
  }
  for (const { id } of begun) collisions.readAgain.add(id);
  await beginWalks(tx, { connector, origin, now: stamp.now, reading }, begun);
  return begun.length;
}

/** Partitions that are not due and that a record, or this chain, has led to. */
const readIdle = ask<{ ids: readonly number[]; origin: number }, { readonly id: number }>(
  `SELECT id FROM _sync_partitions WHERE id IN {ids bigint} AND gone = ${standing.live} AND due_since IS NULL
     AND backfill = '' AND (parent_key IS NOT NULL OR origin = :origin) ORDER BY id`,
);

/** A partition as a commit needs it. */
export interface PartitionRow {
  readonly id: number;
  readonly entity: EntityName;
  readonly tree: number | null;
  readonly isDue: boolean;
  readonly isListed: boolean;
  /** Stored proof of its previous walk. */
  readonly proof: string | null;
  readonly fullAt: Instant | null;
  readonly sealedAt: Instant | null;
  /** The partition that owns its records: of a listing inside a tree the tree's, of a backfill's the living one. */
  readonly owner: number;
}

interface KnownRow extends KnownWalks {
  readonly id: number;
  readonly entity: EntityName;
  readonly paramsHash: Buffer;
  readonly origin: number;
  readonly gone: number;
}

export interface Leftover extends KnownWalks {
  readonly id: number;
  readonly parentEntity: EntityName;
  readonly parentKey: string;
  readonly foundOrigin: number;
}

type InChain = Scope & { readonly origin: number };

const walks = 'one.due_since, one.watermark, one.marker, one.full_at, one.sealed_scope';
const isLeftover = `due_since IS NOT NULL AND origin <> :origin AND parent_key IS NOT NULL AND tree IS NULL AND gone = ${standing.live}`;

/** Partitions by id. Throws `SyncError` FENCED when the connector does not, or no longer, have one of them. */
export async function partitionsById(tx: Tx, connector: ConnectorName, ids: readonly number[]) {
  // No condition on the connector: with one, a server without statistics may read all of its partitions.
  const found = await tx.rows<PartitionRow & { readonly connector: ConnectorName }>(
    `SELECT one.id, one.connector, one.entity, one.tree, one.due_since IS NOT NULL AS is_due, one.listed = 1 AS is_listed,
       one.proof, one.full_at, one.sealed_at,
       coalesce(one.base, (SELECT coalesce(root.base, root.id) FROM _sync_partitions AS root WHERE root.id = one.tree), one.id) AS owner
     FROM _sync_partitions AS one WHERE one.id IN {ids bigint}`,
    { ids: [...new Set(ids)].toSorted((left, right) => left - right) },
  );
  const byId = new Map(found.filter((row) => row.connector === connector).map((row) => [row.id, row]));
  const lost = ids.find((id) => !byId.has(id));
  if (lost === undefined) return byId;
  throw noPartitionError(connector, lost);
}

/**
 * Partitions stored under these parameters, by `knownName`. CROSS JOIN makes SQLite look each of them up; otherwise it
 * would scan all partitions.
 */
export async function knownPartitions(
  tx: Tx,
  of: { readonly connector: ConnectorName; readonly window: string },
  named: readonly { readonly entity: EntityName; readonly paramsHash: Buffer }[],
): Promise<ReadonlyMap<string, KnownRow>> {
  const found = await tx.rows<KnownRow>(
    `SELECT one.id, one.entity, one.params_hash, one.origin, one.gone, ${walks}
     FROM {named: entity text, params_hash bytea} CROSS JOIN _sync_partitions AS one
     WHERE one.connector = :connector AND one.entity = named.entity
       AND one.params_hash = named.params_hash AND one.backfill = :window`,
    { ...of, named },
  );
  return new Map(found.map((row) => [knownName(row.entity, row.paramsHash), row]));
}

function knownName(entity: string, paramsHash: Buffer): string {
  return `${entity} ${paramsHash.toString('hex')}`;
}

/** Partitions that these records have led to, as if found again. Whether anything has changed there is not known. */
export async function partitionsBelow(
  tx: Tx,
  connector: ConnectorName,
  parents: readonly NonNullable<FoundPartition['parent']>[],
): Promise<readonly FoundPartition[]> {
  if (parents.length === 0) return [];
  const found = await tx.rows<BelowRow>(
    `SELECT one.entity, one.params, one.inject, one.rank, one.tree_depth, one.parent_entity, one.parent_key
     FROM {parent: entity text, hash bytea} CROSS JOIN _sync_partitions AS one
     WHERE one.connector = :connector AND one.parent_entity = parent.entity
       AND one.parent_hash = parent.hash AND one.backfill = '' AND one.tree IS NULL AND one.gone = ${standing.live}
     ORDER BY one.id`,
    { connector, parent: parents.map(({ entity, keyText }) => ({ entity, hash: textHash(keyText) })) },
  );
  return found.map(({ parentEntity, parentKey, ...row }) => ({
    ...row,
    ...parsePlace(row),
    tree: null,
    parent: { entity: parentEntity, keyText: parentKey },
    marker: null,
    base: null,
  }));
}

type BelowRow = Pick<FoundPartition, 'entity' | 'rank' | 'treeDepth'> &
  Pick<Leftover, 'parentEntity' | 'parentKey'> &
  PlaceTexts;

/** Whether the chain left partitions due, or a sweep unfinished. */
export async function isLeft(tx: Tx, chain: InChain): Promise<boolean> {
  const partitions = `SELECT 1 FROM _sync_partitions WHERE ${inScope}`;
  const found = await cellOf(
    tx,
    `SELECT EXISTS (${partitions} AND due_since IS NOT NULL AND origin = :origin) OR EXISTS (${partitions} AND ${isLeftover})
       OR EXISTS (${partitions} AND sweep_origin = :origin) AS is_left`,
    chain,
  );
  return found === true;
}

/** Partitions that the run would now walk. */
export async function countReady(tx: Tx, of: Pick<Scope, 'connector' | 'window'>): Promise<number> {
  const sql = `SELECT count(*) FROM _sync_partitions WHERE connector = :connector AND backfill = :window AND ready = 1`;
  return (await cellOf<number>(tx, sql, of)) ?? 0;
}

/** Due partitions, by entity; a listing inside a tree counts as part of its tree. */
export const leftWork = ask<Scope, LeftWork>(`SELECT entity, count(*) AS partitions FROM _sync_partitions
     WHERE ${inScope} AND due_since IS NOT NULL AND tree IS NULL GROUP BY entity ORDER BY entity`);

/**
 * Reads the next thousand due partitions below a parent that the chain has not found, in an order that only the index
 * of due partitions has: by id alone, the planner may scan all partitions.
 */
export const readLeftovers = ask<
  { connector: string; window: string; entity: string; origin: number; after: number },
  Leftover
>(`SELECT one.id, one.parent_entity, one.parent_key, one.origin AS found_origin, ${walks}
     FROM _sync_partitions AS one {index _sync_partitions_due}
     WHERE connector = :connector AND entity BETWEEN :entity AND :entity AND backfill = :window AND ${isLeftover} AND id > :after
     ORDER BY entity, id LIMIT 1000`);

/** The chains that last walked these partitions in full; null: none did. Those that do not exist are left out. */
export async function fullOrigins(tx: Tx, ids: readonly number[]) {
  const found = await tx.rows<{ id: number; fullOrigin: number | null }>(
    `SELECT id, full_origin FROM _sync_partitions WHERE id IN {ids bigint}`,
    { ids: [...new Set(ids)] },
  );
  return new Map(found.map(({ id, fullOrigin }) => [id, fullOrigin]));
}

/** Partitions whose parent record exists, and partitions without a parent record. */
export async function livePartitions(tx: Tx, ids: readonly number[]): Promise<ReadonlySet<number>> {
  const sql = `SELECT id FROM _sync_partitions WHERE id IN {ids bigint} AND gone = ${standing.live}`;
  return new Set(await columnOf<number>(tx, sql, { ids: [...new Set(ids)] }));
}
