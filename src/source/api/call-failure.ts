import {
  SyncError,
  ThrottledError,
  type ErrorCode,
  type ErrorContext,
  type Recovery,
} from '../../core/errors.ts';
import type { EntityName } from '../../core/names.ts';
import { hiddenWords } from '../../core/record-mask.ts';
import type { Definition, ErrorPattern } from '../../definitions/definition.ts';

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

/** An error that ends the run. `of`: the one that it replaces, whose context it keeps. */
export function stopError(code: ErrorCode, message: string, of: SyncError | null = null): SyncError {
  const kept = of === null ? {} : { context: of.context, cause: of };
  return new SyncError(message, { code, recovery: 'stop', ...kept });
}

/** The service's own words, as an error may show them. */
export function shownWords({ isMasked = false }: Pick<CallFacts, 'isMasked'>, words: string): string {
  return isMasked && words !== '' ? hiddenWords : words;
}

/** What the classifier must know about a call besides its answer. */
export interface CallFacts {
  readonly purpose: 'execute' | 'catalog' | 'token';
  /** For messages: `list list_members`, `find connectors`. */
  readonly label: string;
  readonly entity: EntityName | null;
  /** A root partition's 403 and 404 speak of the entity. */
  readonly isRoot: boolean;
  /** Records of the entity are masked: the words of the service, which may quote values of them, are not shown. */
  readonly isMasked?: boolean;
  /** A smaller page can be asked for. */
  readonly canShrink: boolean;
  /** The page may lie behind the last one, where some services answer with 500: that is an answer. */
  readonly isLook?: boolean;
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

/** Facts of a call about an entity's records or files: of a masked one the service's words are hidden. */
export function entityFacts(
  { entities, errors }: Pick<Definition, 'entities' | 'errors'>,
  action: string,
  entity: EntityName,
  more: Partial<CallFacts> = {},
): CallFacts {
  const isMasked = (entities.get(entity)?.mask ?? null) !== null;
  const about = { entity, patterns: errors, ...(isMasked ? { isMasked } : {}) };
  return callFacts('execute', `${action} ${entity}`, { ...about, ...more });
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
  return new CallFailure(stopError(error.code, message, error), null);
}

/** A throttle that names no time and outlasted every attempt: when to come back. */
const longThrottleMs = 60_000;
export const backOff: RetryRule = { reason: 'failure', most: Infinity, wait: 'back-off', afterMs: null };

/** What a classifier knows of a refusal before it decides. */
interface Refusal {
  /** Null: there was no answer. */
  readonly status: number | null;
  /** The words of the service, as far as definitions may name them; null: they are not its own. */
  readonly words: string | null;
  /** How long the service asks to wait. */
  readonly waitMs: number | null;
  readonly context: ErrorContext;
  /** Of a throttle. */
  readonly throttleContext: ErrorContext;
  /** The message with this advice. */
  readonly say: (advice: string | null) => string;
}

/** What the classifiers of both ways to a service have in common. */
export function failuresOf(facts: CallFacts, refusal: Refusal) {
  const { status, waitMs, context, throttleContext, say } = refusal;
  const fail = (
    code: ErrorCode,
    recovery: Recovery,
    advice: string | null,
    rule: RetryRule | null = null,
  ): CallFailure => new CallFailure(new SyncError(say(advice), { code, recovery, context }), rule);
  const throttle = (
    advice = 'come back later or lower requestsPerSecond',
    because: string | null = null,
  ): CallFailure =>
    new CallFailure(
      new ThrottledError(say(advice), waitMs ?? longThrottleMs, { context: throttleContext, because }),
      { reason: 'throttle', most: Infinity, wait: 'throttle', afterMs: waitMs },
    );
  /** A service that is down for a known time reports that: all calls wait the same time as after a throttle. */
  const isAnswer = facts.isLook === true && status === 500;
  const again: RetryRule =
    waitMs === null || waitMs === 0
      ? { ...backOff, most: isAnswer ? 0 : Infinity }
      : { ...backOff, wait: 'throttle', afterMs: waitMs };
  const setAside: Recovery =
    facts.purpose !== 'execute' ? 'stop' : facts.isRoot ? 'skip-entity' : 'skip-partition';
  const words = refusal.words?.toLowerCase();
  const pattern = facts.patterns.find(
    (known) =>
      known.status === status &&
      (known.entity === null || known.entity === facts.entity) &&
      words?.includes(known.contains.toLowerCase()) === true,
  );
  /** What the definition says about an answer with this status and these words; null: nothing. */
  const named = (): CallFailure | null => {
    if (pattern === undefined) return null;
    if (pattern.then === 'throttle') return throttle();
    const code = pattern.then === 'restart-walk' ? 'TOKEN_EXPIRED' : codeOf(status);
    return fail(code, pattern.then, 'the definition names this answer');
  };
  return {
    fail,
    throttle,
    again,
    /** Where a wait was asked for, that is the advice. */
    pause: again.wait === 'throttle' ? 'the service asks for a pause' : null,
    setAside,
    named: named(),
    quota: (): CallFailure =>
      fail('QUOTA_EXHAUSTED', 'stop', 'the plan allows no more calls: wait for the next period or extend it'),
    staleToken: (): CallFailure =>
      fail('TOKEN_EXPIRED', 'restart-walk', 'the listing starts again from its first page'),
    tooLarge: (): CallFailure =>
      fail('BODY_TOO_LARGE', facts.canShrink ? 'smaller-page' : setAside, 'a smaller page may fit'),
    /** The same page is not requested again; the pause holds for the smaller page too. */
    smallerPage: (): CallFailure =>
      fail('TIMEOUT', 'smaller-page', 'a smaller page is asked for', { ...again, most: 0 }),
  };
}

function codeOf(status: number | null): ErrorCode {
  if (status === 403) return 'FORBIDDEN';
  if (status === 404 || status === 410) return 'NOT_FOUND';
  if (status === 401) return 'AUTH_FAILED';
  return status !== null && status >= 500 ? 'UPSTREAM' : 'REQUEST_REFUSED';
}
