import {
  SyncError,
  ThrottledError,
  type ErrorCode,
  type ErrorContext,
  type Recovery,
} from '../../core/errors.ts';
import type { EntityName } from '../../core/names.ts';
import { hiddenWords } from '../../core/records.ts';
import type { Definition, ErrorPattern } from '../../definitions/definition.ts';
import {
  type NetworkFault,
  type WireAnswer,
  networkFaultOf,
  retryAfterMs,
  textOfBody,
} from '../../http/exchange.ts';
import { isJsonArray, isJsonObject, type JsonValue } from '../../core/json.ts';
import { tryJsonText } from '../../http/lossless-json.ts';

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
  /** Wait that the service asked for; null: none, so back off. */
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

/** Facts about a call, used with the answer to classify a failure. */
export interface CallFacts {
  readonly purpose: 'execute' | 'catalog' | 'token';
  /** Name of the call for messages: `list list_members`, `find connectors`. */
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

/** Facts about a refusal, before it is classified. */
interface Refusal {
  /** Null: there was no answer. */
  readonly status: number | null;
  /** The words of the service, as far as definitions may name them; null: they are not its own. */
  readonly words: string | null;
  /** Wait that the service asks for. */
  readonly waitMs: number | null;
  readonly context: ErrorContext;
  /** The message with this advice. */
  readonly say: (advice: string | null) => string;
}

/** Classification that the API and direct connectors share. */
export function failuresOf(facts: CallFacts, refusal: Refusal) {
  const { status, waitMs, context, say } = refusal;
  const fail = (code: ErrorCode, recovery: Recovery, advice: string | null, rule: RetryRule | null = null) =>
    new CallFailure(new SyncError(say(advice), { code, recovery, context }), rule);
  const throttle = (advice = 'come back later or lower requestsPerSecond', because: string | null = null) =>
    new CallFailure(new ThrottledError(say(advice), waitMs ?? longThrottleMs, { context, because }), {
      reason: 'throttle',
      most: Infinity,
      wait: 'throttle',
      afterMs: waitMs,
    });
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
  /** Classifies an answer whose status and words the definition lists; null: it lists none. */
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

const quotaWords = /\b(quota|subscription|billing|payment required|plan limit|usage limit|out of credits)\b/i;
const staleTokenWords =
  /(cursor|page[ _-]?token)[^.]{0,80}(invalid|expired|not valid|no longer)|(invalid|expired)[^.]{0,40}(cursor|page[ _-]?token)/i;
const asksForToken = /\bbearer\b|\bauthorization\b.{0,20}\bheader\b|\bheader\b.{0,20}\bauthorization\b/i;
const connectorWords = /^(?!.*\broute\b).*\bconnector\b/is;

/**
 * Classifies an answer other than 2xx: the first case that fits decides. `test/source/failures.test.ts` lists the cases
 * as a table.
 */
export function classifyAnswer(
  answer: WireAnswer,
  facts: CallFacts,
  redact: (text: string) => string,
  now: number,
): CallFailure {
  const { status } = answer;
  const upstream = readUpstreamMessage(textOfBody(answer.body));
  const afterMs = retryAfterMs(answer.header('retry-after'), answer.header('date'), now);
  const failures = failuresOf(facts, {
    status,
    words: upstream.text,
    waitMs: afterMs,
    context: { status, namesConnector: upstream.isJson && connectorWords.test(upstream.text) },
    say: (advice) => {
      const words = shownWords(facts, redact(upstream.text));
      return withAdvice(
        `${facts.label} was answered with ${status}${words === '' ? '' : ` "${words}"`}`,
        advice,
      );
    },
  });
  const { fail, throttle, setAside, named, quota, staleToken } = failures;
  const says = (code: string): boolean => upstream.errorCodes.includes(code);
  if (named !== null) return named;
  if (status >= 300 && status < 400) {
    return fail('REDIRECTED', 'stop', 'redirects are not followed; set api.baseUrl to the final address');
  }
  if (status === 429 || status === 529) return throttle();
  if (status === 403 && !upstream.isJson) {
    const rule: RetryRule = { reason: 'bare-403', most: 2, wait: 'throttle', afterMs };
    return facts.purpose === 'token'
      ? fail('AUTH_FAILED', 'stop', 'check that this machine may reach the API', rule)
      : fail('FORBIDDEN', setAside, 'check what the connector may read', rule);
  }
  if (facts.purpose === 'token' && status < 500 && status !== 408 && status !== 425 && status !== 409) {
    // Nothing else answers for credentials in another language, or asks for the token that this call is to bring.
    const isElsewhere =
      status === 404 || status === 405 || !upstream.isJson || asksForToken.test(upstream.text);
    return isElsewhere
      ? fail('CONFIG_INVALID', 'stop', 'there is no token endpoint here: check the path in api.baseUrl')
      : fail('AUTH_FAILED', 'stop', 'check api.clientId and api.clientSecret');
  }
  if (status === 401) {
    return fail('AUTH_FAILED', 'stop', 'check the credentials of the API and of the connector', {
      reason: 'token',
      most: 1,
      wait: 'at-once-first',
      afterMs: null,
    });
  }
  if (status === 402 || (status === 403 && !says('upstream_forbidden') && quotaWords.test(upstream.text))) {
    return quota();
  }
  const saysStale = [400, 404, 410, 422].includes(status) && staleTokenWords.test(upstream.text);
  if (facts.hasPageToken && (saysStale || says('upstream_stale_token'))) {
    return staleToken();
  }
  if (status === 400 && /specify.{0,60}organi[sz]ation/i.test(upstream.text)) {
    return fail(
      'CONFIG_INVALID',
      'stop',
      'the credentials span several organizations: set api.organizationId',
    );
  }
  return classifyRefusal(status, upstream, facts, failures);
}

/** Classifies what the service answers to a caller that it knows: the first case that fits decides. */
function classifyRefusal(
  status: number,
  { errorCodes }: ReturnType<typeof readUpstreamMessage>,
  facts: CallFacts,
  { fail, again, setAside, smallerPage, tooLarge, pause }: ReturnType<typeof failuresOf>,
): CallFailure {
  // Error codes of the program's own `serve` for a failure of the third party behind it, where the status alone would
  // be misleading.
  const says = (code: string): boolean => errorCodes.includes(code);
  if (status === 403) {
    const may = facts.purpose === 'execute' ? 'the connector may read' : 'the credentials may do';
    return fail('FORBIDDEN', setAside, `check what ${may}`);
  }
  if (status === 404 || status === 410) return fail('NOT_FOUND', setAside, 'it is deleted or not shared');
  if (status === 504 && facts.canShrink) return smallerPage();
  if (says('upstream_too_large') || (status === 413 && facts.canShrink)) return tooLarge();
  if (says('upstream_unusable')) {
    return fail('UPSTREAM', setAside, 'asking again would not help: check the host and its addresses');
  }
  // Our own `serve` asks the third party before it changes anything.
  const isUndone = errorCodes.some((code) => code.startsWith('upstream_'));
  const done = isUndone ? 'nothing was changed: try it again later' : mayBeDone;
  const next = facts.isWrite === true ? done : pause;
  if (status === 408 || status === 504) return fail('TIMEOUT', 'retry', next, again);
  const isConflict = status === 409 && facts.isWrite === true;
  if ((status === 409 && !isConflict) || status === 425 || status >= 500) {
    return fail('UPSTREAM', 'retry', next, again);
  }
  const advice =
    says('third_party_refused') || says('identity_changed')
      ? 'check the credentials'
      : 'the request does not fit the service: check the definition and params';
  return fail('REQUEST_REFUSED', setAside, advice);
}

/** Classifies a failure without an answer: the network, a limit, an unreadable body. Null unless the call failed so. */
export function classifyThrown(error: unknown, facts: CallFacts): CallFailure | null {
  const fault = networkFaultOf(error);
  if (fault === null) return null;
  const { fail, tooLarge } = failuresOf(facts, {
    status: null,
    words: null,
    waitMs: null,
    // No cause: a network error may carry bytes of the response, headers or addresses.
    context: { cause: fault.code },
    say: (advice) => withAdvice(`${facts.label}: ${fault.text}`, advice),
  });
  return fault.kind === 'tooLarge' ? tooLarge() : fail(...ofFaults[fault.kind]);
}

const ofFaults: Readonly<
  Record<Exclude<NetworkFault['kind'], 'tooLarge'>, Parameters<ReturnType<typeof failuresOf>['fail']>>
> = {
  timeout: ['TIMEOUT', 'retry', null, backOff],
  unreadable: ['BODY_INVALID', 'retry', null, backOff],
  address: ['CONFIG_INVALID', 'stop', null],
  closed: ['INTERRUPTED', 'stop', null],
  tls: ['NETWORK', 'stop', 'check its certificate and api.baseUrl'],
  name: ['NETWORK', 'retry', 'check api.baseUrl and DNS', { ...backOff, reason: 'name', most: 1 }],
  // Usually an idle connection that the server closed: the retry opens a new one.
  cut: ['NETWORK', 'retry', null, { ...backOff, reason: 'reset', wait: 'at-once-first' }],
  other: ['NETWORK', 'retry', null, backOff],
};

/** A 2xx answer whose body is not in the promised form: like a cut connection, it may be whole next time. */
export function invalidBody(facts: CallFacts, why: string, recovery: Recovery = 'retry'): CallFailure {
  const message = `${facts.label}: ${why}; the answer is not used`;
  const error = new SyncError(message, { code: 'BODY_INVALID', recovery });
  return new CallFailure(error, recovery === 'retry' ? backOff : null);
}

/** An answer without records: a failure of this listing alone, whatever others answer. */
export function noRecords(facts: CallFacts): CallFailure {
  const message = `${facts.label}: expected an array as result, got another kind; the answer is not used`;
  const context = { reason: 'brokenRecords' };
  const error = new SyncError(message, { code: 'BODY_INVALID', recovery: 'skip-partition', context });
  return new CallFailure(error, backOff);
}

/**
 * Bytes that are not the file: two more attempts, because a service that has lost a file answers with nothing every
 * time, and there may be thousands of them.
 */
export function invalidFile(facts: CallFacts, why: string): CallFailure {
  const message = `${facts.label}: ${why}; the file is not kept`;
  const error = new SyncError(message, { code: 'FILE_INVALID', recovery: 'retry' });
  return new CallFailure(error, { ...backOff, reason: 'file', most: 2 });
}

/** A file above the limit that the caller has set: it will not be smaller the next time. */
export function fileTooLarge(facts: CallFacts, maxBytes: number): CallFailure {
  const message = `${facts.label}: expected at most ${maxBytes} bytes, got a larger file; raise maxBytes to get it`;
  const error = new SyncError(message, { code: 'BODY_TOO_LARGE', recovery: 'skip-partition' });
  return new CallFailure(error, null);
}

export function withAdvice(found: string, advice: string | null): string {
  return advice === null ? found : `${found}; ${advice}`;
}

/**
 * The words in a failure's body: `{message, errors: [{field, message, details}]}` (the API's own shape),
 * `{detail}` or `{error}`; for anything else the beginning of the body.
 */
export function readUpstreamMessage(body: string) {
  const parsed = tryJsonText(body);
  const parts: string[] = [];
  for (const name of ['message', 'detail', 'error', 'errors', 'result']) {
    if (isJsonObject(parsed) && Object.hasOwn(parsed, name)) collect(parsed[name], parts, 0);
  }
  const said = withoutRepeats(parts).map((part) => part.replace(/\.$/, ''));
  const errors = isJsonObject(parsed) && isJsonArray(parsed['errors']) ? parsed['errors'] : [];
  return {
    /** Description of the failure in the body, for matching; may hold personal data, so redact before showing. */
    text: said.length > 0 ? said.join('; ') : body.slice(0, 2_000),
    /** False for HTML and other bodies that the API itself did not write. */
    isJson: typeof parsed === 'object' && parsed !== null,
    /** Every `error_code` of the API's own shape: at most 20. */
    errorCodes: errors
      .slice(0, 20)
      .map((error) => (isJsonObject(error) ? error['error_code'] : null))
      .filter((code) => typeof code === 'string'),
  };
}

/** Services say one sentence in several members, and quote it in longer ones: the longest form once is enough. */
function withoutRepeats(parts: readonly string[]): readonly string[] {
  const texts = [...new Set(parts.map((part) => part.trim()))];
  return texts.filter((text) => !texts.some((other) => other !== text && other.includes(text)));
}

function collect(value: JsonValue | undefined, parts: string[], depth: number): void {
  if (parts.length >= 10 || depth > 4) return;
  if (typeof value === 'string') {
    if (value !== '') parts.push(value.slice(0, 2_000));
  } else if (isJsonArray(value)) {
    for (const element of value) collect(element, parts, depth + 1);
  } else if (isJsonObject(value)) {
    for (const name of ['message', 'details', 'detail', 'error', 'msg', 'error_code']) {
      if (Object.hasOwn(value, name)) collect(value[name], parts, depth + 1);
    }
  }
}
