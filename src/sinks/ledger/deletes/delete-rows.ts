import { grouped } from '../../../core/grouped.ts';
import type { EntityName } from '../../../core/names.ts';
import { ask, columnOf, textHash } from '../../../sql/database.ts';
import type { OtherPlace } from '../../decisions/missing-rows.ts';
import { standing } from '../../decisions/becoming-due.ts';
import type { Candidate, EndedPartition, TombstoneChoice } from '../../deletes.ts';
import type { RowsOf } from '../../run-report.ts';
import { noteInDay, noteInDays } from '../days.ts';
import { endFiles } from '../downloads/ledger-files.ts';
import type { Commit } from '../ledger.ts';
import { transitions } from '../partitions/transitions.ts';
import type { KeyedRow, OwnedRow, RecordTable, RowOwner } from '../driver.ts';
import { addDeleted } from '../stored-rows.ts';
import { openStoredTable } from '../tables.ts';
import { endMissing, noteOrphans, openMissing, orphansGone, readyRows, type Missed } from './noted-rows.ts';
import { dropShared, leaveAllPlaces, leavePlaces, otherPlaces } from './places.ts';

/**
 * Permission by which a row is deleted. `judged`: the guards passed it together with the rows that go along. `allowed`:
 * a person allowed it. `along`: it lies below a record that was judged or allowed, and goes with it.
 */
export type Permission = 'judged' | 'allowed' | 'along';

export interface GoingRow extends Pick<KeyedRow, 'row' | 'keyText'> {
  readonly permission: Permission;
}

/**
 * Sets tombstones; nothing else does. Marks live rows of an entity as deleted, in the given order, and ends the
 * partitions that they have led to, whose rows follow in batches (`deleteOrphans`), in later runs too. Returns the
 * partitions that it ended. Deletes that the guards passed are noted for the day with all rows that go along, in the
 * same transaction: a run that is killed before it has deleted the rest leaves a delete that was judged as a whole.
 */
export async function deleteRows(
  commit: Commit,
  entity: EntityName,
  going: readonly GoingRow[],
): Promise<readonly number[]> {
  if (going.length === 0) return [];
  const { held, current, stamp, tx } = commit;
  const { connector } = held;
  const of = { connector, entity };
  const rows = going.map(({ row }) => row);
  const keyTexts = going.map(({ keyText }) => keyText);
  if (going.some(({ permission }) => permission === 'judged')) await noteJudged(commit, entity, going);
  const table = current.tables.get(entity);
  await table?.tombstone(tx, rows, stamp);
  addDeleted(tx, of, rows.length);
  noteInDays(tx, connector, [{ entity, deleted: rows.length }], stamp.now);
  await leaveAllPlaces(tx, of, rows);
  endMissing(tx, of, rows);
  await endFiles(tx, of, keyTexts);
  const ended = await transitions.end(tx, { ...of, keyHashes: keyTexts.map(textHash) });
  const ids = ended.map(({ id }) => id);
  if (ids.length > 0) transitions.dropInner(tx, { trees: ids });
  return ids;
}

async function noteJudged(commit: Commit, entity: EntityName, going: readonly GoingRow[]): Promise<void> {
  const { held, stamp, tx } = commit;
  const below = await readRowsBelow(
    commit,
    going.map(({ row, keyText }) => ({ entity, row, keyText })),
  );
  const counts = new Map<EntityName, number>();
  for (const { row, keyText, permission } of going) {
    const root = { entity, row, keyText };
    if (permission === 'judged') {
      counts.set(entity, (counts.get(entity) ?? 0) + 1);
      below.addUp(root, counts);
    }
    below.goes(root);
  }
  const deleted = [...counts].map(([one, rows]) => ({ entity: one, rows }));
  noteInDay(tx, held.connector, 'deleted', deleted, stamp.now);
}

/**
 * Deletes up to `limit` missing rows that were judged or allowed and need nothing more; gives how many (0: none is
 * left).
 */
export async function deleteMissing(
  commit: Commit,
  entity: EntityName,
  which: TombstoneChoice,
  limit: number,
): Promise<number> {
  const { held, current, tx } = commit;
  const of = { connector: held.connector, entity };
  const table = current.tables.get(entity);
  let deleted = 0;
  // Each round takes every row that it checks off the list.
  for (;;) {
    const ready = await readyRows(tx, { ...of, run: current.run, limit: limit - deleted }, which);
    const numbers = ready.map(({ row }) => row);
    const stored = (await table?.rows(tx, numbers)) ?? new Map<number, never>();
    await current.seen.load(tx, entity, numbers);
    const going = ready.flatMap(({ row, isAllowed }): readonly GoingRow[] => {
      const one = stored.get(row);
      // A row that this chain has seen exists: it stays, and no longer counts as missing.
      if (one === undefined || one.deletedAt !== null || current.seen.has(entity, row)) return [];
      return [{ row, keyText: one.keyText, permission: isAllowed ? 'allowed' : 'judged' }];
    });
    await deleteRows(commit, entity, going);
    const gone = new Set(going.map(({ row }) => row));
    endMissing(
      tx,
      of,
      numbers.filter((row) => !gone.has(row)),
    );
    deleted += going.length;
    if (ready.length === 0 || deleted >= limit) return deleted;
  }
}

/** A record that may lead to partitions. */
export type Root = Pick<Candidate, 'entity' | 'row' | 'keyText'>;

interface Partition {
  readonly id: number;
  readonly entity: EntityName;
  /** Number of rows that go along, without rows that lead on and rows among the roots. */
  plain: number;
  readonly leading: Root[];
}

const rowsAtOnce = 1_000;

/**
 * The rows deleted along with records: those owned by partitions that the records led to, at any depth. Reads it level
 * by level; `roots` are of one entity.
 */
export async function readRowsBelow(commit: Commit, roots: readonly Root[]) {
  const below = new Map<string, readonly Partition[]>();
  const partitions = new Map<number, Partition>();
  const rootNames = new Set(roots.map(nameOf));
  const leading = await entitiesLeadingOn(commit, [...new Set(roots.map(({ entity }) => entity))]);
  let open: readonly Root[] = roots.filter(({ entity }) => leading.has(entity));
  while (open.length > 0) {
    const found: Partition[] = [];
    for (const [entity, parents] of grouped(open, (root) => root.entity)) {
      for (const { row, ...one } of await partitionsBelow(commit, entity, parents)) {
        if (commit.current.keeps.has(one.entity)) continue;
        const known = partitions.get(one.id);
        const partition = known ?? { ...one, plain: 0, leading: [] };
        if (known === undefined) {
          partitions.set(one.id, partition);
          found.push(partition);
        }
        const name = nameOf({ entity, row });
        below.set(name, [...(below.get(name) ?? []), partition]);
      }
    }
    await readRows(commit, found, rootNames);
    const next = found.flatMap(({ leading }) => leading).filter((one) => !below.has(nameOf(one)));
    open = [...new Map(next.map((one) => [nameOf(one), one])).values()];
    for (const one of open) below.set(nameOf(one), []);
  }
  return countsOf(below);
}

/**
 * The rows deleted along with an entity's missing rows, without those that a person has allowed: they are deleted in
 * any case.
 */
export async function rowsAlong(commit: Commit, entity: EntityName): Promise<readonly RowsOf[]> {
  const { held, current, tx } = commit;
  const of = { connector: held.connector, entity };
  if (!(await entitiesLeadingOn(commit, [entity])).has(entity)) return [];
  const table = current.tables.get(entity);
  const counts = new Map<EntityName, number>();
  for (let after = 0; ;) {
    const batch = await openMissing(tx, { ...of, after, limit: rowsAtOnce });
    const stored = (await table?.rows(tx, batch)) ?? new Map<number, never>();
    const roots = [...stored.values()].map(({ row, keyText }) => ({ entity, row, keyText }));
    const below = await readRowsBelow(commit, roots);
    for (const root of roots) below.addUp(root, counts);
    const last = batch.at(-1);
    if (last === undefined || batch.length < rowsAtOnce) break;
    after = last;
  }
  // Sort by name: a sink finds them in no fixed order.
  const entities = [...counts.keys()].toSorted();
  return entities.map((child) => ({ entity: child, rows: counts.get(child) ?? 0 }));
}

function countsOf(below: ReadonlyMap<string, readonly Partition[]>) {
  const gone = new Set<string>();
  const ended = new Set<number>();
  return {
    /**
     * Adds the rows that are deleted with this record, by entity. Without those already counted (`goes`), those that
     * this chain has met elsewhere, and entities that keep their rows. Also of entities that the run does not read.
     */
    addUp: (root: Root, counts: Map<EntityName, number>): void => {
      const visited = new Set<number>();
      const open = [...(below.get(nameOf(root)) ?? [])];
      for (let next = open.pop(); next !== undefined; next = open.pop()) {
        const { id, entity, plain, leading } = next;
        if (visited.has(id) || ended.has(id)) continue;
        visited.add(id);
        const alive = leading.filter((one) => !gone.has(nameOf(one)));
        const rows = plain + alive.length;
        if (rows > 0) counts.set(entity, (counts.get(entity) ?? 0) + rows);
        for (const one of alive) open.push(...(below.get(nameOf(one)) ?? []));
      }
    },
    /** The record is deleted: it is no longer below another, and its partitions are ended. */
    goes: (root: Root): void => {
      gone.add(nameOf(root));
      for (const { id } of below.get(nameOf(root)) ?? []) ended.add(id);
    },
  };
}

function nameOf({ entity, row }: Pick<Root, 'entity' | 'row'>): string {
  return `${entity} ${row}`;
}

/**
 * Entities whose records lead to partitions. With `EXISTS`, or without an order, PostgreSQL may scan all partitions.
 */
async function entitiesLeadingOn(
  { held: { connector }, tx }: Commit,
  entities: readonly EntityName[],
): Promise<ReadonlySet<EntityName>> {
  const found = await columnOf<EntityName | null>(
    tx,
    `SELECT (SELECT p.parent_entity FROM _sync_partitions AS p {index _sync_partitions_parent}
       WHERE p.connector = :connector AND p.parent_entity = named.entity AND p.parent_hash IS NOT NULL
       ORDER BY p.parent_hash LIMIT 1)
     FROM {named: entity text}`,
    { connector, named: entities.map((entity) => ({ entity })) },
  );
  return new Set(found.filter((entity) => entity !== null));
}

/** Partitions that records have led to, by id. Ended ones belong to a delete that has been judged already. */
export async function partitionsBelow(
  { held: { connector }, tx }: Pick<Commit, 'held' | 'tx'>,
  entity: EntityName,
  parents: readonly Pick<Root, 'row' | 'keyText'>[],
): Promise<readonly { readonly id: number; readonly entity: EntityName; readonly row: number }[]> {
  return await tx.rows(
    `SELECT p.id, p.entity, parent.row FROM {parent: row bigint, hash bytea}
     CROSS JOIN _sync_partitions AS p
     WHERE p.connector = :connector AND p.parent_entity = :entity AND p.parent_hash = parent.hash
       AND p.backfill = '' AND p.gone <> ${standing.ended} ORDER BY p.id`,
    { connector, entity, parent: parents.map(({ row, keyText }) => ({ row, hash: textHash(keyText) })) },
  );
}

async function readRows(
  commit: Commit,
  partitions: readonly Partition[],
  rootNames: ReadonlySet<string>,
): Promise<void> {
  const { current } = commit;
  for (const [entity, ofEntity] of grouped(partitions, (one) => one.entity)) {
    const table = await tableOf(commit, entity);
    if (table === undefined) continue;
    const byId = new Map(ofEntity.map((one) => [one.id, one]));
    const isLeading = (await entitiesLeadingOn(commit, [entity])).has(entity);
    for await (const batch of liveBatches(
      commit,
      table,
      [...byId.keys()].map((owner) => ({ owner, after: 0 })),
    )) {
      await current.seen.load(
        commit.tx,
        entity,
        batch.map(({ row }) => row),
      );
      const going = batch.filter(
        ({ row }) => !current.seen.has(entity, row) || current.seen.hasInOwner(entity, row),
      );
      const named = going.filter(({ row }) => isLeading || rootNames.has(nameOf({ entity, row })));
      const keyed =
        named.length === 0
          ? new Map<number, never>()
          : await table.rows(
              commit.tx,
              named.map(({ row }) => row),
            );
      for (const { row, owner } of going) {
        const partition = byId.get(owner);
        const known = keyed.get(row);
        if (partition === undefined) continue;
        if (known === undefined) partition.plain += 1;
        else partition.leading.push({ entity, row, keyText: known.keyText });
      }
    }
  }
}

/** Rows without a tombstone that these partitions own, in batches. */
async function* liveBatches(
  { tx }: Pick<Commit, 'tx'>,
  table: RecordTable,
  owners: Parameters<RecordTable['liveRows']>[1],
): AsyncGenerator<Awaited<ReturnType<RecordTable['liveRows']>>> {
  for (let left = owners; left.length > 0;) {
    const batch = await table.liveRows(tx, left, rowsAtOnce);
    yield batch;
    const last = batch.at(-1);
    if (last === undefined || batch.length < rowsAtOnce) return;
    const reached = left.findIndex(({ owner }) => owner === last.owner);
    left = [{ owner: last.owner, after: last.row }, ...left.slice(reached + 1)];
  }
}

/** Table of an entity, also one that the run does not read; undefined where there is none. */
export async function tableOf(
  { ledger, held: { connector }, current, tx }: Commit,
  entity: EntityName,
): Promise<RecordTable | undefined> {
  return current.tables.get(entity) ?? (await openStoredTable(tx, ledger.records, { connector, entity }));
}

const partitionsAtOnce = 500;

/**
 * Partitions whose rows are still to be deleted, in an order that only their index has: by id alone, the planner may
 * scan all partitions.
 */
const nextEnded = ask<
  { connector: string; entities: readonly string[]; limit: number },
  EndedPartitionRow
>(`SELECT id, entity, swept_to FROM _sync_partitions {index _sync_partitions_gone}
     WHERE connector BETWEEN :connector AND :connector AND gone = ${standing.ended} AND entity IN {entities text}
     ORDER BY connector, id LIMIT :limit`);

/**
 * Deletes rows below deleted records, at any depth, which were judged with them, in up to `limit` steps (a row or a
 * partition each). Rows that may have moved are noted as orphans, for a `get`; they are deleted when it has found
 * nothing. A batch that only found new owners, or rows to ask for, returns entries with 0 rows; an empty result means
 * that none remains.
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
 * Deletes the rows of ended partitions by id; the last one only as far as the steps allow. `rows`: numbers of
 * tombstoned rows, by entity, including entities without any.
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

/** Stored state of partitions of one entity, and the decisions about their rows. */
interface OrphansOf {
  readonly table: RecordTable | undefined;
  /** Live rows by partition, as many as there are steps for. */
  readonly live: ReadonlyMap<number, readonly OwnedRow[]>;
  readonly places: ReadonlyMap<number, readonly OtherPlace[]>;
  readonly mayMove: boolean;
  readonly keyed: ReadonlyMap<number, GoingRow>;
  /** Partitions that the delete of each row would end. */
  readonly ends: ReadonlyMap<number, readonly number[]>;
  readonly moved: RowOwner[];
  readonly orphans: Missed[];
  readonly going: GoingRow[];
}

/**
 * Decides over the rows of partitions, one after the other: a row has another owner, or may have one that no walk has
 * shown yet, or it is deleted. A partition that its delete would end is no owner for the rows that follow; where it
 * ends a partition that comes before the next, that one is first. `whole`: partitions whose rows have all been checked.
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
