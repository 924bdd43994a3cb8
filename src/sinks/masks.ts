import type { Instant } from '../core/clock.ts';
import type { EntityName } from '../core/names.ts';

/** By which mask the records of an entity are stored. */
export interface PlannedMask {
  readonly entity: EntityName;
  /** Changes with its rules and its key. */
  readonly mask: string;
  /** Which key it is. */
  readonly keyId: string;
}

/** The mask of what is stored, and what may be stored from before it. */
export interface StoredMask {
  readonly entity: EntityName;
  /** Changes with its rules and its key. */
  readonly mask: string;
  readonly keyId: string;
  /** When the first run with it began. Null: nothing was stored before it. */
  readonly since: Instant | null;
  /** When the entity had been read whole with it; null: not yet. */
  readonly readAt: Instant | null;
  /** Deleted rows, whenever they were deleted: no read brings them again. */
  readonly deleted: number;
  /** Quarantined records from before it. */
  readonly quarantined: number;
}
