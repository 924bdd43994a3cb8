import type { Clock } from '../../core/clock.ts';
import type { SyncError } from '../../core/errors.ts';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import type { RunInChain } from '../decisions/resume-run.ts';
import type { RecordTable } from './record-table.ts';
import type { SeenRows } from './seen-rows.ts';
import type { Server } from '../../sql/postgres/server.ts';
import type { Tx } from '../../sql/postgres/session.ts';
import type { Stamp } from './stamp.ts';
import type { LastTokens } from '../postgres/stored-token.ts';

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
  /** Of its commits; changed only in its turn. */
  readonly tokens: LastTokens;
  /** Why it has no right to write any more. */
  readonly overtaken: () => SyncError;
  /** Gives the lease back; idempotent. */
  readonly release: () => Promise<void>;
}

export interface CurrentRun extends RunInChain {
  readonly tables: ReadonlyMap<EntityName, PlannedTable>;
  readonly seen: SeenRows;
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
