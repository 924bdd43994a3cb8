import { AttemptTimeoutError } from './read-body.ts';

export interface Deadline {
  readonly signal: AbortSignal;
  /** Removes the time limit; the outer signal still applies. */
  readonly lift: () => void;
  end(): void;
}

/** A new controller for each attempt: `AbortSignal.any` on a signal that lives for hours keeps memory per attempt. */
export function startDeadline(ms: number, outer: AbortSignal): Deadline {
  const controller = new AbortController();
  const onAbort = (): void => controller.abort(outer.reason);
  const timer = setTimeout(() => {
    controller.abort(new AttemptTimeoutError(`expected the whole answer within ${ms} ms`));
  }, ms);
  outer.addEventListener('abort', onAbort, { once: true });
  return {
    signal: controller.signal,
    lift: () => clearTimeout(timer),
    end() {
      clearTimeout(timer);
      outer.removeEventListener('abort', onAbort);
    },
  };
}
