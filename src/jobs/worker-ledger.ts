import type { Instant } from '../core/clock.ts';
import type { ConnectorName } from '../core/names.ts';

/** What a worker asks of the ledgers of its sinks; each question is answered with what is stored at that moment. */
export interface WorkerLedger {
  pause(connector: ConnectorName): Promise<{ readonly since: Instant; readonly reason: string } | null>;
  /** The paused connectors of a sink, by its name. */
  paused(sink: string): Promise<ReadonlySet<ConnectorName>>;
  /** The newest sync; runs of other kinds make up for none that was due. */
  lastRun(connector: ConnectorName): Promise<LastRun | null>;
  /**
   * When the first of its entities is older than its `freshWithin`, in milliseconds; long ago where one was never read. Null: no
   * entity has such a limit.
   */
  freshUntil(connector: ConnectorName): Promise<number | null>;
  /** What is wrong at a sink's place when the sink is not there any more, for the log; null while it is there. */
  lost(sink: string): Promise<string | null>;
}

export interface LastRun {
  readonly startedAt: Instant;
  /** A run's outcome, or `running`. */
  readonly state: string;
}

/** True when a run that was due then has been made: started no earlier, and come to an end that needs no other run. */
export function isMadeUpFor(dueMs: number, last: LastRun | null): boolean {
  if (last === null || Date.parse(last.startedAt) < dueMs) return false;
  return last.state === 'ok' || last.state === 'degraded';
}
