import type { Instant } from '../../core/clock.ts';
import type { ConnectorName, EntityName, OfEntities, OfEntity, RunId } from '../../core/names.ts';
import { noteInDay, noteInDays } from './days.ts';
import type { Tx } from '../../sql/database.ts';

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
  /** Without a tombstone. */
  readonly live: number;
  /** Of the newest row; numbers are never given twice. */
  readonly lastRow: number;
  /** The chain that stored the first rows; null: there are none. */
  readonly firstOrigin: number | null;
  /** Since when the rows are those of another address, which no full run has agreed with; null where none are. */
  readonly adoptedAt: Instant | null;
}

/** By entity; only tables that were declared. */
export async function tableNumbers(tx: Tx, of: OfEntities): Promise<ReadonlyMap<EntityName, TableNumbers>> {
  const rows = await tx.rows<TableNumbers & { readonly entity: EntityName }>(
    `SELECT entity, rows - deleted AS live, last_row, first_origin, adopted_at FROM _sync_tables
     WHERE connector = :connector AND entity IN {entities text}`,
    of,
  );
  return new Map(rows.map((row) => [row.entity, row]));
}

/**
 * Counts what was stored, once for each entity: in the tables, in the counts of days and, as rows that were added, in
 * the account of the last 24 hours.
 */
export function noteStored(
  tx: Tx,
  connector: ConnectorName,
  stored: readonly StoredOf[],
  chain: {
    readonly origin: number;
    readonly now: Instant;
    /** As they were before. */
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
  // The entity began with the rows of its first chain: on its first day they stand for its rows of 24 hours ago.
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
