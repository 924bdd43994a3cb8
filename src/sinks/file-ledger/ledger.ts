import type Database from 'better-sqlite3';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import type { RunInChain } from '../decisions/resume-run.ts';
import { prepareConnectors, preparePauses, prepareRuns } from './runs.ts';
import { prepareCounts, prepareQuarantine } from './counts.ts';
import type { Lock } from '../../sql/sqlite/lock.ts';
import { preparePartitionReads } from './partitions/read-partitions.ts';
import { prepareTransitions } from './partitions/transitions.ts';
import type { RecordStore, RecordTable, WriteStamp } from './record-store.ts';
import { prepareDrift } from './drift/note-drift.ts';
import { prepareDownloadNotes } from './downloads/note-downloads.ts';
import { rememberPlace } from '../sqlite-next/file-place.ts';
import { prepareDayAccount, prepareTables } from './tables.ts';
import type { LockWait } from '../sqlite-next/sink-error.ts';

interface LedgerParts extends LockWait {
  readonly db: Database.Database;
  readonly store: RecordStore;
}

/** An open ledger: its database, the store of the records, and the prepared statements of each table. */
export type Ledger = Readonly<ReturnType<typeof prepareLedger>>;

export function prepareLedger(parts: LedgerParts) {
  const { db } = parts;
  return {
    ...parts,
    /** Throws `SyncError` SINK_MOVED once the opened file is no longer at its path. Asked in front of whatever is written. */
    checkPlace: rememberPlace(parts.file),
    sequence: prepareSequence(db),
    connectors: prepareConnectors(db),
    runs: prepareRuns(db),
    pauses: preparePauses(db),
    tables: prepareTables(db),
    partitions: preparePartitionReads(db),
    transitions: prepareTransitions(db),
    day: prepareDayAccount(db),
    counts: prepareCounts(db),
    quarantine: prepareQuarantine(db),
    drift: prepareDrift(db),
    downloads: prepareDownloadNotes(db),
  };
}

export interface HeldConnector {
  readonly connector: ConnectorName;
  readonly epoch: number;
  readonly definitionHash: string;
  readonly lock: Lock;
  run: CurrentRun | null;
}

/** Which rows a chain of runs has met, by row number. */
export interface SeenRows {
  /** Notes the row, and whether its home has shown it; true when the chain had met it before, wherever. */
  readonly mark: (entity: EntityName, row: number, isAtHome: boolean) => boolean;
  readonly has: (entity: EntityName, row: number) => boolean;
  readonly hasAtHome: (entity: EntityName, row: number) => boolean;
  /** Writes what changed. Inside the transaction, once per commit. */
  readonly save: () => void;
  /** Drops what is in memory, so that the next look reads what is stored. For a rolled back transaction. */
  readonly forget: () => void;
}

export interface CurrentRun extends RunInChain {
  readonly tables: ReadonlyMap<EntityName, PlannedTable>;
  readonly seen: SeenRows;
}

export interface PlannedTable {
  readonly table: RecordTable;
  /** Columns of the plan's table: what every record must have been prepared for. */
  readonly width: number;
}

export interface Commit {
  readonly ledger: Ledger;
  readonly held: HeldConnector;
  readonly current: CurrentRun;
  readonly stamp: WriteStamp;
}

/** The sink's change counter (`_seq`): read and written inside one IMMEDIATE transaction, so numbers are given in commit order and never twice. */
function prepareSequence(db: Database.Database) {
  const read = db.prepare<[], number>('SELECT seq FROM _sync_meta').pluck();
  const write = db.prepare<[number]>('UPDATE _sync_meta SET seq = ?');
  let stored = 0;
  let current = 0;
  return {
    begin: (): void => {
      stored = read.get() ?? 0;
      current = stored;
    },
    next: (): number => {
      current += 1;
      return current;
    },
    save: (): void => {
      if (current !== stored) write.run(current);
    },
  };
}
