import type { Instant } from '../core/clock.ts';
import type { DescribedTable } from '../core/described-table.ts';
import type { ConnectorName, EntityName, RunId } from '../core/names.ts';
import type {
  EntityCounts,
  EntityTable,
  FieldDrift,
  PageCounts,
  PreparedRecord,
  Quarantined,
} from '../core/records.ts';
import type { Action } from './actions.ts';
import type { Copies } from './copies.ts';
import type { Deletes } from './deletes.ts';
import type { Drift } from './drift.ts';
import type { Files } from './files.ts';
import type { LedgerReader } from './ledger-reader.ts';
import type { EntityMasking, Masking, PlannedMask } from './masks.ts';
import type { Notices } from './notices.ts';
import type {
  FoundPartition,
  PageLength,
  Partition,
  Position,
  Seal,
  UnsealedWalk,
  WalkFailure,
  WalkRef,
} from './partition.ts';
import type { Purges } from './purges.ts';
import type { Repair } from './repair.ts';
import type { ConnectorIdentity, Lease, Pause } from './lease.ts';
import type { LeftWork, RowsOf, RunKind, RunReport, UnprovenListings } from './run-report.ts';
import type { StoredKeys } from './stored-keys.ts';

/**
 * Where records land, and the account of how they got there. Data in, counts out; every call is one transaction,
 * idempotent where it is repeated after a crash, and fenced (`SyncError` FENCED for an overtaken lease). What needs no
 * lease may be called beside any run, from any process.
 */
export interface Sink extends AsyncDisposable {
  /** Random id made with the sink: tells two files of one name apart. */
  readonly id: string;
  /**
   * False once the sink is no longer where it was opened (moved away, replaced): nothing can be stored through this
   * object.
   */
  isInPlace(): Promise<boolean>;
  /**
   * Takes the connector until the lease is disposed or the process dies; repairs what a killed writer left. Throws
   * `ConnectorBusyError`, and `IdentityChangedError` when the stored identity (base URL, connector id, definition) is
   * another one.
   */
  acquire(connector: ConnectorIdentity): Promise<Lease>;
  /**
   * Creates missing tables and columns, then begins a run: resumes an unfinished one where the plan allows it, or marks
   * the plan's roots due.
   */
  startRun(lease: Lease, plan: RunPlan): Promise<StartedRun>;
  /**
   * Due partitions of the plan's entities that this run has not set aside: deepest first, in a budgeted run those read
   * longest ago. May repeat ones being walked or just ended.
   */
  nextPartitions(lease: Lease, limit: number): Promise<readonly Partition[]>;
  /**
   * Stores whole pages with their positions, children and seals: all of them or none. Counts come in the pages' order.
   */
  commit(lease: Lease, pages: readonly PageCommit[]): Promise<readonly CommittedPage[]>;
  /** Leaves a partition for a later run: it stays due, its position is kept (or dropped with `dropPosition`). */
  setAside(lease: Lease, walk: WalkRef, why: WalkFailure): Promise<void>;
  /**
   * Ends the run: closes files, writes the report, prunes what is past its retention. Lost rows of entities that were
   * read whole are not counted again.
   */
  finish(lease: Lease, run: RunId, report: RunReport): Promise<void>;
  /**
   * Notes that connectors, of any name, are not to be run until they are resumed, in one transaction. Paused again, one
   * keeps its `since` and takes the new reason.
   */
  pause(connectors: readonly ConnectorName[], pause: Pause): Promise<void>;
  /** Takes their pauses back; gives those that were paused. */
  resume(connectors: readonly ConnectorName[]): Promise<ReadonlySet<ConnectorName>>;
  /** Asks the process that is in this run to end it after a checkpoint; false where the run is not `running`. */
  requestCancel(run: RunId, at: Instant): Promise<boolean>;
  /**
   * Notes what a person asked another process for. What this interface does is noted by itself, in the transaction that
   * does it.
   */
  noteAction(action: Action): Promise<void>;
  /**
   * When nothing is ready: makes ready what is due below parents that did not have to be read. Gives how many; 0 ends
   * the walking.
   */
  findLeftovers(lease: Lease): Promise<number>;
  /** What is due and was not read, by entity: what a run that ends early leaves. */
  left(lease: Lease): Promise<readonly LeftWork[]>;
  /**
   * Listings of the connector that ended with a doubt when they were read last, by entity; of a backfill's window those
   * of the window.
   */
  unproven(lease: Lease): Promise<readonly UnprovenListings[]>;
  /** Rows that the sink has lost (a power loss, a damaged file) and that no walk has met since, by entity. */
  lostRows(lease: Lease): Promise<readonly RowsOf[]>;
  readonly deletes: Deletes;
  readonly stored: StoredKeys;
  readonly repair: Repair;
  readonly drift: Drift;
  readonly files: Files;
  readonly copies: Copies;
  readonly notices: Notices;
  readonly purges: Purges;
  readonly masking: Masking;
  /** Read only; usable without a lease and while another process writes. */
  readonly history: LedgerReader;
}

/** How the partitions of an entity become due, and what their walks may conclude. */
export interface EntityReading {
  /** False: every walk is full. */
  readonly isIncremental: boolean;
  /**
   * A partition whose newest full walk began at or before this is read in full, also where nothing seems to have
   * changed.
   */
  readonly fullBefore: Instant;
  /**
   * Records may move below another parent, and `get` can be asked for them: it is, before they count as deleted with
   * their parent.
   */
  readonly mayMove: boolean;
}

export interface RunPlan {
  readonly run: RunId;
  /** What a person asked for with this run, beyond an ordinary one; noted with its start. */
  readonly act?: Omit<Action, 'connector' | 'run'>;
  readonly kind: RunKind;
  /**
   * Keeps a backfill's partitions apart, by window (`2026-01-01T00:00:00.000Z/2026-02-01T00:00:00.000Z`); '' for a
   * sync. A chain has one window.
   */
  readonly window: string;
  /** The backfill that the window belongs to, for `finishedWindows`. '' where the run is of no backfill. */
  readonly backfill: string;
  readonly startedAt: Instant;
  /** Everything is read in full. A full run that is resumed stays one. */
  readonly isFull: boolean;
  /** The run may end early: what was not read for longest is read first. */
  readonly isBudgeted: boolean;
  /** Of every entity in `entities`. */
  readonly reading: ReadonlyMap<EntityName, EntityReading>;
  /** Entities whose rows are never deleted (events), whether this run reads them or not. */
  readonly keeps: readonly EntityName[];
  /** Partitions that nothing has led to since are forgotten at the end of a run. */
  readonly keepPartitionsSince: Instant;
  /** Every entity that this run reads, parents first, with exploded tables after their entity. */
  readonly tables: readonly EntityTable[];
  /** What the definition says of those tables; absent: the newest one stored stays. */
  readonly described?: readonly DescribedTable[];
  /**
   * Entities of those tables whose rows have versions from now on; the others have none. Absent: all stay as they are.
   */
  readonly versions?: ReadonlySet<EntityName>;
  /** Those of the entities that have a mask; absent: none has. */
  readonly masks?: readonly PlannedMask[];
  /** How the tables of those entities are brought under their masks. */
  readonly maskings?: readonly EntityMasking[];
  /** Entities whose partitions this run works off. */
  readonly entities: readonly EntityName[];
  /** The root partitions; children are found on the way. */
  readonly roots: readonly FoundPartition[];
  /** How they are read (variants, parents), as text: only a run that reads the same resumes it. */
  readonly choices: string;
  /**
   * Entities that lead to no others. What a run since `continueAfter` set aside of them keeps its position in a fresh
   * start, unless it had been read whole.
   */
  readonly leaves: readonly EntityName[];
  /** An unfinished run of the same choices is resumed when its chain stored something since. */
  readonly continueAfter: Instant;
}

export interface StartedRun {
  readonly run: RunId;
  /** The run that this one resumes; its seen rows count as seen. Null: a fresh start. */
  readonly continues: RunId | null;
  readonly due: number;
  /** Asked for by this run or by the one that it resumes. */
  readonly isFull: boolean;
  /** What the runs before it in its chain counted: what they left out of an entity, this one does not read either. */
  readonly earlier: readonly EarlierCounts[];
  /** What those runs have found; empty for a fresh start. */
  readonly found: readonly ChainPartitions[];
  /**
   * Secret of this connector in this sink, for the hashes of `PreparedRecord.raw`. Their maker mixes in what else
   * decides what is stored of a record: a hash must differ where the same bytes are to be stored in another way.
   */
  readonly rawKey: string;
}

export interface EarlierCounts extends Pick<PageCounts, 'fetched' | 'quarantined' | 'duplicate'> {
  readonly entity: EntityName;
  /** 0 for runs that were killed: only a report says it. */
  readonly depthLimited: number;
}

/** Partitions of an entity that a chain has found. */
export interface ChainPartitions {
  readonly entity: EntityName;
  /** Of a record that led to one of them. */
  readonly parent: EntityName | null;
  /** Some are listings inside trees, which go when their tree is sealed. */
  readonly isTree: boolean;
  readonly sealed: number;
  readonly ready: number;
}

export interface PageCommit {
  readonly walk: WalkRef;
  readonly fetched: number;
  /** Records of another kind, left out by the definition. */
  readonly filtered: number;
  /** Records that belong to another listing (synced copies): counted as duplicates, not stored. */
  readonly foreign: number;
  readonly refused: readonly Quarantined[];
  /** Without those already known below records of which only a part came: the sink adds these. */
  readonly children: readonly FoundPartition[];
  readonly position: Position;
  /** The walk's own entity first, then exploded ones. */
  readonly rows: readonly EntityRows[];
  /** Set on the page that ends the walk: the partition is sealed in the same transaction. */
  readonly seal: Seal | null;
  /**
   * A page of this length was followed by more: walks of this chain that ended with one at least as long are due again,
   * in full.
   */
  readonly followed?: PageLength;
  /** How far the run is, for people who read the ledger; at most a few KiB. */
  readonly shown?: string;
  /** Undeclared or misfitting fields of the page: entity, field name, JSON type. */
  readonly drift: readonly FieldDrift[];
}

export interface EntityRows {
  readonly entity: EntityName;
  readonly records: readonly PreparedRecord[];
}

/** Counts per entity of the page: the walk's own first, exploded ones after it. */
export interface CommittedPage {
  readonly counts: readonly EntityCounts[];
  /** Child partitions that became due by this page, and walks that are due again by `followed`. */
  readonly newlyDue: number;
  /** Of those walks the ones that this run had sealed. */
  readonly unsealed?: readonly UnsealedWalk[];
  /**
   * Records of which only a part came and whose rows stay as they are; they count as unchanged or duplicate. Absent:
   * none.
   */
  readonly partial?: number;
}
