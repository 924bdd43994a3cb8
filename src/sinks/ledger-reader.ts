import type { Instant } from '../core/clock.ts';
import type { Failure } from '../core/errors.ts';
import type { ConnectorName, EntityName, RunId } from '../core/names.ts';
import type { EntityTable, PageCounts, Params, Quarantined } from '../core/records.ts';
import type { NotedAction } from './actions.ts';
import type { SinkCopies, UnfinishedCopy } from './copies.ts';
import type { FileFailure } from './files.ts';
import type { DriftRow, FieldNews } from './drift.ts';
import type { OutboxRow } from './outbox.ts';
import type { StoredMask } from './masks.ts';
import type { WalkFailure } from './partition.ts';
import type { PurgeNotes, WithheldOf } from './purges.ts';
import type { RunKind, RunOutcome, RunReport, UnprovenListings } from './run-report.ts';
import type { Holder, Pause, StoredIdentity } from './lease.ts';
import type { UnfinishedRemoval } from './repair.ts';
import type { MissingRow, RowHistory } from './row-history.ts';

/** What happened, for `status`, `runs` and a person's questions. Read only; each call reads one consistent state. */
export interface LedgerReader {
  /** Newest first; of every kind unless one is named. */
  runs(filter: {
    readonly connector?: ConnectorName;
    readonly kind?: RunKind;
    readonly limit: number;
  }): Promise<readonly RunSummary[]>;
  run(id: RunId): Promise<RunSummary | null>;
  /** Of each of these connectors, newest first. */
  recentRuns(
    connectors: readonly ConnectorName[],
    limit: number,
  ): Promise<ReadonlyMap<ConnectorName, readonly RunFacts[]>>;
  /** The newest syncs that read something else than the sync before, newest first. */
  scopeChanges(connector: ConnectorName, limit: number): Promise<readonly ScopeChange[]>;
  /** What became of the records of a run so far, also while it is in progress. */
  counts(run: RunId): Promise<readonly (PageCounts & { readonly entity: EntityName })[]>;
  /** How far a run in progress is, as its process has written it for people; null: it has written nothing. */
  progress(run: RunId): Promise<string | null>;
  /** By name; of these connectors alone where they are named. One pass over the sink either way. */
  connectors(only?: readonly ConnectorName[]): Promise<readonly ConnectorStatus[]>;
  /** The state of every connector, in a pass that stays cheap for ten thousand of them. */
  overview(): Promise<readonly ConnectorOverview[]>;
  /** Partitions that failed and stay due, newest failure first. */
  failures(connector: ConnectorName, limit: number): Promise<readonly PartitionFailure[]>;
  /** Quarantined records, newest first. */
  quarantine(connector: ConnectorName, limit: number): Promise<readonly QuarantineRow[]>;
  pauses(): Promise<readonly PausedConnector[]>;
  pause(connector: ConnectorName): Promise<PausedConnector | null>;
  isCancelRequested(run: RunId): Promise<boolean>;
  /** How old each entity's records are at most; entities that were never begun are left out. */
  freshness(connector: ConnectorName): Promise<readonly EntityFreshness[]>;
  /** Undeclared and misfitting fields, by entity and name. */
  drift(connector: ConnectorName): Promise<readonly DriftRow[]>;
  /** Rows that seem deleted upstream and are not tombstoned, by entity; at most `limit`. */
  missing(connector: ConnectorName, limit: number): Promise<readonly MissingRow[]>;
  /** Files that did not come when they were last asked for, and are wanted still; newest failure first. */
  fileFailures(connector: ConnectorName, limit: number): Promise<readonly FailedFile[]>;
  /** A copy of the connector into this sink that was begun and is not complete; null where there is none. */
  unfinishedCopy(connector: ConnectorName): Promise<UnfinishedCopy | null>;
  copies(): Promise<SinkCopies>;
  /** A removal of the connector that is not complete; null where there is none. */
  removal(connector: ConnectorName): Promise<UnfinishedRemoval | null>;
  finishedWindows(connector: ConnectorName, backfill: string): Promise<readonly string[]>;
  /** What people did, newest first; to one connector where it is named. */
  actions(filter: {
    readonly connector?: ConnectorName;
    readonly limit: number;
  }): Promise<readonly NotedAction[]>;
  /**
   * What became of rows on each day from `since` (`2026-03-01`, UTC) on, by connector, entity and day; days without a
   * change are left out.
   */
  days(filter: {
    readonly since: string;
    readonly only?: readonly ConnectorName[];
  }): Promise<readonly DayOfEntity[]>;
  /** The masks that the connector's records are stored by, and what may be stored from before them. */
  masks(connector: ConnectorName): Promise<readonly StoredMask[]>;
  /** Messages that were not delivered yet and those that were given up, oldest first. */
  outbox(limit: number): Promise<readonly OutboxRow[]>;
  /** A row's state as the ledger knows it; null where the key is not stored. */
  explain(connector: ConnectorName, table: EntityTable, keyText: string): Promise<RowHistory | null>;
  /** Which records of the connector were purged; null where none ever was. */
  purged(connector: ConnectorName): Promise<PurgeNotes | null>;
  /** Deletes of the entity up to this change number may have been removed; 0: none was. */
  completeAfter(connector: ConnectorName, entity: EntityName): Promise<number>;
  /** What is older than it is to be kept, and a guard keeps: as it was checked last. */
  withheldByAge(connector: ConnectorName): Promise<readonly WithheldOf[]>;
}

/** Where only variants, parents or filters are others, nothing is named. */
export interface ScopeChange {
  readonly run: RunId;
  /** When it started. */
  readonly at: Instant;
  readonly isOtherDefinition: boolean;
  /** Entities that it read, and the sync before did not. */
  readonly added: readonly EntityName[];
  readonly removed: readonly EntityName[];
}

export interface DayOfEntity {
  readonly connector: ConnectorName;
  readonly entity: EntityName;
  /** Of UTC: `2026-03-01`. */
  readonly day: string;
  readonly added: number;
  readonly changed: number;
  readonly deleted: number;
  readonly revived: number;
}

export interface PausedConnector extends Pause {
  readonly connector: ConnectorName;
}

export interface EntityFreshness {
  readonly entity: EntityName;
  /**
   * When the newest chain of runs began that read the entity whole: what changed before is stored. Null: none ever did.
   */
  readonly asOf: Instant | null;
}

export interface RunSummary extends Pick<
  RunReport,
  'run' | 'kind' | 'connector' | 'startedAt' | 'continues'
> {
  /** `running` until the run ends or the next holder marks it `interrupted`. */
  readonly state: RunOutcome | 'running';
  readonly finishedAt: Instant | null;
  /** Null while running and for runs that were killed. */
  readonly report: RunReport | null;
}

/** A run without its report, which takes time to read. */
export type RunFacts = Omit<RunSummary, 'report'>;

export interface ConnectorOverview {
  readonly connector: ConnectorName;
  /** Null where the connector is only paused, and was never synced. */
  readonly identity: StoredIdentity | null;
  readonly paused: Pause | null;
  /** The newest of kind `sync`. */
  readonly lastRun: RunFacts | null;
  /** The newest of kind `sync` that has a report: neither in progress nor killed. */
  readonly lastEnded: RunFacts | null;
  readonly freshness: readonly EntityFreshness[];
  /** Of all entities, without tombstoned ones. */
  readonly rows: number;
  /** Of `lastEnded`; entities of which nothing is missing are left out. */
  readonly missing: readonly EntityMissing[];
  /** Of `lastEnded`: listings that ended with a doubt; entities without such listings are left out. */
  readonly unproven: readonly Pick<UnprovenListings, 'entity' | 'listings'>[];
  /** What ended `lastEnded`, where it failed. */
  readonly error: Failure | null;
  /** Why listings or files of `lastEnded` were set aside, each code once. */
  readonly failures: readonly Pick<Failure, 'code' | 'recovery'>[];
  /** Records of `lastEnded`. */
  readonly quarantined: number;
  /** Until then the service asked for no calls, in `lastEnded`. */
  readonly resumeAt: Instant | null;
  /** Of the last days (`newForMs`), without what a person has acknowledged. */
  readonly newFields: readonly FieldNews[];
  /** As `LedgerReader.withheldByAge`. */
  readonly withheldByAge: readonly WithheldOf[];
}

/** Rows that seemed deleted in a run, and are kept. */
export interface EntityMissing {
  readonly entity: EntityName;
  /** By a guard: a person must check. */
  readonly withheld: number;
  /** For a `get` or another full walk. */
  readonly pending: number;
}

export interface ConnectorStatus extends StoredIdentity {
  readonly connector: ConnectorName;
  /** The last one to hold it; it may have ended. */
  readonly lastHolder: Holder;
  /** The newest of kind `sync`. */
  readonly lastRun: RunSummary | null;
  readonly entities: readonly EntityStatus[];
}

export interface EntityStatus {
  readonly entity: EntityName;
  /** Without tombstoned ones. */
  readonly rows: number;
  readonly deleted: number;
  /** Seem deleted upstream, and are kept until that is certain or a person allows it. */
  readonly missing: number;
  readonly partitions: number;
  readonly due: number;
  readonly quarantined: number;
  /** Listings that ended with a doubt when they were read last; null where there are none. */
  readonly unproven: Omit<UnprovenListings, 'entity'> | null;
  /** When a listing of the entity was last read to its end, in full or for changes only. */
  readonly lastSealedAt: Instant | null;
  /** Since when all of it has been read completely, each listing in full and without a doubt; null: it never was. */
  readonly lastCompleteReadAt: Instant | null;
  /** Null where no record of the entity has had a file. */
  readonly files: FileStatus | null;
}

export interface FileStatus {
  /** In the folder, those of tombstoned records included. */
  readonly stored: number;
  /** Of those. */
  readonly bytes: number;
  /** Of live records, and not stored in their newest version. */
  readonly wanted: number;
  /** Of those: requested, but not received. */
  readonly failed: number;
}

export interface FailedFile {
  readonly entity: EntityName;
  readonly params: Params;
  readonly failure: FileFailure;
}

export interface PartitionFailure extends FailedFile {
  readonly failure: WalkFailure;
}

export interface QuarantineRow extends Quarantined {
  readonly firstSeenAt: Instant;
}
