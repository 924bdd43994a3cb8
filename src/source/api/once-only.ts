import { SyncError } from '../../core/errors.ts';
import { CallFailure, type RetryRule } from './call-failure.ts';

/** Advice after a write with an unknown outcome. */
export const mayBeDone = 'it may have taken effect: check before you repeat it';

/** Failures before a byte of the request was sent. */
const unsent = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT']);
/** The service refuses these before it does anything. */
const refused = new Set<RetryRule['reason']>(['throttle', 'bare-403', 'token']);

/**
 * The failure of a call that changes something: it keeps its retry only where nothing can have been done, because a second
 * one would make a second connector. Other errors are as they came.
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
