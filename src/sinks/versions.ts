import type { RunId } from '../core/names.ts';
import type { Lease } from './lease.ts';

/** What rows held before they changed. */
export interface Versions {
  /**
   * Deletes up to `limit` versions that ended longer ago than their entity keeps them, the oldest ones first. Gives how
   * many; 0: there are no more.
   */
  prune(lease: Lease, run: RunId, limit: number): Promise<number>;
}

export interface VersionSettings {
  /** How long a version is kept after it ended; null: for ever. */
  readonly keepMs: number | null;
}
