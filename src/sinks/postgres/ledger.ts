import type { Clock, Instant } from '../../core/clock.ts';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import type { ChainReading } from '../decisions/becoming-due.ts';
import type { RunPlan } from '../sink.ts';
import type { RecordTable } from './records/record-table.ts';
import type { SeenRows } from './records/seen-rows.ts';
import type { Server } from './server.ts';
import type { Tx } from './session.ts';
import type { Stamp } from './stamp.ts';

/** An open sink: its server and the schema that it lies in. */
export interface Ledger {
  readonly server: Server;
  /** The sink's schema, quoted, with the point behind it: `${at}_sync_runs`. Every name in a statement has it. */
  readonly at: string;
  readonly clock: Clock;
  readonly sinkId: string;
}

/** A connector that this process holds. */
export interface HeldConnector {
  readonly connector: ConnectorName;
  readonly epoch: number;
  readonly definitionHash: string;
  run: CurrentRun | null;
  /** One transaction of a lease at a time: what it knows in memory is that of the last one. */
  readonly inTurn: <Result>(work: () => Promise<Result>) => Promise<Result>;
  /**
   * Throws `SyncError` FENCED once the lease has been given back or overtaken. One that could not be renewed for so long that another may have
   * it is renewed first.
   */
  readonly checkLease: () => Promise<void>;
  /** Gives the lease back; idempotent. */
  readonly release: () => Promise<void>;
}

/** The run that a lease is in, and what it has from its plan. */
export interface CurrentRun extends Pick<
  RunPlan,
  'run' | 'kind' | 'window' | 'backfill' | 'keepPartitionsSince'
> {
  /** Number of the first run of its chain. */
  readonly origin: number;
  /** When that one began. */
  readonly chainStartedAt: Instant;
  /** Everything is read in full. */
  readonly isFull: boolean;
  /** What was not read for longest goes first. */
  readonly isStalestFirst: boolean;
  /** Of the entities that it reads. */
  readonly reading: ReadonlyMap<EntityName, ChainReading>;
  readonly entities: ReadonlySet<EntityName>;
  /** Entities whose rows are never deleted. */
  readonly keeps: ReadonlySet<EntityName>;
  readonly tables: ReadonlyMap<EntityName, PlannedTable>;
  readonly seen: SeenRows;
  /** The shortest page that was followed by more, by entity and requested size: of this process. */
  readonly followed: Map<string, number>;
}

export interface PlannedTable {
  readonly table: RecordTable;
  /** Columns of the plan's table: what every record must have been prepared for. */
  readonly width: number;
}

/** What every step of a lease's transaction works with. */
export interface Commit {
  readonly ledger: Ledger;
  readonly held: HeldConnector;
  readonly current: CurrentRun;
  readonly tx: Tx;
  readonly stamp: Stamp;
}
