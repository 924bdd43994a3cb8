import type { ConnectorName, EntityName } from '../core/names.ts';
import type { EntityTable } from '../core/records.ts';
import type { CopiedRecord } from './copies.ts';
import type { LedgerReader } from './ledger-reader.ts';

/**
 * Stored records, read only, in one state of the sink, however long the read takes and whichever process writes. Only
 * the newest result is held in memory: batches are read to their end, or left, before the next query. Rejects with
 * `SyncError` SINK_FAILED.
 */
export interface RecordReader extends AsyncDisposable {
  /** Random id made with the sink: numbers of another sink mean nothing here. */
  readonly sinkId: string;
  /** The newest change number of the connector in this state: later changes have higher ones. 0 before the first. */
  newestSeq(connector: ConnectorName): Promise<number>;
  /** The ledger in the same state. */
  readonly history: LedgerReader;
  /**
   * The columns as they are stored, of earlier definitions too; null where nothing was ever stored. `historyName` of an
   * entity stands for the versions of its rows, here and in what follows: null where it has none.
   */
  table(connector: ConnectorName, entity: EntityName): Promise<EntityTable | null>;
  /**
   * Id of the entity's table, random text: `reset --data` makes another table, with another id, and all else keeps it
   * (new columns, a copy into another sink, an undelete). Null where nothing was ever stored.
   */
  tableId(connector: ConnectorName, entity: EntityName): Promise<string | null>;
  /**
   * Each record whose newest change has a number above `after`, once, in the order of the changes, in batches. `table`
   * is what `table()` gave.
   */
  changes(
    connector: ConnectorName,
    table: EntityTable,
    after: number,
  ): AsyncIterable<readonly StoredRecord[]>;
  /** Null where the key is not stored. */
  record(connector: ConnectorName, table: EntityTable, keyText: string): Promise<StoredRecord | null>;
}

/** `values`: in the order of `EntityTable.columns`. */
export interface StoredRecord extends Pick<CopiedRecord, 'seq' | 'changedAt' | 'run' | 'values' | 'extra'> {
  /** A tombstone: only the key's values are sure to be there. */
  readonly isDeleted: boolean;
}

/** The keys of what is stored, read only, in one state of the sink, whichever process writes meanwhile. */
export interface KeyReader extends AsyncDisposable {
  /**
   * Every row without a tombstone, in batches, in any order. Rejects with `SyncError` SINK_FAILED, and
   * SINK_INCOMPATIBLE where the rows have another key.
   */
  keys(connector: ConnectorName, table: EntityTable): AsyncIterable<readonly KeyAndHash[]>;
}

export interface KeyAndHash {
  /** As `PreparedRecord.keyText` has it. */
  readonly keyText: string;
  readonly hash: string;
}
