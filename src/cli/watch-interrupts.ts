import { SyncError } from '../core/errors.ts';
import { exitCodes } from './output/exit-codes.ts';

const signals = ['SIGINT', 'SIGTERM'] as const;

/**
 * The first Ctrl-C or SIGTERM asks the command to end in order; the second ends the process at once, because a person
 * who interrupts twice means it. What was committed stays.
 */
export function watchInterrupts(onFirst: () => void) {
  const interrupted = new AbortController();
  const onSignal = (name: string): void => {
    if (interrupted.signal.aborted) process.exit(exitCodes.interrupted);
    onFirst();
    interrupted.abort(new SyncError(`interrupted by ${name}`, { code: 'INTERRUPTED', recovery: 'stop' }));
  };
  for (const name of signals) process.on(name, onSignal);
  return {
    /** Aborted by the first interrupt. */
    signal: interrupted.signal,
    [Symbol.dispose]: () => {
      for (const name of signals) process.off(name, onSignal);
    },
  };
}

/** Resolves when the signal is aborted. */
export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
