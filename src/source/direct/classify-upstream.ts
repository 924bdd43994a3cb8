import { SyncError, ThrottledError, type ErrorCode, type Recovery } from '../../core/errors.ts';
import type { UpstreamFailure } from '../../upstream/upstream-failure.ts';
import { CallFailure, type CallFacts, type RetryRule } from '../api/call-failure.ts';

/** A throttle without a time that outlasted every attempt: when to come back. */
const longThrottleMs = 60_000;
const slower = 'come back later or lower requestsPerSecond';
const backOff: RetryRule = { reason: 'failure', most: Infinity, wait: 'back-off', afterMs: null };

/** What a failure at the third party means for a walk: its class and its reason decide. */
export function classifyUpstream(failure: UpstreamFailure, facts: CallFacts): CallFailure {
  const { status, waitMs, reason } = failure;
  const fail: Fail = (code, recovery, advice, rule = null) =>
    new CallFailure(
      new SyncError(sentence(facts, failure, advice), { code, recovery, context: { status, reason } }),
      rule,
    );
  const throttle = (advice: string, because: string | null = null): CallFailure =>
    new CallFailure(
      new ThrottledError(sentence(facts, failure, advice), waitMs ?? longThrottleMs, {
        context: { status, reason },
        because,
      }),
      { reason: 'throttle', most: Infinity, wait: 'throttle', afterMs: waitMs },
    );
  /** A service that is down for a known time says so: all calls wait for as long as after a throttle. */
  const again: RetryRule =
    waitMs === null || waitMs === 0 ? backOff : { ...backOff, wait: 'throttle', afterMs: waitMs };
  const setAside: Recovery =
    facts.purpose !== 'execute' ? 'stop' : facts.isRoot ? 'skip-entity' : 'skip-partition';

  const pattern = patternOf(failure, facts);
  if (pattern !== undefined) {
    if (pattern.then === 'throttle') return throttle(slower);
    const code = pattern.then === 'restart-walk' ? 'TOKEN_EXPIRED' : codeOf(failure);
    return fail(code, pattern.then, 'the definition names this answer');
  }
  switch (failure.class) {
    case 'unauthorized':
      return fail('AUTH_FAILED', 'stop', "check the connector's credentials in the config");
    case 'forbidden':
      return fail('FORBIDDEN', setAside, 'check what the credentials may read');
    case 'quota':
      return fail(
        'QUOTA_EXHAUSTED',
        'stop',
        'the plan allows no more calls: wait for the next period or extend it',
      );
    case 'throttled':
      return throttle(slower);
    case 'edge':
      return throttle(
        'try again later; where it stays so, ask the service whether it blocks this address',
        failure.text,
      );
    case 'notFound':
      return fail('NOT_FOUND', setAside, 'it is deleted or not shared');
    case 'staleToken':
      return fail('TOKEN_EXPIRED', 'restart-walk', 'the listing starts again from its first page');
    case 'tooLarge':
      return fail('BODY_TOO_LARGE', facts.canShrink ? 'smaller-page' : setAside, 'a smaller page may fit');
    case 'unavailable':
      return unavailable(failure, facts, again, fail);
    case 'refused':
      return refused(failure, setAside, fail);
  }
}

type Fail = (
  code: ErrorCode,
  recovery: Recovery,
  advice: string | null,
  rule?: RetryRule | null,
) => CallFailure;

/** It may pass. A page that took too long is asked for smaller, and not again as it was. */
function unavailable(
  { reason, status }: UpstreamFailure,
  { canShrink }: CallFacts,
  again: RetryRule,
  fail: Fail,
): CallFailure {
  const advice = again.wait === 'throttle' ? 'the service asks for a pause' : null;
  if (reason === 'timeout' || status === 504) {
    return canShrink
      ? fail('TIMEOUT', 'smaller-page', 'a smaller page is asked for', { ...again, most: 0 })
      : fail('TIMEOUT', 'retry', advice, again);
  }
  if (reason === 'noRecords') {
    // Mostly a mistake of the definition: one more attempt, so that it is soon known.
    return fail('BODY_INVALID', 'retry', 'check records in the definition', { ...again, most: 1 });
  }
  if (reason === 'brokenBody' || reason === 'notJson') return fail('BODY_INVALID', 'retry', advice, again);
  if (reason === 'name') {
    return fail('NETWORK', 'retry', 'check the address and DNS', { ...again, reason: 'name', most: 1 });
  }
  return fail(reason === 'network' ? 'NETWORK' : 'UPSTREAM', 'retry', advice, again);
}

/** Asking again would not help. */
function refused({ reason }: UpstreamFailure, setAside: Recovery, fail: Fail): CallFailure {
  switch (reason) {
    case 'address':
      return fail(
        'CONFIG_INVALID',
        'stop',
        'to allow it, name its host (host:port where the port is not that of baseUrl) in allowUpstreamHosts in the config',
      );
    case 'network':
    case 'name':
      return fail('NETWORK', 'stop', "check this machine's certificates and network");
    case 'redirect':
    case 'otherOrigin':
      return fail('REDIRECTED', setAside, 'no other address is called: check the definition');
    case 'credentials':
      return fail('AUTH_FAILED', 'stop', "check the connector's credentials in the config");
    case 'notJson':
    case 'noRecords':
    case 'brokenBody':
      return fail('BODY_INVALID', setAside, 'the answer is not used');
    case 'answer':
    case 'request':
    case 'tooLarge':
    case 'timeout':
    case 'gate':
      return fail(
        'REQUEST_REFUSED',
        setAside,
        'the request does not fit the service: check the definition and params',
      );
  }
}

/** What the definition says about answers that have this status and these words, whoever calls. */
function patternOf({ status, text, reason }: UpstreamFailure, facts: CallFacts) {
  if (reason !== 'answer') return undefined;
  const words = text.toLowerCase();
  return facts.patterns.find(
    (known) =>
      known.status === status &&
      (known.entity === null || known.entity === facts.entity) &&
      words.includes(known.contains.toLowerCase()),
  );
}

function codeOf({ status }: UpstreamFailure): ErrorCode {
  if (status === 403) return 'FORBIDDEN';
  if (status === 404 || status === 410) return 'NOT_FOUND';
  if (status === 401) return 'AUTH_FAILED';
  return status !== null && status >= 500 ? 'UPSTREAM' : 'REQUEST_REFUSED';
}

/** The service's own words are quoted; what was found out here is said as it is. */
function sentence({ label }: CallFacts, failure: UpstreamFailure, advice: string | null): string {
  const { status, text, reason } = failure;
  const found =
    reason === 'answer' && failure.class !== 'edge' && status !== null
      ? `${label} was answered with ${status} "${text}"`
      : `${label}: ${text}`;
  return advice === null ? found : `${found}; ${advice}`;
}
