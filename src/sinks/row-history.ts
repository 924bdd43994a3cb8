import type { Instant } from '../core/clock.ts';
import type { EntityName, RunId } from '../core/names.ts';
import type { Partition, WalkFailure, WalkMode } from './partition.ts';

export interface MissingRow {
  readonly entity: EntityName;
  readonly keyText: string;
  readonly missingSince: Instant;
  /** Confirmation that its delete still needs: nothing (withheld by a guard), a `get`, another full walk. */
  readonly needs: 'nothing' | 'get' | 'walk';
  readonly missedWalks: number;
}

/** History of one row and of the partition that shows it. */
export interface RowHistory {
  readonly row: number;
  readonly firstSeenAt: Instant;
  readonly changedAt: Instant;
  readonly changedByRun: RunId;
  readonly deletedAt: Instant | null;
  readonly seq: number;
  readonly missing: MissingRow | null;
  /** Null: stored outside a walk. */
  readonly partition: PartitionHistory | null;
  /** The newest ones, newest first. Absent where versions of the entity's rows are not kept. */
  readonly versions?: readonly RowVersion[];
}

/** Content of a row from one change to the next. */
export interface RowVersion {
  /** Number of the change with which it began. */
  readonly seq: number;
  readonly validFrom: Instant;
  /** Null: it is the current one. */
  readonly validTo: Instant | null;
  readonly isDeleted: boolean;
  /** Fields in which it differs from the version before; null: none before it is kept. */
  readonly changed: readonly string[] | null;
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
