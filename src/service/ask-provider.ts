import { ApiError } from './api-error.ts';

/** A third party that takes longer has forgotten the call; a smaller page may take less. */
const deadlineMs = 300_000;

/**
 * Asks a provider one thing. `ask` gets a signal of its own, which is aborted with `outer` and at the deadline; then
 * this rejects at once, also where the provider does not listen: with the reason of `outer`, or with `ApiError` 504.
 */
export async function askProvider<Answer>(
  outer: AbortSignal,
  ask: (signal: AbortSignal) => Promise<Answer>,
): Promise<Answer> {
  outer.throwIfAborted();
  // A controller for each call: a signal made by `any` of one that lives long keeps memory for as long.
  const call = new AbortController();
  const onAbort = (): void => call.abort(outer.reason);
  const ended = new Promise<never>((_resolve, reject) => {
    call.signal.addEventListener('abort', () => reject(call.signal.reason as Error), { once: true });
  });
  outer.addEventListener('abort', onAbort, { once: true });
  const timer = setTimeout(() => call.abort(tooLate()), deadlineMs);
  try {
    return await Promise.race([ask(call.signal), ended]);
  } finally {
    clearTimeout(timer);
    outer.removeEventListener('abort', onAbort);
  }
}

export function tooLate(): ApiError {
  return new ApiError(504, 'The third party did not answer in time.', { errorCode: 'third_party_timeout' });
}
