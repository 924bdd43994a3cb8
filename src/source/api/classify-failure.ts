import { SyncError, ThrottledError, type ErrorCode, type Recovery } from '../../core/errors.ts';
import { AttemptTimeoutError, UnreadableBodyError } from '../../http/read-body.ts';
import { type CallFacts, CallFailure, mayBeDone, type RetryRule } from './call-failure.ts';
import type { HttpAnswer } from './http-transport.ts';
import { networkTexts, saysNoHttp } from '../../http/network-texts.ts';
import { retryAfterMs } from '../../http/retry-after.ts';
import { readUpstreamMessage } from './upstream-message.ts';

/** A throttle without Retry-After that outlasted every attempt: when to come back. */
const longThrottleMs = 60_000;

const backOff: RetryRule = { reason: 'failure', most: Infinity, wait: 'back-off', afterMs: null };
const quotaWords = /\b(quota|subscription|billing|payment required|plan limit|usage limit|out of credits)\b/i;
const staleTokenWords =
  /(cursor|page[ _-]?token)[^.]{0,80}(invalid|expired|not valid|no longer)|(invalid|expired)[^.]{0,40}(cursor|page[ _-]?token)/i;
const asksForToken = /\bbearer\b|\bauthorization\b.{0,20}\bheader\b|\bheader\b.{0,20}\bauthorization\b/i;
const connectorWords = /^(?!.*\broute\b).*\bconnector\b/is;

/**
 * What an answer that is not 2xx means: the first case that fits. `test/source/api/failure-table.test.ts` has them as a
 * table.
 */
export function classifyAnswer(
  answer: HttpAnswer,
  facts: CallFacts,
  redact: (text: string) => string,
  now: number,
): CallFailure {
  const { status } = answer;
  const upstream = readUpstreamMessage(answer.text);
  const afterMs = retryAfterMs(answer.retryAfter, answer.date, now);
  const fail = (code: ErrorCode, recovery: Recovery, advice: string | null, rule: RetryRule | null = null) =>
    new CallFailure(
      new SyncError(sentence(facts, status, redact(upstream.text), advice), {
        code,
        recovery,
        context: { status, namesConnector: upstream.isJson && connectorWords.test(upstream.text) },
      }),
      rule,
    );
  const throttle = (): CallFailure =>
    new CallFailure(
      new ThrottledError(
        sentence(facts, status, redact(upstream.text), 'come back later or lower requestsPerSecond'),
        afterMs ?? longThrottleMs,
        { context: { status } },
      ),
      { reason: 'throttle', most: Infinity, wait: 'throttle', afterMs },
    );
  /**
   * A service that is down for a known time says so with Retry-After: all calls keep quiet for as long as after a
   * throttle.
   */
  const again: RetryRule =
    afterMs === null || afterMs === 0 ? backOff : { ...backOff, wait: 'throttle', afterMs };
  const setAside: Recovery =
    facts.purpose !== 'execute' ? 'stop' : facts.isRoot ? 'skip-entity' : 'skip-partition';

  // What our own `serve` says about a failure of the third party behind it, where a status alone would be read as
  // something else.
  const says = (code: string): boolean => upstream.errorCodes.includes(code);
  const words = upstream.text.toLowerCase();
  const pattern = facts.patterns.find(
    (known) =>
      known.status === status &&
      (known.entity === null || known.entity === facts.entity) &&
      words.includes(known.contains.toLowerCase()),
  );
  if (pattern !== undefined) {
    if (pattern.then === 'throttle') return throttle();
    const code = pattern.then === 'restart-walk' ? 'TOKEN_EXPIRED' : codeOf(status);
    return fail(code, pattern.then, 'the definition names this answer');
  }
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
    return fail(
      'QUOTA_EXHAUSTED',
      'stop',
      'the plan allows no more calls: wait for the next period or extend it',
    );
  }
  if (isStaleToken(status, upstream.text, facts) || (facts.hasPageToken && says('upstream_stale_token'))) {
    return fail('TOKEN_EXPIRED', 'restart-walk', 'the listing starts again from its first page');
  }
  if (status === 400 && /specify.{0,60}organi[sz]ation/i.test(upstream.text)) {
    return fail(
      'CONFIG_INVALID',
      'stop',
      'the credentials span several organizations: set api.organizationId',
    );
  }
  if (status === 403) {
    const may = facts.purpose === 'execute' ? 'the connector may read' : 'the credentials may do';
    return fail('FORBIDDEN', setAside, `check what ${may}`);
  }
  if (status === 404 || status === 410) return fail('NOT_FOUND', setAside, 'it is gone or not shared');
  if (status === 504 && facts.canShrink) {
    // Not asked for again as it was; the pause holds for the smaller page too.
    return fail('TIMEOUT', 'smaller-page', 'a smaller page is asked for', { ...again, most: 0 });
  }
  if (says('upstream_too_large') || (status === 413 && facts.canShrink)) {
    return fail('BODY_TOO_LARGE', facts.canShrink ? 'smaller-page' : setAside, 'a smaller page may fit');
  }
  if (says('upstream_unusable')) {
    return fail('UPSTREAM', setAside, 'asking again would not help: check the host and its addresses');
  }
  const pause = again.wait === 'throttle' ? 'the service asks for a pause' : null;
  // Our own `serve` asks the third party before it changes anything.
  const isUndone = upstream.errorCodes.some((code) => code.startsWith('upstream_'));
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

/** A failure without an answer: the network, a limit, an unreadable body. Null for what is no failure of the call. */
export function classifyThrown(error: unknown, facts: CallFacts): CallFailure | null {
  if (!(error instanceof Error)) return null;
  const fail = (code: ErrorCode, recovery: Recovery, why: string, rule: RetryRule | null): CallFailure =>
    // No cause: a network error may carry bytes of the response, headers or addresses.
    new CallFailure(
      new SyncError(`${facts.label}: ${why}`, { code, recovery, context: { cause: codeIn(error) } }),
      rule,
    );
  const tooLarge = (): CallFailure =>
    fail(
      'BODY_TOO_LARGE',
      facts.canShrink ? 'smaller-page' : facts.purpose === 'execute' ? 'skip-partition' : 'stop',
      'expected an answer within the size limits, got a larger one; a smaller page may fit',
      null,
    );
  if (error instanceof AttemptTimeoutError) return fail('TIMEOUT', 'retry', error.message, backOff);
  if (error instanceof UnreadableBodyError) {
    return error.fault === 'too-large' ? tooLarge() : fail('BODY_INVALID', 'retry', error.message, backOff);
  }
  const code = codeIn(error);
  if (/EXCEEDED_MAX_SIZE|HEADERS_OVERFLOW|HPE_HEADER_OVERFLOW/.test(code)) return tooLarge();
  if (code === 'ERR_ADDRESS_REFUSED') return fail('CONFIG_INVALID', 'stop', error.message, null);
  if (code === 'UND_ERR_DESTROYED' || code === 'UND_ERR_CLOSED') {
    return fail('INTERRUPTED', 'stop', 'the client was closed during the call', null);
  }
  if (/CERT|SELF_SIGNED|ERR_TLS|ERR_SSL|EPROTO|UNABLE_TO_(VERIFY|GET)/.test(code)) {
    return fail(
      'NETWORK',
      'stop',
      `no trusted TLS connection to the service (${code}); check its certificate and api.baseUrl`,
      null,
    );
  }
  const network = (why: string, more: Partial<RetryRule> = {}): CallFailure =>
    fail('NETWORK', 'retry', why, { ...backOff, ...more });
  if (code === 'ENOTFOUND') {
    return network('host name not found; check api.baseUrl and DNS', { reason: 'name', most: 1 });
  }
  if (saysNoHttp(code)) return network(`the answer is not HTTP (${code}); check api.baseUrl`);
  const known = networkTexts[code];
  if (known !== undefined) {
    // A connection that was cut is usually an idle one that the server closed: the retry opens a new one.
    const isCut = code === 'ECONNRESET' || code === 'EPIPE' || code === 'UND_ERR_SOCKET';
    return network(`${known} (${code})`, isCut ? { reason: 'reset', wait: 'at-once-first' } : {});
  }
  if (/^UND_ERR_(CONNECT|HEADERS|BODY)_TIMEOUT$|^ETIMEDOUT$/.test(code)) {
    return fail('TIMEOUT', 'retry', `no answer in time (${code})`, backOff);
  }
  if (
    /^HPE_|^HTTPParserError$|^UND_ERR_(?!INVALID|NOT_SUPPORTED|REQ_)|^E[A-Z]+$|^EAI_|^ERR_STREAM_/.test(code)
  ) {
    return network(`the API could not be reached, or its answer was cut off (${code})`);
  }
  return null;
}

/** A 2xx answer whose body is not what the API promises: as a cut connection, it may be whole next time. */
export function invalidBody(facts: CallFacts, why: string, recovery: Recovery = 'retry'): CallFailure {
  const error = new SyncError(`${facts.label}: ${why}; the answer is not used`, {
    code: 'BODY_INVALID',
    recovery,
  });
  return new CallFailure(error, recovery === 'retry' ? backOff : null);
}

/**
 * Bytes that are not the file: two more attempts, because a service that has lost a file answers with nothing every
 * time, and there may be thousands of them.
 */
export function invalidFile(facts: CallFacts, why: string): CallFailure {
  const error = new SyncError(`${facts.label}: ${why}; the file is not kept`, {
    code: 'FILE_INVALID',
    recovery: 'retry',
  });
  return new CallFailure(error, { ...backOff, reason: 'file', most: 2 });
}

/** A file above the limit that the caller has set: it will not be smaller the next time. */
export function fileTooLarge(facts: CallFacts, maxBytes: number): CallFailure {
  const message = `${facts.label}: expected at most ${maxBytes} bytes, got a larger file; raise maxBytes to get it`;
  return new CallFailure(
    new SyncError(message, { code: 'BODY_TOO_LARGE', recovery: 'skip-partition' }),
    null,
  );
}

function isStaleToken(status: number, text: string, facts: CallFacts): boolean {
  return facts.hasPageToken && [400, 404, 410, 422].includes(status) && staleTokenWords.test(text);
}

function codeOf(status: number): ErrorCode {
  if (status === 403) return 'FORBIDDEN';
  if (status === 404 || status === 410) return 'NOT_FOUND';
  if (status >= 500) return 'UPSTREAM';
  return status === 401 ? 'AUTH_FAILED' : 'REQUEST_REFUSED';
}

function codeIn(error: Error): string {
  return 'code' in error && typeof error.code === 'string' ? error.code : error.name;
}

function sentence(facts: CallFacts, status: number, message: string, advice: string | null): string {
  const found = `${facts.label} was answered with ${status}${message === '' ? '' : ` "${message}"`}`;
  return advice === null ? found : `${found}; ${advice}`;
}
