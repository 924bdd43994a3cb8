import type { Instant } from '../../core/clock.ts';
import type { ConnectorName, EntityName, RunId } from '../../core/names.ts';
import type { Column, EntityTable, PreparedRecord } from '../../core/records.ts';

/**
 * What a file sink supplies; the ledger does the rest. Every method is synchronous. `recover`, `ensure`, `endRun`,
 * `flush` and all of `RecordTable` are called inside the ledger's IMMEDIATE transaction; afterwards the ledger calls
 * exactly one of `settle` (it was committed) and `discard` (it was rolled back).
 */
export interface RecordStore {
  /**
   * Repairs what a killed writer of this connector left behind. `hasLostRows`: rows that the ledger had acknowledged
   * are gone (a power loss under durability `normal`), so unfinished work must not be gone on with.
   */
  recover(connector: ConnectorName): { readonly hasLostRows: boolean };
  /** Makes the place where an entity's records land, or adds what is new in its table. */
  ensure(place: TablePlace): RecordTable;
  /** Last call before the ledger commits: all records of the transaction must be as durable as the sink promises. */
  flush(): void;
  /** Ends what a run keeps open for readers (such as files that grow). */
  endRun(connector: ConnectorName): void;
  /** After a commit. Must not throw: what it cannot do, `recover` does. */
  settle(): void;
  /** After a rollback: forgets (and where needed cuts off) everything since the last `settle`. Must not throw. */
  discard(): void;
  /** The lease is over: closes what the connector holds open. Idempotent. */
  release(connector: ConnectorName): void;
}

export interface TablePlace {
  readonly connector: ConnectorName;
  readonly epoch: number;
  readonly table: EntityTable;
  /** Every column the table has had so far, in the order they were added; empty for a new table. */
  readonly stored: readonly Column[];
  /** Declared now but not before: values kept in `_extra` of existing rows belong into them. */
  readonly filled: readonly Column[];
  readonly stamp: WriteStamp;
}

/** One entity's records. */
export interface RecordTable {
  /** What is stored under the record's key, tombstoned rows included. */
  find(record: PreparedRecord): StoredRow | undefined;
  /** Stores a record under a new key; gives its row number, which never changes and is never given twice. */
  insert(record: PreparedRecord, stamp: WriteStamp): number;
  /** Replaces a row, and revives it where it was tombstoned. */
  update(row: number, record: PreparedRecord, stamp: WriteStamp): void;
}

export interface StoredRow {
  readonly row: number;
  readonly hash: string;
  readonly volatileHash: string | null;
  /** When the row was last written. */
  readonly changedAt: Instant;
  readonly deletedAt: Instant | null;
}

/** What is written beside every record. */
export interface WriteStamp {
  readonly run: RunId;
  readonly now: Instant;
  /** Takes the next number of the sink's change counter. */
  readonly nextSeq: () => number;
}

/** `<connector>__<entity>` with `-` as `_`: unique, because neither name may hold two underscores in a row. */
export function tableName(connector: ConnectorName, entity: EntityName): string {
  return `${connector.replaceAll('-', '_')}__${entity}`;
}
