import type { ConnectorName } from '../core/names.ts';
import type { EntityTable } from '../core/records.ts';

export interface KeyAndHash {
  /** As `PreparedRecord.keyText` has it. */
  readonly keyText: string;
  readonly hash: string;
}

/** The keys of what is stored, read only, in one state of the sink whoever writes meanwhile. */
export interface KeyReader extends Disposable {
  /**
   * Every row without a tombstone, one at a time, in no order that means anything; nothing where nothing was ever stored. Throws
   * `SyncError` SINK_FAILED, and SINK_INCOMPATIBLE where the rows have another key.
   */
  keys(connector: ConnectorName, table: EntityTable): Iterable<KeyAndHash>;
}
