import type { Instant } from '../core/clock.ts';
import type { ConnectorName, EntityName, RunId } from '../core/names.ts';
import type { ColumnValue, EntityTable } from '../core/records.ts';
import type { LedgerReader } from './ledger-reader.ts';

/**
 * Stored records, read only. Everything that one reader gives is one state of the sink, however long the reading takes and whoever
 * writes meanwhile; nothing is held in memory but what was asked for last. Reading throws `SyncError` SINK_FAILED.
 */
export interface RecordReader extends Disposable {
  /** Random id made with the sink: numbers of another sink mean nothing here. */
  readonly sinkId: string;
  /** The newest change number of the whole sink: every change of this state has this one or a lower one, every later change a higher. */
  readonly newestSeq: number;
  /** The ledger in the same state. */
  readonly history: LedgerReader;
  /** The columns as they are stored, of earlier definitions too; null where nothing was ever stored. */
  table(connector: ConnectorName, entity: EntityName): EntityTable | null;
  /** Each record whose newest change is behind number `after`, once, in the order of these changes. `table` is what `table()` gave. */
  changes(connector: ConnectorName, table: EntityTable, after: number): Iterable<StoredRecord>;
  /** Null where the key is not stored. */
  record(connector: ConnectorName, table: EntityTable, keyText: string): StoredRecord | null;
}

export interface StoredRecord {
  /** A tombstone: only the key's values are sure to be there. */
  readonly isDeleted: boolean;
  readonly seq: number;
  readonly changedAt: Instant;
  readonly run: RunId;
  /** In the order of `EntityTable.columns`. Integers may be bigint. */
  readonly values: readonly ColumnValue[];
  readonly extra: string | null;
}
