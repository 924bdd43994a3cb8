import type { PreparedRecord } from '../../core/records.ts';
import type { StoredRow } from '../decisions/meet-record.ts';
import type { RecordTable } from './record-table.ts';

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
