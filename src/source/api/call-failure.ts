import { SyncError } from '../../core/errors.ts';
import type { EntityName } from '../../core/names.ts';
import type { ErrorPattern } from '../../definitions/definition.ts';

/** Whether and how one failed attempt may be followed by another within the same call. */
export interface RetryRule {
  /** Failures of one reason are counted together. */
  readonly reason: 'failure' | 'reset' | 'name' | 'throttle' | 'bare-403' | 'token' | 'file';
  /** Attempts that may follow a failure of this reason; the call's own limit holds as well. */
  readonly most: number;
  /**
   * `at-once-first`: the first one does not wait, later ones back off. `throttle`: the whole budget pauses, as the
   * service asked with a 429 or with `Retry-After`.
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

/**
 * Facts of a call that is not about records in pages, as far as `more` does not say otherwise. `label`: for messages.
 */
export function callFacts(
  purpose: CallFacts['purpose'],
  label: string,
  more: Partial<CallFacts> = {},
): CallFacts {
  const none = { entity: null, isRoot: false, canShrink: false, hasPageToken: false, patterns: [] };
  return { ...none, ...more, purpose, label };
}

/** Advice after a write with an unknown outcome. */
export const mayBeDone = 'it may have taken effect: check before you repeat it';

/** Failures before a byte of the request was sent. */
const unsent = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT']);
/** The service refuses these before it does anything. */
const refused = new Set<RetryRule['reason']>(['throttle', 'bare-403', 'token']);

/**
 * The failure of a call that changes something: it keeps its retry only where nothing can have been done, because a
 * second one would make a second connector. Other errors are as they came.
 */
export function onceOnly(failure: unknown): unknown {
  if (!(failure instanceof CallFailure) || failure.retry === null) return failure;
  const { error, retry } = failure;
  if (refused.has(retry.reason) || unsent.has(String(error.context['cause']))) return failure;
  // An answer's own words end with the advice already.
  const message = 'status' in error.context ? error.message : `${error.message}; ${mayBeDone}`;
  const { code, context } = error;
  return new CallFailure(new SyncError(message, { code, recovery: 'stop', context, cause: error }), null);
}
