import type { ErrorCode, Recovery } from './errors.ts';
import type { ConnectorName, EntityName, RunId } from './names.ts';
import type { PageCounts, Params } from './records.ts';

interface OfEntity {
  readonly entity: EntityName;
}

interface OfListing extends OfEntity {
  readonly params: Params;
}

interface Failed {
  readonly code: ErrorCode;
  /** The failure, without any secret. */
  readonly message: string;
}

/** Events of a run. Telemetry turns them into log lines, progress and metrics; no other code prints. */
export type RunEvent =
  | {
      readonly kind: 'run-started';
      readonly connector: ConnectorName;
      readonly run: RunId;
      readonly continues: RunId | null;
      readonly due: number;
    }
  /** `isIncremental`: only what changed is asked for. */
  | ({
      readonly kind: 'walk-started';
      readonly isIncremental: boolean;
      readonly resumed: boolean;
    } & OfListing)
  | ({ readonly kind: 'page-requested' } & OfListing)
  | ({
      readonly kind: 'page-fetched';
      readonly records: number;
      readonly bytes: number;
      readonly ms: number;
    } & OfEntity)
  /** The service says how many records a root listing has; so many of them are still to be read. For people. */
  | ({ readonly kind: 'listing-counted'; readonly records: number } & OfListing)
  | ({
      readonly kind: 'page-committed';
      readonly counts: PageCounts;
      readonly newlyDue: number;
      /** The bytes that `page-fetched` counted for the page; 0 for entities made of its elements. */
      readonly bytes: number;
    } & OfListing)
  /**
   * A page was fetched but will not be stored because the run ends. Fetched - committed - dropped bytes are in flight.
   */
  | ({ readonly kind: 'page-dropped'; readonly bytes: number } & OfEntity)
  | ({ readonly kind: 'walk-restarted'; readonly why: string } & OfListing)
  | ({ readonly kind: 'walk-sealed'; readonly proof: string } & OfListing)
  /**
   * At the end of a run: listings of the entity may have records that they did not show, one of them for this reason.
   */
  | {
      readonly kind: 'part-missing';
      readonly entity: EntityName;
      readonly listings: number;
      readonly doubt: {
        readonly kind: string;
        readonly total?: number;
        readonly shown?: number;
        readonly by?: string;
        readonly guesses?: readonly string[];
      };
      /** Number of consecutive runs that found the same. */
      readonly runs: number;
    }
  | ({ readonly kind: 'walk-set-aside' } & OfListing & Failed)
  /**
   * One attempt was sent and ended with an answer, a lost connection or a timeout. Not sent for an attempt that its
   * caller aborted.
   */
  | {
      readonly kind: 'call-ended';
      /** Null for calls about tokens and the catalog. */
      readonly entity: EntityName | null;
      /** A failure's class; `refresh-auth`: the token was refused, and another one is worth a try. */
      readonly answer: 'ok' | Recovery | 'refresh-auth';
      /** Time from sending until the answer was read. */
      readonly ms: number;
      /** Time that the attempt waited for concurrency, rate and pauses before it was sent. */
      readonly waitedMs: number;
    }
  | ({
      readonly kind: 'call-retried';
      /** Null for calls about tokens and the catalog. */
      readonly entity: EntityName | null;
      /** Number of the failed attempt, from 1. */
      readonly attempt: number;
      /** Highest number of attempts. */
      readonly attempts: number;
      readonly waitMs: number;
    } & Failed)
  /** The API states another rate than the connector type, and no setting stands against it. */
  | { readonly kind: 'rate-stated'; readonly requestsPerSecond: number }
  /** The API's rate limit refused a call: no call starts for `waitMs`. */
  | { readonly kind: 'throttled'; readonly waitMs: number }
  /** The sink's server cannot be written to. It is tried again for `leftMs`, then the run fails. */
  | { readonly kind: 'sink-away'; readonly message: string; readonly leftMs: number }
  | { readonly kind: 'sink-back' }
  /** The run is the first in a new sink. */
  | { readonly kind: 'sink-made'; readonly sink: string; readonly place: string }
  /** All walks have ended; the search for deleted rows starts. */
  | { readonly kind: 'sweep-started' }
  /** A missing row was requested with `get`. `unanswered`: a later run asks again. */
  | ({ readonly kind: 'record-confirmed'; readonly verdict: 'gone' | 'there' | 'unanswered' } & OfEntity)
  | ({ readonly kind: 'rows-deleted'; readonly rows: number } & OfEntity)
  /** A guard withholds deletes: a person must decide. */
  | {
      readonly kind: 'deletes-withheld';
      readonly entity: EntityName;
      readonly rows: number;
      /** Rows without a tombstone, those among them. */
      readonly live: number;
      readonly because: 'share' | 'along' | 'empty' | 'replaced' | 'adopted';
    }
  /** More is older than it is to be kept than a guard lets go at once: a person must decide. */
  | {
      readonly kind: 'retention-withheld';
      readonly entity: EntityName;
      readonly what: 'rows' | 'files' | 'versions';
      readonly count: number;
      /** Total number. */
      readonly of: number;
    }
  /** Walks and sweep have ended; this many files are missing and are fetched now. */
  | { readonly kind: 'files-started'; readonly files: number }
  /** A complete file is in its folder. */
  | ({ readonly kind: 'file-stored'; readonly bytes: number; readonly ms: number } & OfEntity)
  /** A file could not be fetched; a later run asks again. */
  | ({ readonly kind: 'file-set-aside' } & OfEntity & Failed)
  | {
      readonly kind: 'run-finished';
      readonly connector: ConnectorName;
      readonly run: RunId;
      readonly outcome: string;
      readonly ms: number;
      /** Calls wait in parallel, so this may exceed `ms`. */
      readonly waitedMs: number;
    };

export type OnRunEvent = (event: RunEvent) => void;

/** Calls the handler of an event's kind, if there is one. */
export function handledBy<Rest extends readonly unknown[] = [], Result = void>(handlers: {
  readonly [Kind in RunEvent['kind']]?: (
    event: Extract<RunEvent, { readonly kind: Kind }>,
    ...rest: Rest
  ) => Result;
}): (event: RunEvent, ...rest: Rest) => Result | undefined {
  return (event, ...rest) => {
    // `as`: a handler takes the events of its kind.
    const handler = handlers[event.kind] as ((event: RunEvent, ...rest: Rest) => Result) | undefined;
    return handler?.(event, ...rest);
  };
}

/** Event that a worker reports to its observer, which must not throw. */
export type WorkerEvent =
  /** A run starts; `lagMs` is the time since it was due or, without a due time, since it was queued. */
  | {
      readonly kind: 'job-started';
      readonly connector: ConnectorName;
      readonly reason: 'schedule' | 'manual' | 'catch-up' | 'backfill';
      readonly lagMs: number;
    }
  /** A job has been processed, even if it started no run. */
  | { readonly kind: 'job-ended'; readonly connector: ConnectorName; readonly end: JobEnd }
  /** The same of a job that publishes. */
  | { readonly kind: 'publication-ended'; readonly target: string; readonly end: JobEnd }
  | { readonly kind: 'redis-error'; readonly code: string }
  | { readonly kind: 'tick'; readonly connector: ConnectorName };

export const jobEnds = [
  'done',
  'retry',
  'given-back',
  'delayed',
  'busy',
  'paused',
  'failed',
  'poison',
  'unknown',
] as const;

export type JobEnd = (typeof jobEnds)[number];

/** Jobs in the queue of a sink. */
export interface SinkDepth {
  readonly sink: string;
  readonly waiting: number;
  readonly delayed: number;
  readonly active: number;
  readonly failed: number;
}
