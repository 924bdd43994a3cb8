import type { Instant } from '../core/clock.ts';
import type { ConnectorName } from '../core/names.ts';

/** What a worker reads from the ledgers of its sinks; each call reads the current state. */
export interface WorkerLedger {
  pause(connector: ConnectorName): Promise<{ readonly since: Instant; readonly reason: string } | null>;
  /** The paused connectors of a sink, by its name. */
  paused(sink: string): Promise<ReadonlySet<ConnectorName>>;
  /** The newest sync; runs of other kinds do not replace a scheduled sync. */
  lastRun(connector: ConnectorName): Promise<LastRun | null>;
  /**
   * The earliest time at which one of its entities exceeds its `freshWithin`, in milliseconds; far in the past if one was never
   * read. Null: no entity has such a limit.
   */
  freshUntil(connector: ConnectorName): Promise<number | null>;
  /** Why a sink is no longer at its place, for the log; null while it is. */
  lost(sink: string): Promise<string | null>;
}

export interface LastRun {
  readonly startedAt: Instant;
  /** A run's outcome, or `running`. */
  readonly state: string;
}

/** True if the last run replaces the one due at `dueMs`: it started no earlier and ended `ok` or `degraded`. */
export function isMadeUpFor(dueMs: number, last: LastRun | null): boolean {
  if (last === null || Date.parse(last.startedAt) < dueMs) return false;
  return last.state === 'ok' || last.state === 'degraded';
}
