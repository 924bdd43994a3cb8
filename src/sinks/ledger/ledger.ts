import type { Clock } from '../../core/clock.ts';
import type { ConnectorName, EntityName, RunId } from '../../core/names.ts';
import type { TransactHow, Tx } from '../../sql/database.ts';
import type { DriftMemory } from '../decisions/drift-columns.ts';
import type { Collisions } from '../decisions/meet-record.ts';
import type { RunInChain } from './runs/run-chains.ts';
import type { Lease } from '../lease.ts';
import type { LedgerDriver, Taken, PlannedTable, Stamp } from './driver.ts';
import type { SeenRows } from './row-blocks.ts';
import type { Withholding } from './purges/purge-notes.ts';

/** Run id of transactions outside a run. They write no records, so no record carries it. */
const noRun = '' as RunId;

/** An open sink. */
export interface Ledger extends LedgerDriver {
  readonly clock: Clock;
  /** User in whose name the process acts: `OpenHow.who`. */
  readonly who: string;
}

/** A connector that this process holds, and the run that it is in. */
export interface HeldConnector extends Taken {
  readonly definitionHash: string;
  run: CurrentRun | null;
}

export interface CurrentRun extends RunInChain {
  readonly tables: ReadonlyMap<EntityName, PlannedTable>;
  readonly seen: SeenRows;
  readonly collisions: Collisions;
  /** Drift of the entities in which this run has met some. */
  readonly drift: Map<EntityName, DriftMemory>;
  /** Null: nothing of the connector was purged. */
  readonly purged: Withholding | null;
}

/** One transaction of a holder that is in no run. */
export async function outsideRun<Result>(
  taken: Taken,
  work: (tx: Tx) => Promise<Result>,
  how: Pick<TransactHow, 'isLong'> = long,
): Promise<Result> {
  return await taken.inTurn(async () => await taken.transact(noRun, work, how));
}

/** Context of every step in a holder's transaction. */
export interface Commit {
  readonly ledger: Ledger;
  readonly connector: ConnectorName;
  readonly current: CurrentRun;
  readonly tx: Tx;
  readonly stamp: Stamp;
}

/** Makes a call of a lease in its run: `work` is one transaction of the holder (`inRun` of `ledger-sink.ts`). */
export type InLease = <Given extends readonly unknown[], Result>(
  work: (commit: Commit, ...given: Given) => Promise<Result>,
  how?: Pick<TransactHow, 'isLong'>,
) => (lease: Lease, run: RunId, ...given: Given) => Promise<Result>;

/** Options of a transaction that may read all missing rows, or all partitions. */
export const long = { isLong: true } as const;
