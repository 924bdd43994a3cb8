import type Database from 'better-sqlite3';
import type { Instant } from '../../core/clock.ts';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import type { ChainReading } from '../decisions/becoming-due.ts';
import type { RunPlan } from '../sink.ts';
import { prepareConnectors, type Connectors } from './connectors.ts';
import { prepareCounts, type Counts } from './counts.ts';
import type { Lock } from './lock.ts';
import { preparePauses, type Pauses } from './pauses.ts';
import { preparePartitionReads, type PartitionReads } from './partitions/read-partitions.ts';
import { prepareTransitions, type PartitionTransitions } from './partitions/transitions.ts';
import { prepareQuarantine, type Quarantine } from './quarantine.ts';
import type { RecordStore, RecordTable, WriteStamp } from './record-store.ts';
import { prepareRetention, type Retention } from './retention.ts';
import { prepareRuns, type Runs } from './runs.ts';
import type { SeenRows } from './seen-rows.ts';
import { prepareDayAccount, type DayAccount } from './deletes/day-account.ts';
import { prepareMissingRows, type MissingRows } from './deletes/missing-rows.ts';
import { preparePlaces, type Places } from './deletes/places.ts';
import { prepareDrift } from './drift/note-drift.ts';
import { prepareDownloadNotes, type DownloadNotes } from './downloads/note-downloads.ts';
import { rememberPlace } from './file-place.ts';
import { prepareSequence, type Sequence } from './sequence.ts';
import { prepareTables, type Tables } from './tables.ts';
import type { LockWait } from './when-unlocked.ts';

/** An open ledger: its database, the store of the records, and the prepared statements of each table. */
export interface Ledger extends LockWait {
  readonly db: Database.Database;
  readonly store: RecordStore;
  /** Throws `SyncError` SINK_MOVED once the opened file is no longer at its path. Asked in front of whatever is written. */
  readonly checkPlace: () => void;
  readonly sequence: Sequence;
  readonly connectors: Connectors;
  readonly runs: Runs;
  readonly pauses: Pauses;
  readonly tables: Tables;
  readonly missing: MissingRows;
  readonly places: Places;
  readonly day: DayAccount;
  readonly partitions: PartitionReads;
  readonly transitions: PartitionTransitions;
  readonly counts: Counts;
  readonly quarantine: Quarantine;
  readonly drift: ReturnType<typeof prepareDrift>;
  readonly downloads: DownloadNotes;
  readonly retention: Retention;
}

/** A connector that this process holds. */
export interface HeldConnector {
  readonly connector: ConnectorName;
  readonly epoch: number;
  readonly definitionHash: string;
  readonly lock: Lock;
  run: CurrentRun | null;
}

/** The run that a lease is in, and what it has from its plan. */
export interface CurrentRun extends Pick<
  RunPlan,
  'run' | 'kind' | 'window' | 'backfill' | 'keepPartitionsSince'
> {
  /** Number of the first run of its chain. */
  readonly origin: number;
  /** When that one began. */
  readonly chainStartedAt: Instant;
  /** Everything is read in full. */
  readonly isFull: boolean;
  /** What was not read for longest goes first. */
  readonly isStalestFirst: boolean;
  /** Of the entities that it reads. */
  readonly reading: ReadonlyMap<EntityName, ChainReading>;
  readonly entities: ReadonlySet<EntityName>;
  /** Entities whose rows are never deleted. */
  readonly keeps: ReadonlySet<EntityName>;
  readonly tables: ReadonlyMap<EntityName, PlannedTable>;
  readonly seen: SeenRows;
  /** The shortest page that was followed by more, by entity and requested size: of this process. */
  readonly followed: Map<string, number>;
}

export interface PlannedTable {
  readonly table: RecordTable;
  /** Columns of the plan's table: what every record must have been prepared for. */
  readonly width: number;
}

/** What every step of a commit works with. */
export interface Commit {
  readonly ledger: Ledger;
  readonly held: HeldConnector;
  readonly current: CurrentRun;
  readonly stamp: WriteStamp;
}

export function prepareLedger(parts: LockWait & Pick<Ledger, 'db' | 'store'>): Ledger {
  const { db } = parts;
  const transitions = prepareTransitions(db);
  const places = preparePlaces(db);
  return {
    ...parts,
    checkPlace: rememberPlace(parts.file),
    sequence: prepareSequence(db),
    connectors: prepareConnectors(db),
    runs: prepareRuns(db),
    pauses: preparePauses(db),
    tables: prepareTables(db),
    missing: prepareMissingRows(db),
    places,
    day: prepareDayAccount(db),
    partitions: preparePartitionReads(db),
    transitions,
    counts: prepareCounts(db),
    quarantine: prepareQuarantine(db),
    drift: prepareDrift(db),
    downloads: prepareDownloadNotes(db),
    retention: prepareRetention(db, { transitions, places }),
  };
}
