import { setMaxListeners } from 'node:events';

/**
 * A signal for one wait: aborted with `outer`, and after `ms` with the error of `late`. A controller for each wait:
 * `AbortSignal.any` on a signal that lives for hours keeps memory per wait.
 */
export function startDeadline(ms: number, outer: AbortSignal, late: () => Error) {
  const controller = new AbortController();
  const onAbort = (): void => controller.abort(outer.reason);
  const timer = setTimeout(() => controller.abort(late()), ms);
  // The signal of a run serves all its waits at once, and each removes its own: more than ten are no leak.
  setMaxListeners(0, outer);
  outer.addEventListener('abort', onAbort, { once: true });
  if (outer.aborted) onAbort();
  return {
    signal: controller.signal,
    /** Removes the time limit; the outer signal still applies. */
    lift: () => clearTimeout(timer),
    end(): void {
      clearTimeout(timer);
      outer.removeEventListener('abort', onAbort);
    },
  };
}
