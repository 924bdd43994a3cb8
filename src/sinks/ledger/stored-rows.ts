import type { Instant } from '../../core/clock.ts';
import type { ConnectorName, EntityName, OfEntities, OfEntity, RunId } from '../../core/names.ts';
import { noteInDay, noteInDays } from './days.ts';
import { type Tx, cellOf } from '../../sql/database.ts';
import type { PreparedRecord } from '../../core/records.ts';
import type { Lease } from '../lease.ts';
import { parseParams } from '../stored-json.ts';
import {
  nothingStored,
  spreadOver,
  type RawRecord,
  type SameRow,
  type StoredAccount,
  type StoredKey,
} from '../stored-keys.ts';
import type { HeldConnector } from './ledger.ts';

/* `_sync_tables`: the numbers of each entity's rows, how many there are, and how old they are at most. */

/** Rows of an entity that a transaction of the chain `origin` has stored. */
interface StoredOf {
  readonly entity: EntityName;
  readonly inserted: number;
  /** Tombstones that were taken back. */
  readonly revived: number;
  /** Rows whose content is another one. */
  readonly changed: number;
}

/** The rows of a table, in numbers. */
export interface TableNumbers {
  /** Rows without a tombstone. */
  readonly live: number;
  /** Number of the newest row. Numbers are never reused. */
  readonly lastRow: number;
  /** The chain that stored the first rows; null: there are none. */
  readonly firstOrigin: number | null;
  /** Time at which the rows were adopted from another address, if no full run has agreed since; null otherwise. */
  readonly adoptedAt: Instant | null;
}

/** Numbers of the declared tables, by entity. */
export async function tableNumbers(tx: Tx, of: OfEntities): Promise<ReadonlyMap<EntityName, TableNumbers>> {
  const rows = await tx.rows<TableNumbers & { readonly entity: EntityName }>(
    `SELECT entity, rows - deleted AS live, last_row, first_origin, adopted_at FROM _sync_tables
     WHERE connector = :connector AND entity IN {entities text}`,
    of,
  );
  return new Map(rows.map((row) => [row.entity, row]));
}

/**
 * Counts stored rows, once for each entity: in the tables, in the counts of days and, as added rows, in the account of
 * the last 24 hours.
 */
export function noteStored(
  tx: Tx,
  connector: ConnectorName,
  stored: readonly StoredOf[],
  chain: {
    readonly origin: number;
    readonly now: Instant;
    /** Numbers before the change. */
    readonly numbers: ReadonlyMap<EntityName, TableNumbers>;
  },
): void {
  noteInDays(
    tx,
    connector,
    stored.map(({ entity, inserted, revived, changed }) => ({ entity, added: inserted, changed, revived })),
    chain.now,
  );
  const changed = stored.filter(({ inserted, revived }) => inserted + revived > 0);
  if (changed.length === 0) return;
  tx.put(
    `UPDATE _sync_tables AS t SET rows = rows + v.inserted, last_row = last_row + v.inserted, deleted = deleted - v.revived,
       first_origin = coalesce(first_origin, CAST(:origin AS bigint))
     FROM {v: entity text, inserted bigint, revived bigint}
     WHERE t.connector = :connector AND t.entity = v.entity`,
    {
      connector,
      origin: chain.origin,
      v: changed.map(({ entity, inserted, revived }) => ({ entity, inserted, revived })),
    },
  );
  // The entity began with the rows of its first chain: on its first day they count as its rows of 24 hours ago.
  const added = changed.map(({ entity, inserted, revived }) => ({ entity, rows: inserted + revived }));
  const ofDay = added.filter(({ entity }) => {
    const { firstOrigin = null } = chain.numbers.get(entity) ?? {};
    return firstOrigin !== null && firstOrigin !== chain.origin;
  });
  noteInDay(tx, connector, 'added', ofDay, chain.now);
}

/** Tombstones. */
export function addDeleted(tx: Tx, of: OfEntity, rows: number): void {
  tx.put(
    `UPDATE _sync_tables SET deleted = deleted + :rows WHERE connector = :connector AND entity = :entity`,
    { ...of, rows },
  );
}

/** A full run has met every row of these, so adopted ones are those of the new address. */
export function agreed(tx: Tx, connector: ConnectorName, entities: readonly EntityName[]): void {
  tx.put(
    `UPDATE _sync_tables SET adopted_at = NULL
     WHERE connector = :connector AND entity IN {entities text} AND adopted_at IS NOT NULL`,
    { connector, entities },
  );
}

/**
 * The chain of this run has read all of these entities, whose records come from walks of `walked`. They are then as old
 * as the chain, unless it began in the middle of a walk, whose first half is older. The chain's first run may be past
 * its retention: then its start is unknown.
 */
export function wasRead(
  tx: Tx,
  connector: ConnectorName,
  run: RunId,
  read: readonly { readonly entity: EntityName; readonly walked: EntityName }[],
): void {
  if (read.length === 0) return;
  tx.put(
    `UPDATE _sync_tables AS t SET as_of = coalesce(
       (SELECT first.started_at FROM _sync_runs AS run JOIN _sync_runs AS first ON first.number = run.origin
        WHERE run.run = :run AND run.origin IS DISTINCT FROM
          (SELECT walk.taken_over FROM _sync_tables AS walk
           WHERE walk.connector = :connector AND walk.entity = v.walked)), as_of)
     FROM {v: entity text, walked text}
     WHERE t.connector = :connector AND t.entity = v.entity`,
    { connector, run, v: read },
  );
}

/** Cheap queries on stored rows of the entities of the lease's run. Read only. */
export function ledgerStoredKeys(heldOf: (lease: Lease) => HeldConnector) {
  return {
    /** Numbers of the entity's rows; nothing before a sync has ended well. Reads one row, however many are stored. */
    account: async (lease: Lease, entity: EntityName): Promise<StoredAccount> =>
      await heldOf(lease).read(async (tx) => {
        const numbers = await tableNumbers(tx, { connector: lease.connector, entities: [entity] });
        const found = numbers.get(entity);
        return found === undefined || (await lastEnd(tx, lease.connector)) === null
          ? nothingStored
          : { live: found.live, isAdopted: found.adoptedAt !== null };
      }),
    /** Number of these records whose row is stored and not deleted. */
    known: async (lease: Lease, entity: EntityName, records: readonly PreparedRecord[]) => {
      const held = heldOf(lease);
      return await held.read(async (tx) => {
        const byKey = new Map(records.map((record) => [record.keyText, record]));
        const found = await held.run?.tables.get(entity)?.find(tx, [...byKey.values()]);
        return records.filter(({ keyText }) => found?.get(keyText)?.deletedAt === null).length;
      });
    },
    /**
     * Hashes of each record's row, in order, where the row is not deleted and was stored from the same bytes; `other`
     * where it was stored from other bytes; null where that is not known. Reads no rows where nothing is remembered of
     * the entity. A commit may change the answer.
     */
    same: async (
      lease: Lease,
      entity: EntityName,
      records: readonly RawRecord[],
    ): Promise<readonly (SameRow | 'other' | null)[]> => {
      const { run, read } = heldOf(lease);
      const table = run?.tables.get(entity);
      if (run === null || table === undefined) return records.map(() => null);
      return await run.raw.same(read, entity, table, records);
    },
    /**
     * Reads up to `count` rows that are not deleted, spread over all rows stored when a sync last ended well; none
     * before that.
     */
    spread: async (lease: Lease, entity: EntityName, count: number): Promise<readonly StoredKey[]> => {
      const held = heldOf(lease);
      return await held.read(async (tx) => {
        const table = held.run?.tables.get(entity);
        const before = await lastEnd(tx, lease.connector);
        if (table === undefined || before === null) return [];
        const numbers = await tableNumbers(tx, { connector: lease.connector, entities: [entity] });
        const { lastRow = 0 } = numbers.get(entity) ?? {};
        const rows = new Set<number>();
        for (const after of spreadOver(lastRow, count)) {
          for (const row of await table.liveBefore(tx, before, after, 1)) rows.add(row);
        }
        const stored = [...(await table.rows(tx, [...rows])).values()];
        const places = await placesOf(
          tx,
          stored.flatMap(({ owner }) => (owner === null ? [] : [owner])),
        );
        return stored.map(({ keyText, owner }): StoredKey => {
          const place = owner === null ? undefined : places.get(owner);
          const [params, inject] = [place?.params ?? '{}', place?.inject ?? '{}'];
          return { keyText, params: parseParams(params), inject: parseParams(inject) };
        });
      });
    },
  };
}

async function lastEnd(tx: Tx, connector: ConnectorName): Promise<Instant | null> {
  const found = await cellOf<Instant | null>(
    tx,
    `SELECT max(finished_at) FROM _sync_runs
     WHERE connector = :connector AND kind = 'sync' AND state IN ('ok', 'degraded')`,
    { connector },
  );
  return found ?? null;
}

async function placesOf(
  tx: Tx,
  ids: readonly number[],
): Promise<ReadonlyMap<number, Readonly<Record<'params' | 'inject', string>>>> {
  if (ids.length === 0) return new Map();
  const found = await tx.rows<{ id: number; params: string; inject: string }>(
    `SELECT id, params, inject FROM _sync_partitions WHERE id IN {ids bigint}`,
    { ids: [...new Set(ids)] },
  );
  return new Map(found.map(({ id, ...place }) => [id, place]));
}
