import type { Instant } from '../core/clock.ts';
import type { ConnectorName, EntityName } from '../core/names.ts';
import type { EntityTable } from '../core/records.ts';
import type { ConnectorIdentity } from './lease.ts';

export type AdoptedIdentity = Pick<ConnectorIdentity, 'connector' | 'baseUrl' | 'connectorId' | 'definition'>;

export interface ResetScope {
  /** Null: the whole connector. */
  readonly entity: EntityName | null;
  /** The entity's tables as the definition declares them; empty where `entity` is null. */
  readonly tables: readonly EntityTable[];
  readonly withData: boolean;
  readonly now: Instant;
}

export interface ResetCounts {
  readonly partitions: number;
  /** Rows that were dropped; 0 without `withData`. */
  readonly rows: number;
}

/** A removal that was begun and is not complete. */
export interface UnfinishedRemoval {
  readonly connector: ConnectorName;
  readonly since: Instant;
  /** Rows at the beginning of the removal. */
  readonly rows: number;
}

export interface UndonePlace {
  readonly entity: EntityName;
  readonly after: number;
  readonly limit: number;
}

export interface UndoneRows {
  readonly deleted: number;
  readonly revived: number;
  readonly restored: number;
  /** Rows that the run has changed, without a version from before: the next run reads them again. */
  readonly kept: {
    readonly rows: number;
    /** Key texts, of the first ones. */
    readonly keys: readonly string[];
  };
  /** Number of the last row; null: no rows remain. */
  readonly next: number | null;
}
