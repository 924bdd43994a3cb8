import type { Instant } from '../../core/clock.ts';
import type { ConnectorName, EntityName, RunId } from '../../core/names.ts';
import type { Column, EntityTable, PreparedRecord } from '../../core/records.ts';
import type { CopiedRecord, CopiedTable } from '../copies.ts';
import type { StoredRow } from '../decisions/meet-record.ts';

/**
 * What a file sink supplies; the ledger does the rest. All but `findDamage` is synchronous. `recover`, `ensure`, `endRun`, `flush` and `RecordTable` are called
 * inside the ledger's IMMEDIATE transaction; then exactly one of `settle` (committed) and `discard` (rolled back).
 */
export interface RecordStore {
  /** Repairs what a killed writer left. `hasLostRows`: acknowledged rows are gone (a power loss under durability `normal`): everything is read again. */
  recover(connector: ConnectorName): Recovered;
  /** Before everything of these entities (null: of all) is read again: looks for damage. The given function, called in a transaction, keeps what is sound. */
  findDamage(
    connector: ConnectorName,
    entities: readonly EntityName[] | null,
    signal?: AbortSignal,
  ): Promise<() => Recovered>;
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
  /** Whether tombstones can be taken back: the records themselves are still here. */
  readonly canUndelete: boolean;
  /** Those of the columns that every value which `_extra` holds for them would fit; all where the store cannot look. */
  fitting(connector: ConnectorName, entity: EntityName, columns: readonly Column[]): readonly Column[];
  /** Moves what `_extra` holds of these fields into new columns (already in `place.table`), as changes of the rows. */
  evolve(place: TablePlace): RecordTable;
  /** Brings what readers of a connector's tables are shown in step with them, where it is not. */
  renewViews(connector: ConnectorName): void;
  /** Removes an entity's records and all that the store keeps of them. Called inside a transaction, without a run. */
  drop(connector: ConnectorName, entity: EntityName): void;
  /** Null: a copy can neither come from here nor go here. */
  readonly copies: RecordCopies | null;
  /** The lease is over: closes what the connector holds open. Idempotent. */
  release(connector: ConnectorName): void;
}

/** Whole rows, as a copy into another sink or from one has them. `write` and `make` are called inside the ledger's transaction. */
export interface RecordCopies {
  /** Up to `limit` rows behind row `after`, by row number, and fewer where they are longer than a page (`copies/in-pages.ts`). */
  read(connector: ConnectorName, table: CopiedTable, after: number, limit: number): readonly CopiedRecord[];
  /** Makes the empty table of an entity that has none. */
  make(connector: ConnectorName, table: CopiedTable): void;
  /** Stores rows as they are, with their numbers. */
  write(connector: ConnectorName, table: CopiedTable, rows: readonly CopiedRecord[]): void;
  /** The highest row number ever given. */
  lastRow(connector: ConnectorName, entity: EntityName): number;
}

interface Recovered {
  readonly hasLostRows: boolean;
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

/** One entity's records. `home` is the partition that a row was first met in: an absence from its full walk counts. */
export interface RecordTable {
  find(record: Pick<PreparedRecord, 'keyText' | 'values'>): StoredRow | undefined;
  /** Stores a record under a new key; gives its row number, which never changes and is never given twice. */
  insert(record: PreparedRecord, home: number | null, stamp: WriteStamp): number;
  /** Replaces a row, and revives it where it was tombstoned. */
  update(row: number, record: PreparedRecord, stamp: WriteStamp): void;
  /** Notes another home; the row itself is not written anew and keeps its `_seq`. */
  setHome(row: number, home: number): void;
  /** Up to `limit` rows without a tombstone of this home behind row `after`, by row number. */
  liveRows(home: number, after: number, limit: number): readonly HomedRow[];
  /** Up to `limit` rows without a tombstone that were first stored before `at`, behind row `after`, by row number. */
  liveBefore(at: Instant, after: number, limit: number): readonly number[];
  row(row: number): KeyedRow | undefined;
  /** By key; for what is known by its key alone. */
  rowOf(keyText: string): KeyedRow | undefined;
  /** Marks a live row as deleted: `_deleted_at`, `_changed_at`, `_run_id` and a new `_seq`. */
  tombstone(row: number, stamp: WriteStamp): void;
  /** Takes a tombstone back. Throws `SyncError` USAGE where the store has not kept the record. */
  revive(row: number, stamp: WriteStamp): void;
  /** Up to `limit` rows that the run `run` has tombstoned and nothing has written since. */
  tombstonedBy(run: RunId, limit: number): readonly number[];
  /** How many live rows the store has lost, and no walk has met since. */
  lost(): number;
  /** They were reported, and are not counted again: every listing has been read since, and none showed them. */
  giveUpLost(): void;
}

export interface HomedRow {
  readonly row: number;
  readonly changedAt: Instant;
}

export interface KeyedRow {
  readonly row: number;
  /** JSON array of the key's values, as `PreparedRecord.keyText`. */
  readonly keyText: string;
  readonly changedAt: Instant;
  readonly deletedAt: Instant | null;
  readonly home: number | null;
}

export interface ReadRow {
  readonly row: number;
  readonly firstSeenAt: Instant | null;
  readonly changedAt: Instant;
  readonly run: RunId | null;
  readonly deletedAt: Instant | null;
  readonly seq: number;
  readonly home: number | null;
}

/** Looks at single rows of entities that have a table; without a run, and without writing. */
export interface RowReader {
  keyOf(connector: ConnectorName, table: KeyedTable, row: number): string | undefined;
  row(connector: ConnectorName, table: KeyedTable, keyText: string): ReadRow | undefined;
  /** Up to `limit` rows without a tombstone of this home behind row `after`, by row number. */
  liveRows(
    connector: ConnectorName,
    entity: EntityName,
    home: number,
    after: number,
    limit: number,
  ): readonly HomedRow[];
}

type KeyedTable = Pick<EntityTable, 'entity' | 'key'>;

export interface WriteStamp {
  readonly run: RunId;
  readonly now: Instant;
  readonly nextSeq: () => number;
}
