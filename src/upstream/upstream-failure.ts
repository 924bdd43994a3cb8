import type { FailureClass } from '../definitions/upstream/upstream-file.ts';

/**
 * What showed the failure. `answer`: the service's own error; `name`: no such host; `gate`: not sent, because the
 * credential is paused; `credentials`: not sent, they cannot be used; `signIn`: not sent, a person must sign in first;
 * `request`: not sent, a parameter cannot be; `address`: not sent, the host may not be reached from here; `noRecords`:
 * JSON without an array where the definition says that the records are; `brokenRecords`: the same, where there have
 * been records before.
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
 * The one way in which a call to a third party fails, apart from the reason of its signal. Its class decides what
 * follows; its text is redacted and bounded, so it may be shown and logged. It has no `cause`: a network error may
 * carry headers and bytes.
 */
export class UpstreamFailure extends Error {
  override readonly name = 'UpstreamFailure';
  readonly class: FailureClass;
  readonly reason: FailureReason;
  /** The status of the answer; null where there was none. */
  readonly status: number | null;
  /** How long the service asks to wait, at most an hour; null where it does not. */
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

/** An answer that is not what the definition says, which may pass as a cut one does. */
export function brokenAnswer(text: string, status: number | null = null): UpstreamFailure {
  return new UpstreamFailure('unavailable', text, { reason: 'brokenBody', status });
}
