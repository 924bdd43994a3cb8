import { SyncError, type Recovery } from '../../core/errors.ts';
import type { WireAnswer } from '../../http/exchange.ts';
import { networkFaultOf } from '../../http/network-fault.ts';
import {
  backOff,
  type CallFacts,
  CallFailure,
  failuresOf,
  mayBeDone,
  type RetryRule,
  shownWords,
} from './call-failure.ts';
import { retryAfterMs } from '../../http/header-values.ts';
import { readUpstreamMessage } from './upstream-message.ts';
import { textOfBody } from '../../http/read-body.ts';

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
  answer: WireAnswer,
  facts: CallFacts,
  redact: (text: string) => string,
  now: number,
): CallFailure {
  const { status } = answer;
  const upstream = readUpstreamMessage(textOfBody(answer.body));
  const afterMs = retryAfterMs(answer.header('retry-after'), answer.header('date'), now);
  const { fail, throttle, again, setAside, named, ...failure } = failuresOf(facts, {
    status,
    words: upstream.text,
    waitMs: afterMs,
    context: { status, namesConnector: upstream.isJson && connectorWords.test(upstream.text) },
    throttleContext: { status },
    say: (advice) => sentence(facts, status, shownWords(facts, redact(upstream.text)), advice),
  });

  // What our own `serve` says about a failure of the third party behind it, where a status alone would be read as
  // something else.
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
    return failure.quota();
  }
  if (isStaleToken(status, upstream.text, facts) || (facts.hasPageToken && says('upstream_stale_token'))) {
    return failure.staleToken();
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
  if (status === 404 || status === 410) return fail('NOT_FOUND', setAside, 'it is deleted or not shared');
  if (status === 504 && facts.canShrink) return failure.smallerPage();
  if (says('upstream_too_large') || (status === 413 && facts.canShrink)) return failure.tooLarge();
  if (says('upstream_unusable')) {
    return fail('UPSTREAM', setAside, 'asking again would not help: check the host and its addresses');
  }
  // Our own `serve` asks the third party before it changes anything.
  const isUndone = upstream.errorCodes.some((code) => code.startsWith('upstream_'));
  const done = isUndone ? 'nothing was changed: try it again later' : mayBeDone;
  const next = facts.isWrite === true ? done : failure.pause;
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
  const fault = networkFaultOf(error);
  if (fault === null) return null;
  const { kind, code, text } = fault;
  const { fail } = failuresOf(facts, {
    status: null,
    words: null,
    waitMs: null,
    // No cause: a network error may carry bytes of the response, headers or addresses.
    context: { cause: code },
    throttleContext: {},
    say: (why) => `${facts.label}: ${why}`,
  });
  const network = (why: string, more: Partial<RetryRule> = {}): CallFailure =>
    fail('NETWORK', 'retry', why, { ...backOff, ...more });
  switch (kind) {
    case 'slow':
      return fail('TIMEOUT', 'retry', text, backOff);
    case 'timeout':
      return fail('TIMEOUT', 'retry', `${text} (${code})`, backOff);
    case 'tooLarge':
      return fail(
        'BODY_TOO_LARGE',
        facts.canShrink ? 'smaller-page' : facts.purpose === 'execute' ? 'skip-partition' : 'stop',
        'expected an answer within the size limits, got a larger one; a smaller page may fit',
      );
    case 'unreadable':
      return fail('BODY_INVALID', 'retry', text, backOff);
    case 'address':
      return fail('CONFIG_INVALID', 'stop', text);
    case 'closed':
      return fail('INTERRUPTED', 'stop', text);
    case 'tls':
      return fail(
        'NETWORK',
        'stop',
        `${text} to the service (${code}); check its certificate and api.baseUrl`,
      );
    case 'name':
      return network(`${text}; check api.baseUrl and DNS`, { reason: 'name', most: 1 });
    case 'noHttp':
      return network(`the answer is not HTTP (${code}); check api.baseUrl`);
    case 'cut':
      // Usually an idle connection that the server closed: the retry opens a new one.
      return network(`${text} (${code})`, { reason: 'reset', wait: 'at-once-first' });
    case 'unreachable':
      return network(`${text} (${code})`);
    case 'other':
      return network(`the API could not be reached, or its answer was cut off (${code})`);
  }
}

/** A 2xx answer whose body is not what the API promises: as a cut connection, it may be whole next time. */
export function invalidBody(facts: CallFacts, why: string, recovery: Recovery = 'retry'): CallFailure {
  const message = `${facts.label}: ${why}; the answer is not used`;
  const error = new SyncError(message, { code: 'BODY_INVALID', recovery });
  return new CallFailure(error, recovery === 'retry' ? backOff : null);
}

/** An answer without records: of this listing alone, whatever others answer. */
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

function isStaleToken(status: number, text: string, facts: CallFacts): boolean {
  return facts.hasPageToken && [400, 404, 410, 422].includes(status) && staleTokenWords.test(text);
}

function sentence(facts: CallFacts, status: number, message: string, advice: string | null): string {
  const found = `${facts.label} was answered with ${status}${message === '' ? '' : ` "${message}"`}`;
  return advice === null ? found : `${found}; ${advice}`;
}
