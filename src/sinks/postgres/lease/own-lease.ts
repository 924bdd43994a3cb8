import type { SyncError } from '../../../core/errors.ts';
import type { ConnectorName } from '../../../core/names.ts';
import { lostCommitsError, overtakenError, releasedError } from '../../acquire-errors.ts';
import type { Holder } from '../../lease.ts';
import type { LastTokens } from '../stored-token.ts';
import type { LeaseSession } from './lease-session.ts';

/** What this process knows of a lease that it has. */
export interface OwnLease {
  readonly connector: ConnectorName;
  readonly holder: Holder;
  /** Null while it is being taken. */
  epoch: number | null;
  lockedIn: LeaseSession | null;
  /** By the clock of this process: a moment at which the lease was as long as it can be. */
  renewedMs: number;
  readonly tokens: LastTokens;
  isOvertaken: boolean;
  /** The server has lost commits of this holder. */
  hasLost: boolean;
  isReleased: boolean;
}

/** Why the lease may not be used; null: it may. */
export function refusalOf(lease: OwnLease): SyncError | null {
  if (lease.isReleased) return releasedError(lease.connector);
  return lease.isOvertaken || lease.hasLost ? overtakenOf(lease) : null;
}

export function overtakenOf({ connector, epoch, hasLost }: OwnLease): SyncError {
  return hasLost ? lostCommitsError(connector) : overtakenError({ connector, epoch: epoch ?? 0 });
}
