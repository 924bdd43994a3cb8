import type Database from 'better-sqlite3';
import type { ConnectorName, EntityName } from '../../core/names.ts';

/** What the ledger keeps of stored rows beside the rows themselves: `_sync_also`, `_sync_missing`, counts of tombstones. */
export interface RowAccount {
  /** The chain `origin` has met the row in a partition that is not its home. */
  meetElsewhere(
    connector: ConnectorName,
    entity: EntityName,
    row: number,
    place: { readonly partition: number; readonly origin: number },
  ): void;
  /** Nothing leads to the partition any more: what is met elsewhere lives there. */
  isGone(partition: number): boolean;
  /** Whether any row of the entity is noted as missing: only then meeting a row can end that. */
  isAnyMissing(connector: ConnectorName, entity: EntityName): boolean;
  /** The row exists after all: whatever walks have missed it does not count any more. */
  endMissing(connector: ConnectorName, entity: EntityName, row: number): void;
  /** Of a row that is tombstoned: it is in no partition, and not missing but gone. */
  forget(connector: ConnectorName, entity: EntityName, row: number): void;
  addDeleted(connector: ConnectorName, entity: EntityName, rows: number): void;
}

export function prepareRowAccount(db: Database.Database): RowAccount {
  const also = db.prepare<[string, string, number, number, number]>(
    `INSERT INTO _sync_also (connector, entity, row, partition, origin) VALUES (?, ?, ?, ?, ?)
     ON CONFLICT (connector, entity, row, partition) DO UPDATE SET origin = excluded.origin
     WHERE origin <> excluded.origin`,
  );
  const isThere = db.prepare<[number], number>('SELECT 1 FROM _sync_partitions WHERE id = ? AND gone = 0');
  const dropAlso = db.prepare<[string, string, number]>(
    'DELETE FROM _sync_also WHERE connector = ? AND entity = ? AND row = ?',
  );
  const isAnyMissing = db
    .prepare<[string, string], number>(
      'SELECT 1 FROM _sync_missing WHERE connector = ? AND entity = ? LIMIT 1',
    )
    .pluck();
  const endMissing = db.prepare<[string, string, number]>(
    'DELETE FROM _sync_missing WHERE connector = ? AND entity = ? AND row = ?',
  );
  const addDeleted = db.prepare<[number, string, string]>(
    'UPDATE _sync_tables SET deleted = deleted + ? WHERE connector = ? AND entity = ?',
  );
  return {
    meetElsewhere: (connector, entity, row, { partition, origin }) =>
      void also.run(connector, entity, row, partition, origin),
    isGone: (partition) => isThere.get(partition) === undefined,
    isAnyMissing: (connector, entity) => isAnyMissing.get(connector, entity) !== undefined,
    endMissing: (connector, entity, row) => void endMissing.run(connector, entity, row),
    forget: (connector, entity, row) => {
      dropAlso.run(connector, entity, row);
      endMissing.run(connector, entity, row);
    },
    addDeleted: (connector, entity, rows) => {
      if (rows !== 0) addDeleted.run(rows, connector, entity);
    },
  };
}
