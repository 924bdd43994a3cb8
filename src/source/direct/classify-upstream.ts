import type { UpstreamFailure } from '../../upstream/upstream-failure.ts';
import { failuresOf, shownWords, type CallFacts, type CallFailure } from '../api/call-failure.ts';

type Failures = ReturnType<typeof failuresOf>;

/** What a failure at the third party means for a walk: its class and its reason decide. */
export function classifyUpstream(failure: UpstreamFailure, facts: CallFacts): CallFailure {
  const { status, waitMs, reason } = failure;
  const text = wordsOf(facts, failure);
  const context = { status, reason };
  const failures = failuresOf(facts, {
    status,
    words: reason === 'answer' ? failure.text : null,
    waitMs,
    context,
    throttleContext: context,
    say: (advice) => sentence(facts, failure, advice),
  });
  const { fail, throttle, setAside, named } = failures;
  if (named !== null) return named;
  switch (failure.class) {
    case 'unauthorized':
      if (reason === 'signIn') return fail('AUTH_FAILED', 'stop', null);
      return fail('AUTH_FAILED', 'stop', "check the connector's credentials in the config");
    case 'forbidden':
      return fail('FORBIDDEN', setAside, 'check what the credentials may read');
    case 'quota':
      return failures.quota();
    case 'throttled':
      return throttle();
    case 'edge':
      return throttle(
        'try again later; where it stays so, ask the service whether it blocks this address',
        text,
      );
    case 'notFound':
      return fail('NOT_FOUND', setAside, 'it is deleted or not shared');
    case 'staleToken':
      return failures.staleToken();
    case 'tooLarge':
      return failures.tooLarge();
    case 'unavailable':
      return unavailable(failure, facts, failures);
    case 'refused':
      return refused(failure, failures);
  }
}

/** It may pass. A page that took too long is asked for smaller, and not again as it was. */
function unavailable(
  { reason, status }: UpstreamFailure,
  { canShrink }: CallFacts,
  { fail, again, pause, smallerPage }: Failures,
): CallFailure {
  if (reason === 'timeout' || status === 504) {
    return canShrink ? smallerPage() : fail('TIMEOUT', 'retry', pause, again);
  }
  if (reason === 'noRecords') {
    // Mostly a mistake of the definition, or this listing alone: one more attempt, so that it is soon known.
    const advice =
      'check records in the definition, or say in empty what the service has for an empty listing';
    return fail('BODY_INVALID', 'skip-partition', advice, { ...again, most: 1 });
  }
  if (reason === 'brokenRecords') return fail('BODY_INVALID', 'skip-partition', pause, again);
  if (reason === 'brokenBody' || reason === 'notJson') return fail('BODY_INVALID', 'retry', pause, again);
  if (reason === 'name') {
    return fail('NETWORK', 'retry', 'check the address and DNS', { ...again, reason: 'name', most: 1 });
  }
  return fail(reason === 'network' ? 'NETWORK' : 'UPSTREAM', 'retry', pause, again);
}

/** Asking again would not help. */
function refused({ reason }: UpstreamFailure, { fail, setAside }: Failures): CallFailure {
  switch (reason) {
    case 'address':
      return fail(
        'CONFIG_INVALID',
        'stop',
        'to allow it, name its host (host:port where the port is not that of baseUrl) in allowUpstreamHosts in the config (definitions try: --allow-upstream-host)',
      );
    case 'network':
    case 'name':
      return fail('NETWORK', 'stop', "check this machine's certificates and network");
    case 'redirect':
    case 'otherOrigin':
      return fail('REDIRECTED', setAside, 'no other address is called: check the definition');
    case 'credentials':
    case 'signIn':
      return fail('AUTH_FAILED', 'stop', "check the connector's credentials in the config");
    case 'notJson':
    case 'noRecords':
    case 'brokenRecords':
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

/** The service's own words are quoted; what was found out here is reported as it is. */
function sentence(facts: CallFacts, failure: UpstreamFailure, advice: string | null): string {
  const { label } = facts;
  const { status, reason } = failure;
  const text = wordsOf(facts, failure);
  const found =
    reason === 'answer' && failure.class !== 'edge' && status !== null
      ? `${label} was answered with ${status} "${text}"`
      : `${label}: ${text}`;
  return advice === null ? found : `${found}; ${advice}`;
}

/** What was found out here quotes no value of a record. */
function wordsOf(facts: CallFacts, { reason, text }: UpstreamFailure): string {
  return reason === 'answer' ? shownWords(facts, text) : text;
}
