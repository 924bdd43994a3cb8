import type { Instant } from '../core/clock.ts';
import type { ConnectorName, EntityName, RunId } from '../core/names.ts';
import type { EntityTable, PageCounts, PreparedRecord } from '../core/records.ts';
import type { ConnectorIdentity, Holder, Lease } from './lease.ts';
import type { RowsOf } from './run-report.ts';

/** What a person does to a sink outside a sync. */
export interface Repair {
  /**
   * Forgets how far one entity (with what it is exploded into) or all of a connector has been read; with `withData` its
   * records too. Nothing else changes. Takes the lock, whatever the identity. Throws `ConnectorBusyError`, and USAGE
   * where there is nothing of that name.
   */
  reset(connector: ConnectorName, what: ResetScope): Promise<ResetCounts>;
  /**
   * From now on the connector stands for this address and connector id. Rows stay; no run is resumed, and none deletes
   * before a full run has agreed. Takes the lock. Throws `ConnectorBusyError`, USAGE where the sink holds nothing of
   * that name, `IdentityChangedError` for another connector type.
   */
  adopt(identity: AdoptedIdentity, now: Instant): Promise<void>;
  /**
   * Removes the connector with everything that is stored of it, but for what people did to it and the number of its
   * newest change. Holds it until it is disposed; one that ends early is resumed by the next, and until then the
   * connector cannot be used (`SyncError` REMOVAL_UNFINISHED). Throws `ConnectorBusyError`.
   */
  remove(connector: ConnectorName, holder: Holder): Promise<OpenRemoval>;
  /** Takes back up to `limit` tombstones that the run `of` has set; `isDone` when none remains. */
  undelete(lease: Lease, run: RunId, of: RunId, limit: number): Promise<UndeletedRows>;
  /**
   * Stores one record outside a walk, inside the lease's run. `isEdited`: the values of its row are not those of its
   * hash, so it is written in any case.
   */
  storeRecord(
    lease: Lease,
    run: RunId,
    entity: EntityName,
    record: PreparedRecord,
    isEdited?: boolean,
  ): Promise<PageCounts>;
  /** Tombstones the row of this key, if there is one; true when it was alive. */
  tombstoneRecord(lease: Lease, run: RunId, entity: EntityName, keyText: string): Promise<boolean>;
}

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

export interface OpenRemoval extends AsyncDisposable {
  /** A bounded part, in one transaction; gives how many rows that were. Null: only what `finish` removes remains. */
  dropSome(): Promise<number | null>;
  /** In one transaction: the connector is one that was never there. */
  finish(): Promise<void>;
}

/** A removal that was begun and is not complete. */
export interface UnfinishedRemoval {
  readonly connector: ConnectorName;
  readonly since: Instant;
  /** That it had when that began. */
  readonly rows: number;
}

export interface UndeletedRows {
  readonly rows: readonly RowsOf[];
  readonly isDone: boolean;
}
