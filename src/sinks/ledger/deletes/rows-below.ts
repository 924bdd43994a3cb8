import type { EntityName } from '../../../core/names.ts';
import { standing } from '../../decisions/standing.ts';
import type { Candidate } from '../../deletes.ts';
import type { RowsOf } from '../../run-report.ts';
import { columnOf } from '../../../sql/database.ts';
import { grouped } from '../../../core/grouped.ts';
import type { Commit } from '../ledger.ts';
import { openStoredTable } from '../tables.ts';
import type { RecordTable } from '../record-table.ts';
import { textHash } from '../../../sql/text-hash.ts';
import { openMissing } from './noted-rows.ts';

/** A record that may lead to partitions. */
export type Root = Pick<Candidate, 'entity' | 'row' | 'keyText'>;

interface Partition {
  readonly id: number;
  readonly entity: EntityName;
  /** How many rows go along, those that lead on and those among the roots left out. */
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
  // By name: a sink finds them in no fixed order.
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
 * Those whose records lead to partitions at all. With `EXISTS`, or without an order, PostgreSQL may go through all
 * partitions.
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

/** That records have led to, by id. Those that are ended belong to a delete that has been judged already. */
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

/** Also of an entity that the run does not read; undefined where there is none. */
export async function tableOf(
  { ledger, held: { connector }, current, tx }: Commit,
  entity: EntityName,
): Promise<RecordTable | undefined> {
  return current.tables.get(entity) ?? (await openStoredTable(tx, ledger.records, { connector, entity }));
}
