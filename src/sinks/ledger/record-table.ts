import type { StoredRow } from '../decisions/meet-record.ts';
import type { Instant } from '../../core/clock.ts';
import type { ConnectorName, RunId } from '../../core/names.ts';
import type { Column, EntityTable, PreparedRecord } from '../../core/records.ts';
import type { Tx } from '../../sql/database.ts';
import type { RowFacts } from '../record-reader.ts';

/** An entity's table. */
export interface TablePlace {
  readonly connector: ConnectorName;
  readonly table: EntityTable;
  /** Every column that it has had so far, those of `table` among them or not; empty where it is to be made. */
  readonly stored: readonly Column[];
  /** Absent: its rows never had versions. */
  readonly versions?: KeptVersions;
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
   * What is stored under the keys of these records, tombstoned rows included, by key text. A key is given once at most.
   */
  find(tx: Tx, records: readonly FoundBy[]): Promise<ReadonlyMap<string, StoredRow>>;
  /**
   * Stores new rows and replaces (and revives) stored ones. Row numbers of new rows are the next ones of the table, in
   * this order, which the caller counts (`noteStored`). `_seq` numbers are taken here, one for each row, in the order
   * given; of a row that is given several times the last one is stored, with its number.
   */
  write(tx: Tx, rows: readonly WrittenRow[], stamp: Stamp): Promise<void>;
  /** Notes other owners; the rows themselves keep their `_seq`. */
  setOwners(tx: Tx, owners: readonly RowOwner[]): void;
  /**
   * Up to `limit` rows without a tombstone that these partitions own, in the order of the partitions, then
   * by row number.
   */
  liveRows(tx: Tx, owners: readonly OwnerFrom[], limit: number): Promise<readonly OwnedRow[]>;
  /**
   * How many rows without a tombstone each of the partitions has, counted up to `most`; those that have none are left
   * out.
   */
  countLive(tx: Tx, owners: readonly OwnerFrom[], most: number): Promise<ReadonlyMap<number, number>>;
  /** Up to `limit` rows without a tombstone that were first stored before `at`, after row `after`, by row number. */
  liveBefore(tx: Tx, at: Instant, after: number, limit: number): Promise<readonly number[]>;
  /** By row number; those that do not exist are left out. */
  rows(tx: Tx, rows: readonly number[]): Promise<ReadonlyMap<number, KeyedRow>>;
  /** By key text; those that do not exist are left out. */
  rowsOf(tx: Tx, keyTexts: readonly string[]): Promise<ReadonlyMap<string, KeyedRow>>;
  /** Marks live rows as deleted: `_deleted_at`, `_changed_at`, `_run_id` and new `_seq`s in this order. */
  tombstone(tx: Tx, rows: readonly number[], stamp: Stamp): Promise<void>;
  /** Takes tombstones back. */
  revive(tx: Tx, rows: readonly number[], stamp: Stamp): Promise<void>;
  /**
   * Up to `limit` rows that this run has changed last, after row `after`, by row number, with the version of before it.
   */
  changedBy(
    tx: Tx,
    run: { readonly run: RunId; readonly startedAt: Instant },
    after: number,
    limit: number,
  ): Promise<readonly ChangedRow[]>;
  /** Writes what versions of the rows held, as new changes; tombstones are taken back. */
  restore(tx: Tx, rows: readonly Pick<ChangedRow, 'row' | 'version'>[], stamp: Stamp): Promise<void>;
  /**
   * Live rows that the run has changed and others have changed since, as far as that is known: those that it has
   * stored (row numbers after `from` up to `through`), and those of which a version is its. Without rows that a run of
   * `undone` has changed last. At most `limit`, with how many there are.
   */
  changedSince(
    tx: Tx,
    of: {
      readonly run: RunId;
      readonly from: number;
      readonly through: number;
      readonly undone: readonly RunId[];
    },
    limit: number,
  ): Promise<{ readonly rows: readonly number[]; readonly total: number }>;
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

export interface OwnedRow extends RowOwner {
  readonly changedAt: Instant;
}

export interface KeyedRow extends Pick<RowFacts, 'row' | 'changedAt' | 'deletedAt' | 'owner'> {
  /** JSON array of the key's values, as `PreparedRecord.keyText`. */
  readonly keyText: string;
}

/** What is written beside every record. */
export interface Stamp {
  readonly run: RunId;
  readonly now: Instant;
  /**
   * Takes the next `count` numbers of the connector's change counter and gives the first. The first call of a
   * transaction locks the counter until its end, and is its fence; what was taken is written with the COMMIT. The call
   * comes late where much is read first, and with the first statements where that saves a round trip: one process at a
   * time writes for a connector.
   */
  readonly takeSeqs: (count: number) => Promise<number>;
}

/** Columns that a run adds move values: they change nothing of a found row but `changedAt`. */
export interface PlannedTable extends RecordTable {
  /** Columns of the plan's table: what every record must have been prepared for. */
  readonly width: number;
  /**
   * Called before rows are looked for outside of a transaction. Notes, of each of them, what the commit of its record
   * needs in order not to look again.
   */
  readonly beginLook: () => (stored: StoredRow) => FoundRow;
  /** The row that a record has brought along; null where any row of the table may have changed since it was found. */
  readonly foundRow: (record: Pick<PreparedRecord, 'found'>) => StoredRow | null;
  /** After each transaction, however it ended. `isUnsure`: what was found before it may never have been stored. */
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
 * to be found twice. A look that began beside a transaction may have missed what that wrote: the state changes when it
 * ends.
 */
export function plannedTable(table: RecordTable, width: number): PlannedTable {
  let state = {};
  let isChanged = false;
  const note = (rows: readonly unknown[]): void => {
    isChanged ||= rows.length > 0;
  };
  return {
    ...table,
    write: async (tx, rows, stamp) => {
      note(rows);
      await table.write(tx, rows, stamp);
    },
    setOwners: (tx, owners) => {
      note(owners);
      table.setOwners(tx, owners);
    },
    tombstone: async (tx, rows, stamp) => {
      note(rows);
      await table.tombstone(tx, rows, stamp);
    },
    revive: async (tx, rows, stamp) => {
      note(rows);
      await table.revive(tx, rows, stamp);
    },
    restore: async (tx, rows, stamp) => {
      note(rows);
      await table.restore(tx, rows, stamp);
    },
    width,
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
