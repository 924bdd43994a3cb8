import type { JsonObject } from '../../core/json.ts';
import type { ConnectorName, EntityName, RunId, OfEntities } from '../../core/names.ts';
import type { Column, EntityTable } from '../../core/records.ts';
import type { Database, TransactHow, Tx } from '../../sql/database.ts';
import type { CopiedRecord, CopiedTable, CopiedVersion } from '../copies.ts';
import type { Holder } from '../lease.ts';
import type { RowsOf } from '../run-report.ts';
import type { RecordTable, TablePlace, Stamp } from './record-table.ts';

/** Tables whose rows get numbers that are never given twice, each in its column. */
export const numbered = {
  runs: { table: '_sync_runs', column: 'number' },
  partitions: { table: '_sync_partitions', column: 'id' },
} as const;

/** What a database offers besides SQL. The rules of the ledger use nothing else of it. */
export interface LedgerDriver extends AsyncDisposable {
  readonly db: Database;
  /** Random id made with the sink. */
  readonly sinkId: string;
  readonly records: RecordTables;
  /** Absent where changes are nothing but rows. */
  readonly lines?: ChangeLines;
  /** How many rows a transaction that deletes takes at most. */
  readonly deletedAtOnce: number;
  /**
   * Takes a connector, raises its epoch and does `work`, in one transaction. Throws `ConnectorBusyError` while another
   * process, another sink of this one, or another lease of this sink holds it.
   */
  take(
    connector: ConnectorName,
    holder: Holder,
    work: (tx: Tx, epoch: number) => Promise<void>,
  ): Promise<Taken>;
  /** Whether this sink is still at its place. */
  isInPlace(): Promise<boolean>;
  /**
   * Reserves `count` consecutive numbers for rows of `_sync_runs` or `_sync_partitions`, and gives the offset: the
   * first number is the offset plus 1. No other process takes one in between.
   */
  reserveNumbers(tx: Tx, of: keyof typeof numbered, count: number): Promise<number>;
  /** The highest number that a partition of this sink was ever given. */
  highestPartition(tx: Tx): Promise<number>;
  /** The newest change number of the connector, and the least that its next one may have. */
  newestSeq(tx: Tx, connector: ConnectorName): Promise<number>;
  raiseSeq(tx: Tx, connector: ConnectorName, least: number): Promise<void>;
  /**
   * Keeps other transactions that ask for the same table or write to it waiting until this one ends, in all processes
   * of the sink. Gives the time by the clock that they share.
   */
  alone(tx: Tx, table: string): Promise<number>;
  /**
   * Rewrites what held removed rows of these tables and what the ledger knew of them, so that no file of the database
   * holds them. Throws `SyncError` where that cannot be done now: another process reads, or the disk is full.
   */
  giveBack(tables: readonly string[]): Promise<void>;
  /** Called when a run has ended and is stored. */
  runEnded?(): Promise<void>;
}

/** Changes as lines of files beside the tables (a JSONL sink). Those of a transaction are written before its COMMIT. */
export interface ChangeLines {
  /**
   * In the transaction that takes a connector: repairs its files after a kill or a power loss. Throws `SyncError`
   * SINK_DAMAGED for one that was closed.
   */
  recover(tx: Tx, connector: ConnectorName): Promise<void>;
  /** In the transaction that ends a run or a copy: the connector's files are closed. */
  end(connector: ConnectorName): void;
  /**
   * Looks for damage, outside of any transaction, in the closed files of these entities (null: of all). The returned
   * function repairs it in one.
   */
  findDamage(
    connector: ConnectorName,
    entities: readonly EntityName[] | null,
  ): Promise<(tx: Tx) => Promise<void>>;
  /** Live rows that are stored by their keys alone, and that no walk has met since. */
  countLost(tx: Tx, of: OfEntities): Promise<readonly RowsOf[]>;
  /**
   * Rewrites closed files of the table in which a line changes, file by file: each is `work` of one transaction, which
   * `transact` runs (null: nothing is written). Called again after a kill it rewrites the rest. Gives how many lines
   * change.
   */
  rewrite(
    lines: RewrittenLines,
    transact: ((work: (tx: Tx) => Promise<void>) => Promise<void>) | null,
  ): Promise<number>;
  /** They were reported, and are not counted again. */
  giveUpLost(tx: Tx, of: OfEntities): Promise<void>;
}

export interface RewrittenLines {
  readonly connector: ConnectorName;
  readonly table: EntityTable;
  /** The line as it will be: itself where it stays, null where it goes. */
  readonly line: (
    line: JsonObject,
    of: { readonly keyText: string; readonly seq: number },
  ) => JsonObject | null;
}

/** A connector that this process holds: by a lock of its file, or by a lease of its server. */
export interface Taken {
  readonly connector: ConnectorName;
  readonly epoch: number;
  /** One transaction of a holder at a time: what it knows in memory is that of the last one. */
  readonly inTurn: <Result>(work: () => Promise<Result>) => Promise<Result>;
  /**
   * One transaction of the holder, only in its turn. Throws `SyncError` FENCED when another has overtaken it, or when
   * it was given back. `work` may run again, as in `Database.transact`.
   */
  readonly transact: <Result>(
    run: RunId,
    work: (tx: Tx, stamp: Stamp) => Promise<Result>,
    how?: TransactHow,
  ) => Promise<Result>;
  /** One snapshot of what the holder may see. Throws as `transact`. */
  readonly read: <Result>(work: (tx: Tx) => Promise<Result>) => Promise<Result>;
  /** Gives the connector back; idempotent. */
  readonly release: () => Promise<void>;
}

/** Tables of records as the database makes them. */
export interface RecordTables {
  /** The name of an entity's table. */
  tableName(connector: ConnectorName, entity: EntityName): string;
  /** Whether rows can have versions. False where each change is a line that stays (a JSONL sink). */
  readonly keepsVersions: boolean;
  /** A table that is there. */
  open(place: TablePlace): RecordTable;
  /**
   * Makes an entity's table, or adds the columns that it lacks, and the same for its versions. Throws `SyncError`
   * SINK_INCOMPATIBLE where there is no room for them.
   */
  ensure(tx: Tx, place: TablePlace): Promise<void>;
  /** Makes texts of these columns, of versions too: what no text is becomes its JSON text. `renewViews` follows. */
  retype(tx: Tx, place: TablePlace, columns: readonly Column[]): Promise<void>;
  /**
   * Those of the columns that every value which `_extra` holds for them would fit, and for which the table has room.
   */
  fitting(tx: Tx, place: TablePlace, columns: readonly Column[]): Promise<readonly Column[]>;
  /** Moves values of these columns out of `_extra`, each row as one change; those that do not fit stay. */
  fill(tx: Tx, place: TablePlace, columns: readonly Column[], stamp: Stamp): Promise<void>;
  /** Brings the views of the connector's tables up to date. */
  renewViews(tx: Tx, connector: ConnectorName): Promise<void>;
  /**
   * Removes up to `limit` rows, or versions of them, of an entity's table for good, and gives how many; 0 where the
   * table is empty or is not there, and where dropping it takes no time whatever is in it.
   */
  clear(tx: Tx, connector: ConnectorName, entity: EntityName, limit: number): Promise<number>;
  /** Removes the tables of these entities that are there, with their versions and views. */
  drop(tx: Tx, connector: ConnectorName, entities: readonly EntityName[]): Promise<void>;
  /** The row of a key in a table that is there; undefined where the key is not stored, or is no key of the table. */
  row(
    tx: Tx,
    connector: ConnectorName,
    table: EntityTable,
    keyText: string,
  ): Promise<StoredRowFacts | undefined>;
  /** Whole rows after row `after`, by row number: as many as fit a page (`copies/in-pages.ts`), `limit` at most. */
  readWhole(
    tx: Tx,
    connector: ConnectorName,
    table: CopiedTable,
    after: number,
    limit: number,
  ): Promise<readonly CopiedRecord[]>;
  /** Stores whole rows as they are, with their numbers; `shift` is added to the numbers of their owners. */
  writeWhole(
    tx: Tx,
    connector: ConnectorName,
    table: CopiedTable,
    rows: readonly CopiedRecord[],
    shift: number,
  ): Promise<void>;
  /** Replaces rows that are there, by their numbers. Nothing else about them changes, and no line is written. */
  rewriteWhole(
    tx: Tx,
    connector: ConnectorName,
    table: CopiedTable,
    rows: readonly CopiedRecord[],
  ): Promise<void>;
  /** Closed versions that ended with a change after `after`, in the order of their ends; else as `readWhole`. */
  readVersions(
    tx: Tx,
    connector: ConnectorName,
    table: CopiedTable,
    after: number,
    limit: number,
  ): Promise<readonly CopiedVersion[]>;
  /** Stores them as they are, in place of those that ended with the same changes. */
  writeVersions(
    tx: Tx,
    connector: ConnectorName,
    table: CopiedTable,
    versions: readonly CopiedVersion[],
  ): Promise<void>;
}

/** A row as a reader finds it. */
export type StoredRowFacts = Omit<CopiedRecord, 'hash' | 'volatileHash' | 'extra' | 'values'>;
