import type { EntityName } from '../../core/names.ts';
import type { ErrorPattern } from '../../definitions/definition.ts';
import type { SyncError } from '../../core/errors.ts';

/** Whether and how one failed attempt may be followed by another within the same call. */
export interface RetryRule {
  /** Failures of one reason are counted together. */
  readonly reason: 'failure' | 'reset' | 'name' | 'throttle' | 'bare-403' | 'token' | 'file';
  /** Attempts that may follow a failure of this reason; the call's own limit holds as well. */
  readonly most: number;
  /**
   * `at-once-first`: the first one does not wait, later ones back off. `throttle`: the whole budget pauses, as the service asked
   * with a 429 or with `Retry-After`.
   */
  readonly wait: 'back-off' | 'at-once-first' | 'throttle';
  /** What the service asked for; null: nothing, so back off. */
  readonly afterMs: number | null;
}

/** One attempt that failed, classified. Stays inside the client: callers get `error` once no rule is left. */
export class CallFailure extends Error {
  override readonly name = 'CallFailure';
  readonly error: SyncError;
  readonly retry: RetryRule | null;

  constructor(error: SyncError, retry: RetryRule | null) {
    super(error.message);
    this.error = error;
    this.retry = retry;
  }
}

/** What the classifier must know about a call besides its answer. */
export interface CallFacts {
  readonly purpose: 'execute' | 'catalog' | 'token';
  /** For messages: `list list_members`, `find connectors`. */
  readonly label: string;
  readonly entity: EntityName | null;
  /** A root partition's 403 and 404 speak of the entity. */
  readonly isRoot: boolean;
  /** A smaller page can be asked for. */
  readonly canShrink: boolean;
  /** The call carried a page token, so the service may refuse it as expired. */
  readonly hasPageToken: boolean;
  readonly patterns: readonly ErrorPattern[];
  /** The call changes something at the service: it is sent again only where it cannot have been done. */
  readonly isWrite?: boolean;
}
