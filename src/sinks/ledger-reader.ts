import type { Instant } from '../core/clock.ts';
import type { ConnectorName, EntityName, RunId } from '../core/names.ts';
import type { Params } from '../core/records.ts';
import type { Holder, Pause, RunOutcome, RunReport, WalkFailure } from './sink.ts';

/** What happened, for `status`, `runs` and a person's questions. Read only; every call sees one consistent state. */
export interface LedgerReader {
  /** Newest first. */
  runs(filter: { readonly connector?: ConnectorName; readonly limit: number }): readonly RunSummary[];
  run(id: RunId): RunSummary | null;
  connectors(): readonly ConnectorStatus[];
  /** Partitions that failed and stay due, newest failure first. */
  failures(connector: ConnectorName, limit: number): readonly PartitionFailure[];
  /** Quarantined records, newest first. */
  quarantine(connector: ConnectorName, limit: number): readonly QuarantineRow[];
  /** Every paused connector, by name. */
  pauses(): readonly PausedConnector[];
  /** True when somebody asked for the end of this run. */
  isCancelRequested(run: RunId): boolean;
  /** How old each entity's records are at most; entities that were never begun are left out. */
  freshness(connector: ConnectorName): readonly EntityFreshness[];
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

export interface RunSummary {
  readonly run: RunId;
  readonly connector: ConnectorName;
  /** `running` until the run ends or the next holder marks it `interrupted`. */
  readonly state: RunOutcome | 'running';
  readonly startedAt: Instant;
  readonly finishedAt: Instant | null;
  readonly continues: RunId | null;
  /** Null while running and for runs that were killed. */
  readonly report: RunReport | null;
}

export interface ConnectorStatus {
  readonly connector: ConnectorName;
  readonly definition: string;
  readonly connectorId: string;
  readonly baseUrl: string;
  /** The last one to hold it; it may be gone. */
  readonly lastHolder: Holder;
  readonly lastRun: RunSummary | null;
  readonly entities: readonly EntityStatus[];
}

export interface EntityStatus {
  readonly entity: EntityName;
  readonly rows: number;
  readonly partitions: number;
  readonly due: number;
  readonly quarantined: number;
  readonly lastSealedAt: Instant | null;
}

export interface PartitionFailure {
  readonly entity: EntityName;
  readonly params: Params;
  readonly failure: WalkFailure;
}

export interface QuarantineRow {
  readonly entity: EntityName;
  readonly reason: string;
  readonly detail: string;
  readonly record: string;
  readonly firstSeenAt: Instant;
}
