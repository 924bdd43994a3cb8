import type { FailureClass } from '../definitions/upstream/upstream-file.ts';

/**
 * The cause of the failure. `answer`: the service's own error; `name`: no such host; `gate`: not sent, because the
 * credential is paused; `credentials`: not sent, because they cannot be used; `signIn`: not sent, because a person must
 * sign in first; `request`: not sent, because a parameter cannot be sent; `address`: not sent, because the host may not
 * be reached from here; `noRecords`: JSON without an array at the place of the records; `brokenRecords`: the same,
 * where there were records before.
 */
export type FailureReason =
  | 'answer'
  | 'redirect'
  | 'otherOrigin'
  | 'notJson'
  | 'noRecords'
  | 'brokenRecords'
  | 'brokenBody'
  | 'tooLarge'
  | 'timeout'
  | 'network'
  | 'name'
  | 'address'
  | 'credentials'
  | 'signIn'
  | 'request'
  | 'gate';

export interface FailureFacts {
  readonly reason: FailureReason;
  readonly status?: number | null;
  readonly waitMs?: number | null;
}

/**
 * The only failure of a call to a third party, apart from the reason of its signal. Its class decides how to continue;
 * its text is redacted and bounded, so it may be shown and logged. It has no `cause`: a network error may carry headers
 * and bytes.
 */
export class UpstreamFailure extends Error {
  override readonly name = 'UpstreamFailure';
  readonly class: FailureClass;
  readonly reason: FailureReason;
  /** The status of the answer; null where there was none. */
  readonly status: number | null;
  /** The wait that the service asks for, at most an hour; null where it asks for none. */
  readonly waitMs: number | null;
  readonly text: string;

  constructor(failureClass: FailureClass, text: string, facts: FailureFacts) {
    super(text);
    this.class = failureClass;
    this.reason = facts.reason;
    this.status = facts.status ?? null;
    this.waitMs = facts.waitMs ?? null;
    this.text = text;
  }
}

/** The failure for an answer that does not follow the definition; it may be temporary, as a cut one is. */
export function brokenAnswer(text: string, status: number | null = null): UpstreamFailure {
  return new UpstreamFailure('unavailable', text, { reason: 'brokenBody', status });
}
