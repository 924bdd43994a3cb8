import PQueue from 'p-queue';
import { SyncError } from '../core/errors.ts';
import { otherTurn } from '../core/other-turn.ts';
import { orAborted } from '../http/or-aborted.ts';
import { startDeadline } from '../http/start-deadline.ts';
import { takeSlot } from '../http/take-slot.ts';
import type { JobLog } from '../jobs/worker-context.ts';
import type { Clock } from '../core/clock.ts';
import { jsonOf, type Answer } from './answer.ts';

/** Calls that are answered at a time, and calls that wait for their turn, by whether they may take long. */
const limits = {
  quick: { atATime: 4, mostWaiting: 100 },
  slow: { atATime: 2, mostWaiting: 16 },
};
/** Clients wait a minute for an answer: a call has its turn long before, or is refused. */
const mostWaitMs = 20_000;

/** How a call ended, for the log and the metrics: no values of it. */
export interface EndedCall {
  readonly tool: string;
  readonly result: 'ok' | 'refused' | 'failed' | 'cancelled';
  readonly ms: number;
  readonly rows: number;
  readonly chars: number;
}

export type RunCall = (
  of: { readonly name: string; readonly isSlow: boolean },
  run: (signal: AbortSignal) => Promise<Answer>,
  signal: AbortSignal,
) => Promise<{ readonly text: string; readonly isError: boolean }>;

interface RunCallsOptions {
  readonly clock: Clock;
  readonly log: JobLog;
  /** Resolves when the client takes another answer: until then no call is begun. */
  readonly ready?: (() => Promise<void>) | undefined;
  readonly onCall?: ((call: EndedCall) => void) | undefined;
}

/** Runs calls, a few at a time, and logs each. What a call rejects with becomes its answer. */
export function runCalls(options: RunCallsOptions): RunCall {
  const { clock, log, ready = async () => undefined, onCall = () => undefined } = options;
  const queueOf = ({ atATime, mostWaiting }: (typeof limits)['quick']) => ({
    slots: new PQueue({ concurrency: atATime }),
    mostWaiting,
  });
  const [quick, slow] = [queueOf(limits.quick), queueOf(limits.slow)];
  return async ({ name: tool, isSlow }, run, signal) => {
    const { slots, mostWaiting } = isSlow ? slow : quick;
    const startMs = clock.now();
    const ended = (result: EndedCall['result'], rows: number, text: string) => {
      const call = { tool, result, ms: clock.now() - startMs, rows, chars: text.length };
      log.info(call, 'call ended');
      onCall(call);
      return { text, isError: result !== 'ok' };
    };
    try {
      if (slots.size >= mostWaiting) throw busy(`${mostWaiting} calls are waiting`);
      const freeSlot = await turnWithin(slots, signal);
      try {
        // Reads of files keep the process busy: between two calls it hears of others, and of cancelled ones.
        await otherTurn();
        await orAborted(ready(), signal);
        const { text, rows } = await run(signal);
        return ended('ok', rows, text);
      } finally {
        freeSlot();
      }
    } catch (error) {
      if (signal.aborted) return ended('cancelled', 0, 'cancelled');
      if (error instanceof SyncError) {
        return ended('refused', 0, jsonOf({ error: error.code, message: error.message }));
      }
      log.error({ err: error, tool }, 'a call failed');
      return ended('failed', 0, jsonOf({ error: 'INTERNAL', message: 'The call failed; the log says why.' }));
    }
  };
}

/** Rejects with the signal's reason, and with SEARCH_BUSY where it would take too long. */
async function turnWithin(slots: PQueue, signal: AbortSignal): Promise<() => void> {
  const turn = startDeadline(mostWaitMs, signal, () => busy('other calls take long'));
  try {
    return await takeSlot(slots, turn.signal);
  } finally {
    turn.end();
  }
}

function busy(why: string): SyncError {
  return new SyncError(`The server is busy: ${why}. Call again in a moment.`, {
    code: 'SEARCH_BUSY',
    recovery: 'throttle',
  });
}
