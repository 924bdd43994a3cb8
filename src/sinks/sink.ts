import type { Instant } from '../core/clock.ts';
import type {
  DescribedTable,
  EntityCounts,
  EntityTable,
  FieldDrift,
  PageCounts,
  PreparedRecord,
  Quarantined,
} from '../core/records.ts';
import type { EntityName, RunId } from '../core/names.ts';
import type { Action, EntityMasking, PlannedMask } from './requests.ts';
import type { FoundPartition, PageLength, Position, Seal, UnsealedWalk, WalkRef } from './partition.ts';
import type { RunKind } from './run-report.ts';

/** Rules by which the partitions of an entity become due, and by which their walks conclude. */
export interface EntityReading {
  /** False: every walk is full. */
  readonly isIncremental: boolean;
  /**
   * A partition whose newest full walk began at or before this is read in full, also where nothing seems to have
   * changed.
   */
  readonly fullBefore: Instant;
  /** Where the settings let reading begin, in milliseconds: from elsewhere, it is read in full. Empty: nowhere. */
  readonly from?: readonly (number | null)[];
  /**
   * Records may move below another parent, and `get` can be asked for them: it is, before they count as deleted with
   * their parent.
   */
  readonly mayMove: boolean;
}

export interface RunPlan {
  readonly run: RunId;
  /** Request of a person that this run carries out, beyond an ordinary run; noted with its start. */
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
  /** The run may end early: partitions that were not read for longest are read first. */
  readonly isBudgeted: boolean;
  /** Reading of every entity in `entities`. */
  readonly reading: ReadonlyMap<EntityName, EntityReading>;
  /** Entities whose rows are never deleted (events), whether this run reads them or not. */
  readonly keeps: readonly EntityName[];
  /** Partitions that nothing has led to since are forgotten at the end of a run. */
  readonly keepPartitionsSince: Instant;
  /** Every entity that this run reads, parents first, with exploded tables after their entity. */
  readonly tables: readonly EntityTable[];
  /** Descriptions of those tables in the definition; absent: the newest stored ones stay. */
  readonly described?: readonly DescribedTable[];
  /**
   * Entities of those tables whose rows have versions from now on; the others have none. Absent: all stay as they are.
   */
  readonly versions?: ReadonlySet<EntityName>;
  /** Masks of those entities; absent: none has a mask. */
  readonly masks?: readonly PlannedMask[];
  /** Maskings that bring the tables of those entities under their masks. */
  readonly maskings?: readonly EntityMasking[];
  /** Entities whose partitions this run works off. */
  readonly entities: readonly EntityName[];
  /** The root partitions; children are found on the way. */
  readonly roots: readonly FoundPartition[];
  /** Reading of the roots (variants, parents), as text: only a run that reads the same resumes it. */
  readonly choices: string;
  /**
   * Entities that lead to no others. Their walks that a run since `continueAfter` set aside keep their positions in a
   * fresh start, unless they had been read completely.
   */
  readonly leaves: readonly EntityName[];
  /** An unfinished run of the same choices is resumed when its chain stored something since. */
  readonly continueAfter: Instant;
}

export interface EarlierCounts extends Pick<PageCounts, 'fetched' | 'quarantined' | 'duplicate'> {
  readonly entity: EntityName;
  /** 0 for runs that were killed: only a report says it. */
  readonly depthLimited: number;
}

export interface PageCommit {
  readonly walk: WalkRef;
  readonly fetched: number;
  /** Records of another kind, left out by the definition. */
  readonly filtered: number;
  /** Records that belong to another listing (synced copies): counted as duplicates, not stored. */
  readonly foreign: number;
  readonly refused: readonly Quarantined[];
  /** Children of the page, without those already known below records that came only in part: the sink adds these. */
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
  /** Walks due again by `followed` that this run had sealed. */
  readonly unsealed?: readonly UnsealedWalk[];
  /**
   * Records that came only in part and whose rows stay as they are; they count as unchanged or duplicate. Absent: none.
   */
  readonly partial?: number;
}
