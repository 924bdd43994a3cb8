import { SyncError } from '../core/errors.ts';
import type { RunEvent } from '../core/events.ts';
import type { LedgerReader } from '../sinks/ledger-reader.ts';

/** Asking costs microseconds; a person who cancels looks at the screen meanwhile. */
const everyMs = 1000;

export interface CancelWatch extends Disposable {
  /** Aborted with `SyncError` CANCELLED once somebody has asked for the run's end in the ledger. */
  readonly signal: AbortSignal;
  /** Tells which run it is: the watch begins with its start. */
  onEvent(event: RunEvent): void;
}

/** Looks into the ledger once a second whether the run shall end: whoever asks may be any process that can open the sink. */
export function watchCancel(history: Pick<LedgerReader, 'isCancelRequested'>): CancelWatch {
  const cancelled = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const stop = (): void => clearInterval(timer);
  return {
    signal: cancelled.signal,
    onEvent: (event) => {
      if (event.kind === 'run-finished') stop();
      if (event.kind !== 'run-started') return;
      const { run } = event;
      stop();
      timer = setInterval(() => {
        if (!isRequested(() => history.isCancelRequested(run))) return;
        stop();
        cancelled.abort(
          new SyncError(`run ${run} was cancelled by a request`, { code: 'CANCELLED', recovery: 'stop' }),
        );
      }, everyMs).unref();
    },
    [Symbol.dispose]: stop,
  };
}

function isRequested(read: () => boolean): boolean {
  try {
    return read();
  } catch {
    return false; // A ledger that cannot be read now is asked again in a second; the run itself meets what is wrong with it.
  }
}
