import type { ErrorCode, Recovery } from './errors.ts';
import type { ConnectorName, EntityName, RunId } from './names.ts';
import type { PageCounts, Params } from './records.ts';

/** What working code says about itself. Telemetry turns it into log lines, progress and metrics; nobody else prints. */
export type RunEvent =
  | {
      readonly kind: 'run-started';
      readonly connector: ConnectorName;
      readonly run: RunId;
      readonly continues: RunId | null;
      readonly due: number;
    }
  | {
      readonly kind: 'walk-started';
      readonly entity: EntityName;
      readonly params: Params;
      /** Only what changed is asked for. */
      readonly isIncremental: boolean;
      readonly resumed: boolean;
    }
  | { readonly kind: 'page-requested'; readonly entity: EntityName; readonly params: Params }
  | {
      readonly kind: 'page-fetched';
      readonly entity: EntityName;
      readonly records: number;
      readonly bytes: number;
      readonly ms: number;
    }
  | { readonly kind: 'commit-started'; readonly pages: number; readonly records: number }
  | {
      readonly kind: 'page-committed';
      readonly entity: EntityName;
      readonly counts: PageCounts;
      readonly newlyDue: number;
      /** What `page-fetched` counted for the page; 0 for entities made of its elements. */
      readonly bytes: number;
    }
  /** A page was fetched and will not be stored: the run ends first. Fetched - committed - dropped bytes are in flight. */
  | { readonly kind: 'page-dropped'; readonly entity: EntityName; readonly bytes: number }
  | { readonly kind: 'commit-finished'; readonly pages: number; readonly ms: number }
  | {
      readonly kind: 'walk-restarted';
      readonly entity: EntityName;
      readonly params: Params;
      readonly why: string;
    }
  | {
      readonly kind: 'walk-sealed';
      readonly entity: EntityName;
      readonly params: Params;
      readonly proof: string;
    }
  | {
      readonly kind: 'walk-set-aside';
      readonly entity: EntityName;
      readonly params: Params;
      readonly code: ErrorCode;
      readonly message: string;
    }
  /** One attempt has been on the wire and was answered, cut or given up for its limits; not one broken off by its caller. */
  | {
      readonly kind: 'call-ended';
      /** Null for calls about tokens and the catalog. */
      readonly entity: EntityName | null;
      /** A failure's class; `refresh-auth`: the token was refused, and another one is worth a try. */
      readonly answer: 'ok' | Recovery | 'refresh-auth';
      /** From sending until the answer was read. */
      readonly ms: number;
      /** For concurrency, rate and pauses, before that. */
      readonly waitedMs: number;
    }
  | {
      readonly kind: 'call-retried';
      /** Null for calls about tokens and the catalog. */
      readonly entity: EntityName | null;
      readonly code: ErrorCode;
      /** The one that failed, from 1. */
      readonly attempt: number;
      /** How many there are at most. */
      readonly attempts: number;
      readonly waitMs: number;
    }
  /** The service's rate limit refused a call: none starts for `waitMs`. */
  | { readonly kind: 'throttled'; readonly waitMs: number }
  /** Every walk has ended: what full ones did not meet is looked at now. */
  | { readonly kind: 'sweep-started' }
  /** A row that seems to be gone was asked for. `unanswered`: it is asked again in a later run. */
  | {
      readonly kind: 'record-confirmed';
      readonly entity: EntityName;
      readonly verdict: 'gone' | 'there' | 'unanswered';
    }
  | { readonly kind: 'rows-deleted'; readonly entity: EntityName; readonly rows: number }
  /** A guard keeps rows that seem to be gone: somebody must look. */
  | {
      readonly kind: 'deletes-withheld';
      readonly entity: EntityName;
      readonly rows: number;
      /** Rows without a tombstone, those among them. */
      readonly live: number;
      readonly because: 'share' | 'along' | 'empty' | 'replaced' | 'adopted';
    }
  /** Walks and sweep are over: so many files are wanted and not stored, and are fetched now. */
  | { readonly kind: 'files-started'; readonly files: number }
  /** A file lies in its folder, whole. */
  | {
      readonly kind: 'file-stored';
      readonly entity: EntityName;
      readonly bytes: number;
      readonly ms: number;
    }
  /** A file did not come; a later run asks again. */
  | {
      readonly kind: 'file-set-aside';
      readonly entity: EntityName;
      readonly code: ErrorCode;
      readonly message: string;
    }
  | {
      readonly kind: 'run-finished';
      readonly connector: ConnectorName;
      readonly run: RunId;
      readonly outcome: string;
      readonly ms: number;
      /** Calls wait beside each other, so this may be more than `ms`. */
      readonly waitedMs: number;
    };

export type OnRunEvent = (event: RunEvent) => void;
