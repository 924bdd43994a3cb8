import type { Instant } from '../core/clock.ts';
import type { ConnectorName, EntityName } from '../core/names.ts';
import type { Quarantined } from '../core/records.ts';
import type { Completeness, DoubtedListings, RunKind, RunOutcome, RunReport } from './run-report.ts';
import type { Holder, Pause, StoredIdentity } from './lease.ts';

/** Runs to be listed: of every connector, kind and state unless some are named. */
export interface RunFilter {
  readonly connector?: ConnectorName;
  readonly kind?: RunKind;
  readonly state?: RunSummary['state'];
  readonly connectors?: readonly ConnectorName[] | undefined;
  readonly states?: readonly RunSummary['state'][] | undefined;
  /** Id of a run: those that began before it, in the order of their ids, which begin with the time. */
  readonly before?: string;
  readonly limit: number;
}

export interface StoredOrigin extends StoredIdentity {
  readonly connector: ConnectorName;
}

export interface PausedConnector extends Pause {
  readonly connector: ConnectorName;
  /** The person who paused it last; null where that is no longer noted. */
  readonly who: string | null;
}

export interface EntityFreshness {
  readonly entity: EntityName;
  /**
   * Start of the newest chain of runs that read the entity completely: earlier changes are stored. Null: no chain did.
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

/** Rows of an entity that runs have changed which began on one day of UTC, such as `2026-03-01`. */
export interface ChangesOfDay {
  readonly day: string;
  readonly entity: EntityName;
  readonly added: number;
  readonly changed: number;
  readonly deleted: number;
}

/** Differences between what a sync read and what the sync before it read. */
export interface ScopeChange extends Pick<RunSummary, 'run' | 'startedAt'> {
  readonly isOtherDefinition: boolean;
  /** Entities that the sync before did not read, that this one did not, and that both read with other settings. */
  readonly added: readonly EntityName[];
  readonly left: readonly EntityName[];
  readonly changed: readonly EntityName[];
}

export interface ConnectorStatus extends StoredIdentity {
  readonly connector: ConnectorName;
  /** The last one to hold it; it may have ended. */
  readonly lastHolder: Holder;
  /** The newest of kind `sync` that could begin. */
  readonly lastRun: RunSummary | null;
  readonly entities: readonly EntityStatus[];
}

export interface EntityStatus {
  readonly entity: EntityName;
  /** Rows without tombstones. */
  readonly rows: number;
  readonly deleted: number;
  /** Seem deleted upstream, and are kept until that is certain or a person allows it. */
  readonly missing: number;
  readonly partitions: number;
  readonly due: number;
  readonly quarantined: number;
  /** Listings that ended with a doubt when they were read last; null where there are none. */
  readonly partMissing: Omit<DoubtedListings, 'entity'> | null;
  /** Completeness of all its listings now; null where it has none. */
  readonly completeness: Completeness | null;
  /** When a listing of the entity was last read to its end, in full or for changes only. */
  readonly lastSealedAt: Instant | null;
  /** Oldest complete read among its listings, each in full and without a doubt; null: one was never read completely. */
  readonly lastCompleteReadAt: Instant | null;
  /** Null where no record of the entity has had a file. */
  readonly files: FileStatus | null;
}

export interface FileStatus {
  /** Files in the folder, including those of tombstoned records. */
  readonly stored: number;
  /** Size of the stored files. */
  readonly bytes: number;
  /** Files of live records that are not stored in their newest version. */
  readonly wanted: number;
  /** Wanted files that were requested but not received. */
  readonly failed: number;
}

export interface QuarantineRow extends Quarantined {
  readonly firstSeenAt: Instant;
}
