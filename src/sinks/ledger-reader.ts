import type { Instant } from '../core/clock.ts';
import type { ConnectorName, EntityName, RunId } from '../core/names.ts';
import type { EntityTable, Params, Quarantined } from '../core/records.ts';
import type { SinkCopies, UnfinishedCopy } from './copies.ts';
import type { FileFailure } from './files.ts';
import type { DriftRow } from './drift.ts';
import type { Partition, WalkFailure, WalkMode } from './partition.ts';
import type { RunKind, RunOutcome, RunReport, UnprovenListings } from './run-report.ts';
import type { Holder, Pause, StoredIdentity } from './lease.ts';

/** What happened, for `status`, `runs` and a person's questions. Read only; each call reads one consistent state. */
export interface LedgerReader {
  /** Newest first; of every kind unless one is named. */
  runs(filter: {
    readonly connector?: ConnectorName;
    readonly kind?: RunKind;
    readonly limit: number;
  }): Promise<readonly RunSummary[]>;
  run(id: RunId): Promise<RunSummary | null>;
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
  finishedWindows(connector: ConnectorName, backfill: string): Promise<readonly string[]>;
  /** A row's state as the ledger knows it; null where the key is not stored. */
  explain(connector: ConnectorName, table: EntityTable, keyText: string): Promise<RowHistory | null>;
}

export interface MissingRow {
  readonly entity: EntityName;
  readonly keyText: string;
  readonly missingSince: Instant;
  /** What its delete still needs: nothing (withheld by a guard), a `get`, another full walk. */
  readonly needs: 'nothing' | 'get' | 'walk';
  readonly missedWalks: number;
}

/** What is known of one row and of the partition that shows it. */
export interface RowHistory {
  readonly row: number;
  readonly firstSeenAt: Instant | null;
  readonly changedAt: Instant;
  readonly changedByRun: RunId | null;
  readonly deletedAt: Instant | null;
  readonly seq: number;
  readonly missing: MissingRow | null;
  /** Null: stored outside a walk, or by a version that did not note it. */
  readonly partition: PartitionHistory | null;
}

export interface PartitionHistory extends Pick<Partition, 'entity' | 'params' | 'watermark'> {
  readonly mode: WalkMode | null;
  readonly marker: string | null;
  readonly sealedAt: Instant | null;
  readonly sealedRun: RunId | null;
  /** Beginning of the chain that made the newest full walk. */
  readonly fullAt: Instant | null;
  readonly foundAt: Instant;
  readonly dueSince: Instant | null;
  readonly failure: WalkFailure | null;
  readonly isGone: boolean;
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
  /** Of `lastEnded`; entities of which nothing is missing are left out. */
  readonly missing: readonly EntityMissing[];
  /** Of `lastEnded`: listings that ended with a doubt; entities without such listings are left out. */
  readonly unproven: readonly Pick<UnprovenListings, 'entity' | 'listings'>[];
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
