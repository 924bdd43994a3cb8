import type { Instant } from '../core/clock.ts';
import type { ErrorCode, Recovery } from '../core/errors.ts';
import type { OnRunEvent } from '../core/events.ts';
import type { ConnectorName, RunId } from '../core/names.ts';

/** How a run ended, as far as its job is concerned. */
export interface RunEnd {
  /** A run's outcome as reports name it: `ok`, `partial`, `degraded`, `failed`, `interrupted`. */
  readonly outcome: string;
  readonly run: RunId | null;
  readonly error: { readonly code: ErrorCode; readonly recovery: Recovery } | null;
  /** The service asked for quiet until then; the run ended early and goes on afterwards. */
  readonly resumeAt: Instant | null;
}

export interface RunRequest {
  /** Aborting it ends the run after a checkpoint with the outcome `interrupted`. */
  readonly signal: AbortSignal;
  readonly onEvent: OnRunEvent;
}

/** Runs one connector to its end. Rejects where no run could begin. */
export type RunConnector = (connector: ConnectorName, request: RunRequest) => Promise<RunEnd>;

export interface BackfillRequest extends RunRequest {
  /** Asked between windows: true when something else should run first, or nobody wants the backfill any more. */
  readonly shouldYield: () => Promise<boolean>;
}

/** Goes on with a backfill until it is done or should yield. Rejects where no run could begin. */
export type RunBackfill = (
  backfill: string,
  connector: ConnectorName,
  request: BackfillRequest,
) => Promise<RunEnd & { readonly isDone: boolean }>;
