import type { ErrorCode } from './core/errors.ts';

/** What `openApp` needs. */
export interface OpenOptions {
  /** Path of a config file; or what one would hold, as an object, with relative paths from the working directory. */
  readonly config: string | object;
  /** What `${VARIABLE}` in the config stands for; `process.env` by default. No `.env` file is read. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/** A checked config. It holds nothing open: there is nothing to close. */
export interface App {
  /** The names of the config's connectors. */
  readonly connectors: readonly string[];
}

export interface SyncOptions {
  /** Names from the config; all of them by default. */
  readonly connectors?: readonly string[];
  /** Read everything from the start, which also finds what was deleted. */
  readonly full?: boolean;
  readonly signal?: AbortSignal;
  /** Called often, and never after `sync` has settled. It must not throw. */
  readonly onProgress?: (progress: Progress) => void;
}

export type Progress =
  /** A page is stored: `read` records came, `written` of them were new or had changed. */
  | {
      readonly kind: 'stored';
      readonly connector: string;
      readonly entity: string;
      readonly read: number;
      readonly written: number;
    }
  /** The API's rate limit: no call is made for `waitMs` milliseconds. */
  | { readonly kind: 'waiting'; readonly connector: string; readonly waitMs: number }
  /** Attempt `attempt` (from 1) of `attempts` failed; the next one is made after `waitMs` milliseconds. */
  | {
      readonly kind: 'retrying';
      readonly connector: string;
      readonly code: ErrorCode;
      readonly attempt: number;
      readonly attempts: number;
      readonly waitMs: number;
    };

export interface SyncResult {
  readonly connector: string;
  /** Null: no run could begin, and `error` says why. */
  readonly run: string | null;
  /**
   * `ok`: everything was read. `partial`: the API asked to wait until `resumeAt`. `degraded`: parts could not be read.
   * `failed`: see `error`. `interrupted`: `signal` was aborted, or the run was cancelled. What was stored is kept in
   * every case.
   */
  readonly outcome: 'ok' | 'partial' | 'degraded' | 'failed' | 'interrupted';
  readonly calls: number;
  /** ISO 8601, UTC. */
  readonly resumeAt: string | null;
  readonly error: { readonly code: ErrorCode; readonly message: string } | null;
  readonly entities: readonly {
    readonly entity: string;
    readonly read: number;
    readonly written: number;
    /** Rows that are marked as deleted now. */
    readonly deleted: number;
    /** Rows that look deleted and are kept, because there are more of them than the config's guards let pass. */
    readonly withheld: number;
    /** Listings that may have records which the API did not show: it counts more, or sent its last page again. */
    readonly unproven: number;
  }[];
}

export interface ChangesOptions {
  /** The `nextSeq` of the last time; 0, the default, for everything. */
  readonly since?: number;
  /** Aborting it ends the iteration with the signal's reason. */
  readonly signal?: AbortSignal;
}

/**
 * Iterate over it to get each changed record once, in the order of `seq`. Store `nextSeq` when all of them are stored,
 * in the same transaction where there is one.
 */
export interface Changes extends AsyncIterable<Change>, AsyncDisposable {
  /** Random id made with the sink; null: there is none yet. Another one than the last time: start again from 0. */
  readonly sink: string | null;
  /** What to give as `since` the next time. */
  readonly nextSeq: number;
  /** What changed at the service before this time (ISO 8601, UTC) is in; null: the entity was never read completely. */
  readonly asOf: string | null;
  /** The same for every entity of the connector. */
  readonly entities: readonly { readonly entity: string; readonly asOf: string | null }[];
}

export interface Change {
  /** `delete`: `record` has the key's fields alone. */
  readonly kind: 'upsert' | 'delete';
  readonly seq: number;
  /** ISO 8601, UTC. */
  readonly changedAt: string;
  /**
   * As a line of `connector-sync export`, with `_seq`, `_op` and what has no column in `_extra`. Integers beyond 2^53
   * lose digits.
   */
  readonly record: Readonly<Record<string, unknown>>;
}

export interface ConnectorStatus {
  readonly connector: string;
  /** Null: it was never synced. Times are ISO 8601, UTC. */
  readonly lastRun: {
    readonly run: string;
    readonly state: SyncResult['outcome'] | 'running';
    readonly startedAt: string;
    readonly finishedAt: string | null;
  } | null;
  readonly entities: readonly {
    readonly entity: string;
    /** Without deleted ones. */
    readonly rows: number;
    readonly deleted: number;
    /** Rows that look deleted and are kept until that is certain. */
    readonly missing: number;
    /** Listings that the next sync reads. */
    readonly due: number;
    /** Records that could not be stored as they are, and are kept whole. */
    readonly quarantined: number;
    /** Listings that may have records which the API did not show when they were read last. */
    readonly unproven: number;
  }[];
}
