import type { Instant } from '../../core/clock.ts';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import { noteInDay } from './day-account.ts';
import type { Tx } from '../../sql/database.ts';

/* Numbers of rows, and how many there are, in `_sync_tables`. */

/** Rows of an entity that a transaction of the chain `origin` has stored. */
interface StoredOf {
  readonly entity: EntityName;
  readonly inserted: number;
  /** Tombstones that were taken back. */
  readonly revived: number;
}

/** What numbers a table's rows have. */
export interface TableNumbers {
  /** Of the newest row; numbers are never given twice. */
  readonly lastRow: number;
  /** The chain that stored the first rows; null: there are none. */
  readonly firstOrigin: number | null;
}

/** By entity; only tables that were declared. */
export async function tableNumbers(
  tx: Tx,
  connector: ConnectorName,
  entities: readonly EntityName[],
): Promise<ReadonlyMap<EntityName, TableNumbers>> {
  const rows = await tx.rows<TableNumbers & { readonly entity: EntityName }>(
    `SELECT entity, last_row, first_origin FROM _sync_tables WHERE connector = :connector AND entity IN {entities text}`,
    { connector, entities },
  );
  return new Map(rows.map(({ entity, ...numbers }) => [entity, numbers]));
}

/** Counts what was stored, once for each entity: in the tables and, as rows that were added, in the account of the day. */
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
  const changed = stored.filter(({ inserted, revived }) => inserted + revived > 0);
  if (changed.length === 0) return;
  tx.put(
    `UPDATE _sync_tables AS t SET rows = rows + v.inserted, last_row = last_row + v.inserted, deleted = deleted - v.revived,
       first_origin = coalesce(first_origin, CAST(:origin AS bigint))
     FROM {v: entity text, inserted bigint, revived bigint}
     WHERE t.connector = :connector AND t.entity = v.entity`,
    { connector, origin: chain.origin, v: changed },
  );
  // The entity began with the rows of its first chain: on its first day they stand for its rows of 24 hours ago.
  const added = changed.map(({ entity, inserted, revived }) => ({ entity, rows: inserted + revived }));
  const ofDay = added.filter(({ entity }) => {
    const { firstOrigin = null } = chain.numbers.get(entity) ?? {};
    return firstOrigin !== null && firstOrigin !== chain.origin;
  });
  noteInDay(tx, connector, { added: ofDay, deleted: [], now: chain.now });
}
