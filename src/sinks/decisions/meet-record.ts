import { instant, type Instant } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import { knownOrMade } from '../../core/grouped.ts';
import type { EntityName } from '../../core/names.ts';
import type { ContentDifference, PreparedRecord } from '../../core/records.ts';
import type { RowFacts } from '../readings.ts';
import type { Doubt } from '../partition.ts';

/** The stored row of a record's key, tombstoned or not. `owner`: null if it was stored outside a walk. */
export type StoredRow = Pick<RowFacts, 'row' | 'hash' | 'changedAt' | 'deletedAt' | 'owner'>;
type Hashed = Pick<RowFacts, 'hash'>;

/**
 * Place where a stored record is met: its `owner` (or outside a walk), its `new-owner`, or a `shared` listing. A shared
 * row keeps its owner while that is live.
 */
export type MeetingPlace = 'owner' | 'new-owner' | 'shared';

/** `partition` shows the record; null outside a walk. A `shared` row alone does not count as met in its owner. */
export function meetingPlace(
  { owner, deletedAt }: Pick<StoredRow, 'owner' | 'deletedAt'>,
  partition: number | null,
): MeetingPlace {
  if (partition === null || owner === partition) return 'owner';
  return owner === null || deletedAt !== null ? 'new-owner' : 'shared';
}

const dayMs = 24 * 60 * 60 * 1_000;
/** Characters before a row's hash that say on which day it was written. */
const dayChars = 3;

/** The hash of a record as its row keeps it. */
export function storedHash({ hash }: Pick<PreparedRecord, 'hash'>, now: Instant): string {
  return hash === '' ? '' : `${dayOf(now)}${hash}`;
}

/** The last day that was asked for: it is the same for all rows of a transaction. */
let known = { now: instant(0), day: '000' };

function dayOf(now: Instant): string {
  if (known.now !== now) {
    const day = Math.floor(Date.parse(now) / dayMs).toString(36);
    known = { now, day: day.padStart(dayChars, '0') };
  }
  return known.day;
}

/** The hash of the record that a row was stored from; empty: not known. */
export function recordHash(stored: string): string {
  return stored.slice(dayChars);
}

/** The row was stored from this record. */
export function hasHash({ hash }: Hashed, record: Hashed): boolean {
  return record.hash !== '' && hash.length === dayChars + record.hash.length && hash.endsWith(record.hash);
}

/**
 * Whether a row takes over the hash of another record with the same values: once a day, because some services never
 * spell a record the same.
 */
export function takesHash({ hash }: Hashed, record: Hashed, now: Instant) {
  return record.hash !== '' && !hasHash({ hash }, record) && !hash.startsWith(dayOf(now));
}

export interface MetRecord {
  readonly kind: 'updated' | 'duplicate' | 'unchanged';
  /** Whether the row is written, which also revives a tombstoned one. */
  readonly isWritten: boolean;
}

/** Only a part of the record came, and no row holds the rest: it cannot be stored. */
export function isNothingStored(
  { partial }: Pick<PreparedRecord, 'partial'>,
  stored: Pick<StoredRow, 'deletedAt'> | undefined,
): boolean {
  return partial !== undefined && (stored === undefined || stored.deletedAt !== null);
}

/** Way in which records are shown to the store. */
export interface Showing {
  /** Exploded rows: stored rows are never replaced. */
  readonly isInsertOnly: boolean;
}

/**
 * Classifies a record with a stored key, in this order: updated (another content, or tombstoned), duplicate (`wasSeen`
 * by this chain) or unchanged. The last two are written only for stale volatile fields; a record that came
 * in part is one of them, and is never written. `isInsertOnly` (exploded): stored rows are never replaced.
 */
export function classifyMet(
  { changedAt, deletedAt }: Pick<StoredRow, 'changedAt' | 'deletedAt'>,
  record: Pick<PreparedRecord, 'partial'>,
  meeting: Showing & {
    /** From the row. */
    readonly difference: ContentDifference;
    readonly wasSeen: boolean;
    readonly staleBefore: Instant;
  },
): MetRecord {
  const { difference, isInsertOnly, wasSeen } = meeting;
  if (record.partial !== undefined) return { kind: wasSeen ? 'duplicate' : 'unchanged', isWritten: false };
  const isDifferent = difference === 'content' && !isInsertOnly;
  if (isDifferent || deletedAt !== null) return { kind: 'updated', isWritten: true };
  const hasVolatileChange = difference === 'volatile' && !isInsertOnly;
  return {
    kind: wasSeen ? 'duplicate' : 'unchanged',
    isWritten: hasVolatileChange && changedAt <= meeting.staleBefore,
  };
}

/** A row that differs only in volatile fields is written again when it was last written at or before this. */
export function staleBefore(nowMs: number): Instant {
  return instant(nowMs - dayMs);
}

/** Records that were prepared for another plan than the run's. */
export function misfitError(entity: EntityName, why: string): SyncError {
  return new SyncError(
    `Records of "${entity}" were not prepared for this run's plan: ${why}. This is a defect: report it with the run's log.`,
    { code: 'INTERNAL', recovery: 'stop', context: { entity } },
  );
}

/** Changed rows that a run remembers at most. */
const mostChanged = 10_000;

/** A row changed by listings other than its owner. */
interface ChangedElsewhere {
  readonly owner: number;
  /** Hash of the row before the change. */
  readonly hash: string;
  /** The listings that have changed it. */
  readonly by: Set<number>;
  /** This chain had met it in its owner. */
  readonly wasMet: boolean;
}

/**
 * Rows that several listings have changed in one run, kept only in memory because the next run finds them again. A
 * record may have moved to the second listing, or changed between the two reads: the listings collide only if the first
 * one shows the same content again as before.
 */
export type Collisions = ReturnType<typeof openCollisions>;

export function openCollisions() {
  const byEntity = new Map<EntityName, Map<number, ChangedElsewhere>>();
  let count = 0;
  return {
    byEntity,
    /** Entities with a proven collision of two listings. */
    found: new Set<EntityName>(),
    /** Doubts of the colliding listings, by partition. */
    doubts: new Map<number, Doubt>(),
    /** Owners that were read again for this. */
    readAgain: new Set<number>(),
    /** `by`, which does not own the row, has changed it. */
    changed: (
      entity: EntityName,
      { row, hash, owner, by, wasMet }: StoredRow & { readonly by: number; readonly wasMet: boolean },
    ): void => {
      if (owner === null || count >= mostChanged) return;
      count += 1;
      const rows = knownOrMade(byEntity, entity, () => new Map<number, ChangedElsewhere>());
      knownOrMade(rows, row, () => ({ owner, hash, by: new Set(), wasMet })).by.add(by);
    },
  };
}
