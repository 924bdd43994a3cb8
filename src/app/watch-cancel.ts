import { SyncError } from '../core/errors.ts';
import type { RunEvent } from '../core/events.ts';
import type { RunId } from '../core/names.ts';
import type { LedgerReader } from '../sinks/ledger-reader.ts';

/** Asking is cheap; a person who cancels looks at the screen meanwhile. */
const everyMs = 1000;

export interface CancelWatch extends AsyncDisposable {
  /** Aborted with `SyncError` CANCELLED once somebody has asked for the run's end in the ledger. */
  readonly signal: AbortSignal;
  /** Tells which run it is: the watch begins with its start. */
  onEvent(event: RunEvent): void;
}

/** Looks into the ledger about once a second whether the run shall end: the request may come from any process that can open the sink. */
export function watchCancel(history: Pick<LedgerReader, 'isCancelRequested'>): CancelWatch {
  const cancelled = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  let watched: RunId | null = null;
  let asking: Promise<void> = Promise.resolve();
  const stop = (): void => {
    watched = null;
    clearTimeout(timer);
  };
  const ask = async (run: RunId): Promise<void> => {
    // A ledger that cannot be read now is asked again in a second; the run itself meets what is wrong with it.
    const isRequested = await history.isCancelRequested(run).catch(() => false);
    if (watched !== run) return;
    if (!isRequested) {
      askLater(run);
      return;
    }
    stop();
    const message = `run ${run} was cancelled by a request`;
    cancelled.abort(new SyncError(message, { code: 'CANCELLED', recovery: 'stop' }));
  };
  const askLater = (run: RunId): void => {
    timer = setTimeout(() => {
      asking = ask(run);
    }, everyMs).unref();
  };
  return {
    signal: cancelled.signal,
    onEvent: (event) => {
      if (event.kind !== 'run-started' && event.kind !== 'run-finished') return;
      stop();
      if (event.kind === 'run-finished') return;
      watched = event.run;
      askLater(event.run);
    },
    [Symbol.asyncDispose]: async () => {
      stop();
      await asking;
    },
  };
}
