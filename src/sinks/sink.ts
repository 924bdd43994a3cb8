import type { Instant } from '../core/clock.ts';
import type { ErrorCode, Recovery } from '../core/errors.ts';
import type { JsonValue } from '../core/json.ts';
import type { ConnectorId, ConnectorName, EntityName, RunId } from '../core/names.ts';
import type { EntityTable, PageCounts, Params, PreparedRecord, Quarantined } from '../core/records.ts';
import type { LedgerReader } from './ledger-reader.ts';

/**
 * Where records land, and the account of how they got there. Data in, counts out; every call is one transaction,
 * idempotent where it is repeated after a crash, and fenced: a lease that another holder has overtaken is refused
 * with `SyncError` FENCED. What a lease is not asked for may be called beside any run, from any process.
 */
export interface Sink extends AsyncDisposable {
  /** Random id made with the sink: tells two files of one name apart. */
  readonly id: string;
  /**
   * Takes the connector for this process until the lease is disposed or the process dies.
   * Repairs what a killed writer left, marks its runs `interrupted`.
   * Throws `ConnectorBusyError` while another process or lease holds it, `IdentityChangedError` when the stored
   * identity (base URL, connector id, definition) is another one.
   */
  acquire(connector: ConnectorIdentity): Promise<Lease>;
  /**
   * Creates missing tables and columns, then begins a run: goes on with an unfinished one where the plan allows it, or
   * marks the plan's roots due.
   */
  startRun(lease: Lease, plan: RunPlan): Promise<StartedRun>;
  /** Due partitions of the plan's entities that this run has not set aside, deepest first. May repeat ones being walked. */
  nextPartitions(lease: Lease, limit: number): Promise<readonly Partition[]>;
  /** Stores whole pages with their positions, children and seals: all of them or none. Counts come in the pages' order. */
  commit(lease: Lease, pages: readonly PageCommit[]): Promise<readonly CommittedPage[]>;
  /** Leaves a partition for a later run: it stays due, its position is kept (or dropped with `dropPosition`). */
  setAside(lease: Lease, walk: WalkRef, why: WalkFailure): Promise<void>;
  /** Ends the run: closes files, writes the report, prunes what is past its retention. */
  finish(lease: Lease, run: RunId, report: RunReport): Promise<void>;
  /**
   * Notes that the connector is not to be run until it is resumed. For any name, held or not, also one that has no records
   * yet. Paused again, it keeps its `since` and takes the new reason.
   */
  pause(connector: ConnectorName, pause: Pause): Promise<void>;
  /** Takes the pause back; false where there was none. */
  resume(connector: ConnectorName): Promise<boolean>;
  /** Asks the process that is in this run to end it after a checkpoint; false where the run is not `running`. */
  requestCancel(run: RunId, at: Instant): Promise<boolean>;
  /** Read only; usable without a lease and while another process writes. */
  readonly history: LedgerReader;
}

export interface ConnectorIdentity {
  readonly connector: ConnectorName;
  readonly baseUrl: string;
  readonly connectorId: ConnectorId;
  readonly definition: string;
  readonly definitionHash: string;
  readonly holder: Holder;
}

/** Who holds a connector, for the message that the second one gets. */
export interface Holder {
  readonly pid: number;
  readonly host: string;
  readonly command: string;
  readonly since: Instant;
}

export interface Lease extends AsyncDisposable {
  readonly connector: ConnectorName;
  /** Raised by every acquire; checked inside every transaction. */
  readonly epoch: number;
}

export interface Pause {
  readonly since: Instant;
  /** For people: who paused it and why. */
  readonly reason: string;
}

export interface RunPlan {
  readonly run: RunId;
  readonly startedAt: Instant;
  /** Every entity that this run reads, parents first, with exploded tables behind their entity. */
  readonly tables: readonly EntityTable[];
  /** Entities whose partitions this run works off. */
  readonly entities: readonly EntityName[];
  /** The root partitions; children are found on the way. */
  readonly roots: readonly FoundPartition[];
  /** How they are read (variants, parents), as text: a run is gone on with only by one that reads the same. */
  readonly choices: string;
  /**
   * Entities that lead to no others: a partition of theirs that a run since `continueAfter` set aside goes on from where it
   * stopped even in a fresh start.
   */
  readonly leaves: readonly EntityName[];
  /** An unfinished run of the same choices is gone on with when its chain stored something since. */
  readonly continueAfter: Instant;
}

export interface StartedRun {
  readonly run: RunId;
  /** The run whose work this one goes on with; its seen rows count as seen. Null: a fresh start. */
  readonly continues: RunId | null;
  /** Partitions due at the start. */
  readonly due: number;
  /** What the runs before it in its chain counted: what they left out of an entity, this one does not read either. */
  readonly earlier: readonly EarlierCounts[];
}

export interface EarlierCounts extends Pick<PageCounts, 'fetched' | 'quarantined'> {
  readonly entity: EntityName;
  /** 0 for runs that were killed: only a report says it. */
  readonly depthLimited: number;
}

/** A walk-unit that a page brought to light, or a root from the plan. Identity: connector, entity, params. */
export interface FoundPartition {
  readonly entity: EntityName;
  /** Canonical: the values that identify the partition; paging, order and fixed parameters are not among them. */
  readonly params: Params;
  /** Fields filled into every record of the partition (field -> value). */
  readonly inject: Readonly<Record<string, JsonValue>>;
  /** Distance from the root entity, plus depth in a tree: deeper ones start first. */
  readonly rank: number;
  /** For a listing inside a tree: its depth (the tree's own root listing has 0). Null elsewhere. */
  readonly treeDepth: number | null;
  /** The partition whose tree this listing belongs to; null for a partition of its own. */
  readonly tree: number | null;
}

export interface Partition extends FoundPartition {
  /** Row number in the ledger. */
  readonly id: number;
  /** Null: from the start. Otherwise what the last commit stored, as the engine wrote it. */
  readonly position: Position | null;
}

/** How far a walk has come: written by the pagination strategy, opaque to the sink (JSON, at most 64 KiB). */
export type Position = Readonly<Record<string, JsonValue>> & { readonly kind: string };

export interface WalkRef {
  readonly partition: number;
  readonly run: RunId;
}

export type ProofKind = 'single' | 'seam' | 'token';

/** How a walk is known to be complete. `isOrdered` false: the order was unknown, rows may have slipped by unseen. */
export interface Proof {
  readonly kind: ProofKind;
  readonly isOrdered: boolean;
}

export interface PageCommit {
  readonly walk: WalkRef;
  readonly fetched: number;
  /** Records of another kind, left out by the definition. */
  readonly filtered: number;
  /** Records that belong to another listing (synced copies): counted as duplicates, not stored. */
  readonly foreign: number;
  readonly refused: readonly Quarantined[];
  readonly children: readonly FoundPartition[];
  readonly position: Position;
  /** The walk's own entity first, then exploded ones. */
  readonly rows: readonly EntityRows[];
  /** Set on the page that ends the walk: the partition is sealed in the same transaction. */
  readonly seal: Proof | null;
}

export interface EntityRows {
  readonly entity: EntityName;
  readonly records: readonly PreparedRecord[];
}

/** Counts per entity of the page: the walk's own first, exploded ones after it. */
export interface CommittedPage {
  readonly counts: readonly { readonly entity: EntityName; readonly counts: PageCounts }[];
  /** Child partitions that became due by this page. */
  readonly newlyDue: number;
}

export interface WalkFailure {
  readonly code: ErrorCode;
  readonly recovery: Recovery;
  readonly message: string;
  readonly at: Instant;
  readonly dropPosition: boolean;
}

export type RunOutcome = 'ok' | 'partial' | 'degraded' | 'failed' | 'interrupted';

export interface RunReport {
  readonly run: RunId;
  readonly connector: ConnectorName;
  readonly outcome: RunOutcome;
  readonly startedAt: Instant;
  readonly finishedAt: Instant;
  readonly continues: RunId | null;
  readonly entities: readonly EntityReport[];
  readonly calls: number;
  readonly retries: number;
  readonly waitedMs: number;
  readonly bytes: number;
  /** At most 100; `failuresOmitted` counts the rest. */
  readonly failures: readonly FailureReport[];
  readonly failuresOmitted: number;
  /** What ended a `failed` run. Recovery `retry`: a later run may get further by itself; any other: somebody must act. */
  readonly error: {
    readonly code: ErrorCode;
    readonly recovery: Recovery;
    readonly message: string;
  } | null;
  /** The service asked for quiet until then and the run ended early (`partial`); the next one goes on. Null elsewhere. */
  readonly resumeAt: Instant | null;
}

export interface EntityReport {
  readonly entity: EntityName;
  readonly counts: PageCounts;
  readonly pages: number;
  /** Walks read to their end, by the kind of their proof. */
  readonly proofs: Readonly<Record<ProofKind, number>>;
  readonly setAside: number;
  /** Of the sealed walks, those without proof of a known order. */
  readonly unordered: number;
  /** Fields kept in `_extra` because they have no column or do not fit it. */
  readonly extraFields: number;
  /** Listings not entered because they lie below the definition's depth limit. */
  readonly depthLimited: number;
  /** Records met in a listing that is not their own (synced copies); counted among the duplicates. */
  readonly foreign: number;
  /**
   * Of a run that ended `ok` or `degraded`: nothing of the entity was left out, nor of what leads to it, since the chain of
   * runs began.
   */
  readonly isWhole: boolean;
}

export interface FailureReport {
  readonly entity: EntityName;
  readonly params: Params;
  readonly code: ErrorCode;
  readonly recovery: Recovery;
  readonly message: string;
}
