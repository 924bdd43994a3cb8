import { textNumber } from '../../core/text-number.ts';
import { knownOrMade } from '../../core/grouped.ts';
import type { JsonObject } from '../../core/json.ts';
import type { ConnectorName, EntityName, RunId } from '../../core/names.ts';
import type { Column, EntityTable, FieldType, PreparedRecord, RowContent } from '../../core/records.ts';
import type { Cells, Database, TransactHow, Tx } from '../../sql/database.ts';
import type { Holder } from '../lease.ts';
import type { RowFacts } from '../readings.ts';
import type { StoredRow } from '../decisions/meet-record.ts';
import type { Instant } from '../../core/clock.ts';

/** Tables whose rows get numbers that are never given twice, each in its column. */
export const numbered = {
  runs: { table: '_sync_runs', column: 'number' },
  partitions: { table: '_sync_partitions', column: 'id' },
} as const;

/** Tables of the ledger that may have held values of records: their files are rewritten after a purge. */
export const valuedTables = [
  '_sync_quarantine',
  '_sync_downloads',
  '_sync_actions',
  '_sync_conditions',
  '_sync_outbox',
  '_sync_journals',
  numbered.partitions.table,
  numbered.runs.table,
] as const;

/** Database of a ledger. Apart from SQL, the rules of the ledger use only this. */
export interface LedgerDriver extends AsyncDisposable {
  readonly db: Database;
  /** Random id made with the sink. */
  readonly sinkId: string;
  readonly records: RecordTables;
  /** Writer of line files; absent where the sink has rows alone. */
  readonly lines?: Lines;
  /** Rows that a transaction deletes at most. */
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
   * first number is the offset plus 1. No other process takes one in between. Without any it is the highest number that
   * was ever given, and nothing is written.
   */
  reserveNumbers(tx: Tx, of: keyof typeof numbered, count: number): Promise<number>;
  /** The newest change number of the connector, and the least that its next one may have. */
  newestSeq(tx: Tx, connector: ConnectorName): Promise<number>;
  raiseSeq(tx: Tx, connector: ConnectorName, least: number): Promise<void>;
  /**
   * Keeps other transactions that ask for the same table or write to it waiting until this one ends, in all processes
   * of the sink. Gives the time by the clock that they share.
   */
  alone(tx: Tx, table: string): Promise<number>;
  /**
   * Rewrites the space of removed rows of these tables and of the ledger's facts about them, so that no file of the
   * database holds them. Throws `SyncError` where that cannot be done now: another process reads, or the disk is full.
   */
  giveBack(tables: readonly string[]): Promise<void>;
  /** Called when a run has ended and is stored. */
  runEnded?(): Promise<void>;
}

/** Files of lines that a JSONL sink derives from committed rows. Calls throw `SyncError`s. */
export interface Lines {
  /** In the transaction that takes a connector. Throws SINK_DAMAGED for a file that is gone or of another length. */
  check(tx: Tx, connector: ConnectorName): Promise<void>;
  /** Writes rows that have changed since the last file into new ones; `isDueOnly`: unless that was a moment ago. */
  write(taken: Taken, how?: { readonly isDueOnly?: boolean }): Promise<void>;
  /**
   * Writes files of the table again in which a line changes; with null as `taken` it only counts. Lines of rows that
   * are gone go too. Gives how many lines change or go. Called again after a kill it writes the rest. Throws
   * SINK_DAMAGED, and the signal's reason.
   */
  rewrite(lines: RewrittenLines, taken: Taken | null): Promise<number>;
  /** Writes damaged files of these entities (null: of all) again, as far as their content follows from rows. */
  mend(taken: Taken, entities: readonly EntityName[] | null): Promise<void>;
  /**
   * Removes files of entities that were dropped, which releasing the connector tries too, and all of `purged` entities
   * (null: of all) that is not listed.
   */
  tidy(taken: Taken, purged: readonly EntityName[] | null): Promise<void>;
}

export interface RewrittenLines {
  readonly connector: ConnectorName;
  readonly table: EntityTable;
  readonly signal?: AbortSignal | undefined;
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
  /** Runs one transaction of a holder at a time, because the holder's memory is that of the last one. */
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
  /** Reads one snapshot of the data that the holder may see. Throws as `transact`. */
  readonly read: <Result>(work: (tx: Tx) => Promise<Result>) => Promise<Result>;
  /** Gives the connector back; idempotent. */
  readonly release: () => Promise<void>;
}

/** Tables of records as the database makes them. */
export interface RecordTables {
  /** The name of an entity's table. */
  tableName(connector: ConnectorName, entity: EntityName): string;
  /** Whether rows can have versions. False in a JSONL sink: its lines are the history. */
  readonly keepsVersions: boolean;
  /** Opens an existing table. */
  open(place: TablePlace): RecordTable;
  /**
   * Makes an entity's table, or adds the columns that it lacks, and the same for its versions. Throws `SyncError` where
   * the server has no room for them.
   */
  ensure(tx: Tx, place: TablePlace): Promise<void>;
  /**
   * Turns these columns into texts, or integers into numbers, in versions too. A value that is no text becomes its JSON
   * text. `renewViews` follows.
   */
  retype(tx: Tx, place: TablePlace, columns: readonly Column[], to: 'string' | 'number'): Promise<void>;
  /** Moves values of these columns out of `_extra`, each row as one change; those that do not fit stay. */
  fill(tx: Tx, place: TablePlace, columns: readonly Column[], stamp: Stamp): Promise<void>;
  /** Brings the views of the connector's tables up to date. */
  renewViews(tx: Tx, connector: ConnectorName): Promise<void>;
  /** Removes the existing tables of these entities, with their versions and views. */
  drop(tx: Tx, connector: ConnectorName, entities: readonly EntityName[]): Promise<void>;
  /** Stores rows unchanged in an existing table. */
  insertRows(tx: Tx, table: CellTable, rows: readonly Cells[]): Promise<void>;
}

/** A table whose rows are given as cells, in the order of its columns. */
export interface CellTable {
  readonly name: string;
  readonly columns: readonly CellColumn[];
  /** The key of a table of records; null for other tables. */
  readonly key: readonly string[] | null;
}

export interface CellColumn {
  readonly name: string;
  readonly type: CellType;
}

/** `flag`: a small number. Texts of JSON are `any`. */
export type CellType = FieldType | 'time' | 'flag' | 'bytes';

/** An entity's table. */
export interface TablePlace {
  readonly connector: ConnectorName;
  readonly table: EntityTable;
  /** Every column that it has had so far, those of `table` among them or not; empty where it is to be made. */
  readonly stored: readonly Column[];
  /** Versions of its rows; absent: they never had any. */
  readonly versions?: KeptVersions | undefined;
}

/** Versions of an entity's rows. */
export interface KeptVersions {
  /** Their table is to be made. */
  readonly isNew: boolean;
  /** False: those that there are stay, and rows change without leaving any. */
  readonly isOn: boolean;
}

/** One entity's records. Every call takes or gives a set: a statement per record would be a round trip each. */
export interface RecordTable {
  /**
   * Rows stored under the keys of these records, including tombstoned ones, by key text. Each key is given at most
   * once.
   */
  find(tx: Tx, records: readonly FoundBy[]): Promise<ReadonlyMap<string, StoredRow>>;
  /**
   * Stores new rows and replaces (and revives) stored ones. Row numbers of new rows are the next ones of the table, in
   * this order, which the caller counts (`noteStored`). `_seq` numbers are taken here, one for each row, in the order
   * given; of a row that is given several times the last one is stored, with its number.
   */
  readonly write: (tx: Tx, rows: readonly WrittenRow[], stamp: Stamp) => Promise<void>;
  /** Notes other owners; the rows themselves keep their `_seq`. */
  readonly setOwners: (tx: Tx, owners: readonly RowOwner[]) => void;
  /** Notes other hashes of rows whose values are those of other records too. */
  readonly setHashes: (tx: Tx, hashes: readonly Pick<StoredRow, 'row' | 'hash'>[]) => void;
  /** Reads what rows hold; rows that do not exist are left out. */
  contents(tx: Tx, rows: readonly number[]): Promise<ReadonlyMap<number, RowContent>>;
  /**
   * Reads up to `limit` rows without a tombstone that these partitions own, in the order of the partitions, then by row
   * number.
   */
  liveRows(tx: Tx, owners: readonly OwnerFrom[], limit: number): Promise<readonly RowOwner[]>;
  /**
   * Counts the rows without a tombstone of each of the partitions, up to `most`; partitions without any are left out.
   */
  countLive(tx: Tx, owners: readonly OwnerFrom[], most: number): Promise<ReadonlyMap<number, number>>;
  /** Reads rows by number; rows that do not exist are left out. */
  rows(tx: Tx, rows: readonly number[]): Promise<ReadonlyMap<number, KeyedRow>>;
  /** Reads rows by key text; rows that do not exist are left out. */
  rowsOf(tx: Tx, keyTexts: readonly string[]): Promise<ReadonlyMap<string, KeyedRow>>;
  /** Marks live rows as deleted: `_deleted_at`, `_changed_at`, `_run_id` and new `_seq`s in this order. */
  readonly tombstone: (tx: Tx, rows: readonly number[], stamp: Stamp) => Promise<void>;
  /** Takes tombstones back. */
  readonly revive: (tx: Tx, rows: readonly number[], stamp: Stamp) => Promise<void>;
  /**
   * Reads up to `limit` rows that this run was the last to change, after row `after`, by row number, with their version
   * from before the run.
   */
  changedBy(
    tx: Tx,
    run: { readonly run: RunId; readonly startedAt: Instant },
    after: number,
    limit: number,
  ): Promise<readonly ChangedRow[]>;
  /** Writes the content of these versions as new changes; takes tombstones back. */
  readonly restore: (
    tx: Tx,
    rows: readonly Pick<ChangedRow, 'row' | 'version'>[],
    stamp: Stamp,
  ) => Promise<void>;
}

export interface ChangedRow {
  readonly row: number;
  readonly deletedAt: Instant | null;
  /** Number of the version that the row held before the run; null or absent: none is kept. */
  readonly version?: number | null;
  readonly wasDeletedAt?: Instant | null;
  /** The row has the content of that version. */
  readonly isSame?: boolean;
}

/** A record as it was prepared for the table: a store finds it by the text of its key, or by the key's values. */
export type FoundBy = Pick<PreparedRecord, 'keyText' | 'values'>;

export interface WrittenRow {
  readonly row: number;
  readonly record: PreparedRecord;
  /** A new row: the partition that shows it, or null. Undefined: the row is stored, and keeps its owner. */
  readonly owner?: number | null;
  /** Only volatile fields change: the row's version stays. */
  readonly isSame: boolean;
}

export interface RowOwner {
  readonly row: number;
  readonly owner: number;
}

/** A partition, and the row number after which its rows are read; 0: from the first. */
export interface OwnerFrom {
  readonly owner: number;
  readonly after: number;
}

export interface KeyedRow extends Pick<RowFacts, 'row' | 'changedAt' | 'deletedAt' | 'owner'> {
  /** JSON array of the key's values, as `PreparedRecord.keyText`. */
  readonly keyText: string;
}

/** Values written with every record. */
export interface Stamp {
  readonly run: RunId;
  readonly now: Instant;
  /**
   * Takes the next `count` numbers of the connector's change counter and returns the first. The first call of a
   * transaction locks the counter until its end, and is its fence; the taken numbers are written with the COMMIT. The
   * call comes late where much is read first, and with the first statements where that saves a round trip: one process
   * at a time writes for a connector.
   */
  readonly takeSeqs: (count: number) => Promise<number>;
}

/**
 * The change counter in one transaction, which has its lock once `newest` is read: numbers are given in the order of
 * commits, and never twice. Those that were `taken` are to be written at its end.
 */
export function changeNumbers(newest: () => Promise<number>) {
  let stored: Promise<number> | null = null;
  let taken = 0;
  return {
    takeSeqs: async (count: number): Promise<number> => {
      stored ??= newest();
      const seq = await stored;
      const first = seq + taken + 1;
      taken += count;
      return first;
    },
    taken: (): number => taken,
  };
}

/** Columns that a run adds move values: they change nothing of a found row but `changedAt`. */
export interface PlannedTable extends RecordTable {
  /** Columns of the plan's table. Every record must have been prepared for them. */
  readonly columns: readonly Column[];
  /** False for a key that is certainly not stored: the table was empty before the run, which has not written it. */
  readonly mayBeStored: (record: Pick<FoundBy, 'keyText'>) => boolean;
  /**
   * Called before rows are looked up outside of a transaction. Notes for each row the state that lets the commit of its
   * record skip the look-up.
   */
  readonly beginLook: () => (stored: StoredRow) => FoundRow;
  /** The row that a record has brought along; null where any row of the table may have changed since it was found. */
  readonly foundRow: (record: Pick<PreparedRecord, 'found'>) => StoredRow | null;
  /** Called after each transaction, however it ended. `isUnsure`: rows found before it may never have been stored. */
  readonly settle: (isUnsure?: boolean) => void;
}

/** A row as it was found in a state of its table. */
class FoundRow {
  readonly stored: StoredRow;
  readonly state: object;

  constructor(stored: StoredRow, state: object) {
    this.stored = stored;
    this.state = state;
  }
}

/**
 * An entity's table for one run, which knows whether rows are still as they were found. Only the holder of a lease
 * writes rows, in its run through this object alone, and a commit proves that it is the holder still: so no row needs
 * to be found twice. A look-up that began beside a transaction may have missed its rows: the state changes when the
 * transaction ends.
 */
export function plannedTable(
  table: RecordTable,
  { columns, isEmpty }: { readonly columns: readonly Column[]; readonly isEmpty: boolean },
): PlannedTable {
  let state = {};
  let isChanged = false;
  /** The keys that this run has written; null: the table had rows before. */
  const written = isEmpty ? newKeySketch() : null;
  const mayBeStored = ({ keyText }: Pick<FoundBy, 'keyText'>): boolean => written?.mayHold(keyText) !== false;
  const noting =
    <Row, Rest extends readonly unknown[], Result>(
      write: (tx: Tx, rows: readonly Row[], ...rest: Rest) => Result,
    ) =>
    (tx: Tx, rows: readonly Row[], ...rest: Rest): Result => {
      isChanged ||= rows.length > 0;
      return write(tx, rows, ...rest);
    };
  return {
    ...table,
    mayBeStored,
    find: (tx, records) => table.find(tx, written === null ? records : records.filter(mayBeStored)),
    write: noting(async (tx, rows: readonly WrittenRow[], stamp: Stamp) => {
      for (const { record } of rows) written?.add(record.keyText);
      await table.write(tx, rows, stamp);
    }),
    setOwners: noting(table.setOwners),
    setHashes: noting(table.setHashes),
    tombstone: noting(table.tombstone),
    revive: noting(table.revive),
    restore: noting(table.restore),
    columns,
    beginLook: () => {
      const began = state;
      return (stored) => new FoundRow(stored, began);
    },
    foundRow: ({ found }) =>
      found instanceof FoundRow && found.state === state && !isChanged ? found.stored : null,
    settle: (isUnsure = false) => {
      if (isChanged || isUnsure) state = {};
      isChanged = false;
    },
  };
}

/** 2 MiB at most: of a million keys one in seventeen that is not held seems to be. */
const sketchBits = 2 ** 24;
const pageBytes = 4_096;

/** A set of texts that keeps none of them: it knows for certain only what it does not hold. */
function newKeySketch() {
  const pages = new Map<number, Uint8Array>();
  const placeOf = (text: string): number => textNumber(text) % sketchBits;
  return {
    mayHold: (text: string): boolean => {
      const place = placeOf(text);
      const page = pages.get(Math.floor(place / 8 / pageBytes));
      return page !== undefined && ((page[(place >> 3) % pageBytes] ?? 0) & (1 << (place & 7))) !== 0;
    },
    add: (text: string): void => {
      const place = placeOf(text);
      const page = knownOrMade(pages, Math.floor(place / 8 / pageBytes), () => new Uint8Array(pageBytes));
      const at = (place >> 3) % pageBytes;
      page[at] = (page[at] ?? 0) | (1 << (place & 7));
    },
  };
}
